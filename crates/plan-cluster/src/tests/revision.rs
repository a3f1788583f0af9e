//! Releases: what is recorded, the way back to the last good one, and what stops it.

use super::*;
use berth_api::cluster::OnFailure;
use berth_api::labels;
use berth_api::revision::{RevisionCause, RevisionOutcome};
use berth_plan::model::Action;
use jiff::SignedDuration;

const OLD: &str = "1.36.2";
const NEW: &str = "1.36.3";

impl Fixture {
    /// Number, cause and outcome of all that are recorded.
    pub(super) fn recorded(&self) -> Vec<(i64, RevisionCause, Option<RevisionOutcome>)> {
        let history = &self.cluster.status.as_ref().unwrap().history;
        history.iter().rev().map(|r| (r.revision, r.cause, r.outcome)).collect()
    }

    /// Another flag of the API server.
    pub(super) fn flag(&mut self, name: &str) {
        let flag = json!([{"name": name, "value": "1"}]);
        self.cluster.spec.api_server.extra_args = serde_json::from_value(flag).unwrap();
        *self.cluster.metadata.generation.as_mut().unwrap() += 1;
    }

    pub(super) fn seconds(&mut self, seconds: i64) {
        self.world.now = self.world.now.saturating_add(SignedDuration::from_secs(seconds)).unwrap();
    }

    /// A new release comes, of which an API server does not become ready before its deadline.
    pub(super) fn does_not_come_up(&mut self) {
        self.reconcile();
        self.stuck(names::APISERVER, 2);
        self.reconcile();
        self.seconds(301);
        self.reconcile();
    }

    /// One new pod of it does not become ready; so many old ones are.
    pub(super) fn stuck(&mut self, name: &str, available: i32) {
        let d = self.live(Kind::Deployment, name);
        let generation = d["metadata"]["generation"].clone();
        let replicas = d["spec"]["replicas"].as_i64().unwrap() + 1;
        d["status"] = json!({"observedGeneration": generation, "replicas": replicas, "updatedReplicas": 1, "availableReplicas": available});
        let pod = Self::key(Kind::Pod, &format!("{name}-7d9f8-x2x4z"));
        let last = json!({"terminated": {"exitCode": 1, "reason": "Error", "message": "Error: unknown flag: --nope"}});
        let waiting = json!({"waiting": {"reason": "CrashLoopBackOff"}});
        let status = json!({"containerStatuses": [{"name": name, "state": waiting, "lastState": last}]});
        self.world.put(
            pod.clone(),
            json!({"metadata": {"name": pod.name, "labels": {(labels::COMPONENT): name}}, "status": status}),
        );
    }

    /// Kubelet's part after the way back: the pod that failed is gone.
    pub(super) fn unstuck(&mut self, name: &str) {
        self.world.remove(&Self::key(Kind::Pod, &format!("{name}-7d9f8-x2x4z")));
        self.roll_out(name);
    }

    pub(super) fn two_of_each() -> Self {
        Self::up(json!({"version": OLD, "apiServer": {"replicas": 2}}))
    }

    pub(super) fn args(&self, name: &str) -> String {
        let d = self.world.observed.get(&Self::key(Kind::Deployment, name)).unwrap();
        d["spec"]["template"]["spec"]["containers"][0]["args"].to_string()
    }

    pub(super) fn component(&self, name: &str) -> Value {
        self.world.observed.get(&Self::key(Kind::Deployment, name)).unwrap()["spec"].clone()
    }
}

use RevisionCause::{Configuration, Creation, Rollback, Upgrade};
use RevisionOutcome::{Held, RolledBack, Succeeded, Superseded};

#[test]
fn the_first_is_recorded_once_the_tenant_is_up_and_that_is_one_write() {
    let mut f = Fixture::two_of_each();
    assert_eq!(f.recorded(), [(1, Creation, Some(Succeeded))]);
    f.reconcile();
    assert!(f.world.log.is_empty(), "at rest: {:#?}", f.world.log);
    // A tenant from before, and a new operator.
    f.world.remove(&Fixture::key(Kind::ClusterRevision, "revision-1"));
    f.reconcile();
    assert_eq!(f.world.log, ["apply ClusterRevision acme-9201d5e7/revision-1"]);
    let live = f.live(Kind::ClusterRevision, "revision-1").clone();
    assert_eq!(live["spec"]["release"]["version"], OLD);
    assert_eq!(live["spec"]["release"]["apiServer"]["replicas"], 2);
    assert_eq!(live["spec"]["pin"]["agentImage"], f.settings.agent_image);
    assert_eq!(live["status"]["outcome"], "Succeeded");
}

#[test]
fn without_the_kind_nothing_is_recorded_and_all_else_goes_on() {
    let mut f = Fixture::two_of_each();
    f.world.remove(&Fixture::key(Kind::ClusterRevision, "revision-1"));
    f.world.observed.revisions_are_readable = false;
    f.flag("v");
    f.reconcile();
    assert_eq!(f.world.log, ["apply Deployment acme-9201d5e7/kube-apiserver"]);
}

#[test]
fn a_change_is_recorded_before_it_is_made_and_counts_once_it_was_well_for_a_while() {
    let mut f = Fixture::two_of_each();
    f.cluster.metadata.annotations = Some([(labels::CHANGE_CAUSE.to_owned(), "more log".to_owned())].into());
    f.flag("v");
    let first: Vec<_> = f.plan().plan.actions().map(Action::describe).collect();
    assert_eq!(first, ["apply ClusterRevision acme-9201d5e7/revision-2"]);
    f.reconcile();
    assert_eq!(f.world.log.last().unwrap(), "apply Deployment acme-9201d5e7/kube-apiserver");
    let rollout = f.cluster.status.as_ref().unwrap().rollout.clone().unwrap();
    assert_eq!((rollout.revision, &*rollout.step, rollout.from.as_deref()), (2, "kube-apiserver", Some(OLD)));
    last(&mut f);
    assert_eq!(f.recorded(), [(1, Creation, Some(Succeeded)), (2, Configuration, None)]);
    assert_eq!(f.cluster.status.as_ref().unwrap().history[0].change_cause.as_deref(), Some("more log"));
    assert_eq!(f.condition("Ready").0, "True", "nothing waits for the soak");
    assert_eq!(f.plan().due, Some(SignedDuration::from_secs(60)));
    f.seconds(60);
    f.reconcile();
    assert_eq!(f.recorded()[1], (2, Configuration, Some(Succeeded)));
    assert_eq!(f.cluster.status.as_ref().unwrap().rollout, None);
    f.world.log.clear();
    f.reconcile();
    assert!(f.world.log.is_empty());
}

#[test]
fn what_does_not_come_up_is_taken_back_and_the_spec_is_left_alone() {
    let mut f = Fixture::two_of_each();
    let before = f.component(names::APISERVER);
    f.flag("nope");
    let spec = f.cluster.spec.clone();
    f.reconcile();
    f.stuck(names::APISERVER, 2);
    f.reconcile();
    f.seconds(299);
    f.reconcile();
    assert!(f.args(names::APISERVER).contains("--nope"), "not before the deadline");
    f.seconds(1);
    f.world.log.clear();
    f.reconcile();
    let log = ["apply ClusterRevision acme-9201d5e7/revision-2", "apply Deployment acme-9201d5e7/kube-apiserver"];
    assert_eq!(f.world.log, log, "recorded first");
    assert_eq!(f.component(names::APISERVER), before, "the same template: the old pods are of it");
    assert_eq!(f.cluster.spec, spec);
    f.unstuck(names::APISERVER);
    f.rest();
    assert_eq!(f.recorded()[1], (2, Configuration, Some(RolledBack)));
    let ready = f.condition("Ready");
    assert_eq!((&*ready.0, &*ready.1), ("False", "RolledBack"));
    for says in
        ["revision 2 (1.36.2)", "rolled back to revision 1 (1.36.2)", "unknown flag: --nope", "berth.dev/roll=2"]
    {
        assert!(ready.2.contains(says), "{}", ready.2);
    }
    assert_eq!(f.condition("Stalled").1, "RolledBack");
    assert_eq!(f.condition("Available").0, "True");
    f.world.log.clear();
    f.later(60);
    f.reconcile();
    assert!(f.world.log.is_empty(), "it stays so: {:#?}", f.world.log);

    // Somebody asks for it once more, for another generation in vain.
    let asks = |f: &mut Fixture, value: &str| {
        f.cluster.metadata.annotations = Some([(labels::ROLL.to_owned(), value.to_owned())].into());
        f.reconcile();
    };
    asks(&mut f, "1");
    assert_eq!(f.recorded().len(), 2);
    asks(&mut f, "2");
    assert_eq!(f.recorded()[2], (3, Configuration, None));
    assert!(f.args(names::APISERVER).contains("--nope"));
    f.stuck(names::APISERVER, 2);
    f.reconcile();
    f.seconds(300);
    f.reconcile();
    assert_eq!(f.recorded()[2], (3, Configuration, Some(RolledBack)));
    assert!(f.condition("Ready").2.contains("berth.dev/roll=2-3"), "{}", f.condition("Ready").2);
    asks(&mut f, "2-3");
    assert_eq!(f.recorded()[3].0, 4);
    f.unstuck(names::APISERVER);

    // And the spec is corrected.
    f.cluster.spec.api_server.extra_args.clear();
    f.rest();
    f.seconds(60);
    f.reconcile();
    assert_eq!(f.recorded()[3..], [(4, Configuration, Some(Superseded)), (5, Rollback, Some(Succeeded))]);
    assert_eq!((f.component(names::APISERVER), f.condition("Ready").0), (before, "True".into()));
}

#[test]
fn progress_begins_the_deadline_anew() {
    let mut f = Fixture::up(json!({"version": OLD, "apiServer": {"replicas": 3}}));
    f.flag("v");
    f.reconcile();
    f.stuck(names::APISERVER, 3);
    f.reconcile();
    f.seconds(200);
    let d = f.live(Kind::Deployment, names::APISERVER);
    d["status"]["updatedReplicas"] = json!(2);
    f.reconcile();
    f.seconds(200);
    f.reconcile();
    assert_eq!(f.recorded()[1].2, None);
    f.seconds(100);
    f.reconcile();
    assert_eq!(f.recorded()[1].2, Some(RolledBack));
}

#[test]
fn a_version_goes_back_to_what_it_was_rendered_with() {
    let mut f = Fixture::two_of_each();
    let before = f.component(names::CONTROLLER_MANAGER);
    let namespace = f.home_object()["metadata"]["annotations"].clone();
    f.settings.agent_image = "berth.dev/agent:newer".into();
    f.cluster.spec.version = NEW.into();
    for _ in 0..2 {
        f.reconcile();
        f.roll_out(names::APISERVER);
    }
    f.reconcile();
    // The second component fails.
    f.stuck(names::CONTROLLER_MANAGER, 1);
    f.reconcile();
    f.seconds(300);
    f.reconcile();
    assert_eq!(f.recorded()[1], (2, Upgrade, Some(RolledBack)));
    f.unstuck(names::CONTROLLER_MANAGER);
    f.rest();
    assert_eq!(f.component(names::CONTROLLER_MANAGER), before);
    assert!(f.image(names::APISERVER).ends_with(":v1.36.2"));
    let now = f.home_object()["metadata"]["annotations"].clone();
    for note in [labels::KUBERNETES_VERSION, labels::TEMPLATES, labels::AGENT_IMAGE] {
        assert_eq!(now[note], namespace[note]);
    }
    assert!(f.condition("Ready").2.contains("revision 2 (1.36.3)"), "{}", f.condition("Ready").2);
}

#[test]
fn a_version_that_a_person_sets_back_is_what_it_was() {
    let mut f = Fixture::two_of_each();
    let before = f.component(names::CONTROLLER_MANAGER);
    let namespace = f.home_object()["metadata"]["annotations"].clone();
    f.settings.agent_image = "berth.dev/agent:newer".into();
    f.version(NEW);
    f.rest();
    f.seconds(60);
    f.rest();
    assert!(f.home_object()["metadata"]["annotations"][labels::AGENT_IMAGE] == "berth.dev/agent:newer");
    f.version(OLD);
    f.rest();
    f.seconds(60);
    f.rest();
    assert_eq!(f.recorded()[2], (3, Rollback, Some(Succeeded)));
    assert_eq!(f.component(names::CONTROLLER_MANAGER), before);
    assert_eq!(f.home_object()["metadata"]["annotations"][labels::AGENT_IMAGE], namespace[labels::AGENT_IMAGE]);
    let home = Fixture::key(Kind::ClusterRevision, "revision-3");
    let recorded = f.world.observed.get(&home).unwrap()["spec"]["pin"]["agentImage"].clone();
    assert_eq!(recorded, namespace[labels::AGENT_IMAGE]);
    // Forth is with what this build has.
    f.version(NEW);
    f.rest();
    f.seconds(60);
    f.rest();
    assert_eq!(f.home_object()["metadata"]["annotations"][labels::AGENT_IMAGE], "berth.dev/agent:newer");
}

#[test]
fn a_minor_goes_back_in_its_first_step_and_is_held_in_the_second() {
    let mut f = Fixture::up_for_upgrade(json!({"version": "1.35.4", "upgrade": {"soak": "0s"}}));
    f.version(NEW);
    f.reconcile();
    f.stuck(names::APISERVER, 1);
    f.reconcile();
    f.seconds(300);
    f.reconcile();
    f.reconcile();
    assert_eq!(f.recorded()[1], (2, Upgrade, Some(RolledBack)));
    f.unstuck(names::APISERVER);
    f.rest();
    assert!(f.image(names::APISERVER).ends_with(":v1.35.4"), "{}", f.image(names::APISERVER));
    assert!(!f.home_object()["metadata"]["annotations"].to_string().contains("berth.dev/upgrade"));
    assert_eq!(f.condition("Ready").1, "RolledBack");

    // Another patch version of it comes up, and counts.
    f.version("1.36.2");
    f.rest();
    assert_eq!((f.recorded()[2], f.condition("Ready").1), ((3, Upgrade, Some(Succeeded)), "Emulating".into()));
    // In the second step there is no way back, whatever fails.
    f.later(11);
    f.rest();
    assert_eq!(f.condition("Ready").1, "AsExpected");
    f.cluster.status.as_mut().unwrap().history.clear();
    let three = Fixture::key(Kind::ClusterRevision, "revision-3");
    f.world.remove(&three);
    f.flag("nope");
    f.reconcile();
    f.stuck(names::APISERVER, 1);
    f.reconcile();
    f.seconds(300);
    f.reconcile();
    let ready = f.condition("Ready");
    assert_eq!(ready.1, "Held", "{ready:?}");
    assert!(ready.2.contains("1.36 counts as served"), "{}", ready.2);
}

type Spoil = fn(&mut Fixture);

#[test]
fn it_is_held_where_more_than_the_release_fails_and_comes_up_by_itself() {
    let fails = |spoil: Spoil| {
        let mut f = Fixture::two_of_each();
        f.flag("v");
        f.reconcile();
        f.stuck(names::APISERVER, 2);
        spoil(&mut f);
        f.reconcile();
        f.seconds(300);
        f.reconcile();
        f
    };
    let etcd = |f: &mut Fixture| {
        f.live(Kind::EtcdCluster, names::ETCD)["status"]["conditions"][1]["status"] = json!("False");
    };
    let cases: [(Spoil, &str); 5] = [
        (|f| f.stuck(names::APISERVER, 1), "its old pods are not well, either"),
        (etcd, "etcd has no quorum"),
        (|f| f.meta().clock_ahead = SignedDuration::from_mins(15), "clock is wrong"),
        (|f| f.meta().clock_ahead = SignedDuration::from_mins(-15), "clock is wrong"),
        (|f| f.cluster.spec.upgrade.on_failure = OnFailure::Hold, "spec.upgrade.onFailure is Hold"),
    ];
    for (spoil, why) in cases {
        let mut f = fails(spoil);
        assert_eq!(f.recorded()[1].2, Some(Held), "{why}");
        let ready = f.condition("Ready");
        assert!(ready.1 == "Held" && ready.2.contains(why), "{ready:?}");
        assert!(f.args(names::APISERVER).contains("--v"), "what runs stays");
        // What kept it may be what kept its pods: it is not taken back later.
        f.stuck(names::APISERVER, 2);
        f.later(60);
        f.reconcile();
        assert_eq!(f.recorded()[1].2, Some(Held));
        f.cluster.spec.upgrade.soak = "0s".into();
        f.unstuck(names::APISERVER);
        f.rest();
        assert_eq!(f.recorded()[1].2, Some(Succeeded), "{why}");
    }
}

#[test]
fn paused_stops_all_of_it_deadlines_too() {
    let mut f = Fixture::two_of_each();
    f.flag("v");
    f.reconcile();
    f.stuck(names::APISERVER, 2);
    f.reconcile();
    f.cluster.spec.paused = true;
    f.reconcile();
    f.later(60);
    f.world.log.clear();
    f.reconcile();
    assert_eq!(f.cluster.status.as_ref().unwrap().rollout.as_ref().unwrap().since, None);
    assert!(!f.world.log.iter().any(|write| write.contains("Revision")), "{:#?}", f.world.log);
    f.cluster.spec.paused = false;
    f.reconcile();
    assert_eq!(f.recorded()[1].2, None, "it begins anew");
    f.seconds(300);
    f.reconcile();
    assert_eq!(f.recorded()[1].2, Some(RolledBack));
    // Paused, what was taken back stays so.
    f.cluster.spec.paused = true;
    f.unstuck(names::APISERVER);
    f.reconcile();
    assert!(!f.args(names::APISERVER).contains("--v"));
}

/// `spec.upgrade.finalizeAfter` begins anew, and ends.
fn finalizes_ten_minutes_from_now(f: &mut Fixture) {
    f.reconcile();
    f.others();
    f.reconcile();
    assert_eq!(f.condition("Ready").1, "Emulating", "{:?}", f.condition("Ready"));
    f.later(9);
    f.reconcile();
    assert!(f.args(names::APISERVER).contains("--emulated-version=1.35"));
    f.later(2);
    f.reconcile();
    assert!(!f.args(names::APISERVER).contains("--emulated-version"));
}

#[test]
fn a_pause_begins_finalize_after_anew() {
    let mut f = Fixture::up_for_upgrade(json!({"version": "1.35.4"}));
    f.version(NEW);
    f.rest();
    assert_eq!(f.condition("Ready").1, "Emulating");
    f.later(9);
    f.cluster.spec.paused = true;
    f.reconcile();
    f.later(60);
    f.reconcile();
    assert!(f.args(names::APISERVER).contains("--emulated-version=1.35"));
    f.cluster.spec.paused = false;
    finalizes_ten_minutes_from_now(&mut f);
}

#[test]
fn what_a_clock_was_set_by_is_no_time_that_passed() {
    for minutes in [15, -15] {
        let mut f = Fixture::two_of_each();
        f.flag("v");
        f.reconcile();
        f.stuck(names::APISERVER, 2);
        f.reconcile();
        f.seconds(60 * minutes);
        f.meta().clock_set = Some(f.world.now);
        f.reconcile();
        assert_eq!(f.recorded()[1].2, None, "{minutes} minutes");
        f.seconds(299);
        f.reconcile();
        assert_eq!(f.recorded()[1].2, None, "{minutes} minutes");
        // Nor for one that leads later, and knows nothing of it.
        f.meta().clock_set = None;
        f.reconcile();
        assert_eq!(f.recorded()[1].2, None, "{minutes} minutes");
        f.seconds(1);
        f.reconcile();
        assert_eq!(f.recorded()[1].2, Some(RolledBack), "it begins anew, and ends");
    }
    // Likewise before the step from which there is no way back.
    let mut f = Fixture::up_for_upgrade(json!({"version": "1.35.4"}));
    f.version(NEW);
    f.rest();
    f.later(15);
    f.meta().clock_set = Some(f.world.now);
    finalizes_ten_minutes_from_now(&mut f);
}

#[test]
fn ten_are_kept_and_the_last_that_succeeded() {
    let mut f = Fixture::two_of_each();
    for n in 0..12 {
        f.flag(&format!("v{n}"));
        f.reconcile();
    }
    f.cluster.spec.upgrade.soak = "0s".into();
    let kept = |f: &Fixture| -> Vec<i64> {
        let home = Fixture::cp_namespace();
        let all = f.world.observed.of_kind(Kind::ClusterRevision, &home);
        let mut all: Vec<i64> = all.map(|(_, live)| live["spec"]["number"].as_i64().unwrap()).collect();
        all.sort_unstable();
        all
    };
    assert_eq!(kept(&f), (1..=13).collect::<Vec<_>>(), "nothing goes while something is under way");
    f.rest();
    assert_eq!(kept(&f), [1].into_iter().chain(4..=13).collect::<Vec<_>>(), "1 is what it would go back to");
    f.flag("w");
    f.rest();
    assert_eq!(kept(&f), (5..=14).collect::<Vec<_>>());
    assert_eq!(f.cluster.status.as_ref().unwrap().history.len(), 10);
}

#[test]
fn what_is_refused_is_not_recorded() {
    let mut f = Fixture::two_of_each();
    f.cluster.spec.version = "1.29.1".into();
    f.reconcile();
    f.cluster.spec.version = OLD.into();
    f.flag("etcd-servers");
    f.reconcile();
    assert_eq!(f.recorded().len(), 1);
    assert!(f.world.log.is_empty(), "{:#?}", f.world.log);
}

#[test]
fn a_revision_of_a_newer_build_stays_and_does_not_count() {
    let mut f = Fixture::two_of_each();
    let two = Fixture::key(Kind::ClusterRevision, "revision-2");
    let mut live = f.live(Kind::ClusterRevision, "revision-1").clone();
    live["metadata"]["name"] = json!("revision-2");
    live["spec"]["cause"] = json!("Renewal");
    f.world.put(two.clone(), live.clone());
    f.rest();
    assert_eq!(f.world.observed.get(&two).unwrap()["spec"], live["spec"]);
    assert_eq!(f.cluster.status.as_ref().unwrap().history[0].revision, 3, "what it asks for is recorded anew");
    assert_eq!(f.condition("Ready").0, "True");
}

#[test]
fn a_record_that_somebody_changed_gets_its_labels_back_and_has_no_owner() {
    let mut f = Fixture::two_of_each();
    let key = Fixture::key(Kind::ClusterRevision, "revision-1");
    let whole = f.world.observed.get(&key).unwrap()["metadata"].clone();
    let live = f.world.observed.objects.get_mut(&key).unwrap();
    live["metadata"]["labels"][labels::CLUSTER_NAME] = json!("other");
    live["metadata"]["ownerReferences"] = json!([{"kind": "ConfigMap", "name": "somebodys", "uid": "u"}]);
    last(&mut f);
    let metadata = &f.world.observed.get(&key).unwrap()["metadata"];
    assert_eq!(metadata["labels"], whole["labels"]);
    assert!(metadata["ownerReferences"].as_array().is_none_or(Vec::is_empty), "{metadata}");
    f.world.log.clear();
    f.reconcile();
    assert!(f.world.log.is_empty(), "{:#?}", f.world.log);
}
