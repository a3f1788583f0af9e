//! Add-ons.

use super::*;
use crate::tests::approval::BINDING;
use berth_render::STAMPS;

/// Of a tenant at rest.
pub(super) const REFUSED: &[Case] = &[
    ("spec.addons.kubeProxy.config has the mode", |f| config(f, json!({"mode": "nftables"}))),
    ("spec.addons.kubeProxy.config has a field of Berth's", |f| config(f, json!({"clusterCIDR": "10.0.0.0/8"}))),
    ("spec.addons.kubeProxy.config has a kubeconfig", |f| {
        config(f, json!({"clientConnection": {"kubeconfig": "/etc/kubernetes/kubelet.conf"}}));
    }),
    ("spec.addons.kubeProxy.config.clientConnection is a text", |f| config(f, json!({"clientConnection": "fast"}))),
];

/// What is planned and not done.
pub(super) const OFF: &[Case] = &[
    ("an add-on is turned off, and Berth has not deleted it yet", |f| {
        f.cluster.spec.addons.core_dns.enabled = Some(false);
        let stamps = f.world.inside.values().filter(|o| STAMPS.holds(o.key()));
        let read = InsideTenant::listed(STAMPS, stamps.map(|o| (o.key().clone(), o.value().clone())));
        f.world.observed.api = ApiProbe::Answered { version: None, read };
    }),
    ("kube-controller-manager approves no machine that joins any more, and Berth has not taken its right yet", |f| {
        let left = json!({"metadata": {"name": BINDING, "uid": "u", "labels": {(labels::TENANT_SET): "join"}}});
        f.inside().insert(ObjectKey::cluster(Kind::ClusterRoleBinding, BINDING), Some(left));
    }),
];

fn config(f: &mut Fixture, config: Value) {
    f.cluster.spec.addons.kube_proxy.config = serde_json::from_value(config).unwrap();
}
