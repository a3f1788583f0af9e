//! Intervals and snapshots: the same for all members, which take them one after the other.

use super::*;

fn args(e: &Etcd) -> Vec<String> {
    let set = e.world.observed.get(&Etcd::set()).unwrap();
    let args = set["spec"]["template"]["spec"]["containers"][0]["args"].as_array().unwrap();
    args.iter().map(|arg| arg.as_str().unwrap().to_owned()).collect()
}

#[test]
fn what_is_set_is_in_the_one_template_and_goes_again() {
    let mut e = Etcd::formed(3);
    let before = args(&e);
    assert!(before.contains(&"--snapshot-count=10000".to_owned()));
    assert!(!before.iter().any(|arg| arg.contains("heartbeat") || arg.contains("election")), "etcd's own defaults");
    e.cr.spec.heartbeat_interval = Some("300ms".into());
    e.cr.spec.election_timeout = Some("3s".into());
    e.cr.spec.snapshot_count = Some(50_000);
    e.reconcile();
    assert_eq!(e.world.log, ["apply StatefulSet acme-9201d5e7/etcd"], "and no pod before it is taken up");
    for arg in ["--heartbeat-interval=300", "--election-timeout=3000", "--snapshot-count=50000"] {
        assert!(args(&e).iter().any(|has| has == arg), "{arg}");
    }
    e.cr.spec.heartbeat_interval = None;
    e.cr.spec.election_timeout = None;
    e.cr.spec.snapshot_count = None;
    e.reconcile();
    assert_eq!(args(&e), before);
}

#[test]
fn what_etcd_would_refuse_changes_nothing() {
    let mut e = Etcd::formed(3);
    e.cr.spec.heartbeat_interval = Some("500ms".into());
    e.reconcile();
    assert!(e.world.log.is_empty(), "{:#?}", e.world.log);
    assert_eq!(e.condition(ConditionType::Ready), is("False", Reason::InvalidSpec));
    assert!(e.message(ConditionType::Ready).starts_with("spec.electionTimeout: 1000ms is less than five times"));
    assert_eq!(e.condition(ConditionType::Available).0, "True");
}
