//! A release that does not come up: each begins with a tenant of two API servers at rest.

use super::*;
use crate::tests::{canary, room};
use berth_api::cluster::OnFailure;

fn fails(f: &mut Fixture, available: i32) {
    f.flag("nope");
    f.reconcile();
    f.stuck(names::APISERVER, available);
    f.reconcile();
    f.seconds(300);
}

const CASES: &[Case] = &[
    ("a new release does not come up, and the old pods are well", |f| fails(f, 2)),
    ("a release that was taken back is asked for once more, and fails again", |f| {
        fails(f, 2);
        f.reconcile();
        f.cluster.metadata.annotations = Some([(labels::ROLL.to_owned(), "2".to_owned())].into());
        f.reconcile();
        f.stuck(names::APISERVER, 2);
        f.reconcile();
        f.seconds(300);
    }),
    ("a release asks for more than any node has", |f| *f = room::too_much()),
    ("the only API server of a VPC was stopped, and no node takes the new one", |f| {
        *f = room::stopped_in_vain();
        f.seconds(31);
    }),
    ("a new release does not come up, and old pods are not well", |f| fails(f, 1)),
    ("a new release does not come up, and etcd is not available", |f| {
        f.live(Kind::EtcdCluster, names::ETCD)["status"]["conditions"][1]["status"] = json!("False");
        fails(f, 2);
    }),
    ("a new release does not come up, with spec.upgrade.onFailure Hold", |f| {
        f.cluster.spec.upgrade.on_failure = OnFailure::Hold;
        fails(f, 2);
    }),
    ("a new release does not come up, and the one before is not recorded", |f| {
        f.flag("v");
        f.reconcile();
        f.world.remove(&Fixture::key(Kind::ClusterRevision, "revision-1"));
        fails(f, 2);
    }),
    ("the first new API server of a release serves alone", canary::serves),
    ("the first new API server of a release serves, and then does not", |f| {
        canary::serves(f);
        canary::is_lost(f);
    }),
    ("the first new API server of a release fails its clients", |f| {
        canary::serves(f);
        canary::answers_badly(f);
    }),
    ("a new release does not come up, and the templates of the one before are gone", |f| {
        f.live(Kind::ClusterRevision, "revision-1")["spec"]["pin"]["templates"] = json!("0123456789abcdef");
        fails(f, 2);
    }),
    ("a new release does not come up, and the one before is of a minor that is older than one served", |f| {
        f.live(Kind::ClusterRevision, "revision-1")["spec"]["release"]["version"] = json!("1.35.4");
        fails(f, 2);
    }),
    ("the pods of a new release are well, and the API does not answer for too long", |f| {
        f.flag("v");
        for _ in 0..4 {
            f.reconcile();
            f.others();
            f.world.observed.api = ApiProbe::Failed("refused".into());
        }
        f.reconcile();
        f.seconds(300);
    }),
    ("a new release is not recorded yet", |f| {
        f.flag("v");
        let input = Input { object: &f.cluster, observed: &f.world.observed, settings: &f.settings, now: f.world.now };
        let new = status(input, &ClusterPlanner::plan(input), None);
        f.cluster.status = Some(new);
        f.hold();
    }),
];

pub(super) fn situations() -> Vec<(&'static str, Fixture)> {
    let up = Fixture::two_of_each();
    let cases = CASES.iter().map(|(text, happens)| {
        let mut f = up.copy();
        happens(&mut f);
        // One that is held shows what it says before it is reconciled.
        if f.cluster.spec.paused {
            f.cluster.spec.paused = false;
        } else {
            f.reconcile();
        }
        (*text, f)
    });
    cases.collect()
}
