//! Each check red once, alone, and green again.

use super::*;
use crate::preflight::findings;
use crate::subject::Tenant;
use crate::{answers_request, look_request};
use berth_api::cluster::Check;
use berth_api::conditions::{self, ConditionType};
use berth_api::labels;
use berth_plan::asked::{DeprecatedApi, Facts, Look, Metrics, Server};

const OLD: &str = "1.35.4";
const NEW: &str = "1.36.3";

pub(super) fn well() -> Facts {
    let features = [("Alpha", "ALPHA"), ("Beta", "BETA"), ("Stable", "")];
    let features = features.map(|(name, stage)| (name.to_owned(), stage.to_owned())).into();
    let server = Server {
        version: ApiVersion { version: OLD.into(), emulates: None },
        metrics: Metrics { features, ..Metrics::default() },
        ..Server::default()
    };
    Facts {
        at: "2026-01-01T00:00:00Z".parse().unwrap(),
        servers: [("kube-apiserver-a".to_owned(), Ok(server))].into(),
        services_down: Ok(BTreeMap::new()),
        admission: Ok(()),
    }
}

pub(super) fn server(facts: &mut Facts) -> &mut Server {
    facts.servers.values_mut().next().unwrap().as_mut().unwrap()
}

pub(super) fn deprecated(facts: &mut Facts, removed_in: &str) {
    let api = DeprecatedApi {
        removed_in: removed_in.parse().unwrap(),
        group_version: "policy/v1beta1".into(),
        resource: "podsecuritypolicies".into(),
    };
    server(facts).metrics.deprecated.insert(api);
}

fn args(f: &mut Fixture, name: &str, value: &str) {
    let args = json!([{"name": name, "value": value}]);
    f.cluster.spec.api_server.extra_args = serde_json::from_value(args).unwrap();
}

/// Which kubelets of the minor that runs start with.
fn gates(f: &mut Fixture, all: &[(&str, bool)]) {
    let gates: BTreeMap<_, _> = all.iter().copied().collect();
    f.cluster.spec.kubelet.config = serde_json::from_value(json!({"featureGates": gates})).unwrap();
    assert_eq!(crate::kubelet_faults(&f.cluster.spec.kubelet.config, "1.35".parse().unwrap()), []);
}

fn etcd(f: &mut Fixture) -> &mut Value {
    f.world.observed.objects.get_mut(&Fixture::key(Kind::EtcdCluster, names::ETCD)).unwrap()
}

type Change = fn(&mut Fixture, &mut Facts);

/// What is wrong, of which check, and what is said of it.
const RED: &[(Check, Change, &[&str])] = &[
    (Check::ApiServers, |_, facts| facts.servers.clear(), &["no pod of kube-apiserver was ready"]),
    (
        Check::ApiServers,
        |_, facts| *facts.servers.values_mut().next().unwrap() = Err("connection refused".into()),
        &["pod kube-apiserver-a", "connection refused"],
    ),
    (Check::ApiServers, |_, facts| server(facts).unwell = Some("[-]etcd failed".into()), &["not well: [-]etcd failed"]),
    (Check::ApiServers, |_, facts| server(facts).version.version = "1.34.9".into(), &["reports 1.34.9"]),
    (
        Check::ApiServers,
        |_, facts| server(facts).version.emulates = "1.34".parse().ok(),
        &["1.35.4, emulating 1.34, and 1.35 is expected"],
    ),
    (
        Check::RemovedApis,
        |_, facts| deprecated(facts, "1.36"),
        &["policy/v1beta1 podsecuritypolicies (until 1.36)", "Move them"],
    ),
    (
        Check::ApiServices,
        |_, facts| facts.services_down = Ok([("v1.a.io".into(), "False (MissingEndpoints)".into())].into()),
        &["APIService v1.a.io (False (MissingEndpoints))", "delete it"],
    ),
    (Check::ApiServices, |_, facts| facts.services_down = Err("no answer".into()), &["could not be listed: no answer"]),
    (Check::Admission, |_, facts| facts.admission = Err("webhook a.io denied it".into()), &["webhook a.io denied it"]),
    (Check::Kubelets, |f, _| f.nodes(Some("1.32.9")), &["oldestKubelet is 1.32.9", "upgrade the kubelets"]),
    (Check::Kubelets, |f, _| f.nodes(Some("1.37.0")), &["1.37.0, which is newer"]),
    (
        Check::Kubelets,
        |f, _| gates(f, &[("NodeLogQuery", false)]),
        &["kubelet 1.36 refuses spec.kubelet.config.featureGates.NodeLogQuery: cannot be turned off", "Remove it"],
    ),
    (
        Check::Kubelets,
        |f, _| gates(f, &[("MemoryManager", true), ("GitRepoVolumeDriver", true)]),
        &[
            "kubelet 1.36 refuses spec.kubelet.config.featureGates.MemoryManager: is a feature gate that it does not know any more. Remove it",
            "1 more",
        ],
    ),
    (Check::Etcd, |f, _| etcd(f)["spec"]["version"] = json!("3.4.1"), &["etcd runs 3.4.1", "set spec.etcd.version"]),
    (Check::Etcd, |f, _| etcd(f)["status"]["version"] = json!("3.4.1"), &["etcd runs 3.4.1"]),
    (
        Check::Etcd,
        |f, _| {
            let alarm = json!({"type": "Degraded", "status": "True", "reason": "EtcdAlarm", "message": "NOSPACE on etcd-0", "lastTransitionTime": "2026-01-01T00:00:00Z"});
            etcd(f)["status"]["conditions"].as_array_mut().unwrap().push(alarm);
        },
        &["not well (EtcdAlarm): NOSPACE on etcd-0"],
    ),
    (Check::Flags, |f, _| args(f, "feature-gates", "Beta=true,Alpha=true"), &["Alpha=true, which is alpha in 1.35"]),
    (Check::Flags, |f, _| args(f, "feature-gates", "Newer=false"), &["is unknown to 1.35"]),
    (Check::Flags, |f, _| args(f, "feature-gates", "AllBeta=true"), &["differs between minor versions"]),
    (Check::Flags, |f, _| args(f, "feature-gates", "Beta=true,kube :AllAlpha = t"), &["AllAlpha=true, which differs"]),
    (Check::Flags, |f, _| args(f, "feature-gates", ": AllBeta=1"), &["AllBeta=true, which differs"]),
    (Check::Flags, |f, _| args(f, "runtime-config", "api/all=true"), &["api/all", "rules out a rollback"]),
    (Check::Flags, |f, _| args(f, "runtime-config", "a.io/v1alpha1"), &["a.io/v1alpha1, which is alpha"]),
    (
        Check::Flags,
        |f, facts| {
            args(f, "feature-gates", "Beta=true");
            server(facts).metrics.features.clear();
        },
        &["whose stage no API server reported"],
    ),
];

impl Fixture {
    pub(super) fn input(&self) -> Input<'_> {
        let (observed, now) = (&self.world.observed, self.world.now);
        Input { object: &self.cluster, observed, settings: &self.settings, now }
    }
}

fn up() -> Fixture {
    let mut f = Fixture::up_for_upgrade(json!({"version": OLD}));
    f.world.observed.look = Look::Taken(well().into());
    f.reconcile();
    f
}

fn upgrade_ready(f: &Fixture) -> (String, String, String) {
    f.condition("UpgradeReady")
}

#[test]
fn each_check_is_red_alone_and_green_again_without_a_change_of_the_cluster() {
    let green = up();
    assert_eq!(upgrade_ready(&green).0, "True", "{:?}", upgrade_ready(&green));
    for (check, change, says) in RED {
        let (mut f, mut facts) = (green.copy(), well());
        change(&mut f, &mut facts);
        f.world.observed.look = Look::Taken(facts.into());
        if *check == Check::Flags {
            f.rest();
            f.nodes(Some(OLD));
        }
        // The condition says it before anybody asks for the next minor.
        f.reconcile();
        let (status, reason, message) = upgrade_ready(&f);
        assert_eq!((&*status, &*reason), ("False", "UpgradeBlocked"), "{check}: {message}");
        let findings = findings(&Tenant::new(f.input()), OLD.parse().unwrap(), "1.36".parse().unwrap());
        let checks: Vec<_> = findings.iter().map(|finding| finding.check).collect();
        assert_eq!(checks, [Some(*check)], "{message}");
        for what in *says {
            assert!(message.contains(what), "{what}: {message}");
        }
        assert!(message.contains(&format!("{check}: ")), "{message}");
        // Nor does it begin.
        f.world.log.clear();
        f.version(NEW);
        f.reconcile();
        let ready = f.condition("Ready");
        assert_eq!(ready.1, "UpgradeBlocked", "{check}: {}", ready.2);
        assert!(f.world.log.is_empty(), "{check}: {:#?}", f.world.log);
        let mut skips = f.copy();
        skips.cluster.spec.upgrade.skip_checks = vec![*check];
        skips.reconcile();
        assert_eq!(skips.condition("Ready").1, "RollingOut", "{check}: {:?}", skips.condition("Ready"));
        // It goes on by itself; flags are of the Cluster, and are corrected there.
        let spec = f.cluster.spec.clone();
        f.world.observed = green.world.observed.clone();
        f.cluster.spec = spec;
        if *check == Check::Flags {
            f.cluster.spec.api_server.extra_args.clear();
        }
        f.cluster.spec.kubelet.config.clear();
        f.reconcile();
        assert_eq!(f.condition("Ready").1, "RollingOut", "{check}: {:?}", f.condition("Ready"));
    }
}

#[test]
fn what_is_no_obstacle_is_no_finding() {
    let harmless: &[Change] = &[
        |_, facts| deprecated(facts, "1.37"),
        |f, _| args(f, "feature-gates", "Beta=true,kube:Stable=false,Alpha=false"),
        |f, _| args(f, "runtime-config", "a.io/v1beta1=true,b.io/v1alpha1=false"),
        |_, facts| server(facts).version.version = "1.35.4+k3s1".into(),
        |f, _| f.nodes(None),
        |f, _| gates(f, &[("NodeLogQuery", true), ("GitRepoVolumeDriver", false), ("Whatever", true)]),
    ];
    for change in harmless {
        let (mut f, mut facts) = (up(), well());
        change(&mut f, &mut facts);
        f.world.observed.look = Look::Taken(facts.into());
        f.reconcile();
        assert_eq!(upgrade_ready(&f).0, "True", "{:?}", upgrade_ready(&f));
    }
}

#[test]
fn all_findings_are_said_at_once() {
    let (mut f, mut facts) = (up(), well());
    for (_, change, _) in RED.iter().filter(|(check, ..)| ![Check::ApiServers, Check::Flags].contains(check)) {
        change(&mut f, &mut facts);
    }
    f.world.observed.look = Look::Taken(facts.into());
    f.version(NEW);
    f.reconcile();
    let message = f.condition("Ready").2;
    for check in [Check::RemovedApis, Check::ApiServices, Check::Admission, Check::Kubelets, Check::Etcd] {
        assert!(message.contains(&format!("{check}: ")), "{check}: {message}");
    }
}

#[test]
fn nothing_begins_before_it_was_looked_and_the_condition_stays() {
    let mut f = up();
    let before = upgrade_ready(&f);
    f.world.observed.look = Look::NotYet;
    f.reconcile();
    assert_eq!(upgrade_ready(&f), before, "of the last look");
    f.version(NEW);
    f.world.log.clear();
    f.reconcile();
    let ready = f.condition("Ready");
    assert!(ready.1 == "RollingOut" && ready.2.contains("the checks before the change"), "{ready:?}");
    assert!(f.world.log.is_empty(), "{:#?}", f.world.log);
    f.world.observed.look = Look::Taken(well().into());
    f.reconcile();
    assert!(!f.world.log.is_empty());
    let conditions = f.cluster.status.clone().unwrap().conditions;
    assert!(conditions::find(&conditions, ConditionType::UpgradeReady).is_none(), "one is being taken");
    let mut newest = Fixture::up(json!({"version": NEW}));
    newest.reconcile();
    let conditions = newest.cluster.status.clone().unwrap().conditions;
    assert!(conditions::find(&conditions, ConditionType::UpgradeReady).is_none(), "there is no next one");
}

/// An API server that is ready, and its pod's address.
fn pod(f: &mut Fixture, name: &str, address: &str) {
    let labels = json!({(labels::COMPONENT): names::APISERVER});
    let conditions = json!([{"type": "Ready", "status": "True", "lastTransitionTime": f.world.now}]);
    let status = json!({"podIP": address, "conditions": conditions});
    f.world.put(Fixture::key(Kind::Pod, name), json!({"metadata": {"name": name, "labels": labels}, "status": status}));
}

#[test]
fn it_is_looked_where_it_is_asked_for_or_at_rest() {
    let mut f = up();
    pod(&mut f, "kube-apiserver-a", "10.1.2.3");
    pod(&mut f, "kube-apiserver-b", "fd00::1");
    let asked = look_request(f.input()).unwrap();
    assert!(!asked.begins);
    assert_eq!(asked.server_name, format!("kube-apiserver.{}.svc", Fixture::cp_namespace()));
    let servers = [("kube-apiserver-a", "https://10.1.2.3:6443"), ("kube-apiserver-b", "https://[fd00::1]:6443")];
    assert_eq!(asked.servers, servers.map(|(pod, url)| (pod.to_owned(), url.to_owned())));
    assert_eq!(answers_request(f.input()), None, "no canary serves");
    f.version(NEW);
    assert!(look_request(f.input()).unwrap().begins);
    let mut newest = Fixture::up(json!({"version": NEW}));
    newest.reconcile();
    assert_eq!(look_request(newest.input()), None, "there is no next one");
    f.cluster.spec.paused = true;
    assert_eq!(look_request(f.input()), None);
}
