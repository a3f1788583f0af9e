//! What containers request and use.

use crate::access::Access;
use berth_kubeio::{read_sized_pods, read_usage};
use berth_plan::sizes::{Size, SizedPod, Usage};
use serde::Serialize;
use serde_json::Value;

/// What was read of a control plane. Nothing: whoever asks may not read it.
#[derive(Clone, Debug, Default)]
pub(super) struct Sizes {
    pub(super) pods: Vec<SizedPod>,
    pub(super) usage: Usage,
}

/// Of all pods of a component together.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Share {
    /// By resource, as Kubernetes writes it.
    pub(super) requested: Value,
    /// Likewise; none where `metrics.k8s.io` does not tell it.
    pub(super) used: Option<Value>,
    #[serde(skip)]
    pub(super) text: String,
}

/// Reads them. It is no matter if nobody tells them.
pub(super) async fn read(access: &Access, namespace: &str) -> Sizes {
    let pods = read_sized_pods(&access.io, Some(namespace)).await.unwrap_or_default();
    let metrics = if pods.is_empty() { None } else { Some(read_usage(&access.io, Some(namespace)).await.0) };
    let usage = metrics.and_then(|metrics| metrics.usage().cloned()).unwrap_or_default();
    Sizes { pods, usage }
}

impl Sizes {
    /// That of the container of this name, in all pods.
    pub(super) fn of(&self, container: &str) -> Option<Share> {
        let requests = self.pods.iter().filter_map(|pod| pod.containers.get(container)).map(|one| one.requests);
        let requested = requests.reduce(Size::plus).filter(|sum| *sum != Size::default())?;
        let its = self.pods.iter().filter_map(|pod| self.usage.get(&pod.key()));
        let used = its.filter_map(|used| used.get(container)).copied().reduce(Size::plus);
        let text = match used {
            Some(used) => format!("uses {} of {}", used.shown(), requested.shown()),
            None => format!("reserves {}", requested.shown()),
        };
        Some(Share { requested: requested.to_json(), used: used.map(Size::to_json), text })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use berth_plan::sizes::usage_of;
    use serde_json::json;

    const ALL: [&str; 4] = ["kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd"];

    /// Two pods of each component, and what they use, if that is known.
    pub(in crate::status) fn sizes(is_known: bool) -> Sizes {
        let names = ALL.iter().flat_map(|name| [0, 1].map(|n| (*name, format!("{name}-{n}"))));
        let pod = |(container, name): (&str, String)| {
            let resources = json!({"requests": {"cpu": "100m", "memory": "256Mi"}});
            SizedPod::of(&json!({
                "metadata": {"namespace": "acme-1", "name": name},
                "spec": {"containers": [{"name": container, "resources": resources}]}, "status": {"phase": "Running"},
            }))
        };
        let used = |(container, name): (&str, String)| {
            let usage = json!({"cpu": "19500u", "memory": "100Mi"});
            usage_of(
                &json!({"metadata": {"namespace": "acme-1", "name": name}, "containers": [{"name": container, "usage": usage}]}),
            )
        };
        Sizes {
            pods: names.clone().filter_map(pod).collect(),
            usage: names.filter(|_| is_known).filter_map(used).collect(),
        }
    }

    #[test]
    fn all_pods_of_a_component_are_one_sum() {
        let of = |is_known| sizes(is_known).of("etcd").unwrap();
        assert_eq!(of(true).text, "uses 40m CPU, 200Mi of 200m CPU, 512Mi");
        assert_eq!(of(false).text, "reserves 200m CPU, 512Mi");
        assert_eq!(of(true).used, Some(json!({"cpu": "40m", "memory": "200Mi"})));
        assert_eq!(sizes(true).of("vpc"), None);
    }
}
