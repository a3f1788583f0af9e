//! Requests and limits that somebody asks for, laid over those of a template.

use berth_api::quantity;
use k8s_openapi::api::core::v1::ResourceRequirements;
use serde_json::Value;
use std::collections::BTreeMap;

/// Lays the user's requests and limits over a component's, entry by entry. A limit without a request is also the request, as in
/// Kubernetes itself: the template's default request could be above it. Nor is the template's limit below a request.
pub(super) fn of_component(container: &mut Value, asked: &ResourceRequirements) -> Result<(), String> {
    for (name, quantity) in asked.limits.iter().flatten() {
        container["resources"]["requests"][name] = quantity.0.clone().into();
    }
    lay_over(container, asked);
    if asked.claims.as_ref().is_some_and(|claims| !claims.is_empty()) {
        return Err("resource claims are not supported".to_owned());
    }
    Ok(())
}

/// Lays requests and limits over those of a container beside a component, entry by entry. What is asked for wins: a request that was there
/// is lowered to a new limit, and a limit raised to a new request. A limit of what had no request is also the request, as in Kubernetes.
pub fn lay_over(container: &mut Value, asked: &ResourceRequirements) {
    let resources = &mut container["resources"];
    let is_less = |a: &Value, b: &str| a.as_str().is_some_and(|a| quantity::is_less(a, b));
    for (name, limit) in asked.limits.iter().flatten() {
        resources["limits"][name] = limit.0.clone().into();
        let request = &mut resources["requests"][name];
        if request.as_str().is_none_or(|request| quantity::is_less(&limit.0, request)) {
            *request = limit.0.clone().into();
        }
    }
    for (name, request) in asked.requests.iter().flatten() {
        resources["requests"][name] = request.0.clone().into();
        if is_less(&resources["limits"][name], &request.0) {
            resources["limits"][name] = request.0.clone().into();
        }
    }
}

/// Puts other requests in place of a component's, no more than its limits. Returns those that were there, as JSON. None: there are no others.
pub(super) fn of_size(container: &mut Value, sized: &BTreeMap<String, String>) -> Option<String> {
    if sized.is_empty() {
        return None;
    }
    let before = container.pointer("/resources/requests").map(ToString::to_string);
    for (name, request) in sized {
        let limit = container.pointer("/resources/limits").and_then(|limits| limits.get(name)?.as_str());
        let within = limit.filter(|limit| quantity::is_less(limit, request)).unwrap_or(request).to_owned();
        container["resources"]["requests"][name] = within.into();
    }
    before
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_layer_wins_over_what_is_below_it() {
        let (small, none) =
            (json!({"requests": {"cpu": "10m", "memory": "16Mi"}, "limits": {"memory": "64Mi"}}), json!({}));
        for (below, asked, comes_out) in [
            (&small, json!({}), small.clone()),
            (
                &small,
                json!({"limits": {"cpu": "1"}}),
                json!({"requests": {"cpu": "10m", "memory": "16Mi"}, "limits": {"cpu": "1", "memory": "64Mi"}}),
            ),
            (
                &small,
                json!({"limits": {"cpu": "5m"}}),
                json!({"requests": {"cpu": "5m", "memory": "16Mi"}, "limits": {"cpu": "5m", "memory": "64Mi"}}),
            ),
            (
                &small,
                json!({"requests": {"memory": "0.5Gi"}}),
                json!({"requests": {"cpu": "10m", "memory": "0.5Gi"}, "limits": {"memory": "0.5Gi"}}),
            ),
            (
                &small,
                json!({"requests": {"cpu": "50m"}}),
                json!({"requests": {"cpu": "50m", "memory": "16Mi"}, "limits": {"memory": "64Mi"}}),
            ),
            (
                &none,
                json!({"limits": {"ephemeral-storage": "1Gi"}}),
                json!({"requests": {"ephemeral-storage": "1Gi"}, "limits": {"ephemeral-storage": "1Gi"}}),
            ),
            (
                &none,
                json!({"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}),
                json!({"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}),
            ),
        ] {
            let mut container = json!({"resources": below});
            lay_over(&mut container, &serde_json::from_value(asked.clone()).unwrap());
            assert_eq!(container["resources"], comes_out, "{below} and {asked}");
        }
    }

    #[test]
    fn a_size_replaces_requests_within_limits_and_tells_what_was_there() {
        let mut container =
            json!({"resources": {"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"memory": "128Mi"}}});
        assert_eq!(of_size(&mut container, &BTreeMap::new()), None);
        let sized = [("cpu", "75m"), ("memory", "256Mi")].map(|(name, amount)| (name.to_owned(), amount.to_owned()));
        let before = of_size(&mut container, &sized.into());
        assert_eq!(before.as_deref(), Some(r#"{"cpu":"50m","memory":"64Mi"}"#));
        let comes_out = json!({"requests": {"cpu": "75m", "memory": "128Mi"}, "limits": {"memory": "128Mi"}});
        assert_eq!(container["resources"], comes_out);
    }

    #[test]
    fn a_components_limit_alone_is_its_request() {
        let mut container = json!({"resources": {"requests": {"cpu": "50m"}}});
        of_component(&mut container, &serde_json::from_value(json!({"limits": {"cpu": "1"}})).unwrap()).unwrap();
        assert_eq!(container["resources"], json!({"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}));
    }
}
