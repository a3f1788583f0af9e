//! The add-on apiProxy: where pods are led by it, and what stays as it is.

use super::addons::API_PROXY;
use super::endpoint::server;
use super::*;
use berth_api::labels;
use berth_plan::settings::Gateway;
use berth_render::stamp_key;

const OWN: &str = "acme-9201d5e7.api.example.com";

/// A tenant of a platform with a gateway, at rest.
fn up(endpoint: Value, addons: Value) -> Fixture {
    let mut f = Fixture::up(json!({"version": "1.36.3"}));
    f.settings.gateway =
        Some(Gateway { domain: "api.example.com".into(), port: 443, named_port: 444, ..Gateway::default() });
    f.settings.writers.hosts = vec!["*".into()];
    f.settings.api_proxy_image = "registry.example.com/berth/api-proxy:1.0".into();
    f.has_nodes(3, 3);
    ask(&mut f, endpoint, addons);
    f.rest();
    f
}

fn ask(f: &mut Fixture, endpoint: Value, addons: Value) {
    f.cluster.spec.endpoint = serde_json::from_value(endpoint).unwrap();
    f.cluster.spec.addons = serde_json::from_value(addons).unwrap();
}

fn on() -> Value {
    json!({"apiProxy": {"enabled": true}})
}

/// Where Service `kubernetes` leads.
fn leads_to(f: &Fixture) -> String {
    let key = ObjectKey::namespaced(Kind::EndpointSlice, "default", "kubernetes");
    let slice = f.world.inside[&key].value();
    format!("{}:{}", slice["endpoints"][0]["addresses"][0].as_str().unwrap(), slice["ports"][0]["port"])
}

/// What it runs with, and its image.
fn runs(f: &Fixture) -> Option<(Vec<String>, String)> {
    let key = ObjectKey::namespaced(API_PROXY.0, "kube-system", API_PROXY.1);
    let container = f.world.inside.get(&key)?.get("/spec/template/spec/containers/0")?.clone();
    let words = container["command"].as_array().unwrap().iter().map(|word| word.as_str().unwrap().to_owned());
    Some((words.skip(1).collect(), container["image"].as_str().unwrap().to_owned()))
}

fn pods(f: &Fixture) -> Value {
    f.component(names::APISERVER)["template"].clone()
}

#[test]
fn behind_the_gateway_pods_are_led_to_its_port_for_names_and_back() {
    let mut f = up(json!({"type": "Gateway"}), json!({}));
    let (before, pods_before) = (leads_to(&f), pods(&f));
    assert_eq!((runs(&f), &*f.condition("PodsReachAPI").1), (None, "NoIPAddress"));
    ask(&mut f, json!({"type": "Gateway"}), on());
    f.rest();
    f.addons_serve();
    f.reconcile();
    assert_eq!(leads_to(&f), "240.0.0.1:443");
    let arguments = ["--listen=240.0.0.1:443".to_owned(), format!("--to={OWN}:444"), format!("--name={OWN}")];
    let (words, image) = runs(&f).unwrap();
    assert_eq!((words, &*image), (arguments.to_vec(), "registry.example.com/berth/api-proxy:1.0"));
    let says = format!(
        "Service kubernetes leads to 240.0.0.1:443, from where the add-on api-proxy on each node leads to {OWN}:444"
    );
    assert_eq!(f.condition("PodsReachAPI"), ("True".into(), "AsExpected".into(), says));
    assert_eq!((pods(&f), &*f.condition("Ready").0), (pods_before.clone(), "True"), "nothing restarts");
    let told = f.cluster.status.as_ref().unwrap().addons.iter().find(|addon| addon.name == "api-proxy").cloned();
    assert_eq!(told.map(|told| (told.version, told.ready)), Some((Some("1.0".into()), Some(3))));

    // Another name, and an address of one's own.
    ask(&mut f, json!({"type": "Gateway", "host": "api.acme.example", "advertiseAddress": "240.7.0.1"}), on());
    f.rest();
    f.seconds(151);
    f.rest();
    assert_eq!((leads_to(&f), server(&f)), ("240.7.0.1:443".into(), "https://api.acme.example:443".into()));
    let arguments = ["--listen=240.7.0.1:443", "--to=api.acme.example:444", "--name=api.acme.example"];
    assert_eq!(runs(&f).unwrap().0, arguments);

    ask(&mut f, json!({"type": "Gateway"}), json!({}));
    f.rest();
    assert_eq!((leads_to(&f), runs(&f)), (before, None));
    assert!(!f.world.inside.contains_key(&stamp_key("api-proxy")));
    assert!(f.cluster.status.as_ref().unwrap().addons.iter().all(|addon| addon.name != "api-proxy"));
    assert_eq!(pods(&f), pods_before);
}

#[test]
fn a_host_that_is_a_name_only_is_dialled_without_a_header() {
    let mut f = up(json!({"host": "acme.example.com"}), json!({}));
    assert_eq!(f.condition("PodsReachAPI").1, "NoIPAddress");
    ask(&mut f, json!({"host": "acme.example.com"}), on());
    f.rest();
    assert_eq!(leads_to(&f), "240.0.0.1:6443");
    assert_eq!(runs(&f).unwrap().0, ["--listen=240.0.0.1:6443", "--to=acme.example.com:6443"]);
    assert_eq!(f.condition("PodsReachAPI").0, "True");
}

#[test]
fn another_operators_image_waits_for_the_next_version() {
    let mut f = up(json!({"type": "Gateway"}), on());
    let record = |f: &Fixture| {
        let live = f.world.observed.get(&Fixture::namespace()).unwrap();
        let text = live["metadata"]["annotations"][labels::ADDONS].as_str().unwrap();
        serde_json::from_str::<Value>(text).unwrap()["apiProxy"].clone()
    };
    assert_eq!(record(&f), "registry.example.com/berth/api-proxy:1.0");
    f.settings.api_proxy_image = "registry.example.com/berth/api-proxy:2.0".into();
    f.world.log.clear();
    f.rest();
    assert_eq!(f.world.log, Vec::<String>::new());
    assert!(runs(&f).unwrap().1.ends_with(":1.0"));
    // A mirror of the team's has Berth's images by the last part of their names.
    f.settings.writers.image_registries = vec!["*".into()];
    f.cluster.spec.images.registry = Some("mirror.example.com/k8s".into());
    f.rest();
    assert_eq!(runs(&f).unwrap().1, "mirror.example.com/k8s/api-proxy:1.0");
    f.cluster.spec.images.registry = None;
    f.rest();
    // Off and on again is a new beginning.
    ask(&mut f, json!({"type": "Gateway"}), json!({}));
    f.rest();
    assert_eq!((record(&f), runs(&f)), (Value::Null, None));
    ask(&mut f, json!({"type": "Gateway"}), on());
    f.rest();
    assert!(runs(&f).unwrap().1.ends_with(":2.0"));
    f.settings.api_proxy_image = "registry.example.com/berth/api-proxy:3.0".into();
    f.version("1.36.4");
    // The record follows once the release has succeeded.
    for _ in 0..6 {
        f.later(10);
        f.rest();
    }
    assert!(runs(&f).unwrap().1.ends_with(":3.0"));
}

#[test]
fn an_address_that_something_else_has_changes_nothing() {
    let mut f = up(json!({"type": "Gateway"}), on());
    let (before, runs_before) = (leads_to(&f), runs(&f));
    f.world.log.clear();
    ask(&mut f, json!({"type": "Gateway", "advertiseAddress": "10.112.0.9"}), on());
    let why = blocked(&f.reconcile(), StageId::Endpoint, Reason::InvalidSpec);
    let says = "spec.endpoint.advertiseAddress: 10.112.0.9 is in 10.112.0.0/16 of spec.network.serviceCIDRs, and with spec.addons.apiProxy each node has this address for itself. Remove the field for 240.0.0.1, or set another one of 240.0.0.0/4";
    assert_eq!(why, says);
    assert_eq!(f.world.log, Vec::<String>::new());
    assert_eq!((leads_to(&f), runs(&f)), (before, runs_before));
    assert_eq!(f.condition("PodsReachAPI"), ("False".into(), "InvalidSpec".into(), why));
    // One that a node or a load balancer may have, and one of the meta cluster's.
    f.meta().addresses = Ok(super::endpoint::meta());
    for (given, is) in [("203.0.113.7", "not of 240.0.0.0/4"), ("10.96.0.1", "in 10.96.0.0/16, where the meta cluster")]
    {
        ask(&mut f, json!({"type": "Gateway", "advertiseAddress": given}), on());
        let why = blocked(&f.reconcile(), StageId::Endpoint, Reason::InvalidSpec);
        assert!(why.starts_with(&format!("spec.endpoint.advertiseAddress: {given} is {is}")), "{why}");
        assert!(why.ends_with("Remove the field for 240.0.0.1, or set another one of 240.0.0.0/4"), "{why}");
    }
    assert_eq!(f.world.log, Vec::<String>::new());
}

#[test]
fn as_long_as_no_pod_of_it_serves_pods_do_not_reach_the_api() {
    let mut f = up(json!({"type": "Gateway"}), on());
    assert_eq!(f.condition("PodsReachAPI").0, "True", "nobody has counted them");
    f.addons_serve();
    let mut says = |counts: [i32; 3]| {
        f.addon_says(API_PROXY, counts);
        f.reconcile();
        (f.condition("PodsReachAPI"), f.condition("Ready").0)
    };
    let ((status, reason, message), ready) = says([3, 3, 0]);
    assert_eq!(
        (&*status, &*reason, &*ready),
        ("False", "AddonsNotReady", "True"),
        "a node that restarts takes as long"
    );
    assert!(
        message.starts_with(
            "Service kubernetes leads to 240.0.0.1:443, where the add-on api-proxy is to listen on each node. api-proxy: 0 of 3 pods serve ("
        ),
        "{message}"
    );
    assert!(message.contains(&format!(" for an answer of the API at {OWN}:444: let nodes")), "{message}");
    for counts in [[3, 3, 1], [0, 0, 0], [3, 3, 3]] {
        assert_eq!(says(counts).0.0, "True", "{counts:?}");
    }
    says([3, 3, 0]);
    f.later(6);
    f.reconcile();
    assert_eq!(f.condition("Ready").1, "AddonsNotReady", "that is long");
    // None is to run where no node is ready.
    f.has_nodes(3, 0);
    f.reconcile();
    assert_eq!(f.condition("PodsReachAPI").0, "True");
}

/// An earlier operator let it in, or nobody asked the schema.
#[test]
fn in_a_vpc_it_is_off() {
    let spec = json!({
        "version": "1.36.3", "addons": on(),
        "vpc": {"attachment": {"name": "vpc-acme"}, "addresses": ["172.20.0.2/24"]},
    });
    let f = Fixture::new(spec);
    let facts = Facts::judge(Input {
        object: &f.cluster,
        observed: &f.world.observed,
        settings: &f.settings,
        now: f.world.now,
    });
    let t = facts.tenant();
    assert_eq!((t.endpoint.proxied.clone(), t.endpoint.given.clone()), (None, Ok(None)));
}
