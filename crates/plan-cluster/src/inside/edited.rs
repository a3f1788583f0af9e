//! What is said to whoever edits, inside a tenant, what is Berth's: which field was set back, and where it is set.

use berth_api::labels;
use berth_plan::object_meta::label;
use berth_plan::objects::diff;
use berth_render::{Kind, Object, ObjectKey};
use serde_json::Value;

/// So many fields are named.
const NAMED: usize = 3;

/// The note of the Event. `live`: what is there, if anything is that carries Berth's label; `cluster`: the name of the `Cluster`.
pub(super) fn note(live: Option<&Value>, wanted: &Object, cluster: &str) -> String {
    let key = wanted.key();
    let what = match live {
        None => format!(
            "Berth restored this {}, which was deleted, or lost its label {}",
            key.kind.name(),
            labels::TENANT_SET
        ),
        Some(live) => format!("Berth set back {}", fields(live, wanted)),
    };
    format!("{what}: it keeps this object. {}", instead(key, label(wanted.value(), labels::TENANT_SET), cluster))
}

/// Paths alone: what somebody wrote there may be secret.
fn fields(live: &Value, wanted: &Object) -> String {
    let all = diff::paths(live, wanted.value());
    let more = all.len().saturating_sub(NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", all.into_iter().take(NAMED).collect::<Vec<_>>().join(", "))
}

/// The way to have it otherwise.
fn instead(key: &ObjectKey, set: Option<&str>, cluster: &str) -> String {
    let of = format!("of Cluster {cluster}");
    match (set, key.kind, &*key.name) {
        (_, Kind::ConfigMap, "kubelet-config") => {
            format!("Set spec.kubelet.config {of}, or use kubeadm join --patches for one machine")
        }
        (_, Kind::ConfigMap, "cluster-info" | "kubeadm-config") => {
            format!("It follows spec.version and spec.endpoint {of}: set these")
        }
        (_, Kind::ConfigMap, "coredns") => "Put your configuration into ConfigMap coredns-custom".into(),
        (Some("coredns"), ..) => {
            format!(
                "Set spec.addons.coreDNS {of}; with enabled: false there, Berth keeps none, and you can run your own"
            )
        }
        (Some("kube-proxy"), ..) => {
            format!(
                "Set spec.addons.kubeProxy {of}; with enabled: false there, Berth keeps none, and you can run your own"
            )
        }
        (Some("api-proxy"), ..) => {
            format!("It follows spec.endpoint {of}; spec.addons.apiProxy.enabled: false there takes it away")
        }
        (Some("endpoint"), ..) => format!("Set spec.endpoint.advertiseAddress {of}, or spec.vpc where it has that"),
        _ => "Create objects of your own beside it: Berth leaves these alone".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn object(kind: Kind, set: &str, name: &str) -> Object {
        let api_version = match kind.group() {
            "" => kind.version().to_owned(),
            group => format!("{group}/{}", kind.version()),
        };
        let labels = json!({(labels::TENANT_SET): set});
        Object::new(json!({
            "apiVersion": api_version, "kind": kind.name(),
            "metadata": {"name": name, "namespace": "kube-system", "labels": labels},
            "data": {"kubelet": "a", "b": "c"}, "spec": {"replicas": 2},
        }))
        .unwrap()
    }

    #[test]
    fn each_object_has_its_way_out() {
        for (kind, set, name, way_out) in [
            (
                Kind::ConfigMap,
                "join",
                "kubelet-config",
                "Set spec.kubelet.config of Cluster acme, or use kubeadm join --patches for one machine",
            ),
            (
                Kind::ConfigMap,
                "join",
                "kubeadm-config",
                "It follows spec.version and spec.endpoint of Cluster acme: set these",
            ),
            (Kind::ConfigMap, "coredns", "coredns", "Put your configuration into ConfigMap coredns-custom"),
            (
                Kind::Deployment,
                "coredns",
                "coredns",
                "Set spec.addons.coreDNS of Cluster acme; with enabled: false there, Berth keeps none, and you can run your own",
            ),
            (
                Kind::ConfigMap,
                "kube-proxy",
                "kube-proxy",
                "Set spec.addons.kubeProxy of Cluster acme; with enabled: false there, Berth keeps none, and you can run your own",
            ),
            (
                Kind::DaemonSet,
                "api-proxy",
                "api-proxy",
                "It follows spec.endpoint of Cluster acme; spec.addons.apiProxy.enabled: false there takes it away",
            ),
            (
                Kind::EndpointSlice,
                "endpoint",
                "kubernetes",
                "Set spec.endpoint.advertiseAddress of Cluster acme, or spec.vpc where it has that",
            ),
            (Kind::ConfigMap, "join", "berth-join", "Create objects of your own beside it: Berth leaves these alone"),
        ] {
            let object = object(kind, set, name);
            let gone = note(None, &object, "acme");
            let kind = kind.name();
            assert_eq!(
                gone,
                format!(
                    "Berth restored this {kind}, which was deleted, or lost its label berth.dev/tenant-set: it keeps this object. {way_out}"
                )
            );
        }
    }

    #[test]
    fn fields_are_named_and_not_their_values() {
        let wanted = object(Kind::ConfigMap, "join", "kubelet-config");
        let mut live = wanted.value().clone();
        live["data"] = json!({"kubelet": "hunter2", "b": "hunter3", "own": "hunter4"});
        live["metadata"]["labels"]["berth.dev/tenant-set"] = "other".into();
        live["spec"]["replicas"] = 5.into();
        let said = note(Some(&live), &wanted, "acme");
        assert_eq!(
            said,
            "Berth set back /data/b, /data/kubelet, /metadata/labels/berth.dev~1tenant-set and 1 more: it keeps this object. Set spec.kubelet.config of Cluster acme, or use kubeadm join --patches for one machine"
        );
    }
}
