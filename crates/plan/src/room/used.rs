//! What pods of others ask for on a node.

use crate::object_meta::deleting;
use berth_api::quantity;
use serde_json::Value;
use std::collections::BTreeMap;

/// A pod on a node, as far as it takes room there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodThere {
    /// Its namespace and its name.
    pub name: (String, String),
    priority: i64,
    /// In units of 10⁻⁹, by resource.
    requests: BTreeMap<String, i128>,
}

impl PodThere {
    /// From its object. None: it takes no room, or is about to leave.
    pub fn of(pod: &Value) -> Option<Self> {
        let is_over = matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
        let text = |field: &str| pod["metadata"][field].as_str().unwrap_or_default().to_owned();
        (!is_over && !deleting(pod)).then(|| Self {
            name: (text("namespace"), text("name")),
            priority: pod["spec"]["priority"].as_i64().unwrap_or_default(),
            requests: requests(&pod["spec"]),
        })
    }
}

/// What the scheduler reserves for a pod: of containers that run side by side the sum, and of those before them the most, if that is more.
fn requests(spec: &Value) -> BTreeMap<String, i128> {
    let list = |name: &str| spec[name].as_array().cloned().unwrap_or_default();
    let of = |container: &Value| -> BTreeMap<String, i128> {
        let all = container["resources"]["requests"].as_object().cloned().unwrap_or_default();
        all.into_iter().filter_map(|(name, amount)| Some((name, quantity::nanos(amount.as_str()?)?))).collect()
    };
    let mut sum: BTreeMap<String, i128> = BTreeMap::new();
    let mut before: BTreeMap<String, i128> = BTreeMap::new();
    for container in list("initContainers") {
        let stays = container["restartPolicy"] == "Always";
        for (name, amount) in of(&container) {
            let beside = sum.get(&name).copied().unwrap_or_default();
            let most = before.entry(name.clone()).or_default();
            *most = (*most).max(beside + amount);
            if stays {
                *sum.entry(name).or_default() += amount;
            }
        }
    }
    for (name, amount) in list("containers").iter().flat_map(of) {
        *sum.entry(name).or_default() += amount;
    }
    for (name, most) in before {
        let all = sum.entry(name).or_default();
        *all = (*all).max(most);
    }
    sum
}

/// What pods ask for there beside `own`, as far as they stay for one of these: of a lower priority, they would be pushed away. None: none of
/// `own` is there, so their priority is not known.
pub fn beside(all: &[PodThere], own: impl Fn(&PodThere) -> bool) -> Option<BTreeMap<String, i128>> {
    let priority = all.iter().filter(|pod| own(pod)).map(|pod| pod.priority).min()?;
    let mut sum: BTreeMap<String, i128> = BTreeMap::new();
    for pod in all.iter().filter(|pod| !own(pod) && pod.priority >= priority) {
        for (name, amount) in &pod.requests {
            *sum.entry(name.clone()).or_default() += amount;
        }
    }
    Some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn container(cpu: &str) -> Value {
        json!({"resources": {"requests": {"cpu": cpu}}})
    }

    fn pod(name: &str, priority: i64, spec: &Value) -> Value {
        let mut pod =
            json!({"metadata": {"namespace": "a", "name": name}, "spec": spec, "status": {"phase": "Running"}});
        pod["spec"]["priority"] = priority.into();
        pod
    }

    #[test]
    fn a_pod_takes_what_the_scheduler_reserves() {
        let side_by_side = [container("1"), container("500m"), json!({})];
        for (spec, cpu) in [
            (json!({"containers": side_by_side}), "1500m"),
            (json!({"containers": side_by_side, "initContainers": [container("1"), container("200m")]}), "1500m"),
            (json!({"containers": side_by_side, "initContainers": [container("2")]}), "2"),
            (
                json!({"containers": side_by_side, "initContainers": [
                    {"restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}}, container("2"),
                ]}),
                "3",
            ),
            (
                json!({"containers": side_by_side, "initContainers": [
                    {"restartPolicy": "Always", "resources": {"requests": {"cpu": "2"}}},
                ]}),
                "3500m",
            ),
        ] {
            assert_eq!(requests(&spec).get("cpu"), quantity::nanos(cpu).as_ref(), "{spec}");
        }
        assert!(requests(&json!({"containers": [{}]})).is_empty());
    }

    #[test]
    fn what_leaves_or_would_be_pushed_away_takes_no_room() {
        let spec = || json!({"containers": [container("1")]});
        let with = |mut pod: Value, path: &str, value: Value| {
            *pod.pointer_mut(path).unwrap() = value;
            pod
        };
        let leaves = with(
            pod("leaves", 9, &spec()),
            "/metadata",
            json!({"name": "leaves", "deletionTimestamp": "2026-01-01T00:00:00Z"}),
        );
        let over = with(pod("over", 9, &spec()), "/status/phase", json!("Succeeded"));
        assert_eq!([&leaves, &over].map(PodThere::of), [None, None]);
        let all: Vec<_> =
            [pod("own", 5, &spec()), pod("same", 5, &spec()), pod("more", 6, &spec()), pod("less", 4, &spec())]
                .iter()
                .filter_map(PodThere::of)
                .collect();
        let beside = |own: &str| beside(&all, |pod| pod.name.1 == own).map(|sum| sum["cpu"]);
        assert_eq!(beside("own"), quantity::nanos("2"));
        assert_eq!(beside("less"), quantity::nanos("3"));
        assert_eq!(beside("elsewhere"), None);
    }
}
