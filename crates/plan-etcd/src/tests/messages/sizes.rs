//! Requests of members that are to follow usage, and do not.

use super::*;

pub(super) fn all() -> Vec<Situation> {
    let with = |autoscaling: Value| {
        let mut e = Etcd::with_claims(1);
        e.cr.spec.autoscaling = serde_json::from_value(autoscaling).unwrap();
        e
    };
    let mut all = vec![];
    let mut e = with(json!({"mode": "InPlace"}));
    e.world.observed.sizes = Some(vec![
        "spec.autoscaling: the meta cluster does not resize pod etcd-0: pods \"etcd-0\" is forbidden: exceeded quota: q".into(),
    ]);
    e.looks();
    all.push(e.said("sizes, and a quota refuses a resize"));
    let mut e = with(json!({"mode": "InPlace", "min": {"memory": "2Gi"}, "max": {"memory": "1Gi"}}));
    e.looks();
    all.push(e.said("sizes, and min is above max"));
    all
}
