//! Requests that are to follow usage, and do not.

use crate::Input;
use crate::tests::Fixture;
use berth_plan::sizes::{Known, Metrics, Resize, Size, SizedPod, Usage, say};
use serde_json::{Value, json};

/// What is told of the only API server, where that is so.
fn told(metrics: &Metrics, change: impl Fn(&mut SizedPod), refused: Option<&str>) -> Vec<String> {
    let mut f = Fixture::awake();
    f.cluster.spec.api_server.autoscaling = serde_json::from_value(json!({"mode": "InPlace"})).unwrap();
    let (object, observed, settings, now) = (&f.cluster, &f.world.observed, &f.settings, f.world.now);
    let part = crate::sizes(Input { object, observed, settings, now }).unwrap().parts.remove(0);
    let resources: Value = json!({"requests": {"cpu": "100m", "memory": "256Mi"}});
    let mut pod = SizedPod::of(&json!({
        "metadata": {"namespace": "acme-1", "name": "kube-apiserver-a", "uid": "u"},
        "spec": {"containers": [{"name": part.container, "resources": resources}]},
        "status": {"phase": "Running", "qosClass": "Burstable", "startTime": "2020-01-01T00:00:00Z"},
    }))
    .unwrap();
    change(&mut pod);
    let mut known = Known::default();
    if let Some(why) = refused {
        let size = Size { cpu: 300, memory: 1 << 28 };
        let (namespace, container) = ("acme-1".to_owned(), part.container.clone());
        let resize = Resize { namespace, pod: pod.name.clone(), uid: "u".into(), container, size };
        known.refused(&resize, why.into(), f.world.now);
    }
    say(&part, &[&pod], metrics, &known, f.world.now).into_iter().collect()
}

/// With the status as it is then.
pub(super) fn situations() -> Vec<(&'static str, Fixture)> {
    let of = |told: Vec<String>| {
        let mut f = Fixture::awake();
        f.world.observed.sizes = told;
        f.reconcile();
        f
    };
    let used = || {
        let size = Size { cpu: 20, memory: 1 << 20 };
        let of = ("kube-apiserver".to_owned(), size);
        Metrics::Answered(Usage::from([(("acme-1".into(), "kube-apiserver-a".into()), [of].into())]))
    };
    let bad = |text, autoscaling: Value| {
        let mut f = Fixture::awake();
        f.cluster.spec.api_server.autoscaling = serde_json::from_value(autoscaling).unwrap();
        f.settings.writers.limits.memory = Some("4Gi".into());
        f.reconcile();
        (text, f)
    };
    let pending = |reason: &'static str| move |pod: &mut SizedPod| pod.pending = Some(reason.into());
    vec![
        ("sizes, and no metrics.k8s.io", of(told(&Metrics::Missing, |_| {}, None))),
        ("sizes, and metrics.k8s.io does not answer", of(told(&Metrics::Failed, |_| {}, None))),
        ("sizes, and no right to read metrics.k8s.io", of(told(&Metrics::Denied, |_| {}, None))),
        ("sizes, and a pod without usage", of(told(&Metrics::Answered(Usage::new()), |_| {}, None))),
        ("sizes, and a resize is deferred", of(told(&used(), pending("Deferred"), None))),
        ("sizes, and a resize is infeasible", of(told(&used(), pending("Infeasible"), None))),
        ("sizes, and a pod is Guaranteed", of(told(&used(), |pod| pod.class = "Guaranteed".into(), None))),
        (
            "sizes, and a quota refuses a resize",
            of(told(&used(), |_| {}, Some("pods \"kube-apiserver-a\" is forbidden: exceeded quota: q"))),
        ),
        bad("sizes, and min is above max", json!({"mode": "InPlace", "min": {"cpu": 2}, "max": {"cpu": "1"}})),
        bad("sizes, and max is above the limit of writers", json!({"mode": "InPlace", "max": {"memory": "5Gi"}})),
        bad("sizes, and min is above the limit of writers", json!({"mode": "InPlace", "min": {"memory": "5Gi"}})),
    ]
}
