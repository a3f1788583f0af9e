//! Feature gates on which rules depend.

use super::fault::Fault;
use berth_api::version::Minor;
use serde_json::{Map, Value};

/// A gate that a rule asks for: since which minor it is on by default, and since which one nobody may set it otherwise.
struct Gate {
    name: &'static str,
    on: Option<&'static str>,
    locked: Option<&'static str>,
}

const fn gate(name: &'static str, on: Option<&'static str>, locked: Option<&'static str>) -> Gate {
    Gate { name, on, locked }
}

const ALWAYS: Option<&str> = Some("1.0");

/// `pkg/features/kube_features.go` of 1.36.
const GATES: &[Gate] = &[
    gate("CustomCPUCFSQuotaPeriod", Some("1.36"), None),
    gate("GracefulNodeShutdown", ALWAYS, None),
    gate("GracefulNodeShutdownBasedOnPodPriority", ALWAYS, None),
    gate("ImageMaximumGCAge", ALWAYS, Some("1.35")),
    gate("KubeletCrashLoopBackOffMax", Some("1.35"), None),
    gate("KubeletEnsureSecretPulledImages", Some("1.35"), None),
    gate("LoggingAlphaOptions", None, None),
    gate("MemoryQoS", None, None),
    gate("NodeLogQuery", Some("1.36"), Some("1.36")),
    gate("NodeSwap", ALWAYS, Some("1.34")),
    gate("RotateKubeletServerCertificate", ALWAYS, None),
];

/// Whether a minor is that one or a later one.
pub(super) fn is_from(minor: Minor, since: &str) -> bool {
    since.parse::<Minor>().is_ok_and(|since| minor >= since)
}

/// The gates of a configuration.
pub(super) struct Gates<'a> {
    set: Option<&'a Map<String, Value>>,
    minor: Minor,
}

impl<'a> Gates<'a> {
    pub(super) fn new(config: &'a Map<String, Value>, minor: Minor) -> Self {
        Self { set: config.get("featureGates").and_then(Value::as_object), minor }
    }

    fn set(&self, name: &str) -> Option<bool> {
        self.set?.get(name)?.as_bool()
    }

    /// Whether `AllAlpha` or `AllBeta` is set: what else is on then depends on the stage of each gate.
    fn all(&self) -> bool {
        ["AllAlpha", "AllBeta"].iter().any(|name| self.set(name).is_some())
    }

    /// Whether it is on. None: not to be said.
    fn state(&self, name: &str) -> Option<bool> {
        let by_default = || GATES.iter().find(|gate| gate.name == name)?.on.map(|since| is_from(self.minor, since));
        let own = self.set(name);
        own.or_else(|| if self.all() { None } else { Some(by_default().unwrap_or(false)) })
    }

    /// It is on, as far as is known.
    pub(super) fn on(&self, name: &str) -> bool {
        self.state(name) == Some(true)
    }

    /// It is off, as far as is known.
    pub(super) fn off(&self, name: &str) -> bool {
        self.state(name) == Some(false)
    }

    /// Appends gates with which kubelet does not start.
    pub(super) fn check(&self, faults: &mut Vec<Fault>) {
        for Gate { name, locked, .. } in GATES {
            if self.set(name) == Some(false) && locked.is_some_and(|since| is_from(self.minor, since)) {
                let why = format!("cannot be turned off: Kubernetes {} has it locked. Remove it", self.minor);
                faults.push(Fault::new(format!("featureGates.{name}"), why));
            }
        }
        if self.set("RotateKubeletServerCertificate") == Some(false) {
            let why = "Berth needs this gate: kubelet asks the tenant's CA for its serving certificate. Remove it";
            faults.push(Fault::new("featureGates.RotateKubeletServerCertificate", why));
        }
        let needs = ["GracefulNodeShutdownBasedOnPodPriority", "GracefulNodeShutdown"];
        if self.on(needs[0]) && self.off(needs[1]) {
            let why = format!("cannot be turned off without {} beside it. Turn both off", needs[0]);
            faults.push(Fault::new(format!("featureGates.{}", needs[1]), why));
        }
    }
}
