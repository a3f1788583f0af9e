//! What kubelets on a tenant's nodes are told.

use super::*;

impl Fixture {
    fn kubelet_config(&mut self, config: Value) {
        self.cluster.spec.kubelet.config = serde_json::from_value(config).unwrap();
    }

    /// What `kubeadm join` reads.
    fn kubelet(&self) -> String {
        let key = ObjectKey::namespaced(Kind::ConfigMap, "kube-system", "kubelet-config");
        self.world.inside[&key].value()["data"]["kubelet"].as_str().unwrap().to_owned()
    }
}

#[test]
fn a_change_is_merged_and_restarts_nothing() {
    let mut f = Fixture::up(json!({"version": "1.36.3"}));
    let before = f.kubelet();
    assert!(before.contains("# Serving certificates"), "as it is without the field: {before}");
    f.kubelet_config(json!({"maxPods": 30, "cgroupDriver": "cgroupfs", "clusterDNS": ["169.254.20.10"]}));
    f.rest();
    let said = f.kubelet();
    for line in [
        "maxPods: 30\n",
        "cgroupDriver: \"cgroupfs\"\n",
        "clusterDNS: [\"169.254.20.10\"]\n",
        "serverTLSBootstrap: true\n",
    ] {
        assert!(said.contains(line), "{line}: {said}");
    }
    let log = &f.world.log;
    assert!(!log.is_empty() && log.iter().all(|line| line.ends_with(" in the tenant")), "nothing restarts: {log:#?}");
    f.kubelet_config(json!({}));
    f.rest();
    assert_eq!(f.kubelet(), before);
}

#[test]
fn what_is_refused_leaves_what_nodes_are_told_and_the_rest_is_kept() {
    let mut f = Fixture::up(json!({"version": "1.36.3", "kubelet": {"config": {"maxPods": 30}}}));
    let before = f.kubelet();
    f.kubelet_config(json!({"maxPods": -1}));
    // Of what is there, somebody changed this, too.
    let key = ObjectKey::namespaced(Kind::ConfigMap, "kube-public", "cluster-info");
    f.inside().insert(key.clone(), None);
    f.rest();
    let (status, reason, message) = f.condition("Ready");
    assert_eq!((&*status, &*reason), ("False", "InvalidSpec"));
    assert!(message.contains("spec.kubelet.config.maxPods: has to be a whole number from 0 to"), "{message}");
    assert_eq!(f.kubelet(), before);
    assert!(f.inside().get(&key).flatten().is_some(), "the rest of the set is kept");
    f.kubelet_config(json!({"maxPods": 31}));
    f.rest();
    assert!(f.kubelet().contains("maxPods: 31\n") && f.condition("Ready").0 == "True");
}

#[test]
fn of_a_new_tenant_nothing_is_made_before_it_is_right() {
    let mut f = Fixture::new(json!({"version": "1.35.4", "kubelet": {"config": {"memoryReservationPolicy": "None"}}}));
    let planned = f.reconcile();
    let why = blocked(&planned, StageId::Spec, Reason::InvalidSpec);
    assert!(
        why.ends_with(
            "memoryReservationPolicy: is a field of Kubernetes 1.36 on, and the tenant is of 1.35. Remove it"
        ),
        "{why}"
    );
    assert!(f.world.log.is_empty());
}
