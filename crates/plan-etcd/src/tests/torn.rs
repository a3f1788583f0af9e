//! The operator ends between two writes of one step.

use super::versions::{NEW, OLD};
use super::*;
use berth_api::labels;

/// Before the reconcile that ends a change of the version, and after it.
fn around_the_end() -> (Etcd, Etcd) {
    let mut e = Etcd::of_version(OLD, 3);
    e.settings.agent_image = "agent:2".into();
    e.asks_for(NEW);
    for _ in 0..30 {
        let before = e.clone();
        e.turn();
        if e.cr.status.as_ref().unwrap().operation.is_none() {
            return (before, e);
        }
    }
    panic!("it never ends: {:#?}", e.cr.status)
}

/// The record is in the ConfigMap first, then in the StatefulSet, then in the status.
#[test]
fn the_end_of_a_change_of_the_version_goes_with_its_templates_wherever_the_operator_ends() {
    let (before, after) = around_the_end();
    let record = |e: &Etcd| -> Value {
        serde_json::from_str(e.get(&Etcd::set())["metadata"]["annotations"][labels::ETCD_RECORD].as_str().unwrap())
            .unwrap()
    };
    let wanted = record(&after);
    assert_eq!((&wanted["version"], &wanted["agentImage"]), (&json!(NEW), &json!("agent:2")));
    assert_ne!(record(&before)["templates"], wanted["templates"]);
    let torn =
        |e: &mut Etcd, keys: &[ObjectKey]| keys.iter().for_each(|key| e.world.put(key.clone(), after.get(key).clone()));
    let map = Etcd::key(Kind::ConfigMap, &berth_api::names::etcd::bootstrap(NAME));
    for (i, (written, is_known)) in
        [(vec![map.clone()], true), (vec![map.clone(), Etcd::set()], true), (vec![map], false)].into_iter().enumerate()
    {
        let mut e = before.clone();
        torn(&mut e, &written);
        if !is_known {
            // Nor is there a status that says it.
            e.cr.status = None;
        }
        e.turn();
        assert_eq!(record(&e), wanted, "{i}");
        let status = e.cr.status.clone().unwrap();
        let pin = status.templates.unwrap();
        assert_eq!((json!(pin.digest), pin.agent_image.as_str()), (wanted["templates"].clone(), "agent:2"), "{i}");
        assert_eq!(status.operation, None, "{i}");
        let container = &e.get(&Etcd::set())["spec"]["template"]["spec"];
        assert_eq!(*container, after.get(&Etcd::set())["spec"]["template"]["spec"], "{i}");
    }
}
