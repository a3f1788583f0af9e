//! `rollouts`: versions × waves, and who holds them up.

use crate::access::Access;
use crate::args::{Format, Meta, Rollouts};
use crate::outcome::Outcome;
use crate::output;
use crate::paint::{bad, good, safe, warn};
use berth_api::Cluster;
use berth_api::cluster::TurnState;
use berth_api::conditions::{ConditionType, Reason, find, shortened};
use berth_api::version::{Version, same};
use berth_plan::fleet::wave;
use berth_plan_cluster::said_of_the_fleet;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Clusters of one wave that are asked for one version.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    version: String,
    wave: u8,
    done: usize,
    running: usize,
    waiting: usize,
    blocked: usize,
    failed: usize,
}

/// A Cluster that is not through.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Open {
    cluster: String,
    version: String,
    wave: u8,
    state: State,
    message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
enum State {
    Failed,
    Blocked,
    Running,
    Waiting,
    Done,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    versions: Vec<Row>,
    /// Those that are not through.
    clusters: Vec<Open>,
    /// Why nobody starts towards a version, if so.
    stopped: Vec<String>,
}

/// Reads all Clusters that may be read, and counts.
pub(crate) async fn run(meta: &Meta, args: &Rollouts) -> anyhow::Result<Outcome> {
    let access = Access::to_read(meta).await?;
    let (all, _) = access.clusters(meta.namespace.as_deref(), args.selector.as_deref()).await?;
    let report = report(&all);
    if args.output == Format::Table && report.versions.is_empty() {
        output::note("there are no Clusters that are up");
    } else {
        output::show(args.output, &report, || show(&report))?;
    }
    Ok(Outcome::done_if(report.clusters.is_empty()))
}

/// How far a Cluster is with the version that its spec asks for. None: it is being made, or deleted.
fn state(cluster: &Cluster) -> Option<State> {
    let status = cluster.status.clone().unwrap_or_default();
    let newest = status.history.first().filter(|_| cluster.metadata.deletion_timestamp.is_none())?;
    let asked = &cluster.spec.version;
    Some(match status.turn {
        Some(turn) if same(&turn.to, asked) => match turn.state {
            TurnState::Waiting | TurnState::Window | TurnState::Emulating => State::Waiting,
            TurnState::Blocked => State::Blocked,
            TurnState::Running => State::Running,
            TurnState::Succeeded => State::Done,
            TurnState::Failed => State::Failed,
        },
        _ if same(&newest.version, asked) => State::Done,
        _ => State::Waiting,
    })
}

fn report(all: &[Cluster]) -> Report {
    let mut rows: BTreeMap<(Option<Version>, String, u8), Row> = BTreeMap::new();
    let (mut open, mut stopped) = (vec![], vec![]);
    for cluster in all {
        let Some(state) = state(cluster) else { continue };
        let (version, wave) = (cluster.spec.version.clone(), wave(cluster));
        let row = rows.entry((cluster.spec.asked_version(), version.clone(), wave)).or_default();
        (row.version, row.wave) = (version.clone(), wave);
        *match state {
            State::Done => &mut row.done,
            State::Running => &mut row.running,
            State::Waiting => &mut row.waiting,
            State::Blocked => &mut row.blocked,
            State::Failed => &mut row.failed,
        } += 1;
        let conditions = cluster.status.clone().unwrap_or_default().conditions;
        let message = match find(&conditions, ConditionType::Ready) {
            Some(ready) if cluster.metadata.generation == ready.observed_generation => ready.message.clone(),
            _ => "the operator has not looked at it yet".to_owned(),
        };
        if find(&conditions, ConditionType::Ready).is_some_and(|ready| ready.reason == Reason::FleetStopped.as_str()) {
            stopped.push(said_of_the_fleet(&message).to_owned());
        }
        if state != State::Done {
            let meta = &cluster.metadata;
            let [namespace, name] = [&meta.namespace, &meta.name].map(|text| text.as_deref().unwrap_or_default());
            open.push(Open { cluster: format!("{namespace}/{name}"), version, wave, state, message });
        }
    }
    let parsed = |open: &Open| open.version.parse::<Version>().ok();
    open.sort_by(|a, b| (a.state, parsed(a), a.wave, &a.cluster).cmp(&(b.state, parsed(b), b.wave, &b.cluster)));
    stopped.sort();
    stopped.dedup();
    Report { versions: rows.into_values().collect(), clusters: open, stopped }
}

fn show(report: &Report) -> String {
    let count = |n: usize, paint: fn(&str) -> String| if n == 0 { "0".to_owned() } else { paint(&n.to_string()) };
    let row = |row: &Row| {
        vec![
            safe(&row.version),
            row.wave.to_string(),
            count(row.done, good),
            count(row.running, warn),
            count(row.waiting, str::to_owned),
            count(row.blocked, bad),
            count(row.failed, bad),
        ]
    };
    let head = ["VERSION", "WAVE", "DONE", "RUNNING", "WAITING", "BLOCKED", "FAILED"];
    let mut text = output::table(head, report.versions.iter().map(row));
    if !report.clusters.is_empty() {
        let row = |open: &Open| {
            let (state, paint): (_, fn(&str) -> String) = match open.state {
                State::Failed => ("failed", bad),
                State::Blocked => ("blocked", bad),
                State::Running => ("running", warn),
                State::Waiting | State::Done => ("waiting", str::to_owned),
            };
            let message = shortened(&safe(&open.message), 100);
            let cluster = safe(&open.cluster);
            vec![paint(state), cluster, safe(&open.version), open.wave.to_string(), message]
        };
        let head = ["STATE", "CLUSTER", "VERSION", "WAVE", "MESSAGE"];
        text.push('\n');
        text.push_str(&output::table(head, report.clusters.iter().map(row)));
    }
    for why in &report.stopped {
        let _ = writeln!(text, "\n{} {}", bad("stopped:"), safe(why));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn cluster(name: &str, wave: &str, asked: &str, turn: Option<(&str, &str)>, message: &str) -> Cluster {
        let ready = if message.contains("nobody else") { "FleetStopped" } else { "Other" };
        let turn = turn.map(|(to, state)| json!({"to": to, "state": state}));
        let object = json!({
            "apiVersion": "berth.dev/v1alpha1", "kind": "Cluster",
            "metadata": {"name": name, "namespace": "team", "labels": {"berth.dev/wave": wave}, "generation": 1},
            "spec": {"version": asked},
            "status": {
                "history": [{"revision": 1, "version": "1.36.2", "cause": "Creation"}], "turn": turn,
                "conditions": [{
                    "type": "Ready", "status": "True", "reason": ready, "message": message, "observedGeneration": 1,
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                }],
            },
        });
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn the_tenth_patch_version_comes_after_the_ninth() {
        let waits = |name: &str, version: &str| cluster(name, "5", version, None, "not seen");
        let report = report(&[waits("a", "1.36.10"), waits("b", "1.36.9")]);
        let versions: Vec<_> = report.versions.iter().map(|row| &*row.version).collect();
        let clusters: Vec<_> = report.clusters.iter().map(|open| &*open.version).collect();
        assert_eq!((versions, clusters), (vec!["1.36.9", "1.36.10"], vec!["1.36.9", "1.36.10"]));
    }

    #[test]
    fn versions_times_waves_and_who_holds_them_up() {
        let new = "1.36.3";
        let stopped = "1.36.3 is asked for: nobody else starts towards 1.36.3: team/b";
        let mut making = cluster("z", "5", new, None, "");
        making.status.as_mut().unwrap().history.clear();
        let all = vec![
            cluster("a", "0", new, Some((new, "Succeeded")), ""),
            cluster("b", "0", new, Some((new, "Failed")), "it did not come up"),
            cluster("c", "1", new, Some((new, "Running")), "it rolls"),
            cluster("d", "1", new, Some((new, "Waiting")), stopped),
            cluster("e", "1", new, Some((new, "Emulating")), "until then"),
            cluster("f", "1", new, Some((new, "Blocked")), "kubelets"),
            cluster("g", "1", new, Some((new, "Window")), "on Saturday"),
            cluster("h", "1", new, None, "not seen"),
            cluster("i", "5", "1.36.2", None, ""),
            cluster("j", "5", "1.36.2", Some((new, "Failed")), ""),
            making,
        ];
        let report = report(&all);
        let row = |version: &str, wave, [done, running, waiting, blocked, failed]: [usize; 5]| Row {
            version: version.into(),
            wave,
            done,
            running,
            waiting,
            blocked,
            failed,
        };
        assert_eq!(
            report.versions,
            [row("1.36.2", 5, [2, 0, 0, 0, 0]), row(new, 0, [1, 0, 0, 0, 1]), row(new, 1, [0, 1, 4, 1, 0])]
        );
        let order: Vec<_> = report.clusters.iter().map(|open| &*open.cluster).collect();
        assert_eq!(order, ["team/b", "team/f", "team/c", "team/d", "team/e", "team/g", "team/h"]);
        assert_eq!(report.stopped, ["nobody else starts towards 1.36.3: team/b"]);
        let text = show(&report);
        assert!(text.starts_with("VERSION") || text.contains("VERSION"), "{text}");
        assert!(text.contains("failed") && text.contains("it did not come up"), "{text}");
    }
}
