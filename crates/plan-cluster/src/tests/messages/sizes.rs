//! Requests that are to follow usage, and do not.

use crate::Input;
use crate::tests::Fixture;
use berth_plan::sizes::{Container, Known, Metrics, Part, Resize, Size, SizedPod, Usage, say, step};
use jiff::SignedDuration;
use serde_json::{Value, json};

/// What is told of the only API server, where that is so.
fn told(metrics: &Metrics, change: impl Fn(&mut SizedPod), known: impl Fn(&Part, &mut Known)) -> Vec<String> {
    let mut f = Fixture::awake();
    f.cluster.spec.api_server.autoscaling = serde_json::from_value(json!({"mode": "InPlace"})).unwrap();
    let (object, observed, settings, now) = (&f.cluster, &f.world.observed, &f.settings, f.world.now);
    let part = crate::sizes(Input { object, observed, settings, now }).unwrap().parts.remove(0);
    let resources: Value = json!({"requests": {"cpu": "100m", "memory": "256Mi"}});
    let mut pod = SizedPod::of(&json!({
        "metadata": {"namespace": "acme-1", "name": "kube-apiserver-a", "uid": "u"},
        "spec": {"containers": [{"name": part.container, "resources": resources}]},
        "status": {
            "phase": "Running", "qosClass": "Burstable", "startTime": "2020-01-01T00:00:00Z",
            "containerStatuses": [{"name": part.container, "state": {"running": {}}, "resources": resources}],
        },
    }))
    .unwrap();
    change(&mut pod);
    let mut remembered = Known::default();
    known(&part, &mut remembered);
    step(&part, &[&pod], None, &mut remembered, (now, true));
    say(&part, &[&pod], metrics, &remembered, now).into_iter().collect()
}

/// Its pods are to have more than they do.
fn wants_more(part: &Part, known: &mut Known) {
    known.size = Some(part.bounds.max);
}

/// What became of asking for that.
fn tried(part: &Part, known: &mut Known, why: Option<&str>) {
    wants_more(part, known);
    let (namespace, container) = ("acme-1".to_owned(), part.container.clone());
    let size = part.bounds.max;
    let resize = Resize { namespace, pod: "kube-apiserver-a".into(), uid: "u".into(), container, size };
    let at = Fixture::awake().world.now - SignedDuration::from_mins(1);
    match why {
        Some(why) => known.refused(&resize, why.into(), at),
        None => known.taken(&resize, at),
    }
}

/// With the status as it is then.
pub(super) fn situations() -> Vec<(&'static str, Fixture)> {
    let of = |told: Vec<String>| {
        let mut f = Fixture::awake();
        f.world.observed.sizes = Some(told);
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
    let pending = |reason: &'static str, why: &'static str| {
        move |pod: &mut SizedPod| pod.pending = Some((reason.into(), why.into()))
    };
    let own = |change: fn(&mut Container)| move |pod: &mut SizedPod| pod.containers.values_mut().for_each(change);
    let as_is = |_: &Part, _: &mut Known| {};
    let quota = "pods \"kube-apiserver-a\" is forbidden: exceeded quota: q";
    let cpu = "Node didn't have enough capacity: cpu, requested: 4000, capacity: 2000";
    vec![
        ("sizes, and no metrics.k8s.io", of(told(&Metrics::Missing, |_| {}, as_is))),
        ("sizes, and metrics.k8s.io does not answer", of(told(&Metrics::Failed, |_| {}, as_is))),
        ("sizes, and no right to read metrics.k8s.io", of(told(&Metrics::Denied, |_| {}, as_is))),
        ("sizes, and a pod without usage", of(told(&Metrics::Answered(Usage::new()), |_| {}, as_is))),
        ("sizes, and a resize is deferred", of(told(&used(), pending("Deferred", ""), as_is))),
        ("sizes, and a resize is infeasible", of(told(&used(), pending("Infeasible", cpu), as_is))),
        ("sizes, and a pod is Guaranteed", of(told(&used(), |pod| pod.class = "Guaranteed".into(), wants_more))),
        ("sizes, and a container would restart", of(told(&used(), own(|one| one.restarts = true), wants_more))),
        ("sizes, and an old kubelet", of(told(&used(), own(|one| one.is_told = false), wants_more))),
        (
            "sizes, and a quota refuses a resize",
            of(told(&used(), |_| {}, |part, known| tried(part, known, Some(quota)))),
        ),
        ("sizes, and somebody changes them back", of(told(&used(), |_| {}, |part, known| tried(part, known, None)))),
        bad("sizes, and min is above max", json!({"mode": "InPlace", "min": {"cpu": 2}, "max": {"cpu": "1"}})),
        bad("sizes, and max is above the limit of writers", json!({"mode": "InPlace", "max": {"memory": "5Gi"}})),
        bad("sizes, and min is above the limit of writers", json!({"mode": "InPlace", "min": {"memory": "5Gi"}})),
    ]
}
