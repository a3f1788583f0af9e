//! Add-ons.

use super::*;
use crate::tests::addons::{API_PROXY, DNS, PROXY, serving};
use crate::tests::approval::BINDING;
use berth_api::cluster::DnsZone;
use berth_render::STAMPS;

/// Of a tenant at rest.
pub(super) const REFUSED: &[Case] = &[
    ("spec.addons.kubeProxy.config has the mode", |f| config(f, json!({"mode": "nftables"}))),
    ("spec.addons.kubeProxy.config has a field of Berth's", |f| config(f, json!({"clusterCIDR": "10.0.0.0/8"}))),
    ("spec.addons.kubeProxy.config has a kubeconfig", |f| {
        config(f, json!({"clientConnection": {"kubeconfig": "/etc/kubernetes/kubelet.conf"}}));
    }),
    ("the image of coredns in spec.images.overrides is of another version", |f| old_image(f, "coredns")),
    ("spec.addons.kubeProxy.config.clientConnection is a text", |f| config(f, json!({"clientConnection": "fast"}))),
    ("a zone of spec.addons.coreDNS.zones that is no name", |f| zones(f, &[("corp.example.", &["192.0.2.53"])])),
    ("a zone above the tenant's own", |f| zones(f, &[("local", &["192.0.2.53"])])),
    ("a zone with addresses of Services", |f| zones(f, &[("112.10.in-addr.arpa", &["192.0.2.53"])])),
    ("a zone without servers", |f| zones(f, &[("corp.example", &[])])),
    ("a zone that is listed twice", |f| {
        zones(f, &[("corp.example", &["192.0.2.53"]), ("Corp.example", &["192.0.2.53"])]);
    }),
    ("a DNS server by its name", |f| zones(f, &[("corp.example", &["dns.corp.example"])])),
    ("a DNS server at a loopback address", |f| zones(f, &[("corp.example", &["127.0.0.1"])])),
    ("a DNS server at port 0", |f| zones(f, &[("corp.example", &["192.0.2.53:0"])])),
    ("spec.addons.coreDNS.resources asks for more than its limit", |f| {
        let resources = json!({"requests": {"cpu": "2"}, "limits": {"cpu": "1"}});
        f.cluster.spec.addons.core_dns.resources = serde_json::from_value(resources).unwrap();
    }),
];

/// Of a tenant with nodes, each looked at again after so many minutes.
pub(super) fn of_pods() -> Vec<(&'static str, Fixture)> {
    type Case = (&'static str, i64, fn(&mut Fixture));
    let cases: &[Case] = &[
        ("add-ons serve", 0, |_| {}),
        ("the tenant has no node that is ready", 0, |f| f.has_nodes(1, 0)),
        ("a node is away, and kube-proxy with it", 0, |f| f.addon_says(PROXY, [3, 3, 2])),
        ("a pod of kube-proxy starts", 0, |f| {
            f.addon_says(PROXY, [3, 3, 2]);
            f.pods_say("kube-proxy", "pod kube-proxy-x2x4z is not ready");
        }),
        ("a change of CoreDNS does not come up", 0, |f| {
            f.addon_says(DNS, [2, 1, 2]);
            f.pods_say("kube-dns", "pod coredns-5d8c9-x2x4z: container coredns: CrashLoopBackOff: exit code 1");
        }),
        ("the controller has not seen a change of CoreDNS", 0, |f| {
            f.addon_says(DNS, [2, 2, 2]);
            let key = ObjectKey::namespaced(DNS.0, "kube-system", DNS.1);
            let mut live = f.inside().get(&key).flatten().unwrap().clone();
            live["metadata"]["generation"] = 4.into();
            f.inside().insert(key, Some(live));
        }),
        ("CoreDNS was deleted in the tenant, and what is asked of it is refused", 0, |f| {
            zones(f, &[("corp.example", &["dns.corp.example"])]);
            f.inside().insert(ObjectKey::namespaced(DNS.0, "kube-system", DNS.1), None);
        }),
        ("somebody scaled CoreDNS to 0", 0, |f| f.addon_says(DNS, [0, 0, 0])),
        ("no pod of api-proxy serves yet", 0, |f| {
            f.cluster.spec.endpoint.host = Some("acme.example.com".into());
            f.cluster.spec.addons.api_proxy.enabled = Some(true);
            f.rest();
            f.has_nodes(3, 3);
            f.addons_serve();
            f.addon_says(API_PROXY, [3, 3, 0]);
            f.pods_say("api-proxy", "pod api-proxy-x2x4z is not ready");
        }),
        ("no pod of CoreDNS serves for a while", 6, |f| {
            f.addon_says(DNS, [2, 2, 0]);
            f.pods_say(
                "kube-dns",
                "pod coredns-5d8c9-x2x4z: not scheduled: 0/3 nodes are available: 3 Insufficient memory.",
            );
        }),
    ];
    let after = |(what, minutes, change): &(&'static str, i64, fn(&mut Fixture))| {
        let mut f = serving();
        change(&mut f);
        f.reconcile();
        f.world.now += SignedDuration::from_mins(*minutes);
        f.reconcile();
        (*what, f)
    };
    cases.iter().map(after).collect()
}

/// What is planned and not done.
pub(super) const OFF: &[Case] = &[
    ("an add-on is turned off, and Berth has not deleted it yet", |f| {
        f.cluster.spec.addons.core_dns.enabled = Some(false);
        let stamps = f.world.inside.values().filter(|o| STAMPS.holds(o.key()));
        let read = InsideTenant::listed(STAMPS, stamps.map(|o| (o.key().clone(), o.value().clone())));
        f.world.observed.api = ApiProbe::Answered { version: None, read };
    }),
    ("CoreDNS was deleted in a tenant with nodes, and Berth has not written it again yet", |f| {
        f.has_nodes(3, 3);
        f.addon_says(PROXY, [3, 3, 3]);
        f.inside().insert(ObjectKey::namespaced(DNS.0, "kube-system", DNS.1), None);
    }),
    ("an add-on is turned on, and Berth has not written it yet", |f| {
        f.cluster.status.as_mut().unwrap().addons.retain(|addon| addon.name != "coredns");
        f.world.observed.api = ApiProbe::Answered { version: None, read: InsideTenant::listed(STAMPS, []) };
    }),
    ("kube-controller-manager approves no machine that joins any more, and Berth has not taken its right yet", |f| {
        let left = json!({"metadata": {"name": BINDING, "uid": "u", "labels": {(labels::TENANT_SET): "join"}}});
        f.inside().insert(ObjectKey::cluster(Kind::ClusterRoleBinding, BINDING), Some(left));
    }),
];

/// The image that the spec names for a component has a tag of another version.
pub(super) fn old_image(f: &mut Fixture, component: &str) {
    f.settings.writers = berth_plan::settings::Writers::anything();
    f.cluster.spec.images.overrides = [(component.to_owned(), "mirror.example.com/own:v1.0.0".to_owned())].into();
}

fn config(f: &mut Fixture, config: Value) {
    f.cluster.spec.addons.kube_proxy.config = serde_json::from_value(config).unwrap();
}

fn zones(f: &mut Fixture, all: &[(&str, &[&str])]) {
    let zone = |(name, servers): &(&str, &[&str])| DnsZone {
        name: (*name).to_owned(),
        servers: servers.iter().map(|server| (*server).to_owned()).collect(),
    };
    f.cluster.spec.addons.core_dns.zones = all.iter().map(zone).collect();
}
