//! Whoever edits, inside a tenant, what is Berth's.

use super::*;
use berth_plan::Action;

fn told(planned: &ClusterPlan) -> Vec<String> {
    let note = |action: &Action| match action {
        Action::TenantTell { object, note } => Some(format!("{}: {note}", object.key())),
        _ => None,
    };
    planned.plan.actions().filter_map(note).collect()
}

/// What an object inside is.
fn live(f: &mut Fixture, key: &ObjectKey) -> Value {
    f.inside().get(key).flatten().cloned().unwrap()
}

#[test]
fn an_edit_is_told_once_and_berths_own_change_is_none() {
    let mut f = Fixture::up(json!({"version": "1.36.3"}));
    let key = ObjectKey::namespaced(Kind::ConfigMap, "kube-system", "kubelet-config");
    let mut edited = live(&mut f, &key);
    edited["data"]["kubelet"] = "maxPods: 30".into();
    f.inside().insert(key.clone(), Some(edited));
    let planned = f.plan();
    let said = told(&planned);
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(
        said[0].starts_with("ConfigMap kube-system/kubelet-config: Berth set back /data/kubelet: it keeps"),
        "{said:?}"
    );
    let order: Vec<_> = planned.plan.actions().map(Action::describe).collect();
    assert_eq!(
        order,
        [
            "apply ConfigMap kube-system/kubelet-config in the tenant",
            "create an Event about ConfigMap kube-system/kubelet-config in the tenant"
        ]
    );
    f.reconcile();
    assert!(told(&f.plan()).is_empty(), "it is set back");

    // The spec changes: the stamp tells that nobody edited.
    f.cluster.spec.kubelet.config = serde_json::from_value(json!({"maxPods": 30})).unwrap();
    let planned = f.plan();
    assert!(told(&planned).is_empty() && !planned.plan.is_empty());
    f.reconcile();
}

#[test]
fn what_was_deleted_is_told_and_what_nobody_knows_is_not() {
    let mut f = Fixture::up(json!({"version": "1.36.3"}));
    let dns = ObjectKey::namespaced(Kind::Deployment, "kube-system", "coredns");
    let stamp = berth_render::stamp_key("coredns");
    f.inside().insert(dns.clone(), None);
    let said = told(&f.plan());
    assert!(
        said.len() == 1 && said[0].contains("coredns: Berth restored this Deployment, which was deleted"),
        "{said:?}"
    );
    f.cluster.spec.paused = true;
    assert!(told(&f.plan()).is_empty());
    f.cluster.spec.paused = false;
    // Another build wrote it, or the stamp was not read.
    f.inside().insert(stamp.clone(), None);
    assert!(told(&f.plan()).is_empty());
}
