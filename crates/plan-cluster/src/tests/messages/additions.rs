//! Situations of what others add to a workload, its pods or its Service.

use super::*;
use crate::tests::additions::{FOO, env, managed};
use berth_plan::objects::service_address::RefusedAddress;

pub(super) const ADDITIONS: &[Case] = &[
    ("somebody added to a Deployment before the tenant's Berth removed additions", |f| {
        managed(f, names::SCHEDULER, "kubectl-set", "2026-01-01T00:00:00Z", env());
        let d = f.live(Kind::Deployment, names::SCHEDULER);
        d["metadata"]["annotations"].as_object_mut().unwrap().remove(labels::ADDITIONS);
    }),
    ("somebody adds the same to a Deployment again and again", |f| {
        for n in 0..6 {
            managed(f, names::SCHEDULER, "reloader", &format!("2026-01-01T00:0{n}:00Z"), env());
            f.reconcile();
        }
    }),
    ("a webhook adds to a Deployment what Berth does not set", |f| {
        managed(f, names::SCHEDULER, "reloader", "2026-01-01T00:00:00Z", json!({}));
        let pods = &mut f.live(Kind::Deployment, names::SCHEDULER)["spec"]["template"]["spec"];
        pods["containers"][0]["env"].as_array_mut().unwrap().push(json!({"name": FOO}));
    }),
    ("a webhook adds a container to pods", |f| {
        let pod = Fixture::key(Kind::Pod, "kube-scheduler-7d9f8-x2x4z");
        let labels = json!({(labels::COMPONENT): names::SCHEDULER});
        f.world.put(pod.clone(), json!({"metadata": {"name": pod.name, "labels": labels}}));
        let running = |name: &str| json!({"name": name, "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}});
        f.world.pod_status(&pod, json!({"containerStatuses": [running(names::SCHEDULER), running("istio-proxy")]}));
    }),
    ("the Service was deleted, and its address has another owner by now", |f| {
        let service = Fixture::key(Kind::Service, names::APISERVER);
        f.world.remove(&service);
        let refused = RefusedAddress { cluster_ip: true, ..RefusedAddress::default() };
        f.world.observed.refused_addresses.insert(service, refused);
        f.reconcile();
        f.others();
        last(f);
    }),
    ("the port of nodes that the spec asks for belongs to another Service", |f| {
        let endpoint = json!({"type": "NodePort", "host": "nodes.example.com", "nodePort": 30447});
        f.cluster.spec.endpoint = serde_json::from_value(endpoint).unwrap();
        f.settings.writers.node_ports = vec!["30447".to_owned()];
        let why = "provided port is already allocated".to_owned();
        let refused = RefusedAddress { cluster_ip: false, node_ports: [(30447, why)].into() };
        f.world.observed.refused_addresses.insert(Fixture::key(Kind::Service, names::APISERVER), refused);
        f.reconcile();
        f.others();
        last(f);
    }),
];

/// What is on its way.
pub(super) const REMOVED: &[Case] = &[("somebody added to a Deployment, and Berth has not removed it yet", |f| {
    managed(f, names::SCHEDULER, "kubectl-set", "2026-01-01T00:00:00Z", env());
})];
