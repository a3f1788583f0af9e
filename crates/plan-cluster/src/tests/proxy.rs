//! A proxy to the outside: by the spec at once, by the chart with a release; and one that admission puts into pods.

use super::{Fixture, components, vpc};
use berth_api::cluster::Templates;
use berth_api::proxy::Proxy;
use berth_api::{labels, names};
use berth_plan::object_meta::annotation;
use berth_render::Kind;
use serde_json::{Value, json};

const OLD: &str = "1.36.2";
const ALWAYS: &str = "localhost,127.0.0.0/8,::1,.svc,.cluster.local";
const CLOSED: &str = "10.0.0.0/8,172.16.0.0/12,192.168.0.0/16,100.64.0.0/10,fc00::/7,169.254.0.0/16,fe80::/10,100.100.100.200/32,168.63.129.16/32,192.0.0.192/32,fd00:ec2::254/128,fd00:ec2::23/128,fd20:ce::254/128,fd00:c1::a9fe:a9fe/128,fd00:100::100:200/128,fd00:a9fe:a9fe::1/128,fd00:42::42/128";

fn proxy(value: Value) -> Proxy {
    serde_json::from_value(value).unwrap()
}

fn https() -> Value {
    json!({"https": "http://proxy:3128"})
}

/// The variables of a proxy in a workload, by name.
fn of_workload(live: &Value) -> Vec<(String, String)> {
    let all = live["spec"]["template"]["spec"]["containers"][0]["env"].as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let all = all.iter().map(|v| (text(&v["name"]), text(&v["value"])));
    all.filter(|(name, _)| name.ends_with("_PROXY")).collect()
}

impl Fixture {
    fn variables(&self, name: &str) -> Vec<(String, String)> {
        of_workload(self.world.observed.get(&Self::key(Kind::Deployment, name)).unwrap())
    }

    fn https_proxy(&self) -> Option<String> {
        let all = self.variables(names::APISERVER);
        all.into_iter().find(|(name, _)| name == "HTTPS_PROXY").map(|(_, value)| value)
    }

    fn recorded_proxy(&self) -> Option<String> {
        annotation(self.world.observed.get(&Self::namespace()).unwrap(), labels::PROXY).map(str::to_owned)
    }

    /// A pod of a component with these variables, which is not ready.
    fn pod_with(&mut self, component: &str, env: &[(&str, &str)]) {
        let pod = Self::key(Kind::Pod, &format!("{component}-7d9f8-x2x4z"));
        let env: Vec<Value> = env.iter().map(|(name, value)| json!({"name": name, "value": value})).collect();
        let (namespace, labels) = (Self::cp_namespace(), json!({(labels::COMPONENT): component}));
        let containers = json!([{"name": component, "env": env}]);
        self.world.put(
            pod.clone(),
            json!({"metadata": {"name": pod.name, "namespace": namespace, "labels": labels}, "spec": {"containers": containers}}),
        );
        self.world.pod_status(&pod, json!({}));
    }

    fn none_serves(&mut self, component: &str) {
        let live = self.world.observed.objects.get_mut(&Self::key(Kind::Deployment, component)).unwrap();
        live["status"]["availableReplicas"] = json!(0);
    }
}

/// A tenant that runs while the chart gets a value.
fn with_value() -> Fixture {
    let mut f = Fixture::up(json!({"version": OLD, "apiServer": {"replicas": 2}}));
    f.settings.proxy = Some(proxy(https()));
    f
}

/// A new tenant with a proxy of admission's.
fn injected(component: &str) -> Fixture {
    let mut f = Fixture::up(json!({"version": OLD}));
    f.pod_with(component, &[("HTTPS_PROXY", "http://user:planted-7@corp:3128"), ("NO_PROXY", "localhost")]);
    f
}

/// For docs/reference/messages.md.
pub(super) fn situations() -> Vec<(&'static str, Fixture)> {
    let mut differs = with_value();
    differs.reconcile();
    let mut refused = Fixture::up(json!({"version": OLD}));
    refused.cluster.spec.proxy = Some(proxy(json!({"https": "http://proxy:3128/path"})));
    refused.reconcile();
    let mut entry = Fixture::up(json!({"version": OLD}));
    entry.cluster.spec.proxy = Some(proxy(json!({"https": "http://proxy:3128", "noProxy": ["*.example.com"]})));
    entry.reconcile();
    let mut fails = injected(names::APISERVER);
    fails.none_serves(names::APISERVER);
    fails.reconcile();
    let mut works = injected(names::SCHEDULER);
    works.reconcile();
    vec![
        ("the chart got a value tenants.proxy", differs),
        ("the URL of a proxy has a path", refused),
        ("an entry of noProxy is none", entry),
        ("a webhook puts a proxy into pods of kube-apiserver, which do not get ready", fails),
        ("a webhook puts a proxy into pods of a component that serves", works),
    ]
}

#[test]
fn what_is_the_tenants_own_is_reached_without_the_proxy() {
    let in_vpc = |more: Value| {
        let mut vpc = vpc::vpc();
        for (name, value) in more.as_object().unwrap() {
            vpc[name] = value.clone();
        }
        vpc
    };
    let both = json!([{"dst": "10.33.0.0/16", "via": "172.20.0.1"}, {"dst": "0.0.0.0/0", "via": "172.20.0.1"}]);
    for (spec, entries) in [
        (json!({}), "10.96.0.9,10.112.0.0/16,10.160.0.0/16"),
        (
            json!({"network": {
                "serviceCIDRs": ["10.113.0.0/16", "fd00:113::/108"], "podCIDRs": ["10.161.0.0/16", "fd00:161::/56"],
                "dnsDomain": "tenant.example"}}),
            ".tenant.example,10.96.0.9,10.113.0.0/16,fd00:113::/108,10.161.0.0/16,fd00:161::/56",
        ),
        (json!({"network": {"nodeCIDRs": ["203.0.113.0/24"]}}), "10.96.0.9,10.112.0.0/16,10.160.0.0/16,203.0.113.0/24"),
        (
            json!({"endpoint": {"host": "acme.example.com", "advertiseAddress": "192.0.2.8"}}),
            "10.96.0.9,10.112.0.0/16,10.160.0.0/16,acme.example.com,192.0.2.8",
        ),
        (
            json!({"proxy": {"http": "http://proxy:80", "noProxy": [".corp.example.com", ".svc", "192.0.2.0/24"]}}),
            "10.96.0.9,10.112.0.0/16,10.160.0.0/16",
        ),
        (
            json!({"replicas": 2, "vpc": in_vpc(json!({"virtualIP": "172.20.0.10", "routes": both}))}),
            "10.96.0.9,10.112.0.0/16,10.160.0.0/16,172.20.0.0/24,10.33.0.0/16,172.20.0.10,acme.vpc.example.com",
        ),
    ] {
        let mut all = json!({"version": OLD, "proxy": https()});
        for (name, value) in spec.as_object().unwrap() {
            all[name] = value.clone();
        }
        let mut f = vpc::new(all);
        f.settings.writers.networks = vec!["203.0.113.0/24".parse().unwrap()];
        f.reconcile();
        f.others();
        f.reconcile();
        let kinds = [(Kind::Deployment, names::APISERVER), (Kind::StatefulSet, "kube-apiserver-0")];
        let live = kinds.iter().find_map(|(kind, name)| f.world.observed.get(&Fixture::key(*kind, name)));
        let env = of_workload(live.unwrap_or_else(|| panic!("{spec}: {:#?}", f.world.log)));
        let more = if spec["proxy"].is_null() { "" } else { ",.corp.example.com,192.0.2.0/24" };
        let url = if spec["proxy"].is_null() {
            ("HTTPS_PROXY", "http://proxy:3128")
        } else {
            ("HTTP_PROXY", "http://proxy:80")
        };
        let wanted = [url, ("NO_PROXY", &*format!("{ALWAYS},{entries},{CLOSED}{more}"))];
        assert_eq!(env, wanted.map(|(name, value)| (name.to_owned(), value.to_owned())), "{spec}");
    }
}

#[test]
fn what_the_spec_asks_counts_at_once_for_api_servers_alone_and_goes_with_it() {
    let mut f = Fixture::up(json!({"version": OLD}));
    let before: Vec<_> = components().map(|name| f.component(name)["template"].clone()).collect();
    f.cluster.spec.proxy = Some(proxy(https()));
    f.rest();
    assert_eq!(f.https_proxy().as_deref(), Some("http://proxy:3128"));
    for other in components().filter(|name| *name != names::APISERVER) {
        assert!(f.variables(other).is_empty(), "{other}");
    }
    assert_eq!((f.recorded_proxy(), f.recorded().len()), (None, 2));
    // What the meta cluster has is not in it: a new node there restarts nobody.
    f.world.log.clear();
    f.meta().addresses = Ok(berth_plan::meta_cluster::addresses::MetaRanges {
        nodes: vec!["198.51.100.7/32".parse().unwrap()],
        ..Default::default()
    });
    f.rest();
    assert!(f.world.log.iter().all(|write| write.contains("NetworkPolicy")), "{:#?}", f.world.log);
    f.cluster.spec.proxy = None;
    f.rest();
    let after: Vec<_> = components().map(|name| f.component(name)["template"].clone()).collect();
    assert_eq!(before, after);
}

#[test]
fn the_charts_value_restarts_nothing_comes_with_the_next_version_and_the_spec_wins_as_a_whole() {
    let mut f = with_value();
    f.rest();
    assert!(f.world.log.is_empty(), "{:#?}", f.world.log);
    let (status, reason, message) = f.condition("UpdateAvailable");
    assert_eq!((&*status, &*reason), ("True", "OtherTemplates"));
    assert!(
        message.starts_with("the chart's tenants.proxy differs from the tenant's. The tenant takes it"),
        "{message}"
    );
    assert_eq!(f.condition("Ready").0, "True");
    f.version("1.36.3");
    f.rest();
    f.seconds(61);
    f.rest();
    assert_eq!(f.https_proxy().as_deref(), Some("http://proxy:3128"));
    assert_eq!(f.recorded_proxy().as_deref(), Some(r#"{"https":"http://proxy:3128"}"#));
    f.world.log.clear();
    for value in [Some(proxy(json!({"https": "http://other:3128"}))), None] {
        f.settings.proxy = value;
        f.rest();
        assert!(f.world.log.is_empty(), "{:#?}", f.world.log);
    }
    f.cluster.spec.proxy = Some(proxy(json!({"http": "http://own:3128"})));
    f.rest();
    assert_eq!(f.https_proxy(), None, "nothing of the chart's is left");
    assert_eq!(f.variables(names::APISERVER)[0].1, "http://own:3128");
    f.cluster.spec.proxy = Some(Proxy::default());
    f.rest();
    assert!(f.variables(names::APISERVER).is_empty());
    f.cluster.spec.proxy = None;
    f.rest();
    assert_eq!(f.https_proxy().as_deref(), Some("http://proxy:3128"));
}

/// A later operator knows one more network, such as that of another cloud's metadata.
#[test]
fn what_a_later_operator_reaches_without_rolls_nobody_and_comes_with_the_next_release() {
    let no_proxy =
        |f: &Fixture| f.variables(names::APISERVER).into_iter().find(|(name, _)| name == "NO_PROXY").unwrap().1;
    let recorded = |f: &Fixture| {
        annotation(f.world.observed.get(&Fixture::namespace()).unwrap(), labels::NO_PROXY).map(str::to_owned)
    };
    let mut f = Fixture::up(json!({"version": OLD, "proxy": https()}));
    let before = no_proxy(&f);
    assert_eq!(recorded(&f), None);
    f.settings.direct.push("203.0.113.7/32".to_owned());
    f.rest();
    assert_eq!(f.world.log, [""; 0]);
    let news = f.cluster.status.as_ref().unwrap().conditions.iter().any(|c| c.type_ == "UpdateAvailable");
    assert_eq!((no_proxy(&f), news), (before.clone(), false));
    // Nor does a change of the spec take it.
    f.cluster.spec.proxy.as_mut().unwrap().no_proxy = vec![".corp.example.com".to_owned()];
    f.rest();
    assert_eq!(no_proxy(&f), format!("{before},.corp.example.com"));
    f.version("1.36.3");
    f.rest();
    f.seconds(61);
    f.rest();
    let after = no_proxy(&f);
    assert!(after.starts_with(&format!("{ALWAYS},{CLOSED},203.0.113.7/32,10.96.0.9,")), "{after}");
    assert!(recorded(&f).unwrap().contains("203.0.113.7/32"));
    f.world.log.clear();
    f.settings = Fixture::up(json!({"version": OLD})).settings;
    f.rest();
    assert_eq!(f.world.log, [""; 0]);
    assert_eq!(no_proxy(&f), after);
}

#[test]
fn newest_takes_each_value_of_the_chart_once_and_one_that_fails_back() {
    let mut f = with_value();
    f.cluster.spec.upgrade.templates = Templates::Newest;
    for url in [Some("http://a:1"), Some("http://b:1"), Some("http://a:1"), None] {
        f.settings.proxy = url.map(|url| proxy(json!({"https": url})));
        f.rest();
        f.seconds(61);
        f.rest();
        assert_eq!(f.https_proxy().as_deref(), url);
        f.world.log.clear();
        f.rest();
        assert!(f.world.log.is_empty(), "{:#?}", f.world.log);
    }
    f.settings.proxy = Some(proxy(https()));
    f.does_not_come_up();
    f.unstuck(names::APISERVER);
    f.rest();
    assert_eq!(f.https_proxy(), None);
    f.world.log.clear();
    f.later(60);
    f.rest();
    assert!(f.world.log.is_empty(), "{:#?}", f.world.log);
}

#[test]
fn what_is_no_proxy_is_refused_by_its_field_and_changes_nothing() {
    for (value, says) in [
        (json!({"https": "proxy:3128"}), "spec.proxy.https: must be http:// or https://"),
        (json!({"http": "http://user:planted-7@proxy:3128"}), "spec.proxy.http: a user or password in the URL"),
        (json!({"https": "http://proxy", "noProxy": ["a b"]}), "spec.proxy.noProxy: \"a b\": must be a host"),
        (json!({"noProxy": ["a"]}), "spec.proxy.noProxy: it counts beside"),
    ] {
        let mut f = Fixture::up(json!({"version": OLD}));
        f.cluster.spec.proxy = Some(proxy(value));
        f.reconcile();
        let (status, reason, said) = f.condition("Ready");
        assert_eq!((&*status, &*reason), ("False", "InvalidSpec"));
        assert!(said.contains(says) && !said.contains("planted-7"), "{said}");
        assert!(f.world.log.is_empty(), "{:#?}", f.world.log);
    }
}

#[test]
fn a_proxy_of_admissions_is_named_with_what_it_lacks() {
    let lacks =
        "HTTPS_PROXY), and goes by it to what is the tenant's own: NO_PROXY lacks .svc,10.112.0.0/16,10.160.0.0/16. ";
    let mut f = injected(names::APISERVER);
    f.none_serves(names::APISERVER);
    f.reconcile();
    let (status, _, said) = f.condition("Ready");
    assert!(status == "False" && said.contains(lacks) && !said.contains("planted-7"), "{said}");
    // Where it serves all the same, it is told beside.
    let mut f = injected(names::SCHEDULER);
    f.reconcile();
    let (status, reason, said) = f.condition("Degraded");
    assert_eq!((&*status, &*reason), ("False", "ForeignFields"));
    assert!(said.contains("NO_PROXY lacks .svc. "), "{said}");
    assert_eq!(f.condition("Ready").0, "True");
    // One that does no harm, and Berth's own, are no news.
    for (spec, env) in [
        (json!({"version": OLD}), [("HTTPS_PROXY", "http://corp:3128"), ("NO_PROXY", ".svc,10.0.0.0/8")]),
        (json!({"version": OLD, "proxy": https()}), [("HTTPS_PROXY", "http://proxy:3128"), ("NO_PROXY", "")]),
    ] {
        let mut f = Fixture::up(spec);
        f.pod_with(names::APISERVER, &env);
        f.reconcile();
        assert_eq!(f.condition("Degraded").1, "AsExpected", "{}", f.condition("Degraded").2);
    }
}

/// One of a team opens nothing, and one that a release took stays open until another one took the next.
#[test]
fn a_proxy_of_the_charts_with_an_address_is_let_through() {
    let mut f = with_value();
    let open = |f: &Fixture| {
        let policy = f.world.observed.get(&Fixture::key(Kind::NetworkPolicy, names::APISERVER)).unwrap();
        let rules = policy["spec"]["egress"].as_array().unwrap().iter().filter(|rule| rule["ports"][0]["port"] == 3128);
        rules.map(|rule| rule["to"][0]["ipBlock"]["cidr"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let at = |address: &str| Some(proxy(json!({"https": format!("http://{address}:3128")})));
    f.cluster.spec.proxy = at("10.9.9.9");
    f.rest();
    assert_eq!(open(&f), Vec::<String>::new(), "a name, and a team's");
    f.cluster.spec.proxy = None;
    f.settings.proxy = at("10.0.0.5");
    f.version("1.36.3");
    f.rest();
    f.seconds(61);
    f.rest();
    assert_eq!(open(&f), ["10.0.0.5/32"]);
    f.settings.proxy = at("[fd00::5]");
    f.rest();
    assert_eq!(open(&f), ["10.0.0.5/32", "fd00::5/128"]);
}

/// Jobs reach stores by it, so NetworkPolicies let them.
#[test]
fn jobs_reach_the_charts_proxy_at_its_port() {
    let mut f = Fixture::up(json!({"version": OLD}));
    f.settings.backups.endpoints = vec!["https://s3.example.com:9000".to_owned()];
    f.settings.proxy = Some(proxy(json!({"http": "http://proxy:3128", "https": "http://proxy:9000"})));
    f.reconcile();
    let policy = f.world.observed.get(&Fixture::key(Kind::NetworkPolicy, names::ETCD_BACKUP)).unwrap();
    let ports = json!([{"protocol": "TCP", "port": 3128}, {"protocol": "TCP", "port": 9000}]);
    assert!(policy["spec"]["egress"].as_array().unwrap().iter().any(|rule| rule["ports"] == ports), "{policy}");
}
