//! What a fleet reserves of which most tenants sleep, and requests of the others follow usage: the operator's own decisions, minute by minute.

use crate::Figure;
use anyhow::Context as _;
use berth_api::autoscaling::Autoscaling;
use berth_plan::settings::Limits;
use berth_plan::sizes::{Known, Part, Size, SizedPod, part, step, usage_of};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

/// Tenants that are idle, and that are used. Of a hundred; the others sleep, and reserve nothing.
const IDLE: i64 = 25;
const USED: i64 = 5;
const TENANTS: i64 = 100;

/// So many minutes are looked at. After six hours sizes become less.
const MINUTES: i64 = 7 * 60;

const LABEL: &str = "app.kubernetes.io/component";

/// Thousandths of a CPU, and MiB.
type Amount = (i64, i64);

/// A component: what the template of 1.36 (etcd: 3.6) requests, what it uses idle (docs/benchmarks.md, `idle`), and what it uses with 100 nodes
/// and 3000 pods while 20 clients list them (memory: docs/benchmarks.md, `nodes`; CPU: assumed).
const COMPONENTS: [(&str, Amount, Amount, Amount); 4] = [
    ("kube-apiserver", (50, 288), (21, 252), (1000, 1325)),
    ("kube-controller-manager", (20, 112), (13, 109), (200, 179)),
    ("kube-scheduler", (10, 72), (3, 64), (100, 108)),
    ("etcd", (50, 64), (13, 50), (200, 135)),
];

/// What the fleet reserves, as a part of what it does if nobody sleeps and all have the size of those that are used: who will be is not known.
pub(crate) fn run() -> anyhow::Result<Vec<Figure>> {
    let (mut now, mut used, mut defaults) = ((0, 0), (0, 0), (0, 0));
    for (name, requests, idle, busy) in COMPONENTS {
        let (idle, busy) = (settled(name, requests, idle)?, settled(name, requests, busy)?);
        println!("{name}: requests {requests:?}; idle {idle:?}, used {busy:?} (thousandths of a CPU, MiB)");
        now = (now.0 + IDLE * idle.0 + USED * busy.0, now.1 + IDLE * idle.1 + USED * busy.1);
        used = (used.0 + TENANTS * busy.0, used.1 + TENANTS * busy.1);
        defaults = (defaults.0 + TENANTS * requests.0, defaults.1 + TENANTS * requests.1);
    }
    let all = [
        ("sizes.reserved_cpu", now.0, used.0),
        ("sizes.reserved_memory", now.1, used.1),
        ("sizes.of_defaults_cpu", now.0, defaults.0),
        ("sizes.of_defaults_memory", now.1, defaults.1),
    ];
    Ok(all.into_iter().map(|(name, part, whole)| Figure::new(name, "×", vec![ratio(part, whole)])).collect())
}

#[expect(clippy::cast_precision_loss, reason = "sums of a hundred tenants")]
fn ratio(part: i64, whole: i64) -> f64 {
    part as f64 / whole as f64
}

/// The size of a component that uses that all the time.
fn settled(name: &str, requests: Amount, used: Amount) -> anyhow::Result<Amount> {
    let part = asked(name, requests)?;
    let (mut size, mut known) = (json!({"cpu": format!("{}m", requests.0), "memory": mib(requests)}), Known::default());
    let usage = json!({
        "metadata": {"namespace": "tenant", "name": name},
        "containers": [{"name": name, "usage": {"cpu": format!("{}m", used.0), "memory": mib(used)}}],
    });
    let usage = usage_of(&usage).into_iter().collect();
    for minute in 0..MINUTES {
        let pod = pod(name, &size)?;
        let now = Timestamp::UNIX_EPOCH + SignedDuration::from_mins(minute);
        if let Some(resize) = step(&part, &[&pod], Some(&usage), &mut known, (now, true)).first() {
            size = resize.size.to_json();
        }
    }
    let size = Size::of(&size);
    Ok((size.cpu, size.memory >> 20))
}

fn asked(name: &str, requests: Amount) -> anyhow::Result<Part> {
    let asked: Autoscaling = serde_json::from_value(json!({"mode": "InPlace"}))?;
    let resources =
        json!({"requests": {"cpu": format!("{}m", requests.0), "memory": mib(requests)}, "limits": {"memory": "4Gi"}});
    let container = json!({"name": name, "resources": resources});
    let workload = json!({"spec": {"template": {"spec": {"containers": [container]}}}});
    // Without a limit of CPU four times the request is the most; a platform with such tenants says more.
    let asked = Autoscaling { max: serde_json::from_value(json!({"cpu": "2"}))?, ..asked };
    part(("spec.autoscaling", (LABEL, name)), name, &asked, Some(&workload), &Limits::default()).context("no part")
}

fn pod(name: &str, requests: &Value) -> anyhow::Result<SizedPod> {
    let resources = json!({"requests": requests, "limits": {"memory": "4Gi"}});
    let running = json!({"running": {"startedAt": "1970-01-01T00:00:00Z"}});
    SizedPod::of(&json!({
        "metadata": {"namespace": "tenant", "name": name, "uid": name, "labels": {(LABEL): name}},
        "spec": {"containers": [{"name": name, "resources": resources}]},
        "status": {
            "phase": "Running", "qosClass": "Burstable", "startTime": "1970-01-01T00:00:00Z",
            "containerStatuses": [{"name": name, "state": running, "resources": resources}],
        },
    }))
    .context("no pod")
}

fn mib((_, memory): Amount) -> String {
    format!("{memory}Mi")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_most_do_not_use_is_not_reserved() {
        let all = run().unwrap();
        let of = |name: &str| all.iter().find(|figure| figure.name == name).unwrap().median();
        assert!(of("sizes.reserved_cpu") <= 0.25 && of("sizes.reserved_memory") <= 0.25);
    }
}
