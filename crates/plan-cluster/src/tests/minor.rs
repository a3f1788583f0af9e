//! A minor in two steps: the order, what is recorded, the way back, and what stands in the way.

use super::*;
use berth_api::cluster::NodesStatus;
use berth_api::labels;
use berth_plan::observed::Nodes;
use jiff::SignedDuration;

const OLD: &str = "1.35.4";
const NEW: &str = "1.36.3";
const CLIENTS: [&str; 2] = [names::CONTROLLER_MANAGER, names::SCHEDULER];

impl Fixture {
    pub(super) fn nodes(&mut self, oldest: Option<&str>) {
        let ApiProbe::Answered { read, .. } = &mut self.world.observed.api else { panic!("it is up") };
        let total = oldest.map_or(0, |_| 1);
        let count = NodesStatus { total, ready: total, oldest_kubelet: oldest.map(str::to_owned) };
        read.nodes = Some(Nodes { count, newest_kubelet: oldest.and_then(|v| v.parse().ok()), addresses: vec![] });
    }

    pub(super) fn version(&mut self, version: &str) {
        self.cluster.spec.version = version.into();
        *self.cluster.metadata.generation.as_mut().unwrap() += 1;
    }

    /// What a component is to run, and the minor that it emulates.
    fn runs(&self, name: &str) -> String {
        let d = self.world.observed.get(&Self::key(Kind::Deployment, name)).unwrap();
        let version = berth_plan::workload::version_of(d).unwrap();
        berth_plan::workload::emulates(d).map_or_else(|| version.to_string(), |minor| format!("{version} as {minor}"))
    }

    pub(super) fn all_run(&self) -> [String; 3] {
        [names::APISERVER, names::CONTROLLER_MANAGER, names::SCHEDULER].map(|name| self.runs(name))
    }

    pub(super) fn note(&self, name: &str) -> Option<String> {
        let live = self.world.observed.get(&Self::namespace())?;
        berth_plan::object_meta::annotation(live, name).map(str::to_owned)
    }

    pub(super) fn up_for_upgrade(spec: Value) -> Self {
        let mut f = Self::up(spec);
        f.nodes(Some(OLD));
        f
    }

    /// All that is under way is rolled out, until nothing changes any more.
    pub(super) fn rest(&mut self) {
        for _ in 0..8 {
            self.reconcile();
            self.others();
        }
        self.reconcile();
        self.reconcile();
    }

    pub(super) fn later(&mut self, minutes: i64) {
        self.world.now = self.world.now.saturating_add(SignedDuration::from_mins(minutes)).unwrap();
    }
}

#[test]
fn the_new_minor_emulates_the_old_one_and_then_is_served() {
    let mut f = Fixture::up_for_upgrade(json!({"version": OLD, "upgrade": {"soak": "0s"}}));
    assert_eq!(f.note(labels::SERVED_MINOR).as_deref(), Some("1.35"), "from the creation on");
    f.version(NEW);
    f.reconcile();
    assert_eq!(f.all_run(), [&*format!("{NEW} as 1.35"), OLD, OLD], "the API server first");
    let args = f.world.observed.get(&Fixture::key(Kind::Deployment, names::APISERVER)).unwrap()["spec"]["template"]
        ["spec"]["containers"][0]["args"]
        .to_string();
    assert!(args.contains("--tls-curve-preferences"), "from the new minor's templates: {args}");
    let ready = f.condition("Ready");
    assert_eq!((&*ready.0, &*ready.1), ("False", "RollingOut"));
    assert!(ready.2.contains("step 1 of 2 (1.36.3 emulates 1.35): rollout of kube-apiserver"), "{}", ready.2);
    // What an older operator, or one that restores, finds is the old release.
    assert_eq!(f.note(labels::KUBERNETES_VERSION).as_deref(), Some(OLD));
    assert_eq!(f.note(labels::SERVED_MINOR).as_deref(), Some("1.35"));
    f.roll_out(names::APISERVER);
    f.reconcile();
    assert_eq!(f.all_run(), [(); 3].map(|()| format!("{NEW} as 1.35")));
    assert_eq!(f.condition("Ready").0, "False", "the others are not through");
    f.rest();
    let ready = f.condition("Ready");
    assert_eq!((&*ready.0, &*ready.1), ("True", "Emulating"), "{}", ready.2);
    assert!(
        ready.2.contains("until 2026-01-01T00:10:00Z") && ready.2.contains("set spec.version to 1.35.4"),
        "{}",
        ready.2
    );
    let status = f.cluster.status.clone().unwrap();
    assert_eq!((status.version.as_deref(), status.emulated_version.as_deref()), (Some(NEW), Some("1.35")));
    assert!(status.conditions.iter().all(|c| c.type_ != "Reconciling" && c.type_ != "Stalled"));
    let proxy = status.addons.iter().find(|addon| addon.name == "kube-proxy").unwrap();
    assert_eq!(proxy.version.as_deref(), Some(OLD), "nodes are not newer than what is served");
    f.world.log.clear();
    f.later(9);
    f.reconcile();
    assert!(f.world.log.is_empty(), "at rest: {:#?}", f.world.log);
    f.later(2);
    // Before anything else it is recorded that there is no way back.
    let planned = f.plan();
    let actions: Vec<_> = planned.plan.actions().map(berth_plan::model::Action::describe).collect();
    assert_eq!(actions[0], format!("apply {}", Fixture::namespace()));
    assert!(!actions.iter().any(|action| action.contains("kube-apiserver")), "{actions:#?}");
    f.reconcile();
    assert_eq!(f.note(labels::SERVED_MINOR).as_deref(), Some("1.36"));
    assert_eq!(f.note(labels::KUBERNETES_VERSION).as_deref(), Some(NEW));
    assert_eq!(f.all_run(), [NEW, &format!("{NEW} as 1.35"), &format!("{NEW} as 1.35")]);
    assert_eq!(f.condition("Ready").1, "RollingOut");
    f.rest();
    assert_eq!((f.all_run(), f.note(labels::UPGRADE)), ([NEW; 3].map(str::to_owned), None));
    assert_eq!(f.condition("Ready").1, "AsExpected", "{:?}", f.condition("Ready"));
    let status = f.cluster.status.clone().unwrap();
    assert_eq!((status.version.as_deref(), status.emulated_version), (Some(NEW), None));
    let proxy = status.addons.iter().find(|addon| addon.name == "kube-proxy").unwrap();
    assert_eq!(proxy.version.as_deref(), Some(NEW));
    let fresh = Fixture::up(json!({"version": NEW}));
    for name in [names::APISERVER, names::CONTROLLER_MANAGER, names::SCHEDULER] {
        let of = |f: &Fixture| {
            let live = f.world.observed.get(&Fixture::key(Kind::Deployment, name)).unwrap();
            live["spec"]["template"]["spec"]["containers"].clone()
        };
        assert!(of(&f) == of(&fresh), "{name}: as one that was created so");
    }
    // And never back.
    f.version(OLD);
    f.world.log.clear();
    let message = blocked(&f.reconcile(), StageId::Spec, Reason::DowngradeUnsafe);
    assert!(message.contains("Set a patch version of 1.36"), "{message}");
    assert!(f.world.log.is_empty(), "{:#?}", f.world.log);
    assert_eq!(f.condition("Stalled").1, "DowngradeUnsafe");
}

#[test]
fn the_way_back_is_the_other_way_round() {
    let mut f = Fixture::up_for_upgrade(json!({"version": OLD}));
    let before = f.world.observed.objects.clone();
    f.version(NEW);
    f.rest();
    assert_eq!(f.condition("Ready").1, "Emulating");
    f.version(OLD);
    f.reconcile();
    assert_eq!(f.all_run(), [&*format!("{NEW} as 1.35"), OLD, OLD], "those that talk to the API first");
    assert!(f.condition("Ready").2.contains("the rollback to 1.35.4"), "{}", f.condition("Ready").2);
    // A pod of the new one that ends still talks to the API.
    let pod = Fixture::key(Kind::Pod, "kube-scheduler-7d9f8-x2x4z");
    let labels = json!({(labels::COMPONENT): names::SCHEDULER, (labels::VERSION): NEW});
    let meta = json!({"name": pod.name, "labels": labels, "deletionTimestamp": "2026-01-01T00:00:00Z"});
    f.world.put(pod.clone(), json!({"metadata": meta}));
    for name in CLIENTS {
        f.roll_out(name);
    }
    f.reconcile();
    assert_eq!(f.runs(names::APISERVER), format!("{NEW} as 1.35"));
    f.world.remove(&pod);
    f.reconcile();
    assert_eq!(f.runs(names::APISERVER), OLD);
    f.rest();
    assert_eq!((f.note(labels::UPGRADE), f.condition("Ready").1), (None, "AsExpected".into()));
    assert_eq!(f.note(labels::SERVED_MINOR).as_deref(), Some("1.35"));
    for name in [names::APISERVER, names::CONTROLLER_MANAGER, names::SCHEDULER] {
        let key = Fixture::key(Kind::Deployment, name);
        assert_eq!(f.world.observed.get(&key).unwrap()["spec"], before[&key]["spec"], "{name}");
    }
    let sets = f
        .world
        .observed
        .of_kind(Kind::ConfigMap, &Fixture::cp_namespace())
        .filter(|(k, _)| k.name.starts_with("templates-"))
        .count();
    assert_eq!(sets, 1, "the new minor's templates are not kept");
}

#[test]
fn a_new_api_server_that_never_comes_up_stops_it_and_the_way_back_is_open() {
    let mut f = Fixture::up_for_upgrade(json!({"version": OLD}));
    f.version(NEW);
    for _ in 0..3 {
        f.reconcile();
        f.later(60);
    }
    assert_eq!(f.all_run(), [&*format!("{NEW} as 1.35"), OLD, OLD]);
    // What runs of the others is repaired as the old release.
    let manager = Fixture::key(Kind::Deployment, names::CONTROLLER_MANAGER);
    f.world.remove(&manager);
    f.reconcile();
    assert_eq!(f.runs(names::CONTROLLER_MANAGER), OLD);
    f.roll_out(names::CONTROLLER_MANAGER);
    f.version(OLD);
    f.reconcile();
    assert_eq!(f.all_run(), [OLD; 3].map(str::to_owned));
    f.rest();
    assert_eq!(f.condition("Ready").1, "AsExpected");
}

#[test]
fn api_servers_that_all_fail_go_back_before_what_cannot_come_up_without_them() {
    let mut f = Fixture::up_for_upgrade(json!({"version": OLD}));
    f.version(NEW);
    f.rest();
    f.live(Kind::Deployment, names::APISERVER)["status"]["availableReplicas"] = json!(0);
    f.world.observed.api = ApiProbe::Failed("refused".into());
    f.version(OLD);
    f.reconcile();
    f.reconcile();
    assert_eq!(f.all_run(), [OLD; 3].map(str::to_owned));
}

#[test]
fn it_takes_up_a_change_of_mind_wherever_it_is() {
    let mut f = Fixture::up_for_upgrade(json!({"version": OLD}));
    f.version("1.36.2");
    f.rest();
    f.later(9);
    // Another patch version begins the wait anew.
    f.version(NEW);
    f.reconcile();
    assert_eq!(f.all_run(), [&*format!("{NEW} as 1.35"), "1.36.2 as 1.35", "1.36.2 as 1.35"]);
    f.rest();
    assert!(f.condition("Ready").2.contains("until 2026-01-01T00:19:00Z"), "{}", f.condition("Ready").2);
    // Back to another patch version than before.
    f.version("1.35.5");
    f.rest();
    assert_eq!((f.all_run(), f.condition("Ready").1), (["1.35.5"; 3].map(str::to_owned), "AsExpected".into()));
    // What cannot be is passed over: what has begun goes on, up to where there is no way back.
    f.version(NEW);
    for _ in 0..2 {
        f.reconcile();
        f.roll_out(names::APISERVER);
    }
    f.version("1.29.1");
    f.rest();
    f.later(11);
    blocked(&f.reconcile(), StageId::Spec, Reason::VersionUnsupported);
    assert_eq!(f.all_run(), [(); 3].map(|()| format!("{NEW} as 1.35")));
    assert_eq!(f.note(labels::SERVED_MINOR).as_deref(), Some("1.35"));
    f.version("1.35.5");
    f.rest();
    assert_eq!(f.all_run(), ["1.35.5"; 3].map(str::to_owned));
}

#[test]
fn minors_go_one_at_a_time() {
    let mut f = Fixture::up_for_upgrade(json!({"version": "1.34.4", "upgrade": {"finalizeAfter": "1h"}}));
    f.nodes(Some("1.34.4"));
    f.version(NEW);
    let message = blocked(&f.reconcile(), StageId::Spec, Reason::MinorChangeUnsupported);
    assert!(message.contains("set a patch version of 1.35 first"), "{message}");
    f.version(OLD);
    f.rest();
    f.version(NEW);
    f.rest();
    assert_eq!(f.all_run(), [(); 3].map(|()| format!("{OLD} as 1.34")), "not before this one is through");
    assert!(f.condition("Ready").2.contains("the one to 1.36.3 follows"), "{}", f.condition("Ready").2);
    f.later(61);
    f.rest();
    assert_eq!(f.all_run(), [(); 3].map(|()| format!("{NEW} as 1.35")));
    assert_eq!(f.note(labels::SERVED_MINOR).as_deref(), Some("1.35"));
    f.later(61);
    f.rest();
    assert_eq!((f.all_run(), f.condition("Ready").1), ([NEW; 3].map(str::to_owned), "AsExpected".into()));
}

#[test]
fn without_a_wait_it_goes_through_at_once() {
    let mut f = Fixture::up_for_upgrade(json!({"version": OLD, "upgrade": {"finalizeAfter": "0s"}}));
    f.version(NEW);
    f.rest();
    assert_eq!((f.all_run(), f.condition("Ready").1), ([NEW; 3].map(str::to_owned), "AsExpected".into()));
}

#[test]
fn all_that_stands_in_the_way_is_said_before_anything_changes() {
    let mut f = Fixture::up_for_upgrade(json!({"version": OLD, "etcd": {"version": "3.5.35"}}));
    f.nodes(Some("1.32.9"));
    let gates = json!([{"name": "feature-gates", "value": "A=true,AllAlpha=true"}]);
    f.cluster.spec.api_server.extra_args = serde_json::from_value(gates).unwrap();
    f.rest();
    f.nodes(Some("1.32.9"));
    f.world.log.clear();
    f.version(NEW);
    let message = blocked(&f.reconcile(), StageId::Spec, Reason::UpgradeBlocked);
    for what in ["oldestKubelet is 1.32.9", "AllAlpha=true", "Nothing was changed", "set spec.version to 1.35.4"] {
        assert!(message.contains(what), "{what}: {message}");
    }
    assert!(f.world.log.is_empty(), "{:#?}", f.world.log);
    assert_eq!(f.condition("Stalled").1, "UpgradeBlocked");
    // It goes on by itself.
    f.cluster.spec.api_server.extra_args.clear();
    f.nodes(Some("1.33.1"));
    f.rest();
    assert_eq!(f.condition("Ready").1, "Emulating", "{:?}", f.condition("Ready"));
    for (oldest, says) in [("1.37.0", "which is newer"), ("nonsense", "no Kubernetes version")] {
        let mut f = Fixture::up_for_upgrade(json!({"version": OLD}));
        f.nodes(Some(oldest));
        f.version(NEW);
        let message = blocked(&f.reconcile(), StageId::Spec, Reason::UpgradeBlocked);
        assert!(message.contains(says), "{message}");
    }
}

#[test]
fn what_is_recorded_holds_without_statuses() {
    let mut f = Fixture::up_for_upgrade(json!({"version": OLD, "upgrade": {"finalizeAfter": "0s"}}));
    f.version(NEW);
    f.rest();
    f.cluster.status = None;
    f.version(OLD);
    blocked(&f.reconcile(), StageId::Spec, Reason::DowngradeUnsafe);
    // Nor does what somebody wrote over the pin count, or a namespace without one.
    for pin in [json!(OLD), Value::Null] {
        f.home_object()["metadata"]["annotations"][labels::KUBERNETES_VERSION] = pin.clone();
        f.world.log.clear();
        blocked(&f.plan(), StageId::Spec, Reason::DowngradeUnsafe);
        f.reconcile();
        assert_eq!(f.all_run(), [NEW; 3].map(str::to_owned), "{pin}");
        assert_eq!(f.world.log, ["apply Namespace acme-9201d5e7"], "what the newest revision says");
        assert_eq!(f.note(labels::KUBERNETES_VERSION).as_deref(), Some(NEW));
    }
    f.version(NEW);
    f.reconcile();
    assert_eq!(f.note(labels::KUBERNETES_VERSION).as_deref(), Some(NEW));
}

#[test]
fn a_change_that_is_under_way_goes_on_without_the_pin() {
    let mut f = Fixture::up_for_upgrade(json!({"version": OLD}));
    f.version(NEW);
    f.rest();
    f.home_object()["metadata"]["annotations"].as_object_mut().unwrap().remove(labels::KUBERNETES_VERSION);
    f.rest();
    assert_eq!(f.all_run(), [(); 3].map(|()| format!("{NEW} as 1.35")), "it does not skip the first step");
    assert_eq!(f.note(labels::KUBERNETES_VERSION).as_deref(), Some(OLD));
    assert_eq!(f.condition("Ready").1, "Emulating");
}

#[test]
fn a_tenant_of_a_build_without_the_record_counts_as_serving_what_it_is_pinned_to() {
    let mut f = Fixture::up(json!({"version": NEW}));
    f.home_object()["metadata"]["annotations"].as_object_mut().unwrap().remove(labels::SERVED_MINOR);
    f.version(OLD);
    blocked(&f.plan(), StageId::Spec, Reason::DowngradeUnsafe);
    f.version(NEW);
    f.reconcile();
    assert_eq!(f.world.log, [format!("apply {}", Fixture::namespace())], "once");
    assert_eq!(f.note(labels::SERVED_MINOR).as_deref(), Some("1.36"));
}

/// What each slot, and then what talks to them, is to run.
fn in_vpc(f: &Fixture) -> Vec<String> {
    let of = |kind, name: &str| {
        let live = f.world.observed.get(&Fixture::key(kind, name)).unwrap();
        let version = berth_plan::workload::version_of(live).unwrap().to_string();
        berth_plan::workload::emulates(live).map_or(version.clone(), |minor| format!("{version} as {minor}"))
    };
    let slots = (0..3).map(|n| of(Kind::StatefulSet, &names::slot(names::APISERVER, n)));
    slots.chain(CLIENTS.map(|name| of(Kind::Deployment, name))).collect()
}

#[test]
fn slots_take_the_same_steps_one_after_the_other() {
    let mut spec = vpc::spec();
    spec["version"] = json!(OLD);
    spec["upgrade"] = json!({"finalizeAfter": "168h"});
    let mut f = Fixture::up_in_vpc(spec);
    f.nodes(Some(OLD));
    let through = |f: &mut Fixture, goal: &str, reason: &str| {
        for _ in 0..40 {
            f.reconcile();
            let now = in_vpc(f);
            let (slots, clients) = now.split_at(3);
            if goal == OLD {
                let gone = clients.iter().all(|client| client == OLD);
                assert!(gone || slots.iter().all(|slot| slot != OLD), "the others first: {now:?}");
            } else {
                let all = slots.iter().all(|slot| slot == goal);
                assert!(all || clients.iter().all(|client| client != goal), "the API servers first: {now:?}");
            }
            if f.condition("Ready").1 == reason && now.iter().all(|runs| runs == goal) {
                return;
            }
            f.attached();
        }
        panic!("{goal}: {:?}, {:?}", in_vpc(f), f.condition("Ready"));
    };
    let emulates = format!("{NEW} as 1.35");
    f.version(NEW);
    through(&mut f, &emulates, "Emulating");
    f.version(OLD);
    through(&mut f, OLD, "AsExpected");
    f.version(NEW);
    through(&mut f, &emulates, "Emulating");
    f.cluster.spec.upgrade.finalize_after = "0s".into();
    through(&mut f, NEW, "AsExpected");
    assert_eq!(f.note(labels::SERVED_MINOR).as_deref(), Some("1.36"));
}
