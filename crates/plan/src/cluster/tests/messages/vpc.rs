//! With `spec.vpc`.

use super::*;
use crate::cluster::tests::vpc::{new, spec};
use crate::observed::AttachmentSeen;
use berth_render::Catalog;

/// A new Cluster.
const NEW: &[Case] = &[
    ("spec.vpc: the NetworkAttachmentDefinition does not exist", |f| {
        f.world.observed.attachment = AttachmentSeen::Missing;
    }),
    ("spec.vpc: the NetworkAttachmentDefinition is another team's", |f| {
        f.cluster.spec.vpc.as_mut().unwrap().attachment.namespace = Some("networks".into());
    }),
    ("spec.vpc: the NetworkAttachmentDefinition is broken", |f| {
        if let AttachmentSeen::Found(definition) = &mut f.world.observed.attachment {
            definition["spec"]["config"] = "{".into();
        }
    }),
    ("spec.vpc: an address without a prefix length", |f| addresses(f, &["172.20.0.2", "172.20.0.3/24"])),
    ("spec.vpc: the address of the subnet itself", |f| addresses(f, &["172.20.0.0/24", "172.20.0.3/24"])),
    ("spec.vpc: an address twice", |f| addresses(f, &["172.20.0.3/24", "172.20.0.3/24"])),
    ("spec.vpc: addresses of two subnets", |f| addresses(f, &["172.20.0.2/24", "172.20.1.3/24"])),
    ("spec.vpc: fewer addresses than API servers", |f| addresses(f, &["172.20.0.2/24"])),
    ("spec.vpc: a subnet that overlaps spec.network", |f| addresses(f, &["10.112.0.2/24", "10.112.0.3/24"])),
    ("spec.vpc: a subnet that overlaps the meta cluster", |f| {
        f.meta().addresses = Ok(MetaRanges { pods: vec![network("172.16.0.0/12").unwrap()], ..MetaRanges::default() });
    }),
];

/// A tenant at rest.
const UP: &[Case] = &[
    ("spec.vpc: at rest", |_| {}),
    ("spec.vpc: an address moves in the list", |f| {
        addresses(f, &["172.20.0.3/24", "172.20.0.2/24", "172.20.0.4/24"]);
    }),
    ("spec.vpc: a pod of another slot still has the address", |f| {
        let key = Fixture::key(Kind::Pod, "kube-apiserver-7-0");
        let asked = json!([{"name": "vpc-acme", "ips": ["172.20.0.9/24"]}]).to_string();
        f.world.put(
            key.clone(),
            json!({"metadata": {"name": key.name, "labels": {(labels::SLOT): "7"},
                "annotations": {"k8s.v1.cni.cncf.io/networks": asked}}}),
        );
        addresses(f, &["172.20.0.2/24", "172.20.0.3/24", "172.20.0.4/24", "172.20.0.9/24"]);
    }),
    ("spec.vpc: there is no pod", |f| f.world.remove(&pod())),
    ("spec.vpc: a node cannot attach the pod", |f| {
        unready(f);
        let why = "Failed to create pod sandbox: plugin type=\"macvlan\" failed (add): Link not found";
        f.world.observed.refused.insert(pod().name, why.into());
    }),
    ("spec.vpc: the meta cluster has no CNI meta-plugin", |f| {
        unready(f);
        f.world.observed.objects.get_mut(&pod()).unwrap()["metadata"]["annotations"]["k8s.v1.cni.cncf.io/network-status"] =
            Value::Null;
    }),
    ("spec.vpc: the network gives another address", |f| {
        unready(f);
        gets(f, &json!([{"interface": "net1", "ips": ["172.20.0.77"]}]));
    }),
    ("spec.vpc: the network gives no interface", |f| {
        unready(f);
        gets(f, &json!([{"interface": "eth0", "ips": ["10.1.0.7"]}]));
    }),
    ("spec.vpc: a pod with its address is not ready", unready),
    ("spec.vpc: the pinned templates do not know it", |f| {
        let set = Catalog::builtin().kubernetes("1.36".parse().unwrap()).unwrap();
        let older = crate::testing::before(set, "apiserver", "vpc = {}");
        f.home_object()["metadata"]["annotations"][labels::TEMPLATES] = older.digest().into();
        f.world.observed.pinned = Some(older);
    }),
];

/// What is not reached by carrying a plan out to its end: a template that an API server is to get, when another one is not ready.
fn held(up: &Fixture) -> Fixture {
    let mut f = up.copy();
    f.cluster.spec.version = "1.36.3".into();
    f.reconcile();
    f.attached();
    f.live(Kind::StatefulSet, "kube-apiserver-2")["status"]["availableReplicas"] = json!(1);
    f.live(Kind::StatefulSet, "kube-apiserver-0")["status"]["availableReplicas"] = json!(1);
    f.reconcile();
    f
}

fn pod() -> ObjectKey {
    Fixture::key(Kind::Pod, "kube-apiserver-1-0")
}

fn addresses(f: &mut Fixture, all: &[&str]) {
    f.cluster.spec.vpc.as_mut().unwrap().addresses = all.iter().map(|a| (*a).to_owned()).collect();
}

fn unready(f: &mut Fixture) {
    f.world.observed.objects.get_mut(&pod()).unwrap()["status"]["conditions"] = json!([]);
}

fn gets(f: &mut Fixture, status: &Value) {
    f.world.observed.objects.get_mut(&pod()).unwrap()["metadata"]["annotations"]["k8s.v1.cni.cncf.io/network-status"] =
        status.to_string().into();
}

pub(super) fn situations() -> Vec<(&'static str, Fixture)> {
    let (fresh, up) = (new(spec()), Fixture::up_in_vpc(spec()));
    let cases = NEW.iter().map(|case| (case, &fresh)).chain(UP.iter().map(|case| (case, &up)));
    let situation = |((text, happens), from): (&Case, &Fixture)| {
        let mut f = from.copy();
        happens(&mut f);
        f.reconcile();
        (*text, f)
    };
    let rolls = ("spec.vpc: a new version, and one API server after the other is updated", held(&up));
    cases.map(situation).chain([rolls]).collect()
}
