//! `status`: a tree for one `Cluster`, a line for each of many.

mod list;
mod next;
mod read;
mod report;
mod tree;

#[cfg(test)]
mod tests;

use crate::access::{Access, explain, parse};
use crate::args::{Meta, Status};
use crate::{Outcome, output};
use berth_render::Kind;
use jiff::Timestamp;
use serde_json::Value;

/// Reads, judges and prints.
pub(crate) async fn run(meta: &Meta, args: &Status) -> anyhow::Result<Outcome> {
    let access = Access::to_read(meta).await?;
    let now = Timestamp::now();
    let Some(name) = &args.name else { return all(&access, args, now).await };
    let seen = read::one(&access, name).await?;
    let report = report::report(&seen, now);
    let text = match output::structured(args.output, &report)? {
        Some(text) => text,
        None => tree::draw(&report, now),
    };
    output::print(&text)?;
    Ok(Outcome::done_if(report.ready))
}

async fn all(access: &Access, args: &Status, now: Timestamp) -> anyhow::Result<Outcome> {
    let items = if args.all_namespaces {
        let url = format!("/apis/{}/{}/clusters", berth_api::GROUP, berth_api::VERSION);
        access.io.raw(&url).await.map(|mut list| match list["items"].take() {
            Value::Array(items) => items,
            _ => vec![],
        })
    } else {
        access.io.list(Kind::Cluster, &access.namespace, None).await
    };
    let items = match items {
        Ok(items) => items,
        Err(error) => {
            access.installed().await?;
            return Err(explain(error));
        }
    };
    let mut rows = vec![];
    for item in items {
        let name = format!("Cluster {}/{}", text(&item, "namespace"), text(&item, "name"));
        match parse(item, &name) {
            Ok(cluster) => rows.push(list::row(&cluster)),
            // One that this version cannot read is no reason to hide the others.
            Err(error) => output::complain(&error),
        }
    }
    let ready = rows.iter().all(|r| r.ready);
    match output::structured(args.output, &rows)? {
        Some(text) => output::print(&text)?,
        None if rows.is_empty() && args.all_namespaces => output::note("there are no Clusters"),
        None if rows.is_empty() => {
            output::note(&format!(
                "there are no Clusters in namespace {}; -A shows those of all namespaces",
                access.namespace
            ));
        }
        None => output::print(&list::table(&rows, now, args.all_namespaces))?,
    }
    Ok(Outcome::done_if(ready))
}

fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object["metadata"][field].as_str().unwrap_or_default()
}
