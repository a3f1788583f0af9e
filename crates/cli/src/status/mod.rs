//! `status`: a tree for one `Cluster`, a line for each of many.

mod list;
mod next;
mod read;
mod report;
mod tree;

#[cfg(test)]
mod tests;

use crate::access::{Access, parse};
use crate::args::{Meta, Status};
use crate::outcome::Outcome;
use crate::output;
use berth_render::Kind;
use jiff::Timestamp;
use serde_json::Value;

/// Reads, judges and prints.
pub(crate) async fn run(meta: &Meta, args: &Status) -> anyhow::Result<Outcome> {
    let access = Access::to_read(meta).await?;
    let now = Timestamp::now();
    let Some(name) = &args.name else { return all(&access, args, now).await };
    let seen = read::one(&access, name, args, now).await?;
    let report = report::report(&seen, now);
    let text = match output::structured(args.output, &report)? {
        Some(text) => text,
        None => tree::draw(&report, now),
    };
    output::print(&text)?;
    Ok(Outcome::done_if(report.ready))
}

async fn all(access: &Access, args: &Status, now: Timestamp) -> anyhow::Result<Outcome> {
    let items = items(access, args.all_namespaces).await?;
    let asked = items.len();
    let rows = rows(items, now);
    match output::structured(args.output, &rows)? {
        Some(text) => output::print(&text)?,
        None if !rows.is_empty() => output::print(&list::table(&rows, now, args.all_namespaces))?,
        // The report on those that are there is enough.
        None if asked > 0 => {}
        None if args.all_namespaces => output::note("there are no Clusters"),
        None => {
            output::note(&format!(
                "there are no Clusters in namespace {}; -A shows those of all namespaces",
                access.namespace
            ));
        }
    }
    if rows.len() < asked {
        return Ok(Outcome::Failed);
    }
    Ok(Outcome::done_if(rows.iter().all(|r| r.ready)))
}

/// All `Cluster`s, or those of the namespace that is meant.
async fn items(access: &Access, all_namespaces: bool) -> anyhow::Result<Vec<Value>> {
    let items = if all_namespaces {
        let url = format!("/apis/{}/{}/clusters", berth_api::GROUP, berth_api::VERSION);
        access.io.raw(&url).await.map(|mut list| match list["items"].take() {
            Value::Array(items) => items,
            _ => vec![],
        })
    } else {
        access.io.list(Kind::Cluster, &access.namespace, None).await
    };
    match items {
        Ok(items) => Ok(items),
        Err(error) => {
            access.installed().await?;
            Err(access.explain(error))
        }
    }
}

/// What is said of each. One that this version cannot read is no reason to hide the others: it is complained of.
fn rows(items: Vec<Value>, now: Timestamp) -> Vec<report::Report> {
    let row = |item: Value| {
        let name = format!("Cluster {}/{}", text(&item, "namespace"), text(&item, "name"));
        let cluster = parse(item, &name).inspect_err(output::complain).ok()?;
        Some(report::report(&read::Seen::of(cluster), now))
    };
    items.into_iter().filter_map(row).collect()
}

fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object["metadata"][field].as_str().unwrap_or_default()
}
