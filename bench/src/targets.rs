//! What figures have to be. Where an issue or `docs/benchmarks.md` changes a target, it changes here.

use crate::Figure;

/// The figure, the most that it may be, and the number of tenants that this is meant for, if it depends on that.
const TARGETS: [(&str, f64, Option<usize>); 79] = [
    ("single.ratio", 1.4, None),
    ("single.ready", 9.0, None),
    ("single.deleted", 6.0, None),
    ("ten.ratio", 1.3, Some(10)),
    ("ten.restarts", 0.0, Some(10)),
    ("operator.rss", 30.0, Some(10)),
    ("operator.cpu", 3.0, Some(10)),
    ("operator.writes", 700.0, Some(10)),
    ("rest.writes", 0.0, Some(10)),
    ("rest.tenant_requests", 1.0, Some(10)),
    ("rest.reads", 0.1, Some(10)),
    ("rest.dry_runs", 1.0, Some(10)),
    ("rest.cpu", 3.0, Some(10)),
    ("ten.deleted", 12.0, Some(10)),
    ("restart.reconciled", 3.0, Some(10)),
    ("restart.writes", 0.0, Some(10)),
    ("ha.answers", 20.0, None),
    ("join.ready", 20.0, None),
    ("join.log", 30.0, None),
    ("join.pod", 60.0, None),
    ("sidecar.rss", 5.0, None),
    ("sidecar.cpu", 2.0, None),
    ("approver.rss", 8.0, None),
    ("sleep.answers", 6.0, None),
    ("sleep.answers_worst", 8.0, None),
    ("sleep.many_answer", 25.0, Some(10)),
    ("called.answers", 6.0, None),
    ("called.answers_worst", 8.0, None),
    ("called.many_answer", 25.0, Some(10)),
    ("sleep.pods", 0.0, None),
    ("sleep.writes", 0.0, None),
    ("sleep.reads", 2.0, None),
    ("sizes.look", 1.0, None),
    ("sizes.reserved_cpu", 0.25, None),
    ("sizes.reserved_memory", 0.25, None),
    ("etcd.grown", 90.0, None),
    ("etcd.grown_failed", 0.0, None),
    ("etcd.backup", 60.0, None),
    ("etcd.backup_rss", 64.0, None),
    ("etcd.backup_p99", 2.0, None),
    ("etcd.replaced", 60.0, None),
    ("etcd.replaced_failed", 0.0, None),
    ("etcd.leader_gap", 5.0, None),
    ("etcd.looks", 1.0, None),
    ("etcd.recovered", 180.0, None),
    ("conformance.failed", 0.0, None),
    ("upgrade.minor", 150.0, None),
    ("upgrade.ratio", 1.4, None),
    ("upgrade.patch", 75.0, None),
    ("upgrade.back", 120.0, None),
    ("scale.there", 90.0, Some(200)),
    ("scale.cpu", 20.0, Some(200)),
    ("scale.rss", 52.0, Some(200)),
    ("fleet.done", 300.0, Some(200)),
    ("fleet.most", 20.0, None),
    ("fleet.cpu", 0.5, None),
    ("fleet.rss", 70.0, Some(200)),
    ("fleet.backup_jobs", 4.0, None),
    ("fleet.backup_rss", 60.0, Some(200)),
    ("fleet.rest_writes", 0.0, None),
    ("fleet.new_operator_writes", 2.0, None),
    ("fleet.revisions", 100.0, None),
    ("fleet.plan", 50.0, None),
    ("gateway.call.added_p99", 1.0, None),
    ("gateway.rest_rss", 150.0, None),
    ("gateway.rest_cpu", 20.0, None),
    // 2000 a second for each core.
    ("gateway.open_cpu", 0.5, None),
    // 0.8 of what there is without it.
    ("gateway.list_time", 1.25, None),
    ("gateway.moved", 1.0, None),
    ("gateway.unready", 1.0, None),
    ("access.call.added_p99", 5.0, None),
    // 1000 calls a second for each core.
    ("access.busy_cpu", 1.0, None),
    ("apps.deployed", 15.0, None),
    ("apps.job_memory", 128.0, None),
    ("apps.many", 300.0, Some(100)),
    ("apps.rest_writes", 0.0, None),
    ("apps.rss", 5.0, Some(100)),
    // In twice as many.
    ("access.granted", 20.0, Some(100)),
    ("access.rest_calls", 0.0, None),
];

/// How a figure compares with its target.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Judgement {
    pub(crate) most: f64,
    pub(crate) met: bool,
}

impl std::fmt::Display for Judgement {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "≤ {} {}", self.most, if self.met { "met" } else { "MISSED" })
    }
}

/// Judges the median of a figure that has a target with so many tenants. What must not be at all must not be in any run.
pub(crate) fn judge(figure: &Figure, tenants: usize) -> Option<Judgement> {
    let wanted = |meant: Option<usize>| meant.is_none_or(|meant| meant == tenants);
    let (_, most, _) = TARGETS.into_iter().find(|(name, _, meant)| *name == figure.name && wanted(*meant))?;
    let value = if most > 0.0 { figure.median() } else { figure.max() };
    // What was not measured is not met.
    Some(Judgement { most, met: value <= most })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn met(name: &str, values: &[f64], tenants: usize) -> Option<bool> {
        judge(&Figure::new(name, "", values.to_vec()), tenants).map(|j| j.met)
    }

    #[test]
    fn a_figure_is_judged_by_its_median() {
        assert_eq!(met("ten.ratio", &[1.2, 1.3, 1.9], 10), Some(true));
        assert_eq!(met("ten.ratio", &[1.2, 1.31, 1.4], 10), Some(false));
        assert_eq!(met("ten.restarts", &[0.0, 0.0, 1.0], 10), Some(false));
        assert_eq!(met("scale.there", &[89.0], 200), Some(true));
        assert_eq!(met("scale.there", &[560.0], 1000), None, "figures only");
        assert_eq!(met("ha.answers", &[], 10), Some(false));
        assert_eq!(met("idle.rss", &[500.0], 10), None);
    }

    #[test]
    fn every_target_is_that_of_a_figure() {
        let sources = [
            include_str!("main.rs"),
            include_str!("machines.rs"),
            include_str!("scale.rs"),
            include_str!("conformance.rs"),
            include_str!("etcd/mod.rs"),
            include_str!("upgrade.rs"),
            include_str!("fleet.rs"),
            include_str!("sizes.rs"),
            include_str!("reserved.rs"),
            include_str!("sleep.rs"),
            include_str!("called.rs"),
            include_str!("gateway/access.rs"),
            include_str!("gateway/bytes.rs"),
            include_str!("gateway/calls.rs"),
            include_str!("gateway/moves.rs"),
            include_str!("gateway/opens.rs"),
            include_str!("gateway/rest.rs"),
            include_str!("apps/access.rs"),
            include_str!("apps/deployed.rs"),
            include_str!("apps/many.rs"),
            include_str!("apps/rest.rs"),
        ]
        .concat();
        for (name, ..) in TARGETS {
            // Figures of several are named by whose they are.
            let (whose, what) = name.rsplit_once('.').expect("a name in two parts");
            let parts = [format!("\"{whose}\""), format!("\"{{name}}.{what}\"")];
            let is_there = |text: &String| sources.contains(text);
            assert!(is_there(&format!("\"{name}\"")) || parts.iter().all(is_there), "nothing measures {name}");
        }
    }
}
