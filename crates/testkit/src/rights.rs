//! Which containers of a pod may what a pod of a team may not.

use serde_json::Value;
use std::collections::BTreeSet;

fn has(value: &Value, path: &str, wanted: impl Fn(&Value) -> bool) -> bool {
    value.pointer(path).is_some_and(wanted)
}

/// What a container may by itself.
fn is_more(container: &Value) -> bool {
    let yes = |value: &Value| value == true;
    has(container, "/securityContext/capabilities/add", |all| all.as_array().is_some_and(|all| !all.is_empty()))
        || has(container, "/securityContext/runAsUser", |user| user == 0)
        || has(container, "/securityContext/runAsNonRoot", |is| is == false)
        || has(container, "/securityContext/privileged", yes)
        || has(container, "/securityContext/allowPrivilegeEscalation", yes)
}

/// What all containers of a pod may.
fn is_more_as_a_whole(pod: &Value, wide: &BTreeSet<String>) -> bool {
    let spec = &pod["spec"];
    let volumes = spec["volumes"].as_array().into_iter().flatten();
    let is_more = |volume: &Value| {
        !volume["hostPath"].is_null() || volume["projected"].to_string().contains("serviceAccountToken")
    };
    wide.contains(pod["metadata"]["labels"]["app.kubernetes.io/component"].as_str().unwrap_or_default())
        || ["hostNetwork", "hostPID", "hostIPC"].iter().any(|field| spec[*field] == true)
        || spec["automountServiceAccountToken"] != false
        || has(spec, "/securityContext/runAsUser", |user| user == 0)
        || volumes.into_iter().any(is_more)
}

/// Images of a pod that run with more rights than a pod of a team has: their own, those of the pod, or what policies let its component reach.
/// `wide`: components that policies let reach more.
pub fn with_rights(pod: &Value, wide: &BTreeSet<String>) -> Vec<String> {
    let all = |list: &str| pod["spec"][list].as_array().cloned().unwrap_or_default();
    let whole = is_more_as_a_whole(pod, wide);
    let containers = ["initContainers", "containers"].into_iter().flat_map(all);
    let containers = containers.filter(|one| whole || is_more(one)).map(|one| one["image"].clone());
    let mounted = all("volumes").into_iter().filter(|_| whole).map(|volume| volume["image"]["reference"].clone());
    containers.chain(mounted).filter_map(|image| image.as_str().map(str::to_owned)).collect()
}
