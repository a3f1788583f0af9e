//! What sizes that follow usage cost the operator: looks at the pods of a whole fleet, as an API server answers them, without the network.

use crate::Figure;
use berth_api::autoscaling::Autoscaling;
use berth_plan::settings::Limits;
use berth_plan::sizes::{Known, Metrics, Part, ReadPod, SizedPod, part, say, step, usage_of};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::Instant;

/// The components, and how many pods a tenant has of each.
const COMPONENTS: [(&str, usize); 4] =
    [("kube-apiserver", 2), ("kube-controller-manager", 2), ("kube-scheduler", 2), ("etcd", 3)];

const LABEL: &str = "app.kubernetes.io/component";

/// So many looks at so many tenants, of which each asks for all components.
pub(crate) fn run(tenants: usize, runs: usize) -> anyhow::Result<Vec<Figure>> {
    let (pods, usage) = answers(tenants);
    println!("{tenants} tenants: {} KiB of pods, {} KiB of usage", pods.len() / 1024, usage.len() / 1024);
    let parts = parts()?;
    let mut known: BTreeMap<(usize, usize), Known> = BTreeMap::new();
    let mut each = vec![];
    for run in 0..=runs {
        let now = Timestamp::UNIX_EPOCH + SignedDuration::from_mins(i64::try_from(run)?);
        let begun = Instant::now();
        look((&pods, &usage), &parts, &mut known, now)?;
        let tenant = begun.elapsed().as_secs_f64() * 1000.0 / f64::from(u32::try_from(tenants.max(1))?);
        // The first one has everything to allocate.
        each.extend((run > 0).then_some(tenant));
    }
    Ok(vec![Figure::new("sizes.look", "ms", each)])
}

fn look(
    (pods, usage): (&str, &str),
    parts: &[Part],
    known: &mut BTreeMap<(usize, usize), Known>,
    now: Timestamp,
) -> anyhow::Result<()> {
    let usage: Vec<Value> = serde_json::from_str(usage)?;
    let metrics = Metrics::Answered(usage.iter().filter_map(usage_of).collect());
    let pods: Vec<ReadPod> = serde_json::from_str(pods)?;
    let pods: Vec<SizedPod> = pods.into_iter().filter_map(ReadPod::sized).collect();
    let mut by_namespace: BTreeMap<&str, Vec<&SizedPod>> = BTreeMap::new();
    for pod in &pods {
        by_namespace.entry(&pod.namespace).or_default().push(pod);
    }
    for (tenant, of_tenant) in by_namespace.values().enumerate() {
        for (n, part) in parts.iter().enumerate() {
            let its = part.pods(of_tenant);
            let known = known.entry((tenant, n)).or_default();
            black_box(step(part, &its, metrics.usage(), known, (now, true)));
            black_box(say(part, &its, &metrics, known, now));
        }
    }
    Ok(())
}

fn parts() -> anyhow::Result<Vec<Part>> {
    let asked: Autoscaling = serde_json::from_value(json!({"mode": "InPlace"}))?;
    let of = |(name, _): (&str, usize)| {
        let workload = json!({"spec": {"template": {"spec": {"containers": [container(name)]}}}});
        part(("spec.autoscaling", (LABEL, name)), name, &asked, Some(&workload), &Limits::default())
    };
    Ok(COMPONENTS.into_iter().filter_map(of).collect())
}

fn container(name: &str) -> Value {
    let resources = json!({"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"memory": "2Gi"}});
    let args: Vec<String> =
        (0..40).map(|n| format!("--a-flag-of-some-length-{n}=/etc/kubernetes/a/file/{n}.crt")).collect();
    let mounts: Vec<Value> =
        (0..8).map(|n| json!({"name": format!("volume-{n}"), "mountPath": format!("/a/{n}")})).collect();
    json!({"name": name, "image": "registry.k8s.io/some-component:v1.36.3", "args": args, "resources": resources, "volumeMounts": mounts})
}

/// Lists of pods and of what they use, of about the size that those of tenants have.
fn answers(tenants: usize) -> (String, String) {
    let (mut pods, mut usage) = (vec![], vec![]);
    for tenant in 0..tenants {
        let namespace = format!("tenant-{tenant}-0123abcd");
        for (component, pod) in COMPONENTS.iter().flat_map(|(name, count)| (0..*count).map(move |pod| (*name, pod))) {
            let name = format!("{component}-6d5f9c7b8-{pod}");
            let mut managed = serde_json::Map::new();
            for n in 0..60 {
                managed.insert(format!("f:a-field-{n}"), json!({".": {}, "f:name": {}, "f:value": {}}));
            }
            let running = json!({"running": {"startedAt": "1970-01-01T00:00:00Z"}});
            pods.push(json!({
                "metadata": {
                    "namespace": namespace, "name": name, "uid": format!("{namespace}-{name}"),
                    "labels": {(LABEL): component, "app.kubernetes.io/managed-by": "berth"},
                    "managedFields": [{"manager": "kubelet", "fieldsV1": managed}],
                },
                "spec": {"containers": [container(component)], "nodeName": "node-1"},
                "status": {
                    "phase": "Running", "qosClass": "Burstable", "startTime": "1970-01-01T00:00:00Z",
                    "containerStatuses": [{"name": component, "state": running, "resources": container(component)["resources"]}],
                },
            }));
            usage.push(json!({
                "metadata": {"namespace": namespace, "name": name},
                "containers": [{"name": component, "usage": {"cpu": "12345678n", "memory": "123456Ki"}}],
            }));
        }
    }
    (Value::Array(pods).to_string(), Value::Array(usage).to_string())
}
