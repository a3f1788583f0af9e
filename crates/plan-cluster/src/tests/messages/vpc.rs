//! With `spec.vpc`.

use super::*;
use crate::tests::vpc::{new, spec};
use berth_plan::observed::AttachmentSeen;
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
    ("spec.vpc: the NetworkAttachmentDefinition asks for memory", |f| {
        if let AttachmentSeen::Found(definition) = &mut f.world.observed.attachment {
            definition["metadata"]["annotations"]["k8s.v1.cni.cncf.io/resourceName"] = "memory".into();
        }
    }),
    ("spec.vpc: an address without a prefix length", |f| addresses(f, &["172.20.0.2", "172.20.0.3/24"])),
    ("spec.vpc: the address of the subnet itself", |f| addresses(f, &["172.20.0.0/24", "172.20.0.3/24"])),
    ("spec.vpc: an address twice", |f| addresses(f, &["172.20.0.3/24", "172.20.0.3/24"])),
    ("spec.vpc: addresses of two subnets", |f| addresses(f, &["172.20.0.2/24", "172.20.1.3/24"])),
    ("spec.vpc: fewer addresses than API servers", |f| addresses(f, &["172.20.0.2/24"])),
    ("spec.vpc: several addresses, and none for nodes", |f| vpc(f).host = None),
    ("spec.vpc: neither addresses nor a host", |f| {
        vpc(f).addresses.clear();
        vpc(f).host = None;
    }),
    ("spec.vpc: the virtual IP is not in the subnet", |f| vpc(f).virtual_ip = Some("172.20.1.10".into())),
    ("spec.vpc: the virtual IP is one of the addresses", |f| vpc(f).virtual_ip = Some("172.20.0.3".into())),
    ("spec.vpc: a virtual IP with a prefix length", |f| vpc(f).virtual_ip = Some("172.20.0.10/24".into())),
    ("spec.vpc: the virtual IP is the subnet's broadcast address", |f| vpc(f).virtual_ip = Some("172.20.0.255".into())),
    ("spec.vpc: a virtual IP without addresses", |f| {
        vpc(f).addresses.clear();
        vpc(f).virtual_ip = Some("172.20.0.10".into());
    }),
    ("spec.vpc: a route that is no network", |f| route(f, "10.160.0.1/16", "172.20.0.1")),
    ("spec.vpc: a route by a name", |f| route(f, "10.160.0.0/16", "router")),
    ("spec.vpc: a route by a router elsewhere", |f| route(f, "10.160.0.0/16", "172.20.1.1")),
    ("spec.vpc: a route to the tenant's Services", |f| route(f, "10.112.0.0/24", "172.20.0.1")),
    ("spec.vpc: a key that nobody allowed", |f| annotation(f, "example.com/ip", "$(IP)")),
    ("spec.vpc: a key of the network itself", |f| annotation(f, "k8s.v1.cni.cncf.io/networks", "[]")),
    ("spec.vpc: a value that only addresses fill in", |f| {
        vpc(f).addresses.clear();
        annotation(f, "example.com/ip", "$(IP)");
        f.settings.writers.vpc = vec!["example.com/ip=$(IP)".into()];
    }),
    ("spec.vpc: the chart's admission policies are off", |f| f.settings.vpc.pods_are_held = false),
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
    ("spec.vpc: a route into the meta cluster", |f| {
        f.meta().addresses = Ok(MetaRanges { pods: vec![network("10.244.0.0/16").unwrap()], ..MetaRanges::default() });
        route(f, "10.244.0.0/16", "172.20.0.1");
    }),
    ("spec.vpc: a namespace of a build without rules", restricted),
    ("spec.vpc: pods of a build without rules", |f| {
        f.hold();
        for slot in 0..3 {
            let set = f.live(Kind::StatefulSet, &names::slot(names::APISERVER, slot));
            set["spec"]["template"]["spec"]["initContainers"] = json!([]);
        }
    }),
    ("spec.vpc: routes, and a namespace of a build without rules", |f| {
        restricted(f);
        route(f, "10.160.0.0/16", "172.20.0.1");
    }),
    ("spec.vpc: the NetworkAttachmentDefinition is gone", |f| f.world.observed.attachment = AttachmentSeen::Missing),
    ("spec.vpc: there is no pod", |f| f.world.remove(&pod())),
    ("spec.vpc: somebody else has the address", |f| {
        let message =
            "AddressTaken: 172.20.0.3 is in use by 02:00:00:00:00:01; the API server is not started while it is";
        let waiting = json!({"waiting": {"reason": "CrashLoopBackOff"}});
        let last = json!({"terminated": {"exitCode": 1, "message": message}});
        let vpc = json!({"name": "vpc", "started": false, "state": waiting, "lastState": last});
        f.world.observed.objects.get_mut(&pod()).unwrap()["status"] = json!({"initContainerStatuses": [vpc]});
    }),
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
        let older = berth_testkit::simulated::before(set, "apiserver", "vpc = {}");
        f.home_object()["metadata"]["annotations"][labels::TEMPLATES] = older.digest().into();
        f.world.observed.pinned = Some(older);
    }),
];

/// A tenant whose provider chooses the addresses.
const PROVIDED: &[Case] = &[
    ("spec.vpc without addresses: at rest", |_| {}),
    ("spec.vpc without addresses: a node cannot attach the pod", |f| {
        let pod = provided(f);
        let live = f.world.observed.objects.get_mut(&pod).unwrap();
        live["status"]["conditions"] = json!([]);
        f.world.observed.refused.insert(pod.name, "Failed to create pod sandbox: no free address".into());
    }),
    ("spec.vpc without addresses: the provider gives none", |f| {
        let pod = provided(f);
        let live = f.world.observed.objects.get_mut(&pod).unwrap();
        live["status"]["conditions"] = json!([]);
        live["metadata"]["annotations"]["k8s.v1.cni.cncf.io/network-status"] = "[]".into();
    }),
    ("spec.vpc without addresses: no API server is ready", |f| {
        let pods: Vec<_> =
            f.world.observed.of_kind(Kind::Pod, &Fixture::cp_namespace()).map(|(key, _)| key.clone()).collect();
        for pod in pods {
            f.world.remove(&pod);
        }
    }),
];

/// In the names of pods of kube-apiserver's Deployment.
fn hash(f: &Fixture) -> Option<String> {
    f.world.observed.get(&Fixture::key(Kind::Deployment, names::APISERVER))?;
    Some(provided(f).name.split('-').nth(2)?.to_owned())
}

/// One of its API servers.
fn provided(f: &Fixture) -> ObjectKey {
    let namespace = Fixture::cp_namespace();
    let mut pods = f.world.observed.of_kind(Kind::Pod, &namespace).map(|(key, _)| key);
    pods.find(|key| key.name.starts_with(names::APISERVER)).unwrap().clone()
}

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

fn vpc(f: &mut Fixture) -> &mut berth_api::cluster::Vpc {
    f.cluster.spec.vpc.as_mut().unwrap()
}

fn route(f: &mut Fixture, dst: &str, via: &str) {
    vpc(f).routes = vec![berth_api::cluster::Route { dst: dst.into(), via: via.into() }];
}

fn annotation(f: &mut Fixture, key: &str, value: &str) {
    vpc(f).pod_annotations.insert(key.into(), value.into());
}

/// As the build before made it.
fn restricted(f: &mut Fixture) {
    let all = f.home_object()["metadata"]["labels"].as_object_mut().unwrap();
    all.remove(labels::VPC);
    all.insert(labels::POD_SECURITY.into(), "restricted".into());
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
    let mut without = spec();
    without["vpc"].as_object_mut().unwrap().remove("addresses");
    let provided = Fixture::up_in_vpc(without);
    let cases = NEW.iter().map(|case| (case, &fresh)).chain(UP.iter().map(|case| (case, &up)));
    let cases = cases.chain(PROVIDED.iter().map(|case| (case, &provided)));
    let situation = |((text, happens), from): (&Case, &Fixture)| {
        let mut f = from.copy();
        happens(&mut f);
        f.reconcile();
        // The hash in the names of a Deployment's pods is of what is random.
        if let Some(hash) = hash(from) {
            let status = serde_json::to_string(&f.cluster.status).unwrap().replace(&hash, "5d8c7f9b64");
            f.cluster.status = serde_json::from_str(&status).unwrap();
        }
        (*text, f)
    };
    let rolls = ("spec.vpc: a new version, and one API server after the other is updated", held(&up));
    cases.map(situation).chain([rolls]).collect()
}
