use super::*;
use berth_api::labels;

fn relabel(f: &mut Fixture, label: &str, value: Value) {
    f.world.observed.objects.get_mut(&Fixture::namespace()).unwrap()["metadata"]["labels"][label] = value;
}

#[test]
fn somebody_elses_namespace_is_left_alone() {
    let mut f = Fixture::new(json!({"version": "1.36.3"}));
    f.world.put(Fixture::namespace(), json!({"metadata": {"name": Fixture::home()}}));
    let message = blocked(&f.pass(), Component::Namespace, Reason::ForeignObject);
    assert!(message.contains(&Fixture::home()), "{message}");
    assert!(f.world.log.is_empty());
    assert_eq!(f.cluster.status.as_ref().unwrap().control_plane_namespace, None);
}

#[test]
fn a_lost_namespace_is_not_made_anew() {
    let mut f = Fixture::up(json!({"version": "1.36.3"}));
    f.world.observed = crate::Observed { published: f.world.observed.published.clone(), ..Default::default() };
    for _ in 0..2 {
        let message = blocked(&f.pass(), Component::Namespace, Reason::ControlPlaneLost);
        assert!(message.contains("Nothing is made anew"), "{message}");
        assert!(f.world.log.is_empty());
    }
    assert_eq!(f.condition("Ready").1, "ControlPlaneLost");
}

#[test]
fn a_restored_cluster_adopts_with_its_keys() {
    let mut f = Fixture::up(json!({"version": "1.36.3"}));
    f.cluster.metadata.uid = Some("new-uid".into());
    f.cluster.status = None;
    let message = blocked(&f.pass(), Component::Namespace, Reason::AdoptionRequired);
    assert!(message.contains("berth.dev/adopt=cluster-uid"), "{message}");
    assert!(f.world.log.is_empty());
    f.cluster.metadata.annotations = Some(BTreeMap::from([(labels::ADOPT.into(), "wrong".into())]));
    blocked(&f.pass(), Component::Namespace, Reason::AdoptionRequired);
    f.cluster.metadata.annotations = Some(BTreeMap::from([(labels::ADOPT.into(), "cluster-uid".into())]));
    f.pass();
    assert_eq!(f.world.log, [format!("apply {}", Fixture::namespace())], "nothing else is touched");
    f.others();
    f.pass();
    assert_eq!(f.condition("Ready").0, "True");
    // The annotation may stay or go.
    f.cluster.metadata.annotations = None;
    f.pass();
    assert_eq!(f.condition("Ready").0, "True");
}

#[test]
fn a_namespace_that_ends_is_waited_for() {
    let mut f = Fixture::up(json!({"version": "1.36.3"}));
    f.world.observed.objects.get_mut(&Fixture::namespace()).unwrap()["metadata"]["deletionTimestamp"] =
        json!("2026-01-01T00:00:00Z");
    let planned = f.pass();
    assert!(matches!(planned.plan.stage(Component::Namespace).unwrap().state, State::Waiting { .. }));
    assert!(f.world.log.is_empty());
}

#[test]
fn a_label_of_another_cluster_is_not_ours() {
    let mut f = Fixture::up(json!({"version": "1.36.3"}));
    relabel(&mut f, labels::CLUSTER_NAME, json!("other"));
    blocked(&f.pass(), Component::Namespace, Reason::ForeignObject);
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
            f.pass();
            assert_eq!(f.world.log, [format!("apply {key}")], "{label}");
            assert_eq!(pin(&f)["metadata"]["labels"], labels);
            assert!(pin(&f)["data"].is_object(), "whole, should it be gone by then");
            f.world.log.clear();
        }
    }
}
