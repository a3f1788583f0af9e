//! An empty volume starts until the cluster is formed, and never again.

use super::*;
use berth_api::common::AgentDelivery;
use berth_api::labels;

/// Name, what is wrong with the probe.
type Flaw = (&'static str, fn(&mut EtcdProbe));

/// Name, what is lost.
type Loss = (&'static str, fn(&mut Etcd));

#[test]
fn it_is_formed_exactly_when_all_members_agree_in_one_probe() {
    let flaws: [Flaw; 7] = [
        ("one does not answer", |p| _ = p.members.insert("etcd-2".into(), Err("refused".into()))),
        ("another cluster", |p| p.members.get_mut("etcd-2").unwrap().as_mut().unwrap().cluster_id = "c2".into()),
        ("no leader", |p| p.members.get_mut("etcd-2").unwrap().as_mut().unwrap().leader = "0".into()),
        ("two leaders", |p| p.members.get_mut("etcd-2").unwrap().as_mut().unwrap().leader = "a2".into()),
        ("no quorum", |p| p.list = None),
        ("a member too many", |p| p.list.as_mut().unwrap().push(listed("x", "a9"))),
        ("a learner", |p| p.list.as_mut().unwrap()[2].learner = true),
    ];
    for (name, flaw) in flaws {
        let mut e = Etcd::new(3);
        e.reconcile();
        e.members_run();
        e.all_answer();
        flaw(e.probe());
        e.reconcile();
        assert_eq!(e.bootstrap()["state"], "Bootstrapping", "{name}");
        assert_eq!(e.cr.status.as_ref().unwrap().cluster_id, None, "{name}");
        e.all_answer();
        e.reconcile();
        assert_eq!(e.bootstrap()["state"], "Established", "{name}");
        assert_eq!(e.cr.status.as_ref().unwrap().cluster_id.as_deref(), Some("c1"), "{name}");
    }
}

#[test]
fn two_of_three_do_not_form_it_but_serve() {
    let mut e = Etcd::new(3);
    e.reconcile();
    e.members_run();
    e.answer(&[0, 1], 0);
    e.reconcile();
    assert_eq!(e.bootstrap()["state"], "Bootstrapping");
    assert_eq!(e.condition(ConditionType::Available), is("True", Reason::AsExpected));
    assert_eq!(e.condition(ConditionType::Ready), is("False", Reason::Waiting));
}

#[test]
fn who_was_seen_in_the_cluster_is_on_record_before_it_is_formed() {
    let mut e = Etcd::new(3);
    e.reconcile();
    e.members_run();
    e.answer(&[0], 0);
    e.reconcile();
    assert_eq!(e.bootstrap()["joined"], Value::Null, "no quorum, so nothing was acknowledged");
    e.answer(&[0, 1], 0);
    e.reconcile();
    assert_eq!(e.bootstrap()["joined"], json!(["etcd-0", "etcd-1"]));
    assert_eq!(e.bootstrap()["state"], "Bootstrapping", "the third starts empty");
    e.world.log.clear();
    e.reconcile();
    assert!(e.world.log.is_empty(), "{:#?}", e.world.log);
    // The first has lost its volume, and the third comes: the record only grows.
    e.held("etcd-0", "DataLost: the volume of etcd member etcd-0 is empty");
    e.answer(&[1], 1);
    e.reconcile();
    assert_eq!(e.bootstrap()["joined"], json!(["etcd-0", "etcd-1"]));
    e.answer(&[1, 2], 1);
    e.reconcile();
    assert_eq!(e.bootstrap()["joined"], json!(["etcd-0", "etcd-1", "etcd-2"]));
    assert_eq!(e.condition(ConditionType::Ready), is("False", Reason::DataLost));
    // It is back: what is formed needs no list.
    e.world.run_pod(&Etcd::key(Kind::Pod, "etcd-0"));
    e.all_answer();
    e.reconcile();
    assert_eq!((&e.bootstrap()["state"], &e.bootstrap()["joined"]), (&json!("Established"), &Value::Null));
}

#[test]
fn who_was_seen_stays_on_record_whatever_is_lost() {
    let mut serving = Etcd::new(3);
    serving.reconcile();
    serving.members_run();
    serving.answer(&[0, 1], 0);
    serving.reconcile();
    let losses: [Loss; 4] = [
        ("status", |e| e.cr.status = None),
        ("ConfigMap", |e| e.world.remove(&Etcd::key(Kind::ConfigMap, "etcd-bootstrap"))),
        ("StatefulSet", |e| e.world.remove(&Etcd::set())),
        ("an older state of the ConfigMap is back", |e| {
            let map = e.edit(&Etcd::key(Kind::ConfigMap, "etcd-bootstrap"));
            map["data"]["bootstrap.json"] = r#"{"clusterUID":"first-uid","epoch":1,"state":"Bootstrapping"}"#.into();
            map["metadata"]["annotations"] = json!({});
        }),
    ];
    for (name, lose) in losses {
        let mut e = serving.clone();
        e.answer(&[], 0);
        lose(&mut e);
        e.reconcile();
        assert_eq!(e.bootstrap()["joined"], json!(["etcd-0", "etcd-1"]), "{name}");
    }
}

#[test]
fn templates_from_before_the_list_render_as_they_did() {
    let mut e = Etcd::new(3);
    e.reconcile();
    e.members_run();
    let catalog = berth_render::Catalog::builtin();
    let mut data = catalog.etcd("3.6".parse().unwrap()).unwrap().to_data();
    let (_, text) = data.iter_mut().find(|(k, _)| k.contains("bootstrap.json")).unwrap();
    *text = r#"{"clusterUID": {{ cluster_uid }}, "epoch": {{ epoch }}, "state": {{ state }}}"#.into();
    let set = berth_render::TemplateSet::from_data(data).unwrap();
    e.cr.status.as_mut().unwrap().templates.as_mut().unwrap().digest = set.digest();
    let pinned = super::super::pinned_templates(&e.cr, &e.world.observed).unwrap();
    e.world
        .put(pinned, json!({"immutable": true, "metadata": {"name": "x", "labels": {(labels::ETCD_CLUSTER): NAME}}}));
    e.world.observed.pinned = Some(set);
    e.answer(&[0, 1], 0);
    e.reconcile();
    assert_eq!(e.bootstrap(), json!({"clusterUID": "first-uid", "epoch": 1, "state": "Bootstrapping"}));
}

#[test]
fn formed_stays_formed_whatever_is_lost() {
    let losses: [Loss; 5] = [
        ("status", |e| e.cr.status = None),
        ("ConfigMap", |e| e.world.remove(&Etcd::key(Kind::ConfigMap, "etcd-bootstrap"))),
        ("StatefulSet", |e| e.world.remove(&Etcd::set())),
        ("status and ConfigMap", |e| {
            e.cr.status = None;
            e.world.remove(&Etcd::key(Kind::ConfigMap, "etcd-bootstrap"));
        }),
        ("ConfigMap and StatefulSet", |e| {
            e.world.remove(&Etcd::key(Kind::ConfigMap, "etcd-bootstrap"));
            e.world.remove(&Etcd::set());
        }),
    ];
    let formed = Etcd::formed(3);
    for (name, lose) in losses {
        let mut e = formed.clone();
        let record = e.bootstrap();
        // A restored EtcdCluster has another UID.
        e.cr.metadata.uid = Some("second-uid".into());
        e.answer(&[], 0);
        lose(&mut e);
        e.reconcile();
        assert_eq!(e.bootstrap(), record, "{name}");
        let token = &e.get(&Etcd::key(Kind::ConfigMap, "etcd-bootstrap"))["data"]["initial-cluster-token"];
        assert_eq!(token, "first-uid-1", "{name}");
        assert_eq!(e.replicas(), 3, "{name}");
        e.members_run();
        e.all_answer();
        e.reconcile();
        assert_eq!(e.cr.status.as_ref().unwrap().cluster_id.as_deref(), Some("c1"), "{name}");
        assert_eq!(e.cr.status.as_ref().unwrap().identity.as_deref(), Some("first-uid"), "{name}");
    }
}

#[test]
fn volumes_without_any_record_are_not_started_over() {
    let mut e = Etcd::formed(3);
    e.cr.status = None;
    e.world.remove(&Etcd::key(Kind::ConfigMap, "etcd-bootstrap"));
    e.world.remove(&Etcd::set());
    let planned = e.reconcile();
    assert_eq!(reason(&planned, StageId::Spec), Some(Reason::ForeignData));
    assert!(e.world.log.is_empty(), "{:#?}", e.world.log);
    assert!(e.message(ConditionType::Ready).contains("data-etcd-0"), "{}", e.message(ConditionType::Ready));
    // What goes away by itself is waited for.
    for i in 0..3 {
        e.edit(&Etcd::key(Kind::PersistentVolumeClaim, &format!("data-etcd-{i}")))["metadata"]["deletionTimestamp"] =
            "x".into();
    }
    assert!(matches!(state(&e.plan(), StageId::Spec), State::Waiting { .. }));
}

#[test]
fn the_cluster_id_is_recorded_only_when_the_guards_know_it() {
    let mut e = Etcd::new(1);
    e.reconcile();
    e.members_run();
    e.all_answer();
    // The write of the ConfigMap failed in this reconcile.
    let planned = e.plan();
    assert!(!planned.plan.is_empty());
    let failed = berth_plan::failure::Failure { reason: Reason::Rejected, message: "no".into(), in_tenant: false };
    let said = status(e.input(&e.world), &planned, Some(&failed));
    assert_eq!(said.cluster_id, None);
    assert_eq!(conditions::find(&said.conditions, ConditionType::Degraded).unwrap().reason, "Rejected");
}

#[test]
fn a_new_operator_rolls_nothing() {
    let mut e = Etcd::formed(3);
    e.settings.agent_image = "berth.dev/agent:newer".into();
    e.settings.agent_delivery = AgentDelivery::ImageVolume;
    assert!(e.reconcile().plan.is_empty() && e.world.log.is_empty(), "{:#?}", e.world.log);
    // Also after a restore without status.
    e.cr.status = None;
    e.reconcile();
    assert!(e.world.log.is_empty(), "{:#?}", e.world.log);
    let pinned = e.cr.status.as_ref().unwrap().templates.clone().unwrap();
    assert_eq!(pinned.agent_image, Settings::default().agent_image);
    assert_eq!(pinned.agent_delivery, AgentDelivery::InitContainer);
}

#[test]
fn templates_of_another_operator_are_read_from_the_pinned_set() {
    let mut e = Etcd::formed(1);
    // As if an operator with other templates had made it.
    let catalog = berth_render::Catalog::builtin();
    let mut data = catalog.etcd("3.6".parse().unwrap()).unwrap().to_data();
    let (_, text) = data.iter_mut().find(|(k, _)| k.contains("statefulset")).unwrap();
    *text = text.replace("revisionHistoryLimit: 2", "revisionHistoryLimit: 3");
    let set = berth_render::TemplateSet::from_data(data).unwrap();
    e.cr.status.as_mut().unwrap().templates.as_mut().unwrap().digest = set.digest();
    let key = super::super::pinned_templates(&e.cr, &e.world.observed).unwrap();
    assert!(key.name.starts_with("etcd-templates-") && set.digest().starts_with(&key.name[15..]));

    let planned = e.plan();
    assert_eq!(reason(&planned, StageId::Spec), Some(Reason::Error), "gone and not built in");
    assert!(planned.plan.is_empty(), "what runs is left alone");
    e.world.put(key, json!({"metadata": {"name": "x", "labels": {(labels::ETCD_CLUSTER): NAME}}}));
    assert_eq!(reason(&e.plan(), StageId::Spec), Some(Reason::VersionUnsupported), "there and not read");
    e.world.observed.pinned = Some(set);
    e.reconcile();
    assert_eq!(e.get(&Etcd::set())["spec"]["revisionHistoryLimit"], 3);
}
