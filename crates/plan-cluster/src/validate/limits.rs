//! How much writers of a `Cluster` may ask for.

use berth_api::autoscaling::Autoscaling;
use berth_api::common::Resources;
use berth_api::conditions::Reason;
use berth_api::etcd_cluster::Storage;
use berth_api::quantity::is_less;
use berth_plan::model::State;
use berth_plan::settings::Limits;

/// Replicas and resources of a component, or of etcd; `field` is its name in the spec, and `count` the field that has the replicas.
pub(crate) fn component(
    field: &str,
    (count, replicas): (&str, i32),
    resources: Option<&Resources>,
    limits: &Limits,
) -> Result<(), State> {
    if let Some(most) = limits.replicas.filter(|most| replicas > *most) {
        return Err(refused(&format!("spec.{count}"), &replicas.to_string(), &most.to_string(), "replicas"));
    }
    amounts(field, resources, limits)
}

/// Resources of a container; `field` has them in the spec.
pub(crate) fn amounts(field: &str, resources: Option<&Resources>, limits: &Limits) -> Result<(), State> {
    let Some(Resources { requests, limits: asked, .. }) = resources else { return Ok(()) };
    for (kind, all) in [("requests", requests), ("limits", asked)] {
        for (name, most) in [("cpu", &limits.cpu), ("memory", &limits.memory)] {
            let value = all.as_ref().and_then(|all| all.get(name));
            if let Some((value, most)) = value.zip(most.as_ref()).filter(|(value, most)| is_less(most, &value.0)) {
                return Err(refused(&format!("spec.{field}.resources.{kind}.{name}"), &value.0, most, name));
            }
        }
    }
    Ok(())
}

/// Between what requests may be that follow usage; `field` is the component's name in the spec.
pub(crate) fn bounds(field: &str, asked: &Autoscaling, limits: &Limits) -> Result<(), State> {
    for (part, bound) in [("min", &asked.min), ("max", &asked.max)] {
        for (name, most) in [("cpu", &limits.cpu), ("memory", &limits.memory)] {
            let value = bound.of(name);
            if let Some((value, most)) = value.zip(most.as_ref()).filter(|(value, most)| is_less(most, value)) {
                return Err(refused(&format!("spec.{field}.autoscaling.{part}.{name}"), value, most, name));
            }
        }
    }
    Ok(())
}

/// A volume of etcd.
pub(crate) fn storage(asked: &Storage, limits: &Limits) -> Result<(), State> {
    match limits.storage.as_ref().filter(|most| is_less(most, &asked.size)) {
        Some(most) => Err(refused("spec.etcd.storage.size", &asked.size, most, "storage")),
        None => Ok(()),
    }
}

fn refused(field: &str, asked: &str, most: &str, value: &str) -> State {
    State::blocked(
        Reason::NotAllowed,
        format!(
            "{field}: {asked} is more than {most}, the most that is allowed. Lower it, or ask the platform team to raise writers.limits.{value} in the values of Berth's chart"
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn problem(result: Result<(), State>) -> String {
        result.err().and_then(|s| s.problem().map(|(_, text)| text.to_owned())).unwrap_or_default()
    }

    fn limits() -> Limits {
        let text = |text: &str| Some(text.to_owned());
        Limits { replicas: Some(2), cpu: text("2"), memory: text("4Gi"), storage: text("20Gi") }
    }

    #[test]
    fn what_is_more_is_refused_by_its_field() {
        let check = |resources: serde_json::Value, limits: &Limits| {
            let resources: Resources = serde_json::from_value(resources).unwrap();
            problem(component("apiServer", ("replicas", 2), Some(&resources), limits))
        };
        for fine in [json!({}), json!({"requests": {"cpu": "2000m", "memory": "4096Mi"}, "limits": {"memory": "4Gi"}})]
        {
            assert_eq!(check(fine, &limits()), "");
        }
        for (resources, said) in [
            (json!({"requests": {"cpu": "2001m"}}), "spec.apiServer.resources.requests.cpu: 2001m is more than 2, "),
            (json!({"limits": {"memory": "5Gi"}}), "spec.apiServer.resources.limits.memory: 5Gi is more than 4Gi, "),
        ] {
            let refusal = check(resources.clone(), &limits());
            assert!(refusal.starts_with(said) && refusal.contains("writers.limits."), "{refusal}");
            assert_eq!(check(resources, &Limits::default()), "", "without limits");
        }
        let replicas = component("scheduler", ("scheduler.replicas", 3), None, &limits());
        assert!(problem(replicas).starts_with("spec.scheduler.replicas: 3 is more than 2, "));
        let sized = |asked: serde_json::Value| {
            problem(bounds("etcd", &serde_json::from_value::<Autoscaling>(asked).unwrap(), &limits()))
        };
        assert_eq!(sized(json!({"min": {"cpu": "2"}, "max": {"memory": "4Gi"}})), "");
        let said = sized(json!({"max": {"memory": "4097Mi"}}));
        assert!(said.starts_with("spec.etcd.autoscaling.max.memory: 4097Mi is more than 4Gi, "), "{said}");
        assert!(sized(json!({"min": {"cpu": "2500m"}})).contains("autoscaling.min.cpu: 2500m is more than 2, "));
        let size = |size: &str| storage(&serde_json::from_value(json!({"size": size})).unwrap(), &limits());
        assert_eq!(size("20Gi"), Ok(()));
        assert!(problem(size("21Gi")).starts_with("spec.etcd.storage.size: 21Gi is more than 20Gi, "));
    }
}
