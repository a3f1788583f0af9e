//! Whether a `Cluster` asks only for what the platform team allows its writers.
//!
//! A refusal blocks the stage that would carry the wish out, and nothing else: what runs stays as it is, and other stages go on.

use crate::model::State;
use crate::settings::Writers;
use berth_api::cluster::EndpointService;
use berth_api::common::Placement;
use berth_api::conditions::Reason;

/// The placement of a component; `field` is its name in the spec.
pub(super) fn placement(field: &str, asked: &Placement, writers: &Writers) -> Result<(), State> {
    let field = |part: &str| format!("spec.{field}.placement.{part}");
    let selectors = &writers.node_selectors;
    for (key, value) in &asked.node_selector {
        let pair = format!("{key}={value}");
        if !allowed(selectors, key) && !allowed(selectors, &pair) {
            return Err(refused(&field("nodeSelector"), &pair, selectors, "placement.nodeSelectors"));
        }
    }
    for toleration in &asked.tolerations {
        // Without a key it is every taint.
        let key = toleration.key.as_deref().filter(|k| !k.is_empty()).unwrap_or("*");
        if !allowed(&writers.tolerations, key) {
            return Err(refused(&field("tolerations"), key, &writers.tolerations, "placement.tolerations"));
        }
    }
    if let Some(class) = asked.priority_class_name.as_deref().filter(|c| !allowed(&writers.priority_classes, c)) {
        let list = &writers.priority_classes;
        return Err(refused(&field("priorityClassName"), class, list, "placement.priorityClasses"));
    }
    Ok(())
}

/// The Service of the API.
pub(super) fn service(asked: &EndpointService, writers: &Writers) -> Result<(), State> {
    let keys = &writers.service_annotations;
    if let Some(key) = asked.annotations.keys().find(|k| !allowed(keys, k)) {
        return Err(refused("spec.endpoint.service.annotations", key, keys, "service.annotations"));
    }
    let classes = &writers.load_balancer_classes;
    if let Some(class) = asked.load_balancer_class.as_deref().filter(|c| !allowed(classes, c)) {
        return Err(refused("spec.endpoint.service.loadBalancerClass", class, classes, "service.loadBalancerClasses"));
    }
    Ok(())
}

fn allowed(list: &[String], name: &str) -> bool {
    list.iter().any(|a| a == name || a.strip_suffix('*').is_some_and(|start| name.starts_with(start)))
}

fn refused(field: &str, asked: &str, list: &[String], value: &str) -> State {
    let all = if list.is_empty() { "nothing".to_owned() } else { list.join(", ") };
    State::blocked(
        Reason::NotAllowed,
        format!(
            "{field}: {asked} is not allowed; allowed is {all}. Remove it, or have the platform team add it to writers.{value} in the values of Berth's chart"
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

    #[test]
    fn everything_is_refused_until_it_is_allowed() {
        let none = Writers::default();
        for (asked, what) in [
            (
                json!({"nodeSelector": {"a": "b"}}),
                "spec.etcd.placement.nodeSelector: a=b is not allowed; allowed is nothing",
            ),
            (json!({"tolerations": [{"key": "t", "operator": "Exists"}]}), "spec.etcd.placement.tolerations: t is"),
            (json!({"tolerations": [{"operator": "Exists"}]}), "spec.etcd.placement.tolerations: * is"),
            (json!({"priorityClassName": "system-node-critical"}), "writers.placement.priorityClasses"),
        ] {
            let text = problem(placement("etcd", &of(asked), &none));
            assert!(text.contains(what), "{text}");
        }
        assert_eq!(placement("etcd", &of(json!({"antiAffinity": "Required"})), &none), Ok(()));
        let service_of = |v: Value| serde_json::from_value::<EndpointService>(v).unwrap();
        let text = problem(service(&service_of(json!({"annotations": {"x/y": "1"}})), &none));
        assert!(text.contains("spec.endpoint.service.annotations: x/y"), "{text}");
        let text = problem(service(&service_of(json!({"loadBalancerClass": "fast"})), &none));
        assert!(text.contains("loadBalancerClass: fast"), "{text}");
        assert_eq!(service(&service_of(json!({"loadBalancerSourceRanges": ["10.0.0.0/8"]})), &none), Ok(()));
    }

    #[test]
    fn names_and_beginnings_are_allowed() {
        let list = |all: &[&str]| all.iter().map(|a| (*a).to_owned()).collect::<Vec<_>>();
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
