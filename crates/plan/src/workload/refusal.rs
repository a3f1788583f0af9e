//! What to change where the API server refuses a pod: each of its own plugins says so in words of its own.

use super::rules::with_fields;
use serde_json::Value;

/// What the API server says of a pod that it refuses, whatever makes the pod, and what would let it pass: fields of the spec, or else of the object
/// that refuses it. `template`: what the pod is made from; `namespace`: where.
pub fn explained(why: &str, template: &Value, namespace: &str) -> String {
    let why = why.trim_end_matches('.');
    let said = with_fields(why, template);
    let way_out = way_out(why, namespace).filter(|_| said == why);
    way_out.map_or(said, |way_out| format!("{why}. To allow it, {way_out}"))
}

/// The object that refuses a pod, and the field of it that would let it pass, for people. `why`: what the API server says; `namespace`: the
/// pod's. None: nobody is known who could be asked.
fn way_out(why: &str, namespace: &str) -> Option<String> {
    let quoted = |after: &str| Some(why.split_once(after)?.1.split(['"', '\'']).next()?.to_owned());
    let quota = |after: &str| Some(why.split_once(after)?.1.split([',', ':']).next()?.trim().to_owned());
    if let Some(name) = quota("exceeded quota: ") {
        return Some(format!("raise spec.hard of ResourceQuota {name} in namespace {namespace}"));
    }
    if let Some(name) = quota("failed quota: ") {
        return Some(format!(
            "set what ResourceQuota {name} counts in spec.limits[].default and defaultRequest of a LimitRange in namespace {namespace}"
        ));
    }
    let ranges = ["usage per Container is", "usage per Pod is", "limit to request ratio per"];
    if ranges.iter().any(|says| why.contains(says)) {
        return Some(format!("change spec.limits of the LimitRange in namespace {namespace}"));
    }
    if why.contains("violates PodSecurity ") {
        return Some(format!("change the label pod-security.kubernetes.io/enforce of namespace {namespace}"));
    }
    if let Some(name) = quoted("ValidatingAdmissionPolicy '") {
        return Some(format!(
            "exempt namespace {namespace} in spec.matchConstraints of ValidatingAdmissionPolicy {name}"
        ));
    }
    let webhook = quoted("admission webhook \"").or_else(|| quoted("failed calling webhook \""))?;
    Some(format!("exempt namespace {namespace} in namespaceSelector of webhook {webhook}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_of_the_spec_comes_before_the_object_that_refuses() {
        let template = serde_json::json!({"spec": {"containers": [
            {"name": "etcd", "resources": {"requests": {"cpu": "2"}}},
        ]}});
        let cpu = "pods \"etcd-0\" is forbidden: exceeded quota: q, requested: requests.cpu=2, used: requests.cpu=0, limited: requests.cpu=1";
        for (why, wanted) in [
            (cpu, format!("{cpu}. Lower spec.etcd.resources.requests.cpu, or have the quota raised")),
            (
                "exceeded quota: q, requested: pods=1, used: pods=5, limited: pods=5.",
                "exceeded quota: q, requested: pods=1, used: pods=5, limited: pods=5. To allow it, raise spec.hard of ResourceQuota q in namespace h".to_owned(),
            ),
            ("nobody knows.", "nobody knows".to_owned()),
        ] {
            assert_eq!(explained(why, &template, "h"), wanted);
        }
    }

    #[test]
    fn what_refuses_a_pod_is_named_with_its_field() {
        for (why, wanted) in [
            (
                "exceeded quota: small, requested: pods=1, used: pods=5, limited: pods=5",
                Some("raise spec.hard of ResourceQuota small in namespace h"),
            ),
            (
                r#"pods "etcd-0" is forbidden: exceeded quota: small, requested: pods=1"#,
                Some("raise spec.hard of ResourceQuota small in namespace h"),
            ),
            (
                "failed quota: cpu: must specify limits.cpu for: backup; requests.cpu for: backup",
                Some(
                    "set what ResourceQuota cpu counts in spec.limits[].default and defaultRequest of a LimitRange in namespace h",
                ),
            ),
            (
                "maximum memory usage per Container is 1Gi, but limit is 4Gi",
                Some("change spec.limits of the LimitRange in namespace h"),
            ),
            (
                "minimum cpu usage per Pod is 1, but request is 20m",
                Some("change spec.limits of the LimitRange in namespace h"),
            ),
            (
                "cpu max limit to request ratio per Container is 2, but provided ratio is 5.000000",
                Some("change spec.limits of the LimitRange in namespace h"),
            ),
            (
                r#"violates PodSecurity "restricted:latest": runAsNonRoot != true"#,
                Some("change the label pod-security.kubernetes.io/enforce of namespace h"),
            ),
            (
                "ValidatingAdmissionPolicy 'no-jobs' with binding 'all' denied request: no",
                Some("exempt namespace h in spec.matchConstraints of ValidatingAdmissionPolicy no-jobs"),
            ),
            (
                r#"admission webhook "policy.example.com" denied the request: no"#,
                Some("exempt namespace h in namespaceSelector of webhook policy.example.com"),
            ),
            (
                r#"Internal error occurred: failed calling webhook "policy.example.com": context deadline exceeded"#,
                Some("exempt namespace h in namespaceSelector of webhook policy.example.com"),
            ),
            (r#"error looking up service account h/default: serviceaccount "default" not found"#, None),
            ("", None),
        ] {
            assert_eq!(way_out(why, "h").as_deref(), wanted, "{why}");
        }
    }
}
