//! The first new API server of a release serves alone among the old ones for `spec.upgrade.soak`.

use super::*;
use crate::answers_request;
use berth_api::cluster::CanaryStatus;
use berth_api::labels;
use berth_plan::asked::Answers;
use jiff::SignedDuration;

const POD: &str = "kube-apiserver-new-1";

impl Fixture {
    fn pod(&mut self, name: &str, hash: &str, ready: bool) {
        let now = self.world.now;
        let key = Self::key(Kind::Pod, name);
        let made = self.world.observed.get(&key).map(|pod| pod["metadata"]["creationTimestamp"].clone());
        let labels = json!({(labels::COMPONENT): names::APISERVER, "pod-template-hash": hash});
        let made = made.unwrap_or(json!(now));
        let uid = format!("{name} of {made}");
        let meta = json!({"name": name, "uid": uid, "labels": labels, "creationTimestamp": made});
        let condition =
            json!({"type": "Ready", "status": if ready { "True" } else { "False" }, "lastTransitionTime": now});
        self.world.put(key, json!({"metadata": meta, "status": {"conditions": [condition]}}));
    }

    /// What the Deployment's controller says.
    fn counts(&mut self, replicas: i32, updated: i32, available: i32) {
        let d = self.live(Kind::Deployment, names::APISERVER);
        let generation = d["metadata"]["generation"].clone();
        d["status"] = json!({"observedGeneration": generation, "replicas": replicas, "updatedReplicas": updated, "availableReplicas": available});
    }

    /// `minReadySeconds` of a component.
    fn soaks(&self, name: &str) -> Option<i64> {
        self.world.observed.get(&Self::key(Kind::Deployment, name)).unwrap()["spec"]["minReadySeconds"].as_i64()
    }

    fn canary(&self) -> Option<CanaryStatus> {
        self.cluster.status.as_ref().unwrap().rollout.as_ref()?.canary.clone()
    }
}

/// Two API servers, and the first new one of a release is ready since now.
fn serving(spec: Value) -> Fixture {
    let mut f = Fixture::up(spec);
    serves(&mut f);
    f
}

/// It restarts.
pub(super) fn is_lost(f: &mut Fixture) {
    f.seconds(20);
    f.pod(POD, "new", false);
}

/// It fails its clients, and the old ones do not.
pub(super) fn answers_badly(f: &mut Fixture) {
    f.seconds(20);
    let old = Answers { all: 5000, failed: 3 };
    let all = [(POD, Answers { all: 400, failed: 40 }), ("kube-apiserver-old-1", old), ("kube-apiserver-old-2", old)];
    f.world.observed.answers = all.map(|(pod, answers)| (pod.to_owned(), answers)).into();
}

pub(super) fn serves(f: &mut Fixture) {
    f.pod("kube-apiserver-old-1", "old", true);
    f.pod("kube-apiserver-old-2", "old", true);
    f.seconds(3600);
    f.flag("v");
    f.reconcile();
    f.seconds(2);
    f.pod(POD, "new", false);
    f.counts(3, 1, 2);
    f.reconcile();
    assert_eq!(f.canary(), None, "it does not serve yet");
    f.seconds(8);
    f.pod(POD, "new", true);
    f.reconcile();
    assert_eq!(f.canary().unwrap().pod, POD);
}

fn two() -> Value {
    json!({"version": "1.36.2", "apiServer": {"replicas": 2}})
}

#[test]
fn it_serves_alone_and_then_the_others_follow() {
    let mut f = serving(two());
    assert_eq!(f.soaks(names::APISERVER), Some(60));
    let d = f.live(Kind::Deployment, names::APISERVER);
    assert_eq!(d["spec"]["progressDeadlineSeconds"], 660, "Kubernetes wants more than minReadySeconds");
    assert_eq!(d["spec"]["strategy"]["rollingUpdate"], json!({"maxSurge": 1, "maxUnavailable": 0}));
    assert_eq!(f.plan().due, Some(SignedDuration::from_secs(60)));
    let says = f.condition("Progressing").2;
    assert!(says.contains("its first new pod serves alone until 01:01:10Z (spec.upgrade.soak)"), "{says}");
    f.world.log.clear();
    f.seconds(59);
    f.reconcile();
    assert!(f.world.log.is_empty(), "{:#?}", f.world.log);
    f.seconds(1);
    f.reconcile();
    assert_eq!(f.world.log, ["apply Deployment acme-9201d5e7/kube-apiserver"]);
    assert_eq!((f.soaks(names::APISERVER), f.canary()), (None, None), "the second one does not wait");
    // It may fail later, as any pod.
    f.seconds(10);
    f.pod(POD, "new", false);
    f.reconcile();
    assert_eq!(f.condition("Ready").1, "RollingOut");
    f.pod(POD, "new", true);
    f.world.remove(&Fixture::key(Kind::Pod, "kube-apiserver-old-1"));
    f.world.remove(&Fixture::key(Kind::Pod, "kube-apiserver-old-2"));
    last(&mut f);
    assert_eq!((f.condition("Ready").0, f.soaks(names::APISERVER)), ("True".into(), None));
    f.world.log.clear();
    f.reconcile();
    assert!(f.world.log.is_empty(), "{:#?}", f.world.log);
}

#[test]
fn one_that_does_not_stay_ready_goes_back_at_once() {
    for ready_again in [false, true] {
        let mut f = serving(two());
        let before = f.world.log.len();
        f.seconds(20);
        f.pod(POD, "new", ready_again);
        f.reconcile();
        let (_, reason, says) = f.condition("Ready");
        assert_eq!(reason, "RolledBack", "{says}");
        let why = format!("pod {POD}, the first new kube-apiserver, became unready within 60s (spec.upgrade.soak)");
        assert!(says.contains(&why), "{says}");
        assert_eq!(f.soaks(names::APISERVER), None, "the way back does not wait");
        let log = &f.world.log[before..];
        assert_eq!(
            log,
            ["apply ClusterRevision acme-9201d5e7/revision-2", "apply Deployment acme-9201d5e7/kube-apiserver"]
        );
        assert!(!f.live(Kind::Deployment, names::APISERVER)["spec"]["template"].to_string().contains("--v=1"));
    }
}

#[test]
fn one_that_fails_its_clients_goes_back_at_once() {
    let mut f = serving(two());
    let servers = |f: &Fixture| answers_request(f.input()).map(|asked| asked.servers.len());
    assert_eq!(servers(&f), Some(3), "all are asked");
    answers_badly(&mut f);
    f.reconcile();
    let (_, reason, says) = f.condition("Ready");
    assert_eq!(reason, "RolledBack", "{says}");
    let why = format!(
        "pod {POD}, the first new kube-apiserver, answered 40 of 400 requests with 5xx or 429, the old ones 6 of 10000"
    );
    assert!(says.contains(&why), "{says}");
    assert!(!f.live(Kind::Deployment, names::APISERVER)["spec"]["template"].to_string().contains("--v=1"));

    // Where the old ones fail as well, it is not the release.
    let mut f = serving(two());
    answers_badly(&mut f);
    f.world.observed.answers.insert("kube-apiserver-old-1".into(), Answers { all: 5000, failed: 2000 });
    f.reconcile();
    assert_eq!(f.condition("Ready").1, "RollingOut");
    // One that served for long enough is not judged by it.
    let mut f = serving(two());
    f.seconds(41);
    answers_badly(&mut f);
    assert_eq!(servers(&f), None);
    f.reconcile();
    assert_eq!(f.condition("Ready").1, "RollingOut");
}

#[test]
fn where_an_old_one_is_not_well_either_it_is_held() {
    let mut f = serving(two());
    f.seconds(20);
    f.pod(POD, "new", false);
    f.pod("kube-apiserver-old-1", "old", false);
    f.counts(3, 1, 1);
    f.reconcile();
    assert_eq!(f.condition("Ready").1, "Held");
}

#[test]
fn one_that_was_deleted_is_made_anew_and_serves_as_long() {
    let mut f = serving(two());
    f.seconds(50);
    f.world.remove(&Fixture::key(Kind::Pod, POD));
    f.pod("kube-apiserver-new-2", "new", false);
    f.reconcile();
    assert_eq!((f.condition("Ready").1, f.canary()), ("RollingOut".into(), None));
    f.pod("kube-apiserver-new-2", "new", true);
    f.seconds(50);
    f.reconcile();
    assert_eq!((f.soaks(names::APISERVER), f.canary().unwrap().pod), (Some(60), "kube-apiserver-new-2".into()));
    // An old one that is made anew meanwhile is no new one.
    f.pod("kube-apiserver-old-3", "old", false);
    f.world.remove(&Fixture::key(Kind::Pod, "kube-apiserver-old-1"));
    f.seconds(10);
    f.reconcile();
    assert_eq!((f.condition("Ready").1, f.soaks(names::APISERVER)), ("RollingOut".into(), None));
}

/// As a slot's pod is, when its template changes once more.
#[test]
fn one_that_another_replaced_under_its_name_has_not_failed() {
    for ready in [false, true] {
        let mut f = serving(two());
        let before = f.canary();
        f.seconds(20);
        f.world.remove(&Fixture::key(Kind::Pod, POD));
        f.pod(POD, "newer", ready);
        f.reconcile();
        assert_eq!(f.condition("Ready").1, "RollingOut");
        assert_eq!(f.canary().map(|now| now.uid != before.unwrap().uid), ready.then_some(true), "it begins anew");
    }
}

#[test]
fn while_it_serves_nothing_is_late() {
    let mut spec = two();
    spec["upgrade"] = json!({"soak": "10m", "progressDeadline": "1m"});
    let mut f = serving(spec);
    f.seconds(599);
    f.reconcile();
    assert_eq!(f.condition("Ready").1, "RollingOut");
    assert_eq!(f.soaks(names::APISERVER), Some(600));
    f.seconds(1);
    f.reconcile();
    assert_eq!(f.soaks(names::APISERVER), None);
    // Its controller makes the second in place of an old one.
    f.counts(3, 2, 2);
    f.reconcile();
    f.seconds(59);
    f.reconcile();
    assert_eq!(f.condition("Ready").1, "RollingOut");
    f.seconds(1);
    f.reconcile();
    assert_eq!(f.condition("Ready").1, "RolledBack", "and then the second one does not come up");
}

#[test]
fn a_change_amid_it_makes_nothing_late_that_serves() {
    let mut spec = two();
    spec["upgrade"] = json!({"soak": "10m", "progressDeadline": "1m"});
    let mut f = serving(spec);
    f.cluster.spec.api_server.replicas = Some(3);
    f.seconds(5);
    f.reconcile();
    f.counts(4, 1, 2);
    let ready = |f: &mut Fixture, ready: i32| {
        f.live(Kind::Deployment, names::APISERVER)["status"]["readyReplicas"] = json!(ready);
    };
    ready(&mut f, 3);
    f.reconcile();
    f.seconds(599);
    f.reconcile();
    assert_eq!(f.condition("Ready").1, "RollingOut", "{:?}", f.condition("Ready"));
    ready(&mut f, 2);
    f.reconcile();
    assert_ne!(f.condition("Ready").1, "RollingOut", "it does not serve any more");
}

#[test]
fn one_that_its_node_evicted_is_made_anew() {
    let mut f = serving(two());
    f.seconds(20);
    f.pod(POD, "new", false);
    f.live(Kind::Pod, POD)["status"]["phase"] = json!("Failed");
    f.reconcile();
    assert_eq!(f.condition("Ready").1, "RollingOut", "{:?}", f.condition("Ready"));
}

#[test]
fn nothing_else_waits_for_it() {
    let mut f = Fixture::up(two());
    assert_eq!(f.soaks(names::APISERVER), None, "a new tenant");
    f.cluster.spec.scheduler.extra_args = serde_json::from_value(json!([{"name": "v", "value": "2"}])).unwrap();
    f.reconcile();
    f.world.log.retain(|write| !write.contains("ClusterRevision"));
    assert_eq!(f.world.log, ["apply Deployment acme-9201d5e7/kube-scheduler"]);
    assert_eq!(components().map(|name| f.soaks(name)).collect::<Vec<_>>(), [None; 3]);
    last(&mut f);
    // A repair, at rest.
    f.seconds(60);
    f.reconcile();
    f.live(Kind::Deployment, names::APISERVER)["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = json!(7);
    f.reconcile();
    assert_eq!(f.soaks(names::APISERVER), None);
    // Without a soak, there is none.
    f.roll_out(names::APISERVER);
    f.cluster.spec.upgrade.soak = "0s".into();
    f.flag("v");
    f.reconcile();
    assert_eq!(f.soaks(names::APISERVER), None);
}

#[test]
fn the_first_slot_that_changed_serves_for_it() {
    let mut spec = super::vpc::spec();
    spec["replicas"] = 3.into();
    let mut f = Fixture::up_in_vpc(spec);
    let new = |f: &Fixture| (0..3).filter(|n| f.slot(*n)["spec"]["template"].to_string().contains("--v=1")).count();
    f.flag("v");
    f.reconcile();
    assert_eq!(new(&f), 1);
    f.world.run_controllers();
    f.seconds(59);
    f.reconcile();
    assert_eq!(new(&f), 1);
    f.seconds(1);
    f.reconcile();
    assert_eq!(new(&f), 2);
    f.world.run_controllers();
    f.reconcile();
    assert_eq!(new(&f), 3, "the third does not wait");
}
