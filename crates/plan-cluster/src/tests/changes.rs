use super::*;
use crate::subject::Tenant;
use berth_api::common::AgentDelivery;
use berth_api::labels;

#[test]
fn a_patch_rolls_the_api_server_first() {
    let mut f = Fixture::up(json!({"version": "1.36.2"}));
    f.cluster.spec.version = "1.36.3".into();
    f.reconcile();
    assert!(f.image(names::APISERVER).ends_with(":v1.36.3"));
    assert!(f.image(names::CONTROLLER_MANAGER).ends_with(":v1.36.2"), "held back");
    for _ in 0..2 {
        f.roll_out(names::APISERVER);
        f.reconcile();
    }
    assert!(f.image(names::CONTROLLER_MANAGER).ends_with(":v1.36.3"));
    assert!(f.image(names::SCHEDULER).ends_with(":v1.36.3"));
}

#[test]
fn an_older_minor_is_refused_and_what_runs_goes_on() {
    let mut f = Fixture::up(json!({"version": "1.36.3"}));
    f.cluster.spec.version = "1.35.4".into();
    let message = blocked(&f.reconcile(), StageId::Spec, Reason::DowngradeUnsafe);
    assert!(message.contains("1.35.4 is older than 1.36, which this tenant has served"), "{message}");
    assert!(f.image(names::APISERVER).ends_with(":v1.36.3"));
    assert!(f.world.log.is_empty(), "{:#?}", f.world.log);
    // Drift is repaired all the same.
    f.world.remove(&Fixture::key(Kind::Service, names::APISERVER));
    f.reconcile();
    assert!(f.world.observed.get(&Fixture::key(Kind::Service, names::APISERVER)).is_some());
}

#[test]
fn an_unsupported_version_makes_nothing() {
    let mut f = Fixture::new(json!({"version": "1.29.1"}));
    let message = blocked(&f.reconcile(), StageId::Spec, Reason::VersionUnsupported);
    assert!(message.contains("1.34, 1.35, 1.36"), "{message}");
    assert!(f.world.log.is_empty());
    assert_eq!(f.condition("Ready").1, "VersionUnsupported");
}

#[test]
fn owned_flags_are_refused_with_the_alternative_and_what_runs_goes_on() {
    let mut f = Fixture::up(json!({"version": "1.36.3"}));
    let arg = |name: &str| vec![serde_json::from_value(json!({"name": name, "value": "x"})).unwrap()];
    f.cluster.spec.api_server.extra_args = arg("service-cluster-ip-range");
    let message = blocked(&f.reconcile(), StageId::Spec, Reason::InvalidSpec);
    assert!(
        message.contains("spec.apiServer.extraArgs: --service-cluster-ip-range") && message.contains("serviceCIDRs"),
        "{message}"
    );
    assert!(f.world.log.is_empty());
    // What the way back of a minor relies on is nobody's to set, however it is written.
    for name in ["emulated-version", "min-compatibility-version", "emulated_version", "emulation-forward-compatible"] {
        f.cluster.spec.api_server.extra_args = arg(name);
        let message = blocked(&f.reconcile(), StageId::Spec, Reason::InvalidSpec);
        assert!(
            message.contains("spec.apiServer.extraArgs: --") && message.contains("spec.upgrade"),
            "{name}: {message}"
        );
    }
    f.cluster.spec.api_server.extra_args = vec![];
    f.cluster.spec.scheduler.extra_args = arg("emulated-version");
    let message = blocked(&f.reconcile(), StageId::Spec, Reason::InvalidSpec);
    assert!(message.contains("spec.scheduler.extraArgs: --emulated-version"), "{message}");
    assert!(f.world.log.is_empty());
    f.cluster.spec.scheduler.extra_args = vec![];
    f.cluster.spec.api_server.extra_args = arg("v");
    f.reconcile();
    let log = ["apply ClusterRevision acme-9201d5e7/revision-2", "apply Deployment acme-9201d5e7/kube-apiserver"];
    assert_eq!(f.world.log, log, "recorded first");
}

#[test]
fn a_new_operator_rolls_nothing() {
    let mut f = Fixture::up(json!({"version": "1.36.3"}));
    f.settings.agent_image = "berth.dev/agent:newer".into();
    f.settings.agent_delivery = AgentDelivery::ImageVolume;
    f.settings.registry = "mirror.example.com".into();
    f.reconcile();
    assert!(f.world.log.is_empty(), "{:#?}", f.world.log);
    // With the next version it does change.
    f.cluster.spec.version = "1.36.4".into();
    f.reconcile();
    let d = f.world.observed.get(&Fixture::key(Kind::Deployment, names::APISERVER)).unwrap();
    let volumes = d["spec"]["template"]["spec"]["volumes"].to_string();
    assert!(volumes.contains(r#""reference":"berth.dev/agent:newer""#), "{volumes}");
}

#[test]
fn a_tenant_from_before_image_volumes_keeps_its_pods() {
    let mut f = Fixture::up(json!({"version": "1.36.3"}));
    let cp_namespace = ObjectKey::cluster(Kind::Namespace, Fixture::cp_namespace());
    let namespace = f.world.observed.objects.get_mut(&cp_namespace).unwrap();
    namespace["metadata"]["annotations"].as_object_mut().unwrap().remove(labels::AGENT_DELIVERY);
    f.settings.agent_delivery = AgentDelivery::ImageVolume;
    f.reconcile();
    let d = f.world.observed.get(&Fixture::key(Kind::Deployment, names::APISERVER)).unwrap();
    assert_eq!(d["spec"]["template"]["spec"]["initContainers"][0]["name"], "install-agent");
    let namespace = f.world.observed.get(&cp_namespace).unwrap();
    assert_eq!(namespace["metadata"]["annotations"][labels::AGENT_DELIVERY], "InitContainer");
}

#[test]
fn etcd_is_told_the_version_that_is_asked_for() {
    let mut f = Fixture::up(json!({"version": "1.36.3"}));
    record(&mut f, json!({"clusterUID": "u", "epoch": 1, "state": "Established", "version": "3.6.16", "replicas": 1}));
    for version in ["3.6.17", "3.5.35"] {
        f.cluster.spec.etcd.version = Some(version.into());
        f.reconcile();
        // Whether it can be, its own controller says.
        assert_eq!(etcd(&f)["version"], version);
    }
    f.cluster.spec.etcd.version = None;
    f.reconcile();
    assert_eq!(etcd(&f)["version"], "3.6.16", "what runs");
}

/// What the templates name, `EtcdCluster` notes.
#[test]
fn etcd_takes_a_version_that_the_templates_begin_to_name() {
    let noted = |f: &mut Fixture, noted: Option<&str>, runs: &str| {
        record(f, json!({"clusterUID": "u", "epoch": 1, "state": "Established", "version": runs, "replicas": 1}));
        let key = Fixture::key(Kind::EtcdCluster, names::ETCD);
        let live = f.world.observed.objects.get_mut(&key).unwrap();
        live["spec"]["version"] = runs.into();
        live["metadata"]["annotations"][labels::ETCD_DEFAULT] = json!(noted);
        f.reconcile();
        let live = f.world.observed.objects[&key].clone();
        let now = |v: &Value| v.as_str().unwrap().to_owned();
        (now(&live["spec"]["version"]), now(&live["metadata"]["annotations"][labels::ETCD_DEFAULT]))
    };
    let mut f = Fixture::up(json!({"version": "1.36.3"}));
    let of = |version: &str, named: &str| (version.to_owned(), named.to_owned());
    // Of an operator that noted nothing: as it is.
    assert_eq!(noted(&mut f, None, "3.5.35"), of("3.5.35", "3.6.16"));
    assert_eq!(noted(&mut f, Some("3.6.16"), "3.5.35"), of("3.5.35", "3.6.16"));
    assert_eq!(noted(&mut f, Some("3.5.35"), "3.5.35"), of("3.6.16", "3.6.16"), "it is named from now on");
    assert_eq!(noted(&mut f, Some("3.6.17"), "3.6.17"), of("3.6.17", "3.6.17"), "a release went back");
    // It is under way.
    let key = Fixture::key(Kind::EtcdCluster, names::ETCD);
    record(&mut f, json!({"clusterUID": "u", "epoch": 1, "state": "Established", "version": "3.5.35", "replicas": 1}));
    let live = f.world.observed.objects.get_mut(&key).unwrap();
    live["spec"]["version"] = "3.6.16".into();
    live["metadata"]["annotations"][labels::ETCD_DEFAULT] = "3.6.16".into();
    f.reconcile();
    assert_eq!(etcd(&f)["version"], "3.6.16");
}

/// An image is judged by what is to run, and not by what the templates name; one of the version that comes waits.
#[test]
fn an_image_of_etcd_is_of_what_runs_or_of_what_comes() {
    const RUNS: &str = "mirror.example.com/own:v3.5.35-acme";
    const COMES: &str = "mirror.example.com/own:v3.6.16-acme";
    let key = Fixture::key(Kind::EtcdCluster, names::ETCD);
    let own = |image: &str| [(names::ETCD.to_owned(), image.to_owned())].into();
    // What the templates named before, whether a release is under way, the image: which the etcd gets, and whether it is refused.
    for (noted, is_under_way, image, gets, is_refused) in [
        // It does not follow the templates: what runs counts.
        (Some("3.6.16"), false, RUNS, RUNS, false),
        (Some("3.6.16"), false, COMES, RUNS, true),
        (None, false, RUNS, RUNS, false),
        // It follows once the release is through.
        (Some("3.5.35"), true, RUNS, RUNS, false),
        (Some("3.5.35"), true, COMES, RUNS, false),
        (Some("3.5.35"), false, COMES, COMES, false),
        (Some("3.5.35"), false, RUNS, RUNS, true),
        (Some("3.5.35"), true, "mirror.example.com/own:v3.4.0", RUNS, true),
    ] {
        let mut f = Fixture::up(json!({"version": "1.36.3"}));
        f.settings.writers = berth_plan::settings::Writers::anything();
        record(
            &mut f,
            json!({"clusterUID": "u", "epoch": 1, "state": "Established", "version": "3.5.35", "replicas": 1}),
        );
        let live = f.world.observed.objects.get_mut(&key).unwrap();
        live["spec"]["version"] = "3.5.35".into();
        live["spec"]["images"] = json!({"overrides": {"etcd": RUNS}});
        live["metadata"]["annotations"][labels::ETCD_DEFAULT] = json!(noted);
        if noted.is_none() {
            live["metadata"]["annotations"].as_object_mut().unwrap().remove(labels::ETCD_DEFAULT);
        }
        let rollout = is_under_way.then(berth_api::cluster::RolloutStatus::default);
        f.cluster.status.as_mut().unwrap().rollout = rollout;
        f.cluster.spec.images.overrides = own(image);
        let judged = |f: &Fixture| {
            let facts = Facts::judge(f.input());
            crate::etcd::stage(&Tenant { release: facts.release.clone().unwrap(), ..facts.written.clone() })
        };
        for action in judged(&f).actions {
            f.world.apply_action(&action);
        }
        let (spec, case) = (etcd(&f), format!("{noted:?} {is_under_way} {image}"));
        let version = if gets == COMES { "3.6.16" } else { "3.5.35" };
        let found = (&spec["images"]["overrides"]["etcd"], &spec["version"]);
        assert_eq!(found, (&json!(gets), &json!(version)), "{case}");
        f.others();
        let stage = judged(&f);
        assert!(stage.actions.is_empty(), "{case}: {:?}", stage.actions);
        let is_invalid = matches!(stage.state, State::Blocked { reason: Reason::InvalidSpec, .. });
        assert_eq!(is_invalid, is_refused, "{case}: {:?}", stage.state);
    }
}

#[test]
fn etcd_is_told_how_many_members_there_are_to_be() {
    let mut f = Fixture::up(json!({"version": "1.36.3"}));
    for replicas in [3, 5, 1] {
        f.cluster.spec.etcd.replicas = replicas;
        f.reconcile();
        assert_eq!(etcd(&f)["replicas"], replicas);
    }
    // Not while something else of the etcd is refused.
    f.cluster.spec.etcd.replicas = 3;
    f.cluster.spec.etcd.version = Some("3.9.0".into());
    f.reconcile();
    assert_eq!(etcd(&f)["replicas"], 1);
}

/// The etcd controller keeps this beside the data.
fn record(f: &mut Fixture, record: Value) {
    let key = Fixture::key(Kind::ConfigMap, "etcd-bootstrap");
    let labels = json!({(labels::MANAGED_BY): labels::MANAGED_BY_VALUE, (labels::ETCD_CLUSTER): names::ETCD});
    let notes = json!({(labels::ETCD_RECORD): record.to_string()});
    f.world.put(key.clone(), json!({"metadata": {"name": key.name, "labels": labels, "annotations": notes}}));
}

fn etcd(f: &Fixture) -> Value {
    f.world.observed.get(&Fixture::key(Kind::EtcdCluster, names::ETCD)).unwrap()["spec"].clone()
}

#[test]
fn an_etcd_that_is_made_anew_is_as_its_data_was_kept() {
    let wishes: [(Value, Reason, &str); 1] =
        [(json!({"version": "3.9.0"}), Reason::VersionUnsupported, "3.9.0 is not supported")];
    for (wish, reason, says) in wishes {
        let mut f = Fixture::up(json!({"version": "1.36.3"}));
        // As an earlier operator made it: its default was another one.
        record(&mut f, json!({"clusterUID": "of-before", "version": "3.6.12", "replicas": 1}));
        f.world.remove(&Fixture::key(Kind::EtcdCluster, names::ETCD));
        f.cluster.spec.etcd = serde_json::from_value(wish.clone()).unwrap();
        let message = blocked(&last(&mut f), StageId::Etcd, reason);
        assert!(message.contains(says), "{message}");
        assert_eq!((&etcd(&f)["version"], &etcd(&f)["replicas"]), (&json!("3.6.12"), &json!(1)), "{wish}");
        f.cluster.spec.etcd = serde_json::from_value(json!({})).unwrap();
        assert_eq!(last(&mut f).plan.first_problem(), None, "{wish}");
        assert_eq!(etcd(&f)["version"], "3.6.12", "{wish}");
    }
}

#[test]
fn an_etcd_cluster_that_is_not_as_its_members_is_put_right() {
    let mut f = Fixture::up(json!({"version": "1.36.3"}));
    let before = etcd(&f);
    record(&mut f, json!({"clusterUID": "of-before", "version": before["version"], "replicas": 1}));
    let key = Fixture::key(Kind::EtcdCluster, names::ETCD);
    f.world.put(key, json!({"spec": {"version": "3.5.35", "replicas": 3}}));
    assert_eq!(last(&mut f).plan.first_problem(), None);
    assert_eq!(etcd(&f), before);
}

#[test]
fn an_etcd_without_a_record_that_can_be_is_as_it_is() {
    for garbled in [
        json!("nonsense"),
        json!({"version": "3.5.35", "replicas": 3}),
        json!({"clusterUID": "of-before", "version": "", "replicas": 2}),
    ] {
        let mut f = Fixture::up(json!({"version": "1.36.3"}));
        let before = etcd(&f);
        record(&mut f, garbled.clone());
        assert_eq!(last(&mut f).plan.first_problem(), None, "{garbled}");
        assert_eq!(etcd(&f), before, "{garbled}");
        // Nor does anything else say what it was.
        f.world.remove(&Fixture::key(Kind::EtcdCluster, names::ETCD));
        f.cluster.spec.etcd.replicas = 3;
        assert_eq!(last(&mut f).plan.first_problem(), None, "{garbled}");
        assert_eq!((&etcd(&f)["version"], &etcd(&f)["replicas"]), (&before["version"], &json!(3)), "{garbled}");
    }
}

#[test]
fn renewal_changes_certificates_and_rolls_nothing() {
    let mut f = Fixture::up(json!({"version": "1.36.3"}));
    let before = f.world.observed.secrets.get(&Fixture::key(Kind::Secret, "acme-ca")).unwrap().digests.clone();
    f.world.now = f.world.now.saturating_add(jiff::SignedDuration::from_hours(70 * 24)).unwrap();
    f.reconcile();
    assert!(f.world.log.iter().any(|l| l.contains("kube-apiserver-pki")), "{:#?}", f.world.log);
    assert!(f.world.log.iter().any(|l| l.contains("publish")), "the published kubeconfig follows");
    assert!(!f.world.log.iter().any(|l| l.contains("Deployment")), "{:#?}", f.world.log);
    let after = f.world.observed.secrets.get(&Fixture::key(Kind::Secret, "acme-ca")).unwrap().digests.clone();
    assert_eq!(before, after, "a CA is never replaced");
}

#[test]
fn a_changed_name_reissues_just_what_it_must() {
    let mut f = Fixture::up(json!({"version": "1.36.3"}));
    f.cluster.spec.endpoint.cert_sans = vec!["api.acme.example".into()];
    f.reconcile();
    assert_eq!(f.world.log.len(), 1, "{:#?}", f.world.log);
    assert!(
        f.world.log[0].contains("kube-apiserver-pki") && f.world.log[0].contains("certificate apiserver"),
        "{:#?}",
        f.world.log
    );
}

#[test]
fn what_is_no_longer_wanted_is_pruned_once_all_is_settled() {
    let mut f = Fixture::up(json!({"version": "1.36.3", "replicas": 2}));
    let budget = Fixture::key(Kind::PodDisruptionBudget, names::APISERVER);
    assert!(f.world.observed.get(&budget).is_some());
    f.cluster.spec.replicas = 1;
    f.reconcile();
    assert!(f.world.observed.get(&budget).is_some(), "not while it rolls");
    for _ in 0..3 {
        f.others();
        f.reconcile();
    }
    assert!(f.world.observed.get(&budget).is_none(), "{:#?} {:?}", f.world.log, f.plan().plan.first_problem());
}

#[test]
fn paused_changes_nothing_and_says_so() {
    let mut f = Fixture::up(json!({"version": "1.36.3"}));
    f.cluster.spec.paused = true;
    f.reconcile();
    f.others();
    f.world.log.clear();
    f.world.remove(&Fixture::key(Kind::Service, names::APISERVER));
    f.reconcile();
    assert!(f.world.log.is_empty(), "{:#?}", f.world.log);
    assert_eq!(f.condition("Progressing").1, "Paused");
    assert_eq!(f.condition("Ready").0, "False", "something is to be done");
}

#[test]
fn its_etcd_is_paused_and_goes_on_with_it_and_nothing_else_of_it_is_written() {
    let mut f = Fixture::up(json!({"version": "1.36.3"}));
    let key = Fixture::key(Kind::EtcdCluster, names::ETCD);
    let spec = |f: &Fixture| f.world.observed.get(&key).unwrap()["spec"].clone();
    let before = spec(&f);
    f.cluster.spec.paused = true;
    f.reconcile();
    f.others();
    f.reconcile();
    assert_eq!(f.world.log, [format!("apply {key}")]);
    assert_eq!((f.condition("Ready").0, f.condition("Degraded").0), ("True".into(), "False".into()));
    f.world.log.clear();
    f.cluster.spec.etcd.resources = Some(serde_json::from_value(json!({"requests": {"cpu": "1"}})).unwrap());
    f.reconcile();
    assert_eq!((f.world.log.len(), f.condition("Ready").0), (0, "False".into()), "{:#?}", f.world.log);
    f.world.put(key.clone(), json!({"spec": {"paused": false}}));
    f.reconcile();
    let mut paused = before.clone();
    paused["paused"] = json!(true);
    assert_eq!(spec(&f), paused, "paused again, and as it runs");
    f.cluster.spec.paused = false;
    f.reconcile();
    let mut after = before;
    after["resources"] = json!({"requests": {"cpu": "1"}});
    assert_eq!(spec(&f), after);
}

fn is_paused(f: &Fixture) -> bool {
    etcd(f)["paused"] == true
}

#[test]
fn an_etcd_that_forms_is_paused_once_it_is_formed_and_what_is_wrong_with_it_is_still_reported() {
    let up = || {
        let mut f = Fixture::up(json!({"version": "1.36.3"}));
        let key = Fixture::key(Kind::EtcdCluster, names::ETCD);
        let status = &mut f.world.observed.objects.get_mut(&key).unwrap()["status"];
        status.as_object_mut().unwrap().remove("clusterId");
        status["conditions"][0] = json!({
            "type": "Ready", "status": "False", "reason": "DataLost", "message": "etcd-0", "lastTransitionTime": "2026-01-01T00:00:00Z",
        });
        f.cluster.spec.paused = true;
        f
    };
    let mut f = up();
    f.reconcile();
    assert!(!is_paused(&f), "its record must grow");
    assert_eq!((f.condition("Degraded").1, f.condition("Progressing").1), ("DataLost".into(), "Paused".into()));
    f.others();
    f.reconcile();
    assert!(is_paused(&f));
    // No status survives a restore; what is recorded beside the data does.
    let mut f = up();
    record(&mut f, json!({"clusterUID": "of-before", "replicas": 1, "state": "Established"}));
    f.reconcile();
    assert!(is_paused(&f));
}

#[test]
fn a_pause_begins_and_ends_also_where_the_plan_is_stuck() {
    let mut f = Fixture::up(json!({"version": "1.36.3"}));
    let cp_namespace = Fixture::namespace();
    let networks = |f: &mut Fixture, says: &str| {
        let live = f.world.observed.objects.get_mut(&cp_namespace).unwrap();
        live["metadata"]["annotations"][labels::NETWORK] = says.into();
    };
    networks(&mut f, "nonsense");
    f.cluster.spec.paused = true;
    blocked(&f.reconcile(), StageId::Namespace, Reason::InvalidSpec);
    assert!(is_paused(&f));
    f.cluster.spec.paused = false;
    f.reconcile();
    assert!(!is_paused(&f));
    // Not in a namespace that it has not taken over, be it a copy of its own.
    let mut copy = Fixture::up(json!({"version": "1.36.3"}));
    copy.world.observed.objects.get_mut(&cp_namespace).unwrap()["metadata"]["uid"] = "of-a-copy".into();
    copy.world.put(Fixture::key(Kind::EtcdCluster, names::ETCD), json!({"spec": {"paused": true}}));
    blocked(&copy.reconcile(), StageId::Namespace, Reason::ControlPlaneLost);
    assert!(copy.world.log.is_empty(), "{:#?}", copy.world.log);
    let status = copy.cluster.status.unwrap();
    assert_eq!(status.adopt, copy.cluster.metadata.uid, "it may be taken over");
    f.cluster.metadata.uid = Some("new-uid".into());
    f.cluster.spec.paused = true;
    f.world.log.clear();
    f.reconcile();
    assert!(f.world.log.is_empty(), "{:#?}", f.world.log);
}

#[test]
fn a_cluster_that_is_born_paused_makes_nothing() {
    let mut f = Fixture::new(json!({"version": "1.36.3", "paused": true}));
    f.reconcile();
    assert!(f.world.log.is_empty(), "{:#?}", f.world.log);
    f.cluster.spec.paused = false;
    f.reconcile();
    assert!(!f.world.log.is_empty());
}

/// docs/operate.md: what to do when the database is full.
#[test]
fn a_quota_that_somebody_sets_on_the_etcd_cluster_stays() {
    let mut f = Fixture::up(json!({"version": "1.36.3"}));
    let key = Fixture::key(Kind::EtcdCluster, names::ETCD);
    f.world.put(key.clone(), json!({"spec": {"quotaBackendBytes": 4_294_967_296_i64}}));
    f.reconcile();
    assert!(f.world.log.is_empty(), "{:#?}", f.world.log);
    f.cluster.spec.etcd.resources = Some(serde_json::from_value(json!({"requests": {"cpu": "1"}})).unwrap());
    f.reconcile();
    let live = f.world.observed.get(&key).unwrap();
    assert_eq!(
        (&live["spec"]["quotaBackendBytes"], &live["spec"]["resources"]["requests"]["cpu"]),
        (&json!(4_294_967_296_i64), &json!("1"))
    );
}
