//! Pods and their usage, as the meta cluster tells them.

use super::amount::Size;
use crate::object_meta::deleting;
use jiff::Timestamp;
use serde_json::Value;
use std::collections::BTreeMap;

/// A pod of Berth's that runs.
#[derive(Clone, Debug, PartialEq)]
pub struct SizedPod {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Since when it runs.
    pub since: Option<Timestamp>,
    /// Its QoS class. A resize may not change it.
    pub class: String,
    /// Its containers, by name.
    pub containers: BTreeMap<String, Container>,
    /// What kubelet says of a resize that it has not made: `Deferred` or `Infeasible`.
    pub pending: Option<String>,
}

/// A container, as its pod asks for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Container {
    /// What it requests.
    pub requests: Size,
    /// Its limits. 0: none.
    pub limits: Size,
}

impl SizedPod {
    /// From its object. None: it does not run, or ends.
    pub fn of(pod: &Value) -> Option<Self> {
        if pod["status"]["phase"] != "Running" || deleting(pod) {
            return None;
        }
        let text = |path: &str| pod.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
        let labels = pod["metadata"]["labels"].as_object().into_iter().flatten();
        let containers = pod["spec"]["containers"].as_array()?.iter();
        let container = |one: &Value| {
            let (requests, limits) = (Size::of(&one["resources"]["requests"]), Size::of(&one["resources"]["limits"]));
            Some((one["name"].as_str()?.to_owned(), Container { requests, limits }))
        };
        let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
        let mut pending = conditions.filter(|one| one["type"] == "PodResizePending" && one["status"] == "True");
        Some(Self {
            namespace: text("/metadata/namespace"),
            name: text("/metadata/name"),
            uid: text("/metadata/uid"),
            labels: labels.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect(),
            since: text("/status/startTime").parse().ok(),
            class: text("/status/qosClass"),
            containers: containers.filter_map(container).collect(),
            pending: pending.next().map(|one| one["reason"].as_str().unwrap_or("Deferred").to_owned()),
        })
    }

    /// Whether it would be of its class with that size.
    pub(super) fn keeps_class(&self, container: &str, size: Size) -> bool {
        let is_whole = |requests: Size, limits: Size| requests == limits && limits.cpu > 0 && limits.memory > 0;
        let of = |(name, one): (&String, &Container)| {
            is_whole(if name == container { size } else { one.requests }, one.limits)
        };
        let is_guaranteed = self.containers.iter().all(of);
        (self.class == "Burstable" && !is_guaranteed) || (self.class == "Guaranteed" && is_guaranteed)
    }
}

/// What the containers of a pod used.
pub type Used = BTreeMap<String, Size>;

/// What pods used, by namespace and name.
pub type Usage = BTreeMap<(String, String), Used>;

/// Of one `PodMetrics`.
pub fn usage_of(metrics: &Value) -> Option<((String, String), Used)> {
    let text = |field: &str| Some(metrics["metadata"][field].as_str()?.to_owned());
    let of = |one: &Value| Some((one["name"].as_str()?.to_owned(), Size::of(&one["usage"])));
    let used = metrics["containers"].as_array()?.iter().filter_map(of).collect();
    Some(((text("namespace")?, text("name")?), used))
}
