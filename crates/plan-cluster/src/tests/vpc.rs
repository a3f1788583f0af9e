//! API servers with addresses in a VPC.

use super::*;
use berth_api::labels;
use berth_plan::observed::AttachmentSeen;
use berth_plan::workload;

const VERSION: &str = "1.36.2";

pub(super) fn vpc() -> Value {
    json!({
        "attachment": {"name": "vpc-acme", "interface": "net1"},
        "addresses": ["172.20.0.2/24", "172.20.0.3/24", "172.20.0.4/24"],
        "host": "acme.vpc.example.com",
    })
}

pub(super) fn spec() -> Value {
    json!({"version": VERSION, "replicas": 2, "vpc": vpc()})
}

pub(super) fn definition(annotations: Value) -> AttachmentSeen {
    AttachmentSeen::Found(json!({
        "metadata": {"name": "vpc-acme", "namespace": "team-a", "annotations": annotations},
        "spec": {"config": r#"{"type": "macvlan"}"#},
    }))
}

pub(super) fn new(spec: Value) -> Fixture {
    let mut f = Fixture::new(spec);
    f.world.observed.attachment = definition(json!({}));
    f.settings.vpc.pods_are_held = true;
    f
}

impl Fixture {
    pub(super) fn slot(&self, slot: usize) -> &Value {
        self.world.observed.get(&Self::key(Kind::StatefulSet, &names::slot(names::APISERVER, slot))).unwrap()
    }

    /// Replicas of each slot.
    pub(super) fn slots(&self) -> Vec<i64> {
        let all = self.cluster.spec.vpc.as_ref().unwrap().addresses.len();
        (0..all).map(|slot| self.slot(slot)["spec"]["replicas"].as_i64().unwrap()).collect()
    }

    /// Controllers, kubelets and the network plugin do their part.
    pub(super) fn attached(&mut self) {
        self.others();
        self.world.run_controllers();
        // A pod keeps what the provider gave it.
        let status =
            |object: &Value| object["metadata"]["annotations"]["k8s.v1.cni.cncf.io/network-status"].to_string();
        let taken: String = self.world.observed.objects.values().map(status).collect();
        let mut free = (201..).map(|n| format!("172.20.0.{n}")).filter(|ip| !taken.contains(ip.as_str()));
        for (key, object) in &mut self.world.observed.objects {
            let asked = object.pointer("/metadata/annotations/k8s.v1.cni.cncf.io~1networks").and_then(Value::as_str);
            let (Kind::Pod, Some(asked)) = (key.kind, asked) else { continue };
            let asked: Value = serde_json::from_str(asked).unwrap();
            let ip = match asked[0]["ips"][0].as_str() {
                Some(ip) => ip.split('/').next().unwrap().to_owned(),
                None if status(object) != "null" => continue,
                None => free.next().unwrap(),
            };
            let status = json!([{"name": "cbr0", "interface": "eth0"}, {"name": "team-a/vpc-acme", "interface": "net1", "ips": [ip]}]);
            object["metadata"]["annotations"]["k8s.v1.cni.cncf.io/network-status"] = status.to_string().into();
        }
        // Slots that were made a moment ago may still start.
        self.world.now += jiff::SignedDuration::from_mins(2);
    }

    /// Until the tenant is ready.
    pub(super) fn up_in_vpc(spec: Value) -> Self {
        let mut f = new(spec);
        for _ in 0..6 {
            f.reconcile();
            f.attached();
        }
        let last = f.reconcile();
        assert_eq!(last.plan.first_problem(), None, "{:#?}", f.world.log);
        f.world.log.clear();
        f
    }
}

#[test]
fn each_address_has_a_slot_and_spares_wait() {
    let f = Fixture::up_in_vpc(spec());
    assert_eq!(f.slots(), [1, 1, 0]);
    assert!(f.world.observed.get(&Fixture::key(Kind::Deployment, names::APISERVER)).is_none());
    for (n, address) in ["172.20.0.2", "172.20.0.3", "172.20.0.4"].into_iter().enumerate() {
        let template = &f.slot(n)["spec"]["template"];
        let networks = &template["metadata"]["annotations"]["k8s.v1.cni.cncf.io/networks"];
        assert_eq!(
            networks,
            &format!(
                r#"[{{"name":"vpc-acme","namespace":"{}","interface":"net1","ips":["{address}/24"]}}]"#,
                Fixture::cp_namespace()
            )
        );
        let container = &template["spec"]["containers"][0];
        let words = [&container["command"], &container["args"]].map(|list| list.as_array().unwrap().clone()).concat();
        for word in [format!("--interface=net1={address}/24"), format!("--advertise-address={address}")] {
            assert!(words.contains(&json!(word)), "{word}");
        }
        assert_eq!(f.slot(n)["spec"]["podManagementPolicy"], "Parallel");
    }
    let budget = f.world.observed.get(&Fixture::key(Kind::PodDisruptionBudget, names::APISERVER)).unwrap();
    assert_eq!(budget["spec"]["minAvailable"], 1);
    let pki = Fixture::key(Kind::Secret, names::APISERVER_PKI);
    let certificate = f.world.observed.pair(&pki, "apiserver").unwrap().unwrap();
    assert!(certificate.ip_addresses.contains(&[172, 20, 0, 4].into()), "a spare's, too");
    let endpoints = &f.cluster.status.as_ref().unwrap().endpoints;
    let told: Vec<_> = endpoints.iter().map(|e| (e.name.as_str(), e.host.as_str(), e.port)).collect();
    assert_eq!(told[1], ("nodes", "acme.vpc.example.com", 6443));
    assert_eq!(f.condition("VPCReady").0, "True");
    let slice = ObjectKey::namespaced(Kind::EndpointSlice, "default", "kubernetes");
    let slice = f.world.inside[&slice].value();
    let addresses: Vec<_> = slice["endpoints"].as_array().unwrap().iter().map(|e| &e["addresses"][0]).collect();
    assert_eq!(addresses, ["172.20.0.2", "172.20.0.3"]);
    let info = ObjectKey::namespaced(Kind::ConfigMap, "kube-public", "cluster-info");
    assert!(
        f.world.inside[&info].value()["data"]["kubeconfig"]
            .as_str()
            .unwrap()
            .contains("https://acme.vpc.example.com:6443")
    );
}

#[test]
fn a_change_rolls_one_slot_after_the_other_and_the_spare_first() {
    let mut f = Fixture::up_in_vpc(spec());
    f.cluster.spec.version = "1.36.3".into();
    let mut seen = vec![];
    for _ in 0..12 {
        f.reconcile();
        let versions: Vec<_> = (0..3).map(|n| workload::version_of(f.slot(n)).unwrap().to_string()).collect();
        let now = (versions.join(" "), f.slots());
        if seen.last() != Some(&now) {
            seen.push(now);
        }
        f.attached();
    }
    let step = |versions: &str, replicas: [i64; 3]| (versions.to_owned(), replicas.to_vec());
    assert_eq!(
        seen,
        [
            step("1.36.2 1.36.2 1.36.3", [1, 1, 1]),
            step("1.36.3 1.36.2 1.36.3", [1, 1, 1]),
            step("1.36.3 1.36.3 1.36.3", [1, 1, 1]),
            step("1.36.3 1.36.3 1.36.3", [1, 1, 0]),
        ]
    );
    assert_eq!(f.condition("Ready").0, "True");
    let image = f.image(names::SCHEDULER);
    assert!(image.ends_with("1.36.3"), "{image}: what waits for API servers follows them");
}

#[test]
fn a_spare_takes_the_place_of_one_that_is_lost() {
    let mut f = Fixture::up_in_vpc(spec());
    let set = Fixture::key(Kind::StatefulSet, &names::slot(names::APISERVER, 0));
    f.world.observed.objects.get_mut(&set).unwrap()["status"]["availableReplicas"] = json!(0);
    f.reconcile();
    assert_eq!(f.slots(), [1, 1, 1]);
    let slice = ObjectKey::namespaced(Kind::EndpointSlice, "default", "kubernetes");
    assert_eq!(f.world.inside[&slice].value()["endpoints"].as_array().unwrap().len(), 1, "where the API is lost");
    f.attached();
    f.reconcile();
    assert_eq!(f.slots(), [1, 1, 0]);
}

#[test]
fn an_address_is_replaced_and_one_that_goes_leaves_nothing() {
    let mut f = Fixture::up_in_vpc(spec());
    let addresses = |f: &mut Fixture, all: &[&str]| {
        f.cluster.spec.vpc.as_mut().unwrap().addresses = all.iter().map(|a| (*a).to_owned()).collect();
    };
    addresses(&mut f, &["172.20.0.2/24", "172.20.0.9/24"]);
    for _ in 0..8 {
        f.reconcile();
        f.attached();
    }
    f.reconcile();
    assert_eq!(f.slots(), [1, 1]);
    let spare = Fixture::key(Kind::StatefulSet, &names::slot(names::APISERVER, 2));
    assert!(f.world.observed.get(&spare).is_none(), "the slot without an address is gone");
    assert_eq!(f.condition("Ready").0, "True");
    addresses(&mut f, &["172.20.0.9/24", "172.20.0.2/24"]);
    let planned = f.reconcile();
    let said = blocked(&planned, StageId::ControlPlane(Binary::ApiServer), Reason::InvalidSpec);
    assert!(said.starts_with("spec.vpc.addresses: 172.20.0.2 is number 2 now and was number 1"), "{said}");
    assert_eq!(f.slots(), [1, 1]);
}

#[test]
fn a_pod_that_still_has_the_address_is_waited_for() {
    let mut f = Fixture::up_in_vpc(spec());
    let pod = Fixture::key(Kind::Pod, "kube-apiserver-7-0");
    let asked = json!([{"name": "vpc-acme", "ips": ["172.20.0.9/24"]}]).to_string();
    f.world.put(
        pod.clone(),
        json!({"metadata": {"name": pod.name, "labels": {(labels::SLOT): "7"},
            "annotations": {"k8s.v1.cni.cncf.io/networks": asked}}}),
    );
    f.cluster.spec.vpc.as_mut().unwrap().addresses.push("172.20.0.9/24".into());
    let planned = f.reconcile();
    let (_, said) = planned.plan.first_problem().unwrap();
    assert!(said.contains("kube-apiserver-7-0, which has 172.20.0.9/24, to be gone"), "{said}");
    f.world.remove(&pod);
    f.reconcile();
    f.attached();
    assert_eq!(f.slots(), [1, 1, 0, 0]);
}

#[test]
fn nothing_is_made_without_the_network() {
    let elsewhere = |annotations: Value| {
        let mut f = new(spec());
        f.cluster.spec.vpc.as_mut().unwrap().attachment.namespace = Some("networks".into());
        f.world.observed.attachment = definition(annotations);
        f
    };
    let mut missing = new(spec());
    missing.world.observed.attachment = AttachmentSeen::Missing;
    let foreign = elsewhere(json!({(labels::ALLOW_FROM): "team-b"}));
    for (mut f, reason) in [(missing, Reason::InvalidSpec), (foreign, Reason::NotAllowed)] {
        let planned = f.reconcile();
        blocked(&planned, StageId::Spec, reason);
        assert!(f.world.log.is_empty(), "{:?}", f.world.log);
        assert_eq!(f.condition("VPCReady").1, reason.as_str());
    }
    let mut allowed = elsewhere(json!({(labels::ALLOW_FROM): "team-b, team-a"}));
    allowed.reconcile();
    assert!(!allowed.world.log.is_empty());
}

#[test]
fn a_definition_that_is_lost_stops_changes_and_takes_nothing_away() {
    let mut f = Fixture::up_in_vpc(spec());
    f.world.observed.attachment = AttachmentSeen::Missing;
    f.cluster.spec.version = "1.36.3".into();
    let planned = f.reconcile();
    blocked(&planned, StageId::ControlPlane(Binary::ApiServer), Reason::InvalidSpec);
    assert!((0..3).all(|n| workload::version_of(f.slot(n)).unwrap().to_string() == VERSION));
    assert_eq!((f.slots(), f.condition("VPCReady").0.as_str()), (vec![1, 1, 0], "False"));
}

#[test]
fn pods_ask_for_the_resource_that_the_network_needs() {
    let mut f = new(spec());
    f.world.observed.attachment = definition(json!({"k8s.v1.cni.cncf.io/resourceName": "example.com/eni"}));
    for _ in 0..3 {
        f.reconcile();
        f.attached();
    }
    let resources = &f.slot(0)["spec"]["template"]["spec"]["containers"][0]["resources"];
    assert_eq!(resources["limits"]["example.com/eni"], "1");
}

#[test]
fn an_address_that_a_pod_did_not_get_is_told() {
    let mut f = Fixture::up_in_vpc(spec());
    let pod = Fixture::key(Kind::Pod, "kube-apiserver-1-0");
    let live = f.world.observed.objects.get_mut(&pod).unwrap();
    live["status"]["conditions"] = json!([]);
    live["metadata"]["annotations"]["k8s.v1.cni.cncf.io/network-status"] =
        json!([{"interface": "net1", "ips": ["172.20.0.77"]}]).to_string().into();
    f.reconcile();
    let (_, _, said) = f.condition("VPCReady");
    assert!(
        said.starts_with("pod kube-apiserver-1-0 should have 172.20.0.3/24 at net1, and has 172.20.0.77"),
        "{said}"
    );
    f.world.observed.refused.insert(pod.name, "plugin type=\"macvlan\" failed: link not found".into());
    f.reconcile();
    let (_, _, said) = f.condition("VPCReady");
    assert!(
        said.ends_with("does not get its network, with 172.20.0.3/24: plugin type=\"macvlan\" failed: link not found")
    );
}
