//! Whether a `Cluster` asks only for what the platform team allows its writers.
//!
//! A refusal blocks the stage that would carry the wish out, and nothing else: what runs stays as it is, and other stages go on.

use berth_api::cluster::{DataPolicy, EndpointService};
use berth_api::common::{Images, Placement};
use berth_api::conditions::Reason;
use berth_api::etcd_cluster::Storage;
use berth_plan::model::State;
use berth_plan::settings::{Retain, Writers};

/// The placement of a component; `field` is its name in the spec.
pub(crate) fn placement(field: &str, asked: &Placement, writers: &Writers) -> Result<(), State> {
    let field = |part: &str| format!("spec.{field}.placement.{part}");
    let selectors = &writers.node_selectors;
    for (key, value) in &asked.node_selector {
        let pair = format!("{key}={value}");
        if !allowed(selectors, key) && !allowed(selectors, &pair) {
            return Err(refused(&field("nodeSelector"), &pair, selectors, "placement.nodeSelectors"));
        }
    }
    // Without a key it is every taint.
    let keys = asked.tolerations.iter().map(|t| t.key.as_deref().filter(|key| !key.is_empty()).unwrap_or("*"));
    check(&field("tolerations"), keys, &writers.tolerations, "placement.tolerations")?;
    let (class, classes) = (asked.priority_class_name.as_deref(), &writers.priority_classes);
    check(&field("priorityClassName"), class, classes, "placement.priorityClasses")
}

/// The Service of the API.
pub(crate) fn service(asked: &EndpointService, writers: &Writers) -> Result<(), State> {
    let pairs = &writers.service_annotations;
    if let Some((key, value)) = asked.annotations.iter().find(|(key, value)| !annotation_allowed(pairs, key, value)) {
        let with_values = pairs.iter().any(|p| p.split_once('=').is_some_and(|(allowed, _)| fits(allowed, key)));
        let asked = if with_values { format!("{key}={value}") } else { key.clone() };
        return Err(refused("spec.endpoint.service.annotations", &asked, pairs, "service.annotations"));
    }
    let (class, classes) = (asked.load_balancer_class.as_deref(), &writers.load_balancer_classes);
    check("spec.endpoint.service.loadBalancerClass", class, classes, "service.loadBalancerClasses")
}

/// The port of the meta cluster's nodes.
pub(crate) fn node_port(asked: Option<i32>, writers: &Writers) -> Result<(), State> {
    let ports = &writers.node_ports;
    let has = |allowed: &String, port: i32| {
        let (first, last) = allowed.split_once('-').unwrap_or((allowed, allowed));
        allowed == "*"
            || matches!((first.parse(), last.parse()), (Ok(first), Ok(last)) if (first..=last).contains(&port))
    };
    let wrong = asked.filter(|port| !ports.iter().any(|allowed| has(allowed, *port)));
    wrong.map_or(Ok(()), |port| Err(refused("spec.endpoint.nodePort", &port.to_string(), ports, "service.nodePorts")))
}

/// The name of a tenant behind the gateway, in lower case.
pub(crate) fn host(asked: &str, writers: &Writers) -> Result<(), State> {
    let fits = |allowed: &String| match allowed.strip_prefix('*') {
        Some(end) => asked.ends_with(end),
        None => allowed == asked,
    };
    let hosts = &writers.hosts;
    if hosts.iter().any(fits) { Ok(()) } else { Err(refused("spec.endpoint.host", asked, hosts, "hosts")) }
}

/// The class of a new etcd's volumes. Without one it is the meta cluster's default class, which everybody may have.
pub(crate) fn storage(asked: &Storage, writers: &Writers) -> Result<(), State> {
    let classes = &writers.storage_classes;
    let Some(class) = asked.class_name.as_deref().filter(|c| !allowed(classes, c)) else { return Ok(()) };
    // The schema lets nobody take it back.
    let way_out = "The field is immutable: create the Cluster without it";
    Err(refused_with("spec.etcd.storage.className", class, classes, way_out, "storage.classes"))
}

/// Where images come from.
pub(crate) fn images(asked: &Images, writers: &Writers) -> Result<(), State> {
    check("spec.images.registry", asked.registry.as_deref(), &writers.image_registries, "images.registries")?;
    for (component, image) in &asked.overrides {
        let list = &writers.image_registries;
        // A registry is allowed with all that is below it.
        let mut above = image.match_indices('/').map(|(at, _)| image.get(..at).unwrap_or_default()).chain([&**image]);
        if !above.any(|registry| allowed(list, registry)) {
            return Err(refused(&format!("spec.images.overrides.{component}"), image, list, "images.registries"));
        }
    }
    let secrets = asked.pull_secrets.iter().map(String::as_str);
    check("spec.images.pullSecrets", secrets, &writers.pull_secrets, "images.pullSecrets")
}

/// What is left of a `Cluster` that is deleted.
pub(crate) fn data_policy(asked: DataPolicy, writers: &Writers) -> Result<(), State> {
    if asked != DataPolicy::Retain || writers.retain == Retain::Allowed {
        return Ok(());
    }
    Err(State::blocked(
        Reason::NotAllowed,
        "spec.deletion.dataPolicy: Retain is not allowed. Set Delete, which deletes the tenant's data with its Cluster, or ask the platform team to set writers.retain to Allowed in the values of Berth's chart",
    ))
}

pub(crate) fn allowed(list: &[String], name: &str) -> bool {
    list.iter().any(|allowed| fits(allowed, name))
}

fn fits(allowed: &str, name: &str) -> bool {
    allowed == name || allowed.strip_suffix('*').is_some_and(|start| name.starts_with(start))
}

/// By its key, whatever its value is, or by both.
fn annotation_allowed(list: &[String], key: &str, value: &str) -> bool {
    list.iter().any(|allowed| match allowed.split_once('=') {
        Some((keys, values)) => fits(keys, key) && fits(values, value),
        None => fits(allowed, key),
    })
}

/// Refuses the first of these names that the list does not allow.
fn check<'a>(field: &str, asked: impl IntoIterator<Item = &'a str>, list: &[String], value: &str) -> Result<(), State> {
    let wrong = asked.into_iter().find(|name| !allowed(list, name));
    wrong.map_or(Ok(()), |name| Err(refused(field, name, list, value)))
}

pub(crate) fn refused(field: &str, asked: &str, list: &[String], value: &str) -> State {
    refused_with(field, asked, list, "Remove it", value)
}

fn refused_with(field: &str, asked: &str, list: &[String], way_out: &str, value: &str) -> State {
    let all = if list.is_empty() { "none".to_owned() } else { list.join(", ") };
    State::blocked(
        Reason::NotAllowed,
        format!(
            "{field}: {asked} is not allowed (allowed: {all}). {way_out}, or ask the platform team to add it to writers.{value} in the values of Berth's chart"
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn problem(result: Result<(), State>) -> String {
        result.err().and_then(|s| s.problem().map(|(_, text)| text.to_owned())).unwrap_or_default()
    }

    fn of(value: Value) -> Placement {
        serde_json::from_value(value).unwrap()
    }

    fn list(all: &[&str]) -> Vec<String> {
        all.iter().map(|a| (*a).to_owned()).collect()
    }

    /// What is refused until the platform team allows it: field, what is named, the chart's value, and a policy that lets it pass.
    fn check(result: impl Fn(&Writers) -> Result<(), State>, field: &str, asked: &str, value: &str, allows: &Writers) {
        let text = problem(result(&Writers::default()));
        let said = format!(
            "{field}: {asked} is not allowed (allowed: none). Remove it, or ask the platform team to add it to writers.{value} in the values of Berth's chart"
        );
        assert_eq!(text, said);
        assert_eq!(result(allows), Ok(()), "{field}");
    }

    #[test]
    fn node_selectors_are_refused_until_allowed() {
        let asked = of(json!({"nodeSelector": {"a": "b"}}));
        let allows = Writers { node_selectors: list(&["a=b"]), ..Writers::default() };
        let field = "spec.etcd.placement.nodeSelector";
        check(|w| placement("etcd", &asked, w), field, "a=b", "placement.nodeSelectors", &allows);
    }

    #[test]
    fn tolerations_are_refused_until_allowed() {
        let allows = Writers { tolerations: list(&["*"]), ..Writers::default() };
        for (asked, key) in [(json!({"key": "t", "operator": "Exists"}), "t"), (json!({"operator": "Exists"}), "*")] {
            let asked = of(json!({"tolerations": [asked]}));
            let field = "spec.scheduler.placement.tolerations";
            check(|w| placement("scheduler", &asked, w), field, key, "placement.tolerations", &allows);
        }
    }

    #[test]
    fn priority_classes_are_refused_until_allowed() {
        let asked = of(json!({"priorityClassName": "system-node-critical"}));
        let allows = Writers { priority_classes: list(&["system-node-critical"]), ..Writers::default() };
        let (field, value) = ("spec.apiServer.placement.priorityClassName", "placement.priorityClasses");
        check(|w| placement("apiServer", &asked, w), field, "system-node-critical", value, &allows);
    }

    #[test]
    fn annotations_of_the_service_are_refused_until_allowed() {
        let asked: EndpointService = serde_json::from_value(json!({"annotations": {"x/y": "1"}})).unwrap();
        let allows = Writers { service_annotations: list(&["x/*"]), ..Writers::default() };
        check(|w| service(&asked, w), "spec.endpoint.service.annotations", "x/y", "service.annotations", &allows);
    }

    #[test]
    fn annotations_are_allowed_by_value_too() {
        let writers = Writers {
            service_annotations: list(&["example.com/scheme=internal", "example.com/pool=team-*", "example.com/free"]),
            ..Writers::default()
        };
        let ask = |key: &str, value: &str| {
            let asked: EndpointService = serde_json::from_value(json!({"annotations": {key: value}})).unwrap();
            problem(service(&asked, &writers))
        };
        for (key, value) in
            [("example.com/scheme", "internal"), ("example.com/pool", "team-a"), ("example.com/free", "any=thing")]
        {
            assert_eq!(ask(key, value), "", "{key}={value}");
        }
        for (key, value) in [("example.com/scheme", "internet-facing"), ("example.com/pool", "other")] {
            let refusal = ask(key, value);
            assert!(refusal.contains(&format!(": {key}={value} is not allowed (allowed: ")), "{refusal}");
        }
        assert!(ask("example.com/other", "x").contains(": example.com/other is not allowed"));
    }

    #[test]
    fn load_balancer_classes_are_refused_until_allowed() {
        let asked: EndpointService = serde_json::from_value(json!({"loadBalancerClass": "fast"})).unwrap();
        let allows = Writers { load_balancer_classes: list(&["fast"]), ..Writers::default() };
        let (field, value) = ("spec.endpoint.service.loadBalancerClass", "service.loadBalancerClasses");
        check(|w| service(&asked, w), field, "fast", value, &allows);
    }

    #[test]
    fn ports_of_nodes_are_refused_until_allowed() {
        for (allowed, yes, no) in
            [("30443", vec![30443], vec![30442, 30444]), ("30440-30442", vec![30440, 30442], vec![30439, 30443])]
        {
            let allows = Writers { node_ports: list(&[allowed]), ..Writers::default() };
            for port in yes {
                let (asked, field) = (port.to_string(), "spec.endpoint.nodePort");
                check(|w| node_port(Some(port), w), field, &asked, "service.nodePorts", &allows);
            }
            for port in no {
                assert!(
                    problem(node_port(Some(port), &allows))
                        .contains(&format!(": {port} is not allowed (allowed: {allowed})"))
                );
            }
        }
        assert_eq!(node_port(None, &Writers::default()), Ok(()));
    }

    #[test]
    fn names_at_the_gateway_are_refused_until_allowed() {
        for (allowed, yes, no) in [
            ("api.acme.example", vec!["api.acme.example"], vec!["a.api.acme.example", "xapi.acme.example"]),
            ("*.acme.example", vec!["api.acme.example", "a.b.acme.example"], vec!["acme.example", "xacme.example"]),
            ("*", vec!["api.acme.example"], vec![]),
        ] {
            let allows = Writers { hosts: list(&[allowed]), ..Writers::default() };
            for name in yes {
                check(|w| host(name, w), "spec.endpoint.host", name, "hosts", &allows);
            }
            for name in no {
                assert!(
                    problem(host(name, &allows)).contains(&format!(": {name} is not allowed (allowed: {allowed})"))
                );
            }
        }
    }

    #[test]
    fn storage_classes_are_refused_until_allowed() {
        let asked: Storage = serde_json::from_value(json!({"className": "fast"})).unwrap();
        let said = "spec.etcd.storage.className: fast is not allowed (allowed: none). The field is immutable: create the Cluster without it, or ask the platform team to add it to writers.storage.classes in the values of Berth's chart";
        assert_eq!(problem(storage(&asked, &Writers::default())), said);
        let allows = |all: &[&str]| Writers { storage_classes: list(all), ..Writers::default() };
        assert_eq!(storage(&asked, &allows(&["local", "fast"])), Ok(()));
        assert!(problem(storage(&asked, &allows(&["local"]))).contains("(allowed: local). "));
        assert_eq!(storage(&Storage::default(), &Writers::default()), Ok(()), "the default class");
    }

    #[test]
    fn registries_are_refused_until_allowed() {
        let asked: Images = serde_json::from_value(json!({"registry": "mirror.example.com/k8s"})).unwrap();
        let allows = Writers { image_registries: list(&["mirror.example.com/*"]), ..Writers::default() };
        let (field, value) = ("spec.images.registry", "images.registries");
        check(|w| images(&asked, w), field, "mirror.example.com/k8s", value, &allows);
        let other: Images = serde_json::from_value(json!({"registry": "mirror.example.com.evil.test/k8s"})).unwrap();
        assert!(images(&other, &allows).is_err(), "a slash ends the host's name");
    }

    #[test]
    fn a_single_image_needs_its_registry_or_one_above_it() {
        let own = |image: &str| serde_json::from_value::<Images>(json!({"overrides": {"coredns": image}})).unwrap();
        let of = |registry: &str| Writers { image_registries: list(&[registry]), ..Writers::default() };
        let (exact, below) = (of("mirror.example.com/k8s"), of("mirror.example.com/*"));
        let field = "spec.images.overrides.coredns";
        for image in ["mirror.example.com/k8s/coredns", "mirror.example.com/k8s/dns/coredns:v1.14.2-acme"] {
            check(|w| images(&own(image), w), field, image, "images.registries", &exact);
            assert_eq!(images(&own(image), &below), Ok(()));
        }
        for image in ["mirror.example.com/coredns", "mirror.example.com/k8s-evil/coredns:v1.14.2"] {
            assert!(images(&own(image), &exact).is_err(), "{image}");
            assert_eq!(images(&own(image), &below), Ok(()));
        }
        for allowed in [exact, below] {
            assert!(images(&own("mirror.example.com.evil.test/k8s/coredns"), &allowed).is_err());
        }
    }

    #[test]
    fn pull_secrets_are_refused_until_allowed() {
        let asked: Images = serde_json::from_value(json!({"pullSecrets": ["mirror"]})).unwrap();
        let allows = Writers { pull_secrets: list(&["mirror"]), ..Writers::default() };
        check(|w| images(&asked, w), "spec.images.pullSecrets", "mirror", "images.pullSecrets", &allows);
    }

    #[test]
    fn what_reaches_nobody_else_needs_no_permission() {
        let none = Writers::default();
        assert_eq!(placement("etcd", &of(json!({"antiAffinity": "Required"})), &none), Ok(()));
        let ranges = serde_json::from_value(json!({"loadBalancerSourceRanges": ["10.0.0.0/8"]})).unwrap();
        assert_eq!(service(&ranges, &none), Ok(()));
        assert_eq!(images(&Images::default(), &none), Ok(()));
    }

    #[test]
    fn names_and_beginnings_are_allowed() {
        let some = Writers {
            node_selectors: list(&["pool=control-planes", "zone"]),
            tolerations: list(&["berth.dev/*"]),
            ..Writers::default()
        };
        let ask = |v: Value| placement("apiServer", &of(v), &some).is_ok();
        assert!(ask(json!({"nodeSelector": {"pool": "control-planes", "zone": "any"}})));
        assert!(!ask(json!({"nodeSelector": {"pool": "masters"}})));
        assert!(ask(json!({"tolerations": [{"key": "berth.dev/only", "operator": "Exists"}]})));
        assert!(!ask(json!({"tolerations": [{"key": "other", "operator": "Exists"}]})));
        assert!(!ask(json!({"tolerations": [{"operator": "Exists"}]})), "every taint is more than some");
    }
}
