//! The network of API servers' pods in a VPC: what holds it, and where it leads.

use super::vpc::{new, spec};
use super::*;
use berth_api::labels;
use berth_plan::meta_cluster::addresses::{MetaRanges, network};

fn with(fields: &[(&str, Value)]) -> Value {
    let mut spec = spec();
    for (name, value) in fields {
        spec["vpc"][*name] = value.clone();
        if value.is_null() {
            spec["vpc"].as_object_mut().unwrap().remove(*name);
        }
    }
    spec
}

impl Fixture {
    /// What the container `vpc` reads.
    fn net(&self) -> Option<Value> {
        let map = self.world.observed.get(&Self::key(Kind::ConfigMap, "kube-apiserver-vpc"))?;
        Some(serde_json::from_str(map["data"]["net.json"].as_str()?).unwrap())
    }

    fn pod_spec(&self, slot: usize) -> &Value {
        &self.slot(slot)["spec"]["template"]["spec"]
    }

    fn namespace_label(&self, name: &str) -> Option<&str> {
        berth_plan::object_meta::label(self.world.observed.get(&Self::namespace())?, name)
    }
}

fn home(f: &mut Fixture) -> &mut Value {
    f.world.observed.objects.get_mut(&Fixture::namespace()).unwrap()
}

#[test]
fn pods_have_the_container_that_holds_their_network() {
    let f = Fixture::up_in_vpc(with(&[("virtualIP", json!("172.20.0.10"))]));
    let first = &f.pod_spec(1)["initContainers"][0];
    assert_eq!(first["name"], "vpc");
    assert_eq!(
        (&first["restartPolicy"], &first["command"]),
        (&json!("Always"), &json!(["/berth-agent", "net", "run"]))
    );
    assert_eq!(first["args"], json!(["--config=/etc/berth/vpc/net.json", "--slot=1", "--address=172.20.0.3/24"]));
    let security = json!({"runAsNonRoot": false, "runAsUser": 0, "runAsGroup": 0, "allowPrivilegeEscalation": false,
        "readOnlyRootFilesystem": true, "capabilities": {"drop": ["ALL"], "add": ["NET_ADMIN", "NET_RAW"]}});
    assert_eq!(first["securityContext"], security);
    assert_eq!(first["volumeMounts"], json!([{"name": "vpc", "mountPath": "/etc/berth/vpc", "readOnly": true}]));
    let checksums = f.slot(1)["spec"]["template"]["metadata"]["annotations"].to_string();
    assert!(!checksums.contains("kube-apiserver-vpc"), "new rules restart nothing: {checksums}");
    for (name, value) in [
        (labels::VPC, "true"),
        (labels::POD_SECURITY, "privileged"),
        ("pod-security.kubernetes.io/warn", "restricted"),
        ("pod-security.kubernetes.io/audit", "restricted"),
    ] {
        assert_eq!(f.namespace_label(name), Some(value), "{name}");
    }
}

#[test]
fn without_a_vpc_pod_security_holds_all_pods() {
    let f = Fixture::up(json!({"version": "1.36.2"}));
    assert_eq!(f.namespace_label(labels::POD_SECURITY), Some("restricted"));
    assert_eq!(f.namespace_label(labels::VPC), None);
    assert!(f.net().is_none());
}

#[test]
fn what_is_closed_and_open_is_as_in_the_policies() {
    let mut f = new(with(&[
        ("virtualIP", json!("172.20.0.10")),
        ("routes", json!([{"dst": "0.0.0.0/0", "via": "172.20.0.1"}, {"dst": "10.160.0.0/16", "via": "172.20.0.7"}])),
    ]));
    let nets = |all: &[&str]| all.iter().map(|net| network(net).unwrap()).collect();
    f.meta().addresses = Ok(MetaRanges {
        pods: nets(&["10.244.0.0/16", "fd00:244::/56"]),
        services: nets(&["10.96.0.0/12"]),
        nodes: nets(&["192.168.100.0/24"]),
        ..MetaRanges::default()
    });
    f.settings.isolation.dns.push(json!({"ipBlock": {"cidr": "169.254.20.10/32"}}));
    f.settings.isolation.api_server_egress = vec![json!({
        "to": [{"ipBlock": {"cidr": "10.200.0.0/16"}}, {"podSelector": {}}],
        "ports": [{"port": 443}, {"port": 8000, "endPort": 8999, "protocol": "UDP"}, {"port": "named"}],
    })];
    for _ in 0..4 {
        f.reconcile();
        f.attached();
    }
    let net = f.net().unwrap();
    for (name, value) in [
        ("interface", json!("net1")),
        ("rules", json!("All")),
        ("slots", json!(["172.20.0.2/24", "172.20.0.3/24", "172.20.0.4/24"])),
        ("virtualIP", json!("172.20.0.10")),
        ("routes", json!([{"dst": "0.0.0.0/0", "via": "172.20.0.1"}, {"dst": "10.160.0.0/16", "via": "172.20.0.7"}])),
    ] {
        assert_eq!(net[name], value, "{name}");
    }
    let policy = f.world.observed.get(&Fixture::key(Kind::NetworkPolicy, names::APISERVER)).unwrap();
    let outside = policy["spec"]["egress"].as_array().unwrap().iter().flat_map(|rule| rule["to"].as_array().unwrap());
    let except: Vec<_> = outside.filter_map(|to| to["ipBlock"]["except"].as_array()).flatten().collect();
    let denied = |range: &str| {
        except.iter().any(|one| network(one.as_str().unwrap()).unwrap().contains(&network(range).unwrap()))
    };
    let closed = net["closed"].as_array().unwrap();
    for range in ["10.244.0.0/16", "10.96.0.0/12", "192.168.100.0/24", "169.254.0.0/16", "fd00:244::/56", "fe80::/10"] {
        assert!(closed.contains(&json!(range)) && denied(range), "{range}: {closed:?}");
    }
    assert!(closed.iter().all(|range| range != "172.16.0.0/12"), "the VPC is in a private network");
    let etcd = f.world.observed.get(&Fixture::key(Kind::EtcdCluster, names::ETCD)).unwrap();
    let member = etcd["status"]["endpoints"][0]["address"].as_str().unwrap();
    let open = json!([
        {"to": format!("{member}/32"), "port": 2379, "protocol": "TCP"},
        {"to": "169.254.20.10/32", "port": 53, "protocol": "UDP"},
        {"to": "169.254.20.10/32", "port": 53, "protocol": "TCP"},
        {"to": "10.200.0.0/16", "port": 443, "protocol": "TCP"},
        {"to": "10.200.0.0/16", "port": 8000, "endPort": 8999, "protocol": "UDP"},
    ]);
    assert_eq!(net["open"], open);
    let args = &f.pod_spec(0)["containers"][0]["args"];
    assert!(args.as_array().unwrap().contains(&json!("--enable-aggregator-routing=true")), "{args}");
}

#[test]
fn rules_follow_the_operator_and_restart_nothing() {
    let mut f = Fixture::up_in_vpc(spec());
    let before: Vec<_> = (0..3).map(|n| f.slot(n).clone()).collect();
    f.settings.vpc.rules = berth_api::etcd_bootstrap::vpc::Rules::Interface;
    f.meta().addresses = Ok(MetaRanges { pods: vec![network("10.250.0.0/16").unwrap()], ..MetaRanges::default() });
    f.reconcile();
    assert_eq!(f.net().unwrap()["rules"], "Interface");
    assert!(f.net().unwrap()["closed"].as_array().unwrap().contains(&json!("10.250.0.0/16")));
    assert!((0..3).all(|n| f.slot(n) == &before[n]));
    let told = f.net();
    f.meta().addresses = Err("nodes cannot be listed".into());
    f.reconcile();
    assert_eq!(f.net(), told, "what is not known changes nothing");
}

#[test]
fn a_virtual_ip_is_where_the_api_is() {
    let mut f = Fixture::up_in_vpc(with(&[("virtualIP", json!("172.20.0.10")), ("host", Value::Null)]));
    let endpoints = &f.cluster.status.as_ref().unwrap().endpoints;
    assert_eq!((endpoints[1].name.as_str(), endpoints[1].host.as_str()), ("nodes", "172.20.0.10"));
    let slice = ObjectKey::namespaced(Kind::EndpointSlice, "default", "kubernetes");
    assert_eq!(
        f.world.inside[&slice].value()["endpoints"],
        json!([{"addresses": ["172.20.0.10"], "conditions": {"ready": true}}])
    );
    let info = ObjectKey::namespaced(Kind::ConfigMap, "kube-public", "cluster-info");
    assert!(f.world.inside[&info].value()["data"]["kubeconfig"].as_str().unwrap().contains("https://172.20.0.10:6443"));
    let pki = Fixture::key(Kind::Secret, names::APISERVER_PKI);
    let certificate = f.world.observed.pair(&pki, "apiserver").unwrap().unwrap();
    assert!(certificate.ip_addresses.contains(&[172, 20, 0, 10].into()));
    f.cluster.spec.vpc.as_mut().unwrap().host = Some("acme.vpc.example.com".into());
    f.reconcile();
    assert_eq!(f.cluster.status.as_ref().unwrap().endpoints[1].host, "acme.vpc.example.com");
}

#[test]
fn several_addresses_need_one_that_stays_but_not_of_a_tenant_that_is_there() {
    let mut f = new(with(&[("host", Value::Null)]));
    let planned = f.reconcile();
    let said = blocked(&planned, StageId::Spec, Reason::InvalidSpec);
    assert!(said.contains("set spec.vpc.virtualIP") && said.contains("spec.vpc.host"), "{said}");
    let mut f = Fixture::up_in_vpc(spec());
    f.cluster.spec.vpc.as_mut().unwrap().host = None;
    let planned = f.reconcile();
    assert_eq!(planned.plan.first_problem(), None);
    assert_eq!(f.cluster.status.as_ref().unwrap().endpoints[1].host, "172.20.0.2");
}

#[test]
fn without_policies_for_pods_there_is_no_vpc() {
    let mut f = new(spec());
    f.settings.vpc.pods_are_held = false;
    let planned = f.reconcile();
    let said = blocked(&planned, StageId::Spec, Reason::NotAllowed);
    assert!(said.contains("admissionPolicies.enabled"), "{said}");
    assert!(f.world.log.is_empty(), "nothing is made");
    let mut f = Fixture::up_in_vpc(spec());
    f.settings.vpc.pods_are_held = false;
    assert_eq!(f.reconcile().plan.first_problem(), None, "what is there stays");
}

/// Its namespace enforces `restricted`, where the container could not start.
#[test]
fn a_tenant_of_the_build_before_keeps_its_pods_until_somebody_lets_them_be_held() {
    let mut f = Fixture::up_in_vpc(spec());
    let live = home(&mut f);
    let all = live["metadata"]["labels"].as_object_mut().unwrap();
    all.remove(labels::VPC);
    all.remove("pod-security.kubernetes.io/audit");
    all.insert(labels::POD_SECURITY.into(), "restricted".into());
    for _ in 0..12 {
        f.reconcile();
        f.attached();
    }
    f.reconcile();
    assert_eq!(f.namespace_label(labels::POD_SECURITY), Some("restricted"), "never changed by the operator");
    assert!((0..3).all(|n| !f.pod_spec(n).to_string().contains("net.json")));
    let (status, _, said) = f.condition("VPCReady");
    assert_eq!(status, "True");
    assert!(said.contains("kubectl label --overwrite namespace") && said.contains("berth.dev/vpc=true"), "{said}");
    f.cluster.spec.vpc.as_mut().unwrap().routes =
        serde_json::from_value(json!([{"dst": "10.160.0.0/16", "via": "172.20.0.1"}])).unwrap();
    f.reconcile();
    let (_, _, said) = f.condition("VPCReady");
    assert!(said.starts_with("spec.vpc.routes: nothing lays the route to 10.160.0.0/16"), "{said}");

    let all = home(&mut f)["metadata"]["labels"].as_object_mut().unwrap();
    all.insert(labels::VPC.into(), "true".into());
    all.insert(labels::POD_SECURITY.into(), "privileged".into());
    for _ in 0..12 {
        f.reconcile();
        f.attached();
    }
    f.reconcile();
    assert!((0..2).all(|n| f.pod_spec(n)["initContainers"][0]["name"] == "vpc"));
    assert_eq!(f.condition("Ready").0, "True");
}

#[test]
fn a_route_into_the_meta_cluster_is_refused_and_takes_nothing_away() {
    let mut f = Fixture::up_in_vpc(spec());
    let (pods, told) = (f.slot(0).clone(), f.net());
    f.meta().addresses = Ok(MetaRanges { pods: vec![network("10.244.0.0/16").unwrap()], ..MetaRanges::default() });
    let routes = json!([{"dst": "10.244.7.0/24", "via": "172.20.0.1"}]);
    f.cluster.spec.vpc.as_mut().unwrap().routes = serde_json::from_value(routes).unwrap();
    let planned = f.reconcile();
    let said = blocked(&planned, StageId::ControlPlane(Binary::ApiServer), Reason::InvalidSpec);
    assert!(
        said.starts_with(
            "spec.vpc.routes: dst 10.244.7.0/24 overlaps 10.244.0.0/16, where the meta cluster has its pods"
        ),
        "{said}"
    );
    assert_eq!((f.slot(0), f.net()), (&pods, told));
}

#[test]
fn the_provider_may_choose_the_addresses() {
    let f = Fixture::up_in_vpc(with(&[("addresses", Value::Null)]));
    let deployment = f.world.observed.get(&Fixture::key(Kind::Deployment, names::APISERVER)).unwrap();
    let template = &deployment["spec"]["template"];
    assert_eq!(deployment["spec"]["replicas"], 2);
    assert_eq!(
        template["metadata"]["annotations"]["k8s.v1.cni.cncf.io/networks"],
        format!(r#"[{{"name":"vpc-acme","namespace":"{}","interface":"net1"}}]"#, Fixture::cp_namespace())
    );
    assert_eq!(template["spec"]["initContainers"][0]["args"], json!(["--config=/etc/berth/vpc/net.json"]));
    let command = template["spec"]["containers"][0]["command"].as_array().unwrap();
    assert!(command.contains(&json!("--interface=net1")), "{command:?}");
    assert_eq!(f.net().unwrap()["slots"], Value::Null);
    assert_eq!(f.cluster.status.as_ref().unwrap().endpoints[1].host, "acme.vpc.example.com");
    let slice = ObjectKey::namespaced(Kind::EndpointSlice, "default", "kubernetes");
    let all = f.world.inside[&slice].value()["endpoints"].as_array().unwrap().clone();
    assert_eq!(all.len(), 2);
    let address = all[0]["addresses"][0].as_str().unwrap();
    let (status, _, said) = f.condition("VPCReady");
    assert!(status == "True" && said.contains(address), "{said}");
    assert!(f.world.observed.of_kind(Kind::StatefulSet, &Fixture::cp_namespace()).all(|(key, _)| key.name == "etcd"));
}

#[test]
fn providers_keys_are_filled_in_where_they_are_allowed() {
    let fields = [
        ("podAnnotations", json!({"example.com/ip": "$(IP)", "example.com/net": "$(ADDRESS)"})),
        ("podLabels", json!({"example.com/slot": "s$(SLOT)"})),
    ];
    let mut f = new(with(&fields));
    let planned = f.reconcile();
    let said = blocked(&planned, StageId::Spec, Reason::NotAllowed);
    assert!(said.contains("example.com/ip=$(IP) is not allowed"), "{said}");
    f.settings.writers.vpc =
        ["example.com/ip=$(IP)", "example.com/net=$(ADDRESS)", "example.com/slot=s$(SLOT)"].map(str::to_owned).into();
    for _ in 0..4 {
        f.reconcile();
        f.attached();
    }
    let metadata = &f.slot(1)["spec"]["template"]["metadata"];
    assert_eq!(metadata["annotations"]["example.com/ip"], "172.20.0.3");
    assert_eq!(metadata["annotations"]["example.com/net"], "172.20.0.3/24");
    assert_eq!(metadata["labels"]["example.com/slot"], "s1");
    assert!(f.slot(1)["spec"]["selector"].to_string().find("example.com").is_none());
}
