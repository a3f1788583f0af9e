//! Add-ons.

use super::*;
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
pub(super) const OFF: &[Case] = &[("an add-on is turned off, and Berth has not deleted it yet", |f| {
    f.cluster.spec.addons.core_dns.enabled = Some(false);
    let stamps = f.world.inside.values().filter(|o| STAMPS.holds(o.key()));
    let read = InsideTenant::listed(STAMPS, stamps.map(|o| (o.key().clone(), o.value().clone())));
    f.world.observed.api = ApiProbe::Answered { version: None, read };
})];

fn config(f: &mut Fixture, config: Value) {
    f.cluster.spec.addons.kube_proxy.config = serde_json::from_value(config).unwrap();
}
