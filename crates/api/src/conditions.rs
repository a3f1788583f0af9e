//! Condition types and reasons. Every type is published from the first pass on (`Unknown` until judged).

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

macro_rules! string_enum {
    ($(#[$m:meta])* $name:ident { $($(#[$vm:meta])* $v:ident),+ $(,)? }) => {
        $(#[$m])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        pub enum $name { $($(#[$vm])* $v),+ }
        impl $name {
            /// All values, for docs and tests.
            pub const ALL: &[Self] = &[$(Self::$v),+];
            /// The string as it appears in the API.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$v => stringify!($v)),+ }
            }
        }
        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

string_enum! {
    /// Types of conditions. `Cluster` publishes all but [`ConditionType::MembersReady`]; `EtcdCluster` publishes
    /// `Ready, Available, Progressing, Degraded, PKIReady, MembersReady`.
    ConditionType {
        /// The summary: everything asked for is there and works. What kstatus, Flux, Argo and `kubectl wait` read.
        Ready,
        /// The service answers now: API through its endpoint, etcd with quorum.
        Available,
        /// A change is under way.
        Progressing,
        /// Something is wrong that needs attention, whether or not the service answers.
        Degraded,
        /// CAs and certificates are there, match and are not about to expire.
        PKIReady,
        /// The tenant's etcd has quorum.
        EtcdAvailable,
        /// API server, controller-manager and scheduler are rolled out.
        ControlPlaneAvailable,
        /// Every etcd member is up.
        MembersReady,
    }
}

impl ConditionType {
    /// What a `Cluster` publishes.
    pub const CLUSTER: &[Self] = &[
        Self::Ready,
        Self::Available,
        Self::Progressing,
        Self::Degraded,
        Self::PKIReady,
        Self::EtcdAvailable,
        Self::ControlPlaneAvailable,
    ];
    /// What an `EtcdCluster` publishes.
    pub const ETCD_CLUSTER: &[Self] =
        &[Self::Ready, Self::Available, Self::Progressing, Self::Degraded, Self::PKIReady, Self::MembersReady];
}

string_enum! {
    /// Reasons of conditions, and of Events.
    Reason {
        /// Not looked at yet.
        NotYetObserved,
        /// All is as it should be.
        AsExpected,
        /// Waiting for something that is expected to come by itself.
        Waiting,
        /// A rollout is under way.
        RollingOut,
        /// Nothing is changing.
        Settled,
        /// Pods run but do not get ready.
        PodsNotReady,
        /// A container's image cannot be pulled or started.
        ImageUnavailable,
        /// A container ends again and again.
        ContainerFailing,
        /// A pod cannot be placed on a node.
        Unschedulable,
        /// The spec asks for something that cannot be; the message says what and the way out.
        InvalidSpec,
        /// The spec asks for something that the platform team does not allow; the message says what they allow.
        NotAllowed,
        /// The Kubernetes or etcd version is not one that this build has templates for.
        VersionUnsupported,
        /// Another minor version, until releases are supported.
        MinorChangeUnsupported,
        /// A change that this build cannot make to a running etcd.
        EtcdChangeUnsupported,
        /// An object with our name belongs to somebody else; it was left as it is.
        ForeignObject,
        /// The control-plane namespace belongs to a `Cluster` that is gone; the annotation `berth.dev/adopt` takes it over.
        AdoptionRequired,
        /// The recorded control-plane namespace is gone. Nothing is made anew by itself.
        ControlPlaneLost,
        /// A CA or service-account key is missing while things trust it. Restore it; no new one is made.
        CertificateAuthorityLost,
        /// A CA or key Secret does not parse or its halves do not match.
        CertificateAuthorityInvalid,
        /// A CA comes to its end.
        CertificateAuthorityExpiring,
        /// An etcd member found its volume empty after the cluster was formed. The pod is held; nothing is overwritten.
        DataLost,
        /// An etcd member found a volume that belongs to another member or cluster.
        ForeignData,
        /// Too few etcd members are up to serve.
        QuorumLost,
        /// An etcd alarm is raised.
        EtcdAlarm,
        /// The tenant's API does not answer through its endpoint.
        APINotReachable,
        /// The API server of the meta cluster refused a call: permission.
        PermissionDenied,
        /// The API server of the meta cluster, or a webhook, refused an object.
        Rejected,
        /// Changes are stopped by `spec.paused`.
        Paused,
        /// Being deleted.
        Deleting,
        /// A call failed; it is tried again.
        Error,
    }
}

/// What one condition says now; [`merge`] turns it into a `metav1.Condition`.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// Which condition.
    pub type_: ConditionType,
    /// `Some(true)`, `Some(false)`, or `None` for Unknown.
    pub status: Option<bool>,
    /// Machine-readable cause.
    pub reason: Reason,
    /// What a person reads: what it waits for and what to do.
    pub message: String,
}

impl Verdict {
    /// A verdict.
    pub fn new(type_: ConditionType, status: Option<bool>, reason: Reason, message: impl Into<String>) -> Self {
        Self { type_, status, reason, message: message.into() }
    }
}

/// New conditions from `verdicts`, keeping transition times of those whose status did not change.
pub fn merge(old: &[Condition], verdicts: &[Verdict], generation: i64, now: Timestamp) -> Vec<Condition> {
    verdicts
        .iter()
        .map(|v| {
            let status = match v.status {
                Some(true) => "True",
                Some(false) => "False",
                None => "Unknown",
            };
            let since = old
                .iter()
                .find(|c| c.type_ == v.type_.as_str() && c.status == status)
                .map_or(Time(now), |c| c.last_transition_time.clone());
            let mut message = v.message.clone();
            if message.len() > 2000 {
                let cut = (0..=2000).rev().find(|i| message.is_char_boundary(*i)).unwrap_or(0);
                message.truncate(cut);
                message.push('…');
            }
            Condition {
                type_: v.type_.as_str().into(),
                status: status.into(),
                reason: v.reason.as_str().into(),
                message,
                observed_generation: Some(generation),
                last_transition_time: since,
            }
        })
        .collect()
}

/// The condition of that type, if published.
pub fn find(conditions: &[Condition], type_: ConditionType) -> Option<&Condition> {
    conditions.iter().find(|c| c.type_ == type_.as_str())
}

/// True if the condition is published as `True`.
pub fn is_true(conditions: &[Condition], type_: ConditionType) -> bool {
    find(conditions, type_).is_some_and(|c| c.status == "True")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transition_time_moves_only_with_the_status() {
        let t0: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let t1: Timestamp = "2026-01-01T01:00:00Z".parse().unwrap();
        let v = |s, m: &str| Verdict::new(ConditionType::Ready, s, Reason::Waiting, m);
        let a = merge(&[], &[v(Some(false), "a")], 1, t0);
        let b = merge(&a, &[v(Some(false), "b")], 2, t1);
        assert_eq!((b[0].last_transition_time.0, b[0].message.as_str()), (t0, "b"));
        let c = merge(&b, &[v(Some(true), "b")], 2, t1);
        assert_eq!(c[0].last_transition_time.0, t1);
    }

    #[test]
    fn every_reason_is_in_the_reference() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/conditions.md");
        let text = std::fs::read_to_string(file).unwrap();
        for reason in Reason::ALL {
            assert!(text.contains(&format!("\n| `{}` |", reason.as_str())), "{} is not in {file}", reason.as_str());
        }
    }
}
