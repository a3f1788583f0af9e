//! Pods and their usage, as the meta cluster tells them.

use super::amount::Size;
use super::read::{ReadContainer, ReadContainerStatus, ReadPod};
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize as _;
use serde_json::Value;
use std::collections::BTreeMap;

/// A pod that has run for so long has usage, if there is any.
const USED: SignedDuration = SignedDuration::from_mins(5);

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
    /// Its init containers leave it to the others whether it is Guaranteed: each requests all of its limits, of CPU and of memory.
    pub init_is_whole: bool,
    /// What kubelet says of a resize that it has not made: `Deferred` or `Infeasible`, and why.
    pub pending: Option<(String, String)>,
}

/// A container, as its pod asks for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Container {
    /// What it requests.
    pub requests: Size,
    /// Its limits. 0: none.
    pub limits: Size,
    /// It restarts when it is resized, by its `resizePolicy`.
    pub restarts: bool,
    /// It runs: of others kubelet tells nothing.
    pub runs: bool,
    /// Kubelet tells what it gave it. One that does not is too old to resize it, or may restart it.
    pub is_told: bool,
}

/// Why a pod is left as it is, whatever it uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hold {
    /// It would be of another QoS class.
    Class,
    /// Its container would restart.
    Restarts,
    /// Its kubelet does not resize.
    Kubelet,
    /// Its container does not run now, which others tell.
    Stopped,
}

impl SizedPod {
    /// From its object. None: it does not run, or ends.
    pub fn of(pod: &Value) -> Option<Self> {
        ReadPod::deserialize(pod).ok()?.sized()
    }

    /// Whether it has run for so long that its usage is known, if any is.
    pub(super) fn is_old(&self, now: Timestamp) -> bool {
        self.since.is_some_and(|since| now.duration_since(since) > USED)
    }

    /// Its key in [`Usage`].
    pub fn key(&self) -> (String, String) {
        (self.namespace.clone(), self.name.clone())
    }

    /// Why it cannot have that size.
    pub(super) fn hold(&self, container: &str, size: Size) -> Option<Hold> {
        let own = self.containers.get(container).copied().unwrap_or_default();
        if !own.runs || !own.is_told {
            return Some(if own.runs { Hold::Kubelet } else { Hold::Stopped });
        }
        if own.restarts {
            return Some(Hold::Restarts);
        }
        (!self.keeps_class(container, size)).then_some(Hold::Class)
    }

    /// Whether it would be of its class with that size.
    fn keeps_class(&self, container: &str, size: Size) -> bool {
        let of = |(name, one): (&String, &Container)| {
            let requests = if name == container { size } else { one.requests };
            Container { requests, ..*one }.is_whole()
        };
        let is_guaranteed = self.init_is_whole && self.containers.iter().all(of);
        (self.class == "Burstable" && !is_guaranteed) || (self.class == "Guaranteed" && is_guaranteed)
    }
}

impl Container {
    /// Whether it requests all of its limits, and has both.
    fn is_whole(self) -> bool {
        self.requests == self.limits && self.limits.cpu > 0 && self.limits.memory > 0
    }

    fn of(read: &ReadContainer, status: Option<&ReadContainerStatus>) -> Self {
        Self {
            requests: Size::of(&read.resources["requests"]),
            limits: Size::of(&read.resources["limits"]),
            restarts: read.resize_policy.iter().any(|policy| policy.restart_policy == "RestartContainer"),
            runs: status.is_some_and(|status| status.state.running.is_some()),
            is_told: status.is_some_and(|status| status.resources.is_some()),
        }
    }
}

impl ReadPod {
    /// None: it does not run, or ends.
    pub fn sized(self) -> Option<SizedPod> {
        let Self { metadata, spec, status } = self;
        if status.phase != "Running" || metadata.deletion_timestamp.is_some() {
            return None;
        }
        let told = |one: &ReadContainer| status.container_statuses.iter().find(|told| told.name == one.name);
        let container = |one: &ReadContainer| (one.name.clone(), Container::of(one, told(one)));
        let containers = spec.containers.iter().map(container).collect();
        let mut conditions = status.conditions.into_iter();
        let pending = conditions.find(|one| one.type_ == "PodResizePending" && one.status == "True");
        Some(SizedPod {
            namespace: metadata.namespace,
            name: metadata.name,
            uid: metadata.uid,
            labels: metadata.labels,
            since: status.start_time.and_then(|time| time.parse().ok()),
            class: status.qos_class,
            containers,
            init_is_whole: spec.init_containers.iter().all(|one| Container::of(one, None).is_whole()),
            pending: pending.map(|one| (one.reason, one.message)),
        })
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
