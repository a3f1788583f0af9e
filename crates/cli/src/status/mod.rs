//! `status`: a tree for one `Cluster`, a line for each of many.

mod left;
mod list;
mod next;
mod read;
mod report;
mod sizes;
mod tree;

#[cfg(test)]
mod tests;

use crate::access::Access;
use crate::args::{Format, Meta, Status};
use crate::outcome::Outcome;
use crate::output;
use berth_api::Cluster;
use jiff::Timestamp;

/// Reads, judges and prints.
pub(crate) async fn run(meta: &Meta, args: &Status) -> anyhow::Result<Outcome> {
    let access = Access::to_read(meta).await?;
    let now = Timestamp::now();
    let Some(name) = &args.name else { return all(&access, args, now).await };
    let seen = read::one(&access, name, args, now).await?;
    let report = report::report(&seen, now);
    output::show(args.output, &report, || tree::draw(&report, now))?;
    Ok(Outcome::done_if(report.ready))
}

async fn all(access: &Access, args: &Status, now: Timestamp) -> anyhow::Result<Outcome> {
    let namespace = (!args.all_namespaces).then_some(&*access.namespace);
    // Before the Clusters: one that is new has none without its Cluster.
    let homes = if args.all_namespaces { left::homes(access).await } else { vec![] };
    let (clusters, unreadable) = access.clusters(namespace, None).await?;
    let rows = rows(clusters, now);
    if !rows.is_empty() || args.output != Format::Table {
        output::show(args.output, &rows, || list::table(&rows, now, args.all_namespaces))?;
    } else if unreadable == 0 {
        output::note(&match namespace {
            Some(namespace) => {
                format!("there are no Clusters in namespace {namespace}; -A shows those of all namespaces")
            }
            None => "there are no Clusters".to_owned(),
        });
    }
    if unreadable == 0 {
        for said in left::without(&homes, &rows) {
            output::note(&said);
        }
    }
    if unreadable > 0 {
        return Ok(Outcome::Failed);
    }
    Ok(Outcome::done_if(rows.iter().all(|r| r.ready)))
}

/// What is said of each.
fn rows(clusters: Vec<Cluster>, now: Timestamp) -> Vec<report::Report> {
    clusters.into_iter().map(|cluster| report::report(&read::Seen::of(cluster), now)).collect()
}
