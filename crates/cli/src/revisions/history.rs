//! `history` and `diff`: which releases a `Cluster` had.

use super::{all, differences, numbered};
use crate::access::Access;
use crate::age::age;
use crate::args::{Diff, Format, History, Meta};
use crate::outcome::Outcome;
use crate::output;
use crate::paint::safe;
use berth_api::cluster::RevisionSummary;
use jiff::Timestamp;
use serde_json::json;

/// Shows all, in short, or one of them.
pub(crate) async fn run(meta: &Meta, args: &History) -> anyhow::Result<Outcome> {
    let access = Access::to_read(meta).await?;
    let (of, _, cluster) = access.read_cluster(&args.name).await?;
    if let Some(number) = args.revision {
        let all = all(&access, &cluster, &args.name).await?;
        let live = &numbered(&all, number, &of)?.live;
        let shown = json!({"revision": number, "spec": live["spec"], "status": live["status"]});
        output::print(&output::yaml(&shown)?)?;
        return Ok(Outcome::Done);
    }
    let history = cluster.status.unwrap_or_default().history;
    if history.is_empty() && args.output == Format::Table {
        output::note(&format!("{of}: no release is recorded yet: the first is once the tenant runs"));
        return Ok(Outcome::NotYet);
    }
    output::show(args.output, &history, || table(&history, Timestamp::now()))?;
    Ok(Outcome::Done)
}

/// Shows where two differ.
pub(crate) async fn diff(meta: &Meta, args: &Diff) -> anyhow::Result<Outcome> {
    let access = Access::to_read(meta).await?;
    let (of, _, cluster) = access.read_cluster(&args.name).await?;
    let all = all(&access, &cluster, &args.name).await?;
    let release = |number| Ok::<_, anyhow::Error>(&numbered(&all, number, &of)?.live["spec"]["release"]);
    let lines = differences(release(args.from)?, release(args.to)?);
    if lines.is_empty() {
        output::print(&format!("revisions {} and {} are the same release\n", args.from, args.to))?;
    }
    for line in lines {
        output::print(&format!("{}\n", safe(&line)))?;
    }
    Ok(Outcome::Done)
}

fn table(history: &[RevisionSummary], now: Timestamp) -> String {
    let row = |revision: &RevisionSummary| {
        let outcome = revision.outcome.map_or_else(|| "rolling out".to_owned(), |outcome| outcome.to_string());
        let since = revision.started.as_ref().map_or_else(|| "-".to_owned(), |started| age(started.0, now));
        let mut row =
            vec![revision.revision.to_string(), safe(&revision.version), revision.cause.to_string(), outcome, since];
        row.extend(revision.change_cause.as_deref().map(safe));
        row
    };
    output::table(["REVISION", "VERSION", "CAUSE", "OUTCOME", "AGE", "CHANGE"], history.iter().map(row))
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_api::revision::{RevisionCause, RevisionOutcome};

    #[test]
    fn a_line_for_each_the_newest_first() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let of = |revision, cause, outcome| RevisionSummary {
            revision,
            version: "1.36.3".into(),
            cause,
            outcome,
            change_cause: (revision == 2).then(|| "more log".into()),
            started: serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap(),
        };
        let text = table(
            &[
                of(2, RevisionCause::Configuration, None),
                of(1, RevisionCause::Creation, Some(RevisionOutcome::Succeeded)),
            ],
            at("2026-01-01T00:05:00Z"),
        );
        let said = crate::paint::plain(&text);
        let lines: Vec<Vec<&str>> = said.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[1], ["2", "1.36.3", "Configuration", "rolling", "out", "5m", "more", "log"]);
        assert_eq!(lines[2], ["1", "1.36.3", "Creation", "Succeeded", "5m"]);
    }
}
