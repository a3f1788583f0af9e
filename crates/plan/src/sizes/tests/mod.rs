mod bounds;
mod follow;
mod said;

use super::*;
use berth_api::autoscaling::Autoscaling;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

pub(super) const MIB: i64 = 1024 * 1024;

pub(super) fn at(minutes: i64) -> Timestamp {
    "2026-01-01T00:00:00Z".parse::<Timestamp>().unwrap() + SignedDuration::from_mins(minutes)
}

pub(super) fn size(cpu: i64, mib: i64) -> Size {
    Size { cpu, memory: mib * MIB }
}

/// A workload with one container.
pub(super) fn workload(resources: &Value) -> Value {
    let containers = json!([{"name": "kube-apiserver", "resources": resources}, {"name": "beside"}]);
    json!({"spec": {"template": {"spec": {"containers": containers}}}})
}

pub(super) fn part_of(asked: &Value, resources: &Value) -> Option<Part> {
    let asked: Autoscaling = serde_json::from_value(asked.clone()).unwrap();
    let label = ("app.kubernetes.io/component", "kube-apiserver");
    let limits = crate::settings::Limits { cpu: Some("2".into()), ..Default::default() };
    part(("spec.apiServer.autoscaling", label), "kube-apiserver", &asked, Some(&workload(resources)), &limits)
}

/// From 25m to 2 CPUs, from 64 MiB to 2 GiB; made with 100m and 256 MiB.
pub(super) fn usual() -> Part {
    let resources = json!({"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"memory": "2Gi"}});
    part_of(&json!({"mode": "InPlace", "max": {"cpu": "2"}}), &resources).unwrap()
}

pub(super) fn pod(name: &str, requests: Size) -> SizedPod {
    SizedPod::of(&json!({
        "metadata": {"namespace": "acme-1", "name": name, "uid": name, "labels": {"a": "b"}},
        "spec": {"containers": [
            {"name": "kube-apiserver", "resources": {"requests": requests.to_json(), "limits": {"memory": "2Gi"}}},
            {"name": "beside", "resources": {"requests": {"cpu": "5m"}}},
        ]},
        "status": {
            "phase": "Running", "qosClass": "Burstable", "startTime": "2026-01-01T00:00:00Z",
            "containerStatuses": [runs("kube-apiserver"), runs("beside")],
        },
    }))
    .unwrap()
}

/// What kubelet says of a container.
pub(super) fn runs(name: &str) -> Value {
    json!({"name": name, "state": {"running": {}}, "resources": {}})
}

pub(super) fn usage(of: &[(&str, Size)]) -> Usage {
    let one = |(name, used): &(&str, Size)| {
        let containers = json!([{"name": "kube-apiserver", "usage": used.to_json()}]);
        usage_of(&json!({"metadata": {"namespace": "acme-1", "name": name}, "containers": containers})).unwrap()
    };
    of.iter().map(one).collect()
}
