//! Where the API is reached, when that changes, and what writers may ask of the Service and of nodes.

use super::*;
use berth_plan::meta_cluster::addresses::{MetaRanges, network};
use berth_plan::model::Action;
use berth_plan::objects::service_address::RefusedAddress;
use berth_plan::settings::Writers;
use berth_render::Listing;
use std::collections::BTreeSet;

pub(super) fn has_san(f: &Fixture, name: &str) -> bool {
    let secret = Fixture::key(Kind::Secret, names::APISERVER_PKI);
    let info = f.world.observed.pair(&secret, "apiserver").unwrap().unwrap();
    info.dns_names.iter().any(|n| n == name) || info.ip_addresses.iter().any(|a| a.to_string() == name)
}

pub(super) fn server(f: &Fixture) -> String {
    let facts = f.world.observed.secrets.get(&Fixture::key(Kind::Secret, names::ADMIN_KUBECONFIG)).unwrap();
    facts.kubeconfig().unwrap().unwrap().server.clone()
}

pub(super) fn load_balancer(f: &mut Fixture, ingress: Value) {
    let service = Fixture::key(Kind::Service, names::APISERVER);
    f.world.observed.objects.get_mut(&service).unwrap()["status"]["loadBalancer"] = json!({"ingress": [ingress]});
}

/// A pod of kube-apiserver that runs since so many seconds after now.
fn pod(now: jiff::Timestamp, started: i64) -> Value {
    let at = (now + jiff::SignedDuration::from_secs(started)).to_string();
    json!({
        "metadata": {"name": "kube-apiserver-1", "labels": {"app.kubernetes.io/component": "kube-apiserver"}},
        "status": {"containerStatuses": [{"name": "kube-apiserver", "state": {"running": {"startedAt": at}}}]},
    })
}

/// Until nothing is left to do; what was done for that is of no interest.
pub(super) fn come_up(f: &mut Fixture) {
    for _ in 0..5 {
        f.reconcile();
        f.others();
    }
    assert_eq!(f.reconcile().plan.first_problem(), None);
    f.world.log.clear();
}

pub(super) fn up_with_load_balancer() -> Fixture {
    up_behind("198.51.100.1", json!({"version": "1.36.3", "endpoint": {"type": "LoadBalancer"}}))
}

/// With a load balancer that gives this address.
pub(super) fn up_behind(address: &str, spec: Value) -> Fixture {
    let mut f = Fixture::new(spec);
    f.reconcile();
    let message = f.plan().plan.first_problem().unwrap().1;
    assert!(message.contains("an address from the meta cluster's load balancer"), "{message}");
    load_balancer(&mut f, json!({"ip": address}));
    come_up(&mut f);
    f
}

#[test]
fn a_new_address_counts_once_the_api_answers_there_and_the_old_one_goes_on() {
    let mut f = up_with_load_balancer();
    assert_eq!(server(&f), "https://198.51.100.1:6443");
    load_balancer(&mut f, json!({"hostname": "acme.lb.example.com"}));
    f.world.observed.api = ApiProbe::Failed("certificate is not valid for acme.lb.example.com".into());
    f.reconcile();
    assert!(has_san(&f, "acme.lb.example.com") && has_san(&f, "198.51.100.1"), "both are served");
    assert_eq!(server(&f), "https://198.51.100.1:6443");
    let stages = f.plan().plan;
    let said = stages.stage(StageId::Kubeconfig).unwrap().sentence().unwrap().1;
    assert!(
        said.contains("API server to answer at https://acme.lb.example.com:6443") && said.contains("198.51.100.1"),
        "{said}"
    );
    // One pod shows the new certificate already, another one is not gone, or has not read it yet.
    f.others();
    for (deleting, started, served) in [(true, 60, false), (false, -60, false), (false, 60, true)] {
        let mut pod = pod(f.world.now, started);
        if deleting {
            pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        let mut other = f.world.clone();
        other.put(Fixture::key(Kind::Pod, "kube-apiserver-1"), pod);
        let input = Input { object: &f.cluster, observed: &other.observed, settings: &f.settings, now: other.now };
        let writes: Vec<_> = ClusterPlanner::plan(input).plan.actions().map(berth_plan::Action::describe).collect();
        assert_eq!(writes.iter().any(|w| w.contains("kubeconfig")), served, "{deleting} {started}: {writes:#?}");
    }
    f.world.observed.api = ApiProbe::NotAsked;
    for _ in 0..3 {
        f.others();
        f.reconcile();
    }
    assert_eq!(server(&f), "https://acme.lb.example.com:6443");
    assert_eq!(f.plan().plan.first_problem(), None);
    // What was served before leaves the certificate when that is renewed for its age.
    f.world.now = f.world.now.saturating_add(jiff::SignedDuration::from_hours(70 * 24)).unwrap();
    f.reconcile();
    assert!(has_san(&f, "acme.lb.example.com") && !has_san(&f, "198.51.100.1"));
}

pub(super) fn meta() -> MetaRanges {
    let nets = |text: &str| vec![network(text).unwrap()];
    MetaRanges { services: nets("10.96.0.0/16"), nodes: nets("192.168.0.7"), ..MetaRanges::default() }
}

pub(super) fn dialled(f: &Fixture) -> (String, i32) {
    let observed = &f.world.observed;
    let input = Input { object: &f.cluster, observed, settings: &f.settings, now: f.world.now };
    crate::subject::Tenant::new(input).endpoint.dialled.unwrap()
}

#[test]
fn a_host_in_the_meta_cluster_is_neither_dialled_nor_published_and_what_runs_stays() {
    for endpoint in [json!({"host": "acme.example.com"}), json!({"type": "LoadBalancer", "host": "192.0.2.7"})] {
        let mut f = Fixture::new(json!({"version": "1.36.3", "endpoint": endpoint}));
        f.meta().addresses = Ok(meta());
        f.reconcile();
        load_balancer(&mut f, json!({"ip": "198.51.100.1"}));
        come_up(&mut f);
        let (before, told) = (server(&f), f.cluster.status.clone().unwrap().endpoints);
        let service = f.world.observed.get(&Fixture::key(Kind::Service, names::APISERVER)).unwrap();
        let own = service["spec"]["clusterIP"].as_str().unwrap().to_owned();
        for refused in ["10.96.255.1", "169.254.169.254", "127.1"] {
            f.cluster.spec.endpoint.host = Some(refused.into());
            let message = blocked(&f.reconcile(), StageId::Endpoint, Reason::InvalidSpec);
            assert!(message.starts_with(&format!("spec.endpoint.host: {refused} is ")), "{message}");
            assert_eq!(dialled(&f), (own.clone(), 6443));
            assert_eq!(f.world.log, Vec::<String>::new(), "nothing is written for {refused}");
            assert_eq!((server(&f), &f.cluster.status.as_ref().unwrap().endpoints), (before.clone(), &told));
            assert_eq!(f.condition("Available").0, "True", "the API answers at its Service");
            assert_eq!(f.condition("Ready").1, "InvalidSpec");
        }
        for allowed in [own.as_str(), "192.168.0.7"] {
            f.cluster.spec.endpoint.host = Some(allowed.into());
            assert_eq!(f.plan().plan.blocked().map(|(.., why)| why), None);
            assert_eq!(dialled(&f), (allowed.to_owned(), 6443));
        }
    }
}

#[test]
fn a_host_that_is_refused_is_named_nowhere_and_the_rest_goes_on() {
    let mut f = Fixture::new(json!({"version": "1.36.3", "endpoint": {"type": "NodePort", "host": "localhost"}}));
    for _ in 0..3 {
        f.reconcile();
        f.others();
    }
    let made = |f: &Fixture, kind, name: &str| f.world.observed.get(&Fixture::key(kind, name)).is_some();
    assert!(made(&f, Kind::Deployment, names::APISERVER) && !made(&f, Kind::Secret, names::ADMIN_KUBECONFIG));
    assert!(!has_san(&f, "nodes.example.com"));
    f.cluster.spec.endpoint.host = Some("nodes.example.com".into());
    let service = Fixture::key(Kind::Service, names::APISERVER);
    f.world.observed.objects.get_mut(&service).unwrap()["spec"]["ports"][0]["nodePort"] = 31147.into();
    f.world.log.clear();
    for _ in 0..5 {
        f.reconcile();
        f.others();
    }
    assert_eq!(f.reconcile().plan.first_problem(), None);
    let rolls = |line: &String| line.contains("Deployment") && !line.ends_with(" in the tenant");
    assert!(!f.world.log.iter().any(rolls), "nothing rolls for it: {:#?}", f.world.log);
    assert_eq!(server(&f), "https://nodes.example.com:31147");
    assert!(has_san(&f, "nodes.example.com"));
}

/// What the API server says of a port that another Service has.
fn refused(port: i32) -> RefusedAddress {
    let node_ports = [(port, "provided port is already allocated".to_owned())].into();
    RefusedAddress { cluster_ip: false, node_ports }
}

#[test]
fn a_port_of_nodes_is_asked_for_and_where_it_is_taken_the_service_is_there_with_another() {
    let settle = |f: &mut Fixture| {
        for _ in 0..3 {
            f.reconcile();
            f.others();
        }
        assert_eq!(f.reconcile().plan.first_problem(), None);
    };
    let endpoint = json!({"type": "NodePort", "host": "192.0.2.7"});
    let mut f = Fixture::up(json!({"version": "1.36.3", "endpoint": endpoint}));
    f.settings.writers.node_ports = vec!["30440-30449".to_owned()];
    f.cluster.spec.endpoint.node_port = Some(30447);
    settle(&mut f);
    assert_eq!(server(&f), "https://192.0.2.7:30447");
    f.cluster.spec.endpoint.node_port = Some(30444);
    let service = Fixture::key(Kind::Service, names::APISERVER);
    f.world.observed.refused_addresses.insert(service.clone(), refused(30444));
    for is_there in [true, false] {
        if !is_there {
            f.world.remove(&service);
        }
        let planned = f.reconcile();
        let (_, said) = planned.plan.first_problem().unwrap();
        let says =
            "spec.endpoint.nodePort: Service kube-apiserver cannot have 30444: provided port is already allocated";
        assert!(said.contains(says), "{said}");
        let live = f.world.observed.get(&service).unwrap();
        assert_eq!(live["spec"]["ports"][0]["nodePort"], 30447, "{live}");
    }
    f.world.observed.refused_addresses.clear();
    settle(&mut f);
    assert_eq!(server(&f), "https://192.0.2.7:30444");
    f.cluster.spec.endpoint.node_port = None;
    f.settings.writers.node_ports.clear();
    settle(&mut f);
    assert_eq!(server(&f), "https://192.0.2.7:30444", "it stays");
}

#[test]
fn a_port_of_nodes_that_was_refused_is_asked_for_anew_now_and_then() {
    let endpoint = json!({"type": "NodePort", "host": "192.0.2.7"});
    let mut f = Fixture::up(json!({"version": "1.36.3", "endpoint": endpoint}));
    f.settings.writers.node_ports = vec!["30444-30445".to_owned()];
    f.cluster.spec.endpoint.node_port = Some(30444);
    let service = Fixture::key(Kind::Service, names::APISERVER);
    f.world.observed.refused_addresses.insert(service.clone(), refused(30444));
    let said = blocked(&f.reconcile(), StageId::Endpoint, Reason::InvalidSpec);
    let told = f.condition("Ready");
    // Each reconcile begins without an answer.
    f.world.observed.refused_addresses.clear();
    let at = |f: &Fixture, minute: i64| {
        let mut later = f.copy();
        later.world.now += jiff::SignedDuration::from_mins(minute);
        later
    };
    let asks = |f: &Fixture| f.plan().plan.actions().any(|action| action.describe().starts_with("apply Service"));
    assert_eq!((0..20).filter(|minute| asks(&at(&f, *minute))).collect::<Vec<_>>(), [0, 10]);
    let mut waits = at(&f, 1);
    let pod = Fixture::key(Kind::Pod, "kube-apiserver-x");
    let labels = json!({"app.kubernetes.io/component": "kube-apiserver"});
    waits.world.put(pod.clone(), json!({"metadata": {"name": pod.name, "labels": labels}}));
    waits.world.run_pod(&pod);
    let planned = waits.reconcile();
    assert_eq!(blocked(&planned, StageId::Endpoint, Reason::InvalidSpec), said);
    assert_eq!((waits.condition("Ready"), waits.world.log.len()), (told, f.world.log.len()));
    assert!(planned.requeue_after >= Some(jiff::SignedDuration::from_mins(1)), "{:?}", planned.requeue_after);
    // A new spec, another port, and a Service that is gone.
    let mut changed = at(&waits, 0);
    changed.cluster.metadata.generation = Some(2);
    let mut other = at(&waits, 0);
    other.cluster.spec.endpoint.node_port = Some(30445);
    // An operator from before writes what it knows.
    let mut before = at(&waits, 0);
    let status = before.cluster.status.as_mut().unwrap();
    assert_eq!(status.refused_node_port.take().unwrap().port, 30444);
    let mut gone = at(&waits, 0);
    gone.world.remove(&service);
    for f in [&changed, &other, &before, &gone] {
        assert!(asks(f));
    }
    // Somebody gave it back, or it is had by other means.
    let mut free = at(&waits, 9);
    last(&mut free);
    let port = |f: &Fixture| f.world.observed.get(&service).unwrap()["spec"]["ports"][0]["nodePort"].clone();
    assert_eq!((port(&free), free.condition("Ready").0), (json!(30444), "True".to_owned()));
    waits.live(Kind::Service, names::APISERVER)["spec"]["ports"][0]["nodePort"] = json!(30444);
    assert!(last(&mut waits).plan.stage(StageId::Endpoint).unwrap().state.is_done());
    assert_eq!(waits.cluster.status.unwrap().refused_node_port, None);
}

#[test]
fn the_service_carries_what_is_asked_for_and_allowed() {
    let mut f = up_with_load_balancer();
    f.cluster.spec.endpoint.service = serde_json::from_value(json!({
        "annotations": {"lb.example.com/size": "small"}, "loadBalancerSourceRanges": ["203.0.113.0/24"],
    }))
    .unwrap();
    let message = blocked(&f.reconcile(), StageId::Endpoint, Reason::NotAllowed);
    assert!(message.contains("lb.example.com/size") && message.contains("writers.service.annotations"), "{message}");
    assert!(f.world.log.is_empty(), "{:#?}", f.world.log);
    f.settings.writers = Writers { service_annotations: vec!["lb.example.com/*".into()], ..Writers::default() };
    f.reconcile();
    let service = f.world.observed.get(&Fixture::key(Kind::Service, names::APISERVER)).unwrap();
    assert_eq!(service["metadata"]["annotations"]["lb.example.com/size"], "small");
    assert_eq!(service["spec"]["loadBalancerSourceRanges"], json!(["203.0.113.0/24"]));
}

#[test]
fn a_placement_that_is_not_allowed_stops_the_release_and_nothing_else() {
    let mut f = Fixture::up(json!({"version": "1.36.3"}));
    let selector = serde_json::from_value(json!({"nodeSelector": {"pool": "masters"}})).unwrap();
    f.cluster.spec.api_server.placement = selector;
    f.cluster.spec.etcd.placement = f.cluster.spec.api_server.placement.clone();
    f.cluster.spec.scheduler.extra_args = vec![serde_json::from_value(json!({"name": "v", "value": "2"})).unwrap()];
    let planned = f.reconcile();
    assert!(blocked(&planned, StageId::Spec, Reason::NotAllowed).contains("spec.apiServer.placement.nodeSelector"));
    assert!(blocked(&planned, StageId::Etcd, Reason::NotAllowed).contains("spec.etcd.placement.nodeSelector"));
    assert!(f.world.log.is_empty(), "the scheduler's flag is of the same release: {:#?}", f.world.log);
    f.settings.writers = Writers { node_selectors: vec!["pool=masters".into()], ..Writers::default() };
    f.reconcile();
    let api = f.world.observed.get(&Fixture::key(Kind::Deployment, names::APISERVER)).unwrap();
    assert_eq!(api["spec"]["template"]["spec"]["nodeSelector"], json!({"pool": "masters"}));
    let etcd = f.world.observed.get(&Fixture::key(Kind::EtcdCluster, names::ETCD)).unwrap();
    assert_eq!(etcd["spec"]["placement"]["nodeSelector"], json!({"pool": "masters"}));
}

#[test]
fn the_tenant_is_told_an_address_and_the_port_that_goes_with_it() {
    let mut f = Fixture::up(json!({"version": "1.36.3"}));
    let slice = |f: &Fixture| {
        let observed = &f.world.observed;
        let input = Input { object: &f.cluster, observed, settings: &f.settings, now: f.world.now };
        let planned = ClusterPlanner::plan(input);
        let told = planned.plan.actions().find_map(|a| match a {
            Action::TenantApply(o) if o.key().kind == Kind::EndpointSlice => Some(o.value().clone()),
            _ => None,
        });
        told.map(|s| (s["endpoints"][0]["addresses"][0].clone(), s["ports"][0]["port"].clone()))
    };
    let service = Fixture::key(Kind::Service, names::APISERVER);
    let inside = f.world.observed.get(&service).unwrap()["spec"]["clusterIP"].clone();
    f.world.observed.objects.get_mut(&service).unwrap()["spec"]["ports"][0]["nodePort"] = 31147.into();
    f.cluster.spec.endpoint.type_ = berth_api::cluster::EndpointType::NodePort;
    // Everything is to be written again, so that it shows.
    f.world.observed.api = ApiProbe::Answered { version: None, read: InsideTenant::listed(berth_render::STAMPS, []) };
    f.cluster.spec.endpoint.host = Some("nodes.example.com".into());
    assert_eq!(slice(&f), Some((inside, 6443.into())), "a name is no address: the Service's own, with its port");
    f.cluster.spec.endpoint.host = Some("192.0.2.7".into());
    assert_eq!(slice(&f), Some(("192.0.2.7".into(), 31147.into())));
}

#[test]
fn an_address_of_the_other_family_takes_a_slice_of_its_own() {
    // With an IPv6 range the IPv4 address is taken for want of another, and the Service's own is IPv4, too.
    let network = json!({"serviceCIDRs": ["fd00:112::/112"], "podCIDRs": ["fd00:160::/56"]});
    let spec = json!({"version": "1.36.3", "endpoint": {"type": "LoadBalancer"}, "network": network});
    let mut f = up_behind("198.51.100.1", spec);
    let key = ObjectKey::namespaced(Kind::EndpointSlice, "default", "kubernetes");
    for (address, family) in [("2001:db8::1", "IPv6"), ("2001:db8::2", "IPv6"), ("198.51.100.1", "IPv4")] {
        let before = slice_inside(&f);
        load_balancer(&mut f, json!({"ip": address}));
        for _ in 0..3 {
            f.reconcile();
            f.others();
        }
        assert_eq!(f.reconcile().plan.first_problem(), None);
        let slice = slice_inside(&f);
        let endpoints = json!([{"addresses": [address], "conditions": {"ready": true}}]);
        assert_eq!((&slice["addressType"], &slice["endpoints"]), (&json!(family), &endpoints));
        let (delete, apply) = (format!("delete {key} in the tenant"), format!("apply {key} in the tenant"));
        let writes: Vec<_> = f.world.log.drain(..).filter(|w| w.contains("EndpointSlice")).collect();
        let wanted = if before["addressType"] == family { vec![apply] } else { vec![delete, apply] };
        assert_eq!(writes, wanted, "{address}");
    }
}

/// What a tenant's `kubernetes` Service points to.
pub(super) fn slice_inside(f: &Fixture) -> Value {
    let key = ObjectKey::namespaced(Kind::EndpointSlice, "default", "kubernetes");
    match &f.world.observed.api {
        ApiProbe::Answered { read, .. } => read.get(&key).flatten().unwrap().clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn clients_of_the_api_follow_its_port_once_the_service_has_it() {
    let mut f = Fixture::up(json!({"version": "1.36.3"}));
    f.cluster.spec.endpoint.port = 7443;
    // Whether what a plan says of the Service gets through is known only in the next one.
    let writes = |f: &Fixture| f.plan().plan.actions().map(Action::describe).collect::<Vec<_>>();
    let first = writes(&f);
    let of = |all: &[String], name: &str| all.iter().any(|w| w.starts_with("apply Deployment") && w.ends_with(name));
    assert!(first.iter().any(|w| w.starts_with("apply Service")), "{first:#?}");
    assert!(!of(&first, names::SCHEDULER) && !of(&first, names::CONTROLLER_MANAGER), "{first:#?}");
    // A Service that is refused keeps its port, and its clients theirs.
    f.cluster.spec.endpoint.service.annotations.insert("a.example.com/b".into(), "c".into());
    f.reconcile();
    assert!(!of(&f.world.log, names::SCHEDULER), "{:#?}", f.world.log);
    assert_eq!(f.plan().endpoint.unwrap().1, 6443, "what is published is served");
    f.cluster.spec.endpoint.service.annotations.clear();
    for _ in 0..3 {
        f.reconcile();
        f.others();
    }
    assert!(of(&f.world.log, names::SCHEDULER) && of(&f.world.log, names::CONTROLLER_MANAGER), "{:#?}", f.world.log);
    assert_eq!(f.reconcile().plan.first_problem(), None);
}

#[test]
fn a_new_spec_is_compared_with_all_that_is_inside() {
    let mut f = addons::serving();
    let counts = [Kind::Deployment, Kind::DaemonSet].map(|kind| Listing { kind, namespace: Some("kube-system") });
    let stamps: Vec<_> = std::iter::once(berth_render::STAMPS).chain(counts).collect();
    let read = |f: &Fixture, minute: i64| {
        let now = f.world.now + jiff::SignedDuration::from_mins(minute);
        let input = Input { object: &f.cluster, observed: &f.world.observed, settings: &f.settings, now };
        asked_inside(input)
    };
    let rest: BTreeSet<_> = (0..30).flat_map(|minute| read(&f, minute)).collect();
    assert_eq!(rest, berth_render::TenantSet::LISTINGS.into(), "at rest all in turn");
    f.cluster.metadata.generation = Some(2);
    assert!((0..30).all(|minute| read(&f, minute) == stamps));
}

#[test]
fn a_host_that_is_not_in_dns_is_for_a_person() {
    let lookup = |why: &str| ApiProbe::Failed(format!("dns error: failed to lookup address information: {why}").into());
    for why in ["Name or service not known", "Name does not resolve"] {
        let mut f = Fixture::up(json!({"version": "1.36.3"}));
        f.cluster.spec.endpoint.host = Some("api.example.com".into());
        f.world.observed.api = lookup(why);
        let said = blocked(&f.reconcile(), StageId::Tenant, Reason::APINotReachable);
        for part in [
            "spec.endpoint.host: api.example.com does not resolve",
            "Create a DNS record that points to 10.96.",
            "or change the field",
        ] {
            assert!(said.contains(part), "{said}");
        }
        for type_ in ["Ready", "Degraded", "Available"] {
            let (_, reason, message) = f.condition(type_);
            assert!(reason == "APINotReachable" && message.contains("api.example.com does not resolve"), "{message}");
        }
        // A resolver without an answer says nothing of the host.
        for why in ["Temporary failure in name resolution", "Try again"] {
            f.world.observed.api = lookup(why);
            f.reconcile();
            assert_eq!(f.condition("Degraded").0, "False");
            assert!(
                f.condition("Available").2.contains("The operator, too, must resolve and reach spec.endpoint.host")
            );
        }
    }
}

#[test]
fn a_new_tenants_dns_record_is_given_time() {
    let mut f =
        Fixture::new(json!({"version": "1.36.3", "endpoint": {"type": "LoadBalancer", "host": "api.example.com"}}));
    f.reconcile();
    load_balancer(&mut f, json!({"ip": "198.51.100.1"}));
    come_up(&mut f);
    let key = Fixture::key(Kind::Pod, "kube-apiserver-x");
    let labels = json!({"app.kubernetes.io/component": "kube-apiserver"});
    f.world.put(key.clone(), json!({"metadata": {"name": key.name, "labels": labels}}));
    f.world.run_pod(&key);
    let why = "dns error: failed to lookup address information: Name or service not known";
    f.world.observed.api = ApiProbe::Failed(why.into());
    f.reconcile();
    assert_eq!(f.condition("Degraded").0, "False");
    let (_, reason, message) = f.condition("Ready");
    assert!(
        reason == "APINotReachable" && message.contains("Create a DNS record that points to 198.51.100.1"),
        "{message}"
    );
    f.world.now += jiff::SignedDuration::from_mins(2);
    f.reconcile();
    assert_eq!(f.condition("Degraded").1, "APINotReachable");
    blocked(&f.plan(), StageId::Tenant, Reason::APINotReachable);
}

#[test]
fn a_name_that_the_spec_chose_is_checked_where_it_leads_and_nothing_else_is() {
    let rules = |f: &Fixture| {
        let Fixture { world, cluster, settings } = f;
        let input = Input { object: cluster, observed: &world.observed, settings, now: world.now };
        crate::probe_request(input).expect("asked").rules
    };
    let mut f = Fixture::new(json!({"version": "1.36.3", "endpoint": {"type": "LoadBalancer"}}));
    f.meta().addresses = Ok(meta());
    f.reconcile();
    load_balancer(&mut f, json!({"hostname": "lb.cloud.example"}));
    come_up(&mut f);
    let key = Fixture::key(Kind::Pod, "kube-apiserver-x");
    let labels = json!({"app.kubernetes.io/component": "kube-apiserver"});
    f.world.put(key.clone(), json!({"metadata": {"name": key.name, "labels": labels}}));
    f.world.run_pod(&key);
    assert_eq!(rules(&f), None, "the load balancer's own name is the meta cluster's");
    f.cluster.spec.endpoint.host = Some("192.0.2.7".into());
    assert_eq!(rules(&f), None, "an address was checked already");
    f.cluster.spec.endpoint.host = Some("api.example.com".into());
    let rules = rules(&f).expect("rules");
    assert_eq!(rules.load_balancer(), Some("lb.cloud.example"));
    let why = rules.refusal("api.example.com", [10, 96, 255, 1].into()).expect("refused");
    assert!(why.contains("api.example.com resolves to 10.96.255.1, which is in 10.96.0.0/16, where the meta"), "{why}");
    let service = f.world.observed.get(&Fixture::key(Kind::Service, names::APISERVER)).unwrap();
    let own = service["spec"]["clusterIP"].as_str().unwrap().parse().unwrap();
    assert_eq!(rules.refusal("api.example.com", own), None, "the tenant's own Service");
    assert_eq!(rules.refusal("api.example.com", [192, 0, 2, 7].into()), None);

    let answered = std::mem::replace(&mut f.world.observed.api, ApiProbe::Refused(why.clone().into()));
    assert_eq!(blocked(&f.reconcile(), StageId::Tenant, Reason::InvalidSpec), why);
    assert_eq!(f.condition("Available"), ("Unknown".into(), "InvalidSpec".into(), why.clone()));
    // One that serves is asked at its Service instead, and watched as before.
    f.world.observed.api = answered;
    f.world.observed.refused_host = Some(why.clone().into());
    assert_eq!(blocked(&f.reconcile(), StageId::Endpoint, Reason::InvalidSpec), why);
    assert_eq!(f.condition("Available").0, "True");
}
