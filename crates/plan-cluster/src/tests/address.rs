//! Where the operator asks for the API, and what stays as it is while the address changes or goes away.

use super::endpoint::{come_up, dialled, load_balancer, server, slice_inside, up_with_load_balancer};
use super::*;
use berth_api::cluster::EndpointType;
use berth_plan::model::Action;
use std::sync::Arc;

fn service(f: &Fixture) -> &Value {
    f.world.observed.get(&Fixture::key(Kind::Service, names::APISERVER)).unwrap()
}

/// Where the Service is inside the meta cluster.
fn inside(f: &Fixture) -> (String, i32) {
    (service(f)["spec"]["clusterIP"].as_str().unwrap().to_owned(), 6443)
}

fn pods_of_the_api(f: &Fixture) -> Value {
    let api = f.world.observed.get(&Fixture::key(Kind::Deployment, names::APISERVER)).unwrap();
    api["spec"]["template"].clone()
}

fn advertises(f: &Fixture, address: &str) -> bool {
    let container = pods_of_the_api(f)["spec"]["containers"][0].to_string();
    container.contains(&format!("\"--advertise-address={address}\""))
}

/// The load balancer has these addresses, in this order.
fn ingress(f: &mut Fixture, all: Value) {
    let key = Fixture::key(Kind::Service, names::APISERVER);
    f.world.observed.objects.get_mut(&key).unwrap()["status"]["loadBalancer"] = json!({"ingress": all});
}

fn pass_in_days(f: &mut Fixture, days: i64) {
    f.world.now = f.world.now.saturating_add(jiff::SignedDuration::from_hours(days * 24)).unwrap();
    f.reconcile();
}

#[test]
fn where_ranges_would_keep_the_operator_out_it_asks_inside() {
    let narrow = json!({"type": "LoadBalancer", "service": {"loadBalancerSourceRanges": ["203.0.113.0/24"]}});
    let mut f = Fixture::new(json!({"version": "1.36.3", "endpoint": narrow}));
    f.reconcile();
    load_balancer(&mut f, json!({"ip": "198.51.100.1"}));
    come_up(&mut f);
    assert_eq!(server(&f), "https://198.51.100.1:6443", "clients are let in there");
    assert_eq!(dialled(&f), inside(&f));
    f.cluster.spec.endpoint.host = Some("acme.example.com".into());
    assert_eq!(dialled(&f), inside(&f), "a name of the same load balancer");
    f.cluster.spec.endpoint.host = None;
    f.cluster.spec.endpoint.service.load_balancer_source_ranges.clear();
    // Server-side apply takes away what is no longer given.
    let key = Fixture::key(Kind::Service, names::APISERVER);
    f.world.observed.objects.get_mut(&key).unwrap()["spec"]["loadBalancerSourceRanges"] = Value::Null;
    assert_eq!(dialled(&f), ("198.51.100.1".to_owned(), 6443));
}

/// A new load balancer has no address yet; that of one that was there is gone.
#[test]
fn without_an_address_what_was_published_is_kept_and_renewed() {
    let mut changed = Fixture::up(json!({"version": "1.36.3"}));
    changed.cluster.spec.endpoint.type_ = EndpointType::LoadBalancer;
    let mut blinking = up_with_load_balancer();
    ingress(&mut blinking, Value::Null);
    for mut f in [changed, blinking] {
        let (before, told) = (server(&f), f.cluster.status.clone().unwrap().endpoints);
        let pods = pods_of_the_api(&f);
        assert_eq!(dialled(&f), inside(&f));
        f.reconcile();
        assert_eq!((f.condition("Available").0, f.condition("Ready").1), ("True".to_owned(), "Waiting".to_owned()));
        assert_ne!(f.cluster.status.as_ref().unwrap().phase.as_deref(), Some("Unavailable"));
        // Nobody has looked for longer than certificates live.
        pass_in_days(&mut f, 100);
        for secret in [names::ADMIN_KUBECONFIG, names::BREAK_GLASS_KUBECONFIG] {
            assert!(f.world.log.iter().any(|l| l.contains(secret)), "{secret}: {:#?}", f.world.log);
        }
        assert!(f.world.log.iter().any(|l| l.starts_with("publish")), "{:#?}", f.world.log);
        // The break-glass one still says it.
        f.world.remove(&Fixture::key(Kind::Secret, names::ADMIN_KUBECONFIG));
        f.reconcile();
        assert_eq!((server(&f), &f.cluster.status.as_ref().unwrap().endpoints), (before, &told));
        assert_eq!(pods_of_the_api(&f), pods);
        // What is inside the tenant names the old address on.
        let read = InsideTenant::listed(berth_render::STAMPS, []);
        f.world.observed.api = ApiProbe::Answered { version: None, read };
        assert!(!f.plan().plan.actions().any(|a| matches!(a, Action::TenantApply(_))));
    }
}

#[test]
fn a_new_tenant_without_an_address_does_not_serve_yet() {
    let mut f = Fixture::new(json!({"version": "1.36.3", "endpoint": {"type": "LoadBalancer"}}));
    for _ in 0..3 {
        f.reconcile();
        f.others();
    }
    let pod = Fixture::key(Kind::Pod, "kube-apiserver-1");
    let labels = json!({"app.kubernetes.io/component": "kube-apiserver"});
    f.world.put(pod.clone(), json!({"metadata": {"name": pod.name, "labels": labels}}));
    f.world.run_pod(&pod);
    let input = Input { object: &f.cluster, observed: &f.world.observed, settings: &f.settings, now: f.world.now };
    assert_eq!(super::super::probe_request(input), None);
    f.world.observed.api = ApiProbe::NotAsked;
    f.reconcile();
    let said = f.condition("Available");
    assert_eq!((&*said.0, &*said.1), ("False", "Waiting"));
    assert_eq!(
        said.2,
        "endpoint: waiting for an address from the meta cluster's load balancer for Service kube-apiserver"
    );
}

#[test]
fn pods_are_rolled_for_another_address_and_not_for_one_that_goes_or_comes_back() {
    let mut f = Fixture::new(json!({"version": "1.36.3", "endpoint": {"type": "LoadBalancer"}}));
    for _ in 0..3 {
        f.reconcile();
        f.others();
    }
    assert!(advertises(&f, &inside(&f).0));
    let (first, second) = (json!({"ip": "198.51.100.1"}), json!({"ip": "198.51.100.2"}));
    ingress(&mut f, json!([first, second]));
    come_up(&mut f);
    assert!(advertises(&f, "198.51.100.1"));
    let pods = pods_of_the_api(&f);
    for all in [json!([second, first]), json!(null), json!([second, first]), json!([first])] {
        ingress(&mut f, all.clone());
        f.reconcile();
        assert_eq!(pods_of_the_api(&f), pods, "{all}");
        assert_eq!(server(&f), "https://198.51.100.1:6443", "{all}");
    }
    ingress(&mut f, json!([second]));
    f.reconcile();
    assert!(advertises(&f, "198.51.100.2"), "{}", pods_of_the_api(&f));
}

/// As an earlier build left it: of a named host it put the Service's own address into the flag.
#[test]
fn what_is_inside_changes_at_once_and_the_flag_once_pods_are_replaced() {
    let mut f = up_with_load_balancer();
    let (own, _) = inside(&f);
    let key = Fixture::key(Kind::Deployment, names::APISERVER);
    let as_before = f.world.observed.get(&key).unwrap().to_string().replace("=198.51.100.1\"", &format!("={own}\""));
    f.world.observed.objects.insert(key, serde_json::from_str(&as_before).unwrap());
    f.cluster.spec.endpoint.host = Some("acme.example.com".into());
    let pods = pods_of_the_api(&f);
    let addresses = |f: &Fixture| slice_inside(f)["endpoints"][0]["addresses"].clone();
    for (given, wanted) in [(None, "198.51.100.1"), (Some("192.0.2.9"), "192.0.2.9"), (Some("192.0.2.7"), "192.0.2.7")]
    {
        f.cluster.spec.endpoint.advertise_address = given.map(str::to_owned);
        last(&mut f);
        assert_eq!((addresses(&f), pods_of_the_api(&f)), (json!([wanted]), pods.clone()));
    }
    f.cluster.spec.api_server.extra_args = vec![serde_json::from_value(json!({"name": "v", "value": "2"})).unwrap()];
    last(&mut f);
    assert!(advertises(&f, "192.0.2.7"), "{}", pods_of_the_api(&f));
    let pods = pods_of_the_api(&f);
    last(&mut f);
    assert_eq!(pods_of_the_api(&f), pods, "once");
}

#[test]
fn an_address_that_somebody_chose_or_the_services_own_restarts_nothing() {
    let given = |f: &mut Fixture, address: Option<&str>| {
        f.cluster.spec.endpoint.advertise_address = address.map(str::to_owned);
        last(f);
    };
    // The flag of one that was replaced since.
    let replaced = |f: &mut Fixture, address: &str| {
        let flag = serde_json::from_value(json!({"name": "v", "value": "2"})).unwrap();
        f.cluster.spec.api_server.extra_args = vec![flag];
        last(f);
        assert!(advertises(f, address), "{}", pods_of_the_api(f));
        pods_of_the_api(f)
    };
    // It is set to what is taken without it.
    let mut f = up_with_load_balancer();
    given(&mut f, Some("192.0.2.9"));
    let pods = replaced(&mut f, "192.0.2.9");
    given(&mut f, Some("198.51.100.1"));
    assert_eq!((&slice_inside(&f)["endpoints"][0]["addresses"], pods_of_the_api(&f)), (&json!(["198.51.100.1"]), pods));
    // Without it the load balancer's counts again, whose pods follow it.
    given(&mut f, None);
    assert!(advertises(&f, "198.51.100.1"), "{}", pods_of_the_api(&f));

    // Behind a name: it is removed, and the load balancer has a name itself, or goes away, or another type is asked for.
    let mut f = Fixture::up(json!({"version": "1.36.3", "endpoint": {"host": "acme.example.com"}}));
    given(&mut f, Some("192.0.2.9"));
    let pods = replaced(&mut f, "192.0.2.9");
    given(&mut f, None);
    assert_eq!(pods_of_the_api(&f), pods);
    f.cluster.spec.endpoint.type_ = EndpointType::LoadBalancer;
    ingress(&mut f, json!([{"ip": "198.51.100.1"}]));
    f.cluster.spec.api_server.extra_args.clear();
    last(&mut f);
    assert!(advertises(&f, "198.51.100.1"), "{}", pods_of_the_api(&f));
    let pods = pods_of_the_api(&f);
    for all in [json!([{"hostname": "lb.example.com"}]), json!(null), json!([{"ip": "198.51.100.2"}])] {
        ingress(&mut f, all.clone());
        last(&mut f);
        assert_eq!(pods_of_the_api(&f), pods, "{all}");
    }
    f.cluster.spec.endpoint.type_ = EndpointType::ClusterIP;
    last(&mut f);
    assert_eq!(pods_of_the_api(&f), pods);
}

#[test]
fn an_address_that_is_none_is_put_right_where_none_is_published() {
    let mut f = up_with_load_balancer();
    ingress(&mut f, Value::Null);
    f.reconcile();
    let key = Fixture::key(Kind::Deployment, names::APISERVER);
    let broken =
        f.world.observed.get(&key).unwrap().to_string().replace("--advertise-address=", "--advertise-address=no-");
    f.world.observed.objects.insert(key.clone(), serde_json::from_str(&broken).unwrap());
    f.reconcile();
    let put_right = format!("--advertise-address={}\"", inside(&f).0);
    let pods = pods_of_the_api(&f).to_string();
    assert!(pods.contains(&put_right), "{pods}");
}

#[test]
fn a_certificate_from_the_end_of_time_stops_nothing() {
    let mut f = up_with_load_balancer();
    load_balancer(&mut f, json!({"ip": "198.51.100.9"}));
    let key = Fixture::key(Kind::Secret, names::APISERVER_PKI);
    let mut facts = (*f.world.observed.secrets[&key]).clone();
    facts.pairs.get_mut("apiserver").unwrap().as_mut().as_mut().unwrap().not_before = jiff::Timestamp::MAX;
    f.world.observed.secrets.insert(key.clone(), Arc::new(facts));
    let writes: Vec<_> = f.plan().plan.actions().map(Action::describe).collect();
    assert!(writes.iter().any(|w| w.contains("kube-apiserver-pki")), "{writes:#?}");
}
