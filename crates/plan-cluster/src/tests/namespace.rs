use super::*;
use berth_api::labels;

fn relabel(f: &mut Fixture, label: &str, value: Value) {
    f.world.observed.objects.get_mut(&Fixture::namespace()).unwrap()["metadata"]["labels"][label] = value;
}

const DEFAULT: &str = r#"{"serviceCIDRs":["10.112.0.0/16"],"podCIDRs":["10.160.0.0/16"],"dnsDomain":"cluster.local"}"#;

fn notes(f: &mut Fixture) -> &mut serde_json::Map<String, Value> {
    let live = f.world.observed.objects.get_mut(&Fixture::namespace()).unwrap();
    live["metadata"]["annotations"].as_object_mut().unwrap()
}

/// What `Retain` leaves, with another `Cluster` of that name that is to take it over.
fn kept(network: Value) -> Fixture {
    let mut f = Fixture::up(json!({"version": "1.36.3"}));
    let roots = ["acme-ca", "acme-proxy", "acme-sa", names::APISERVER_ENCRYPTION];
    let objects = &mut f.world.observed.objects;
    objects.retain(|k, _| k.kind == Kind::Namespace || roots.contains(&&*k.name) || k.name.starts_with("templates-"));
    f.world.observed.published = Published::Absent;
    f.world.observed.api = ApiProbe::NotAsked;
    f.cluster.metadata.uid = Some("new-uid".into());
    f.cluster.metadata.annotations = Some(BTreeMap::from([(labels::ADOPT.into(), "cluster-uid".into())]));
    f.cluster.status = None;
    f.cluster.spec.network = serde_json::from_value(network).unwrap();
    f
}

#[test]
fn the_networks_are_recorded_once_and_put_back() {
    let mut f = Fixture::up(json!({"version": "1.36.3"}));
    assert_eq!(notes(&mut f)[labels::NETWORK], DEFAULT);
    // A tenant from before, or somebody's hand.
    notes(&mut f).remove(labels::NETWORK);
    f.reconcile();
    assert_eq!(f.world.log, [format!("apply {}", Fixture::namespace())]);
    assert_eq!(notes(&mut f)[labels::NETWORK], DEFAULT);
    // Says the same, and something that a newer operator knows.
    let newer = format!("{}, \"more\": 1}}", DEFAULT.trim_end_matches('}').replace(':', " : "));
    notes(&mut f).insert(labels::NETWORK.into(), newer.clone().into());
    assert_eq!(f.reconcile().plan.first_problem(), None);
    assert_eq!(notes(&mut f)[labels::NETWORK], newer, "left as it is");
}

#[test]
fn the_teams_namespace_is_recorded_once_and_put_back() {
    let mut f = Fixture::up(json!({"version": "1.36.3"}));
    assert_eq!(notes(&mut f)[labels::TEAM_UID], "team-uid");
    notes(&mut f).remove(labels::TEAM_UID);
    f.reconcile();
    assert_eq!(f.world.log, [format!("apply {}", Fixture::namespace())]);
    assert_eq!(notes(&mut f)[labels::TEAM_UID], "team-uid");
    f.world.log.clear();
    f.world.observed.team_uid = None;
    f.reconcile();
    assert!(f.world.log.is_empty(), "who may not read the namespace takes nothing away: {:?}", f.world.log);
}

#[test]
fn another_team_in_a_namespace_of_that_name_gets_nothing() {
    let allowed = |f: &mut Fixture, uid: &str| drop(notes(f).insert(labels::ALLOW_ADOPTION.into(), uid.into()));
    let mut f = kept(json!({}));
    f.world.observed.team_uid = Some("other-team-uid".into());
    for not_this_one in [None, Some("team-uid"), Some("true")] {
        if let Some(uid) = not_this_one {
            allowed(&mut f, uid);
        }
        let said = blocked(&f.reconcile(), StageId::Namespace, Reason::AdoptionRequired);
        assert!(f.world.log.is_empty(), "{:?}", f.world.log);
        for part in ["UID team-uid; this one's is other-team-uid", "berth.dev/allow-adoption=other-team-uid"] {
            assert!(said.contains(part), "{said}");
        }
    }
    allowed(&mut f, "other-team-uid");
    f.reconcile();
    assert_eq!(f.world.log[0], format!("apply {}", Fixture::namespace()));
    assert_eq!(notes(&mut f)[labels::TEAM_UID], "other-team-uid");
    // The owner's own permission is needed as ever.
    let mut f = kept(json!({}));
    f.cluster.metadata.annotations = None;
    blocked(&f.reconcile(), StageId::Namespace, Reason::AdoptionRequired);
    // A tenant of an earlier build.
    let mut f = kept(json!({}));
    notes(&mut f).remove(labels::TEAM_UID);
    f.world.observed.team_uid = Some("other-team-uid".into());
    f.reconcile();
    assert_eq!(f.world.log[0], format!("apply {}", Fixture::namespace()));
}

#[test]
fn what_was_kept_is_not_taken_over_with_other_networks() {
    let cases = [
        (
            json!({"serviceCIDRs": ["10.50.0.0/16"]}),
            r#"spec.network.serviceCIDRs: ["10.50.0.0/16"] is not"#,
            r#": ["10.112.0.0/16"]. spec"#,
        ),
        (
            json!({"podCIDRs": ["10.51.0.0/16"]}),
            r#"spec.network.podCIDRs: ["10.51.0.0/16"] is not"#,
            r#": ["10.160.0.0/16"]. spec"#,
        ),
        (
            json!({"dnsDomain": "acme.example"}),
            r#"spec.network.dnsDomain: "acme.example" is not"#,
            r#": "cluster.local". spec"#,
        ),
    ];
    for (network, asked, had) in cases {
        let mut f = kept(network);
        let before = notes(&mut f).clone();
        for adopt in [true, false] {
            if !adopt {
                f.cluster.metadata.annotations = None;
            }
            let message = blocked(&f.reconcile(), StageId::Namespace, Reason::InvalidSpec);
            assert!(message.contains(asked) && message.contains(had), "{message}");
            assert!(message.contains("delete this Cluster") && message.contains("The namespace stays"), "{message}");
            assert!(message.contains(r#""podCIDRs":["10.160.0.0/16"]"#), "what to set: {message}");
        }
        assert!(f.world.log.is_empty(), "{:#?}", f.world.log);
        assert_eq!(f.cluster.status.as_ref().unwrap().control_plane_namespace, None, "not taken over");
        // As it says: the namespace stays.
        f.cluster.spec.deletion.protected = false;
        f.cluster.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
        assert!(f.reconcile().plan.finished);
        assert_eq!(notes(&mut f).clone(), before);
    }
}

#[test]
fn what_was_kept_is_taken_over_with_its_networks_or_without_a_record() {
    let mut f = kept(json!({}));
    f.reconcile();
    assert!(f.world.observed.get(&Fixture::key(Kind::EtcdCluster, names::ETCD)).is_some(), "{:#?}", f.world.log);
    let mut f = kept(json!({"serviceCIDRs": ["10.50.0.0/16"]}));
    notes(&mut f).remove(labels::NETWORK);
    f.reconcile();
    assert_eq!(notes(&mut f)[labels::NETWORK], DEFAULT.replace("10.112.", "10.50."));
    assert!(f.world.observed.get(&Fixture::key(Kind::EtcdCluster, names::ETCD)).is_some(), "{:#?}", f.world.log);
    // Nothing ran with what cannot be.
    let mut f = kept(json!({"serviceCIDRs": ["10.50.0.1/16"]}));
    notes(&mut f).remove(labels::NETWORK);
    blocked(&f.reconcile(), StageId::Spec, Reason::InvalidSpec);
    assert_eq!(notes(&mut f).get(labels::NETWORK), None);
}

#[test]
fn what_runs_stays_when_its_record_says_something_else() {
    let other = DEFAULT.replace("10.112.", "10.50.");
    let long = format!("{DEFAULT}{}", " ".repeat(1024));
    let short = DEFAULT.replace(r#","dnsDomain":"cluster.local""#, "");
    let bits = DEFAULT.replace("10.112.0.0", "10.112.0.1");
    let garbled = "annotation berth.dev/network of namespace acme-9201d5e7 is not valid";
    for (text, says) in [
        (
            &*other,
            r#"annotation berth.dev/network of the namespace. Set it back to {"serviceCIDRs":["10.112.0.0/16"],"podCIDRs":["10.160.0.0/16"],"dnsDomain":"cluster.local"}"#,
        ),
        ("", garbled),
        ("{}", garbled),
        ("[]", garbled),
        (r#"{"serviceCIDRs":"10.112.0.0/16","podCIDRs":["10.160.0.0/16"],"dnsDomain":"cluster.local"}"#, garbled),
        (&*long, garbled),
        (&*short, garbled),
        (&*bits, garbled),
    ] {
        let mut f = Fixture::up(json!({"version": "1.36.3"}));
        notes(&mut f).insert(labels::NETWORK.into(), text.into());
        f.cluster.spec.replicas = 2;
        let message = blocked(&f.reconcile(), StageId::Namespace, Reason::InvalidSpec);
        assert!(message.contains(says), "{text}: {message}");
        assert!(!message.contains("delete this Cluster"), "its data would go along: {message}");
        assert!(f.world.log.is_empty(), "{text}: {:#?}", f.world.log);
        assert_eq!(f.condition("Available").0, "True", "it still serves");
        notes(&mut f).remove(labels::NETWORK);
        assert_eq!(last(&mut f).plan.first_problem(), None, "{text}");
        assert_eq!(notes(&mut f)[labels::NETWORK], DEFAULT);
    }
}

#[test]
fn somebody_elses_namespace_is_left_alone() {
    let mut f = Fixture::new(json!({"version": "1.36.3"}));
    f.world.put(Fixture::namespace(), json!({"metadata": {"name": Fixture::cp_namespace()}}));
    let message = blocked(&f.reconcile(), StageId::Namespace, Reason::ForeignObject);
    assert!(message.contains(&Fixture::cp_namespace()), "{message}");
    assert!(f.world.log.is_empty());
    assert_eq!(f.cluster.status.as_ref().unwrap().control_plane_namespace, None);
}

#[test]
fn a_lost_namespace_is_not_made_anew() {
    let mut f = Fixture::up(json!({"version": "1.36.3"}));
    f.world.observed = berth_plan::Observed {
        published: f.world.observed.published.clone(),
        look: f.world.observed.look.clone(),
        ..Default::default()
    };
    for _ in 0..2 {
        let message = blocked(&f.reconcile(), StageId::Namespace, Reason::ControlPlaneLost);
        assert!(message.contains("does not create it again"), "{message}");
        assert!(f.world.log.is_empty());
    }
    assert_eq!(f.condition("Ready").1, "ControlPlaneLost");
    assert_eq!(f.cluster.status.as_ref().unwrap().adopt, None, "it is not there yet");
}

#[test]
fn a_restored_cluster_adopts_with_its_keys() {
    let mut f = Fixture::up(json!({"version": "1.36.3"}));
    let since = |f: &Fixture| f.cluster.status.as_ref().and_then(|status| status.since.clone());
    let made = since(&f).expect("it has a CA");
    f.world.now += jiff::SignedDuration::from_hours(24);
    f.cluster.metadata.uid = Some("new-uid".into());
    f.cluster.status = None;
    let message = blocked(&f.reconcile(), StageId::Namespace, Reason::AdoptionRequired);
    assert!(message.contains("berth.dev/adopt=cluster-uid"), "{message}");
    assert_eq!(f.cluster.status.as_ref().unwrap().adopt.as_deref(), Some("cluster-uid"));
    assert!(f.world.log.is_empty());
    f.cluster.metadata.annotations = Some(BTreeMap::from([(labels::ADOPT.into(), "wrong".into())]));
    blocked(&f.reconcile(), StageId::Namespace, Reason::AdoptionRequired);
    f.cluster.metadata.annotations = Some(BTreeMap::from([(labels::ADOPT.into(), "cluster-uid".into())]));
    f.reconcile();
    assert_eq!(f.world.log, [format!("apply {}", Fixture::namespace())], "nothing else is touched");
    assert_eq!(f.cluster.status.as_ref().unwrap().adopt, None);
    f.others();
    f.reconcile();
    assert_eq!(f.condition("Ready").0, "True");
    assert_eq!(since(&f), Some(made), "the tenant is no younger for that");
    // The annotation may stay or go.
    f.cluster.metadata.annotations = None;
    f.reconcile();
    assert_eq!(f.condition("Ready").0, "True");
}

fn ends(f: &mut Fixture) {
    f.world.observed.objects.get_mut(&Fixture::namespace()).unwrap()["metadata"]["deletionTimestamp"] =
        json!("2026-01-01T00:00:00Z");
}

#[test]
fn a_namespace_that_ends_is_lost_from_the_beginning_and_in_the_same_words_to_the_end() {
    let mut f = Fixture::up(json!({"version": "1.36.3"}));
    ends(&mut f);
    let first = blocked(&f.reconcile(), StageId::Namespace, Reason::ControlPlaneLost);
    assert_eq!(f.condition("Available").0, "True", "it serves yet");
    for way_out in [
        "kubectl -n acme-9201d5e7 get secrets,configmaps -o yaml > acme-9201d5e7.yaml",
        r#"kubectl get pv -o jsonpath='{.items[?(@.spec.claimRef.namespace=="acme-9201d5e7")].metadata.name}' | xargs kubectl patch pv -p '{"spec":{"persistentVolumeReclaimPolicy":"Retain"}}'"#,
        "berth.dev/adopt=cluster-uid",
    ] {
        assert!(first.contains(way_out), "{first}");
    }
    let less: [fn(&mut Fixture); 4] = [
        |_| {},
        |f| f.world.observed.objects.retain(|key, _| !matches!(key.kind, Kind::Secret | Kind::EtcdCluster)),
        |f| f.world.observed.objects.retain(|key, _| key.kind == Kind::Namespace),
        |f| f.world.observed.denied = true,
    ];
    for takes in less {
        takes(&mut f);
        f.reconcile();
        for type_ in ["Degraded", "Ready"] {
            let (status, reason, message) = f.condition(type_);
            let bad = if type_ == "Degraded" { "True" } else { "False" };
            assert_eq!((&*status, &*reason), (bad, "ControlPlaneLost"));
            assert!(message.ends_with(&first), "{message}");
        }
        assert_eq!(f.cluster.status.as_ref().unwrap().adopt, None, "nothing is there to be taken over");
        assert!(f.world.log.is_empty(), "{:#?}", f.world.log);
    }
}

#[test]
fn a_namespace_of_an_earlier_cluster_that_ends_is_waited_for() {
    let mut f = Fixture::up(json!({"version": "1.36.3"}));
    ends(&mut f);
    f.cluster.metadata.uid = Some("new-uid".into());
    f.cluster.status = None;
    let planned = f.reconcile();
    assert!(matches!(planned.plan.stage(StageId::Namespace).unwrap().state, State::Waiting { .. }));
    assert_eq!(f.condition("Degraded").0, "False");
    assert!(f.world.log.is_empty());
}

#[test]
fn a_team_namespace_that_ends_is_told_where_its_cluster_is_protected_and_the_tenant_is_kept() {
    let mut f = Fixture::up(json!({"version": "1.36.3"}));
    f.world.observed.team_namespace_ends = true;
    f.world.observed.published = Published::Absent;
    let scheduler = Fixture::key(Kind::Deployment, names::SCHEDULER);
    f.world.remove(&scheduler);
    let message = blocked(&f.reconcile(), StageId::Deletion, Reason::NamespaceDeleting);
    assert!(message.contains("Secret team-a/acme-kubeconfig as well"), "{message}");
    assert!(message.contains("docs/troubleshoot.md, \"A team's namespace was deleted\""), "{message}");
    assert_eq!(f.world.log, [format!("apply {scheduler}")], "nothing is written into a namespace that ends");
    assert_eq!((f.condition("Degraded").0, f.condition("Degraded").1), ("True".into(), "NamespaceDeleting".into()));
    assert_eq!(f.condition("Available").0, "True");
    // Without the chart's policy it is told to end, and held by its finalizer: the words stay.
    f.cluster.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
    f.world.log.clear();
    assert_eq!(blocked(&f.reconcile(), StageId::Deletion, Reason::NamespaceDeleting), message);
    assert!(f.world.log.is_empty());
}

#[test]
fn a_team_namespace_that_ends_takes_along_what_is_not_protected_and_nothing_begins_in_it() {
    let open = json!({"version": "1.36.3", "deletion": {"protected": false}});
    let mut f = Fixture::up(open.clone());
    f.world.observed.team_namespace_ends = true;
    f.world.observed.published = Published::Absent;
    assert_eq!(f.reconcile().plan.first_problem(), None, "it is about to be deleted, as asked");
    assert!(f.world.log.is_empty(), "{:#?}", f.world.log);
    for spec in [open, json!({"version": "1.36.3"})] {
        let mut f = Fixture::new(spec);
        f.world.observed.team_namespace_ends = true;
        f.reconcile();
        assert!(f.world.log.is_empty(), "{:#?}", f.world.log);
    }
}

#[test]
fn a_label_of_another_cluster_is_not_ours() {
    let mut f = Fixture::up(json!({"version": "1.36.3"}));
    relabel(&mut f, labels::CLUSTER_NAME, json!("other"));
    blocked(&f.reconcile(), StageId::Namespace, Reason::ForeignObject);
    assert!(f.world.log.is_empty());
}

#[test]
fn the_pinned_templates_keep_their_labels_without_their_texts_being_read() {
    let mut f = Fixture::up(json!({"version": "1.36.3"}));
    let is_pin = |k: &&ObjectKey| k.kind == Kind::ConfigMap && k.name.starts_with("templates-");
    let key = f.world.observed.objects.keys().find(is_pin).unwrap().clone();
    let pin = |f: &Fixture| f.world.observed.get(&key).unwrap().clone();
    let labels = pin(&f)["metadata"]["labels"].clone();
    for label in labels.as_object().unwrap().keys() {
        for value in [Value::Null, json!("other")] {
            let live = f.world.observed.objects.get_mut(&key).unwrap();
            live.as_object_mut().unwrap().remove("data");
            live["metadata"]["labels"][label] = value;
            f.reconcile();
            assert_eq!(f.world.log, [format!("apply {key}")], "{label}");
            assert_eq!(pin(&f)["metadata"]["labels"], labels);
            assert!(pin(&f)["data"].is_object(), "whole, should it be gone by then");
            f.world.log.clear();
        }
    }
}
