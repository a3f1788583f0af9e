//! Condition types and reasons. Every type is published from the first pass on (`Unknown` until judged).

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

macro_rules! string_enum {
    ($(#[$m:meta])* $name:ident { $($(#[doc = $doc:literal])+ $v:ident),+ $(,)? }) => {
        $(#[$m])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        pub enum $name { $($(#[doc = $doc])+ $v),+ }
        impl $name {
            /// All values, for docs and tests.
            pub const ALL: &[Self] = &[$(Self::$v),+];
            /// The string as it appears in the API.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$v => stringify!($v)),+ }
            }
            /// What it means: the text of this documentation, which is that of docs/reference, too.
            pub fn meaning(self) -> &'static str {
                match self { $(Self::$v => concat!($($doc),+).trim()),+ }
            }
        }
        impl std::str::FromStr for $name {
            type Err = UnknownValue;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Self::ALL.iter().copied().find(|v| v.as_str() == text).ok_or(UnknownValue)
            }
        }
        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

/// No value of that type is written so: a newer build may know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownValue;

impl std::fmt::Display for UnknownValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a value that this build does not know")
    }
}

impl std::error::Error for UnknownValue {}

/// Reasons, each with what to do; nothing where the message says it.
macro_rules! reasons {
    ($(#[$m:meta])* $name:ident { $($(#[doc = $doc:literal])+ $v:ident => $todo:literal),+ $(,)? }) => {
        string_enum! { $(#[$m])* $name { $($(#[doc = $doc])+ $v),+ } }
        impl $name {
            /// What a person does about it, in sentences. Empty where the condition's message says it.
            pub fn what_to_do(self) -> &'static str {
                match self { $(Self::$v => $todo),+ }
            }
        }
    };
}

string_enum! {
    /// Types of conditions. `Cluster` publishes all but [`ConditionType::MembersReady`]; `EtcdCluster` publishes
    /// `Ready, Available, Progressing, Degraded, PKIReady, MembersReady`.
    ConditionType {
        /// Everything asked for is there and works. `kubectl wait` and tools that use kstatus, such as Flux, read it. Helm 3 does not
        /// wait for it, and Argo CD needs a custom health check.
        Ready,
        /// It serves now. `Cluster`: the API answered the operator through its endpoint, and etcd has quorum. Where
        /// `loadBalancerSourceRanges` are set, and while an endpoint that was published has no address, the operator asks at the
        /// Service inside the meta cluster. `EtcdCluster`: a quorum answers, and no member is corrupt.
        Available,
        /// A change is under way; the message says what it waits for.
        Progressing,
        /// Something is wrong that waiting does not help, whether or not it serves.
        Degraded,
        /// CAs, keys and certificates are there and match.
        PKIReady,
        /// The tenant's etcd is `Available`.
        EtcdAvailable,
        /// API server, controller-manager and scheduler each have a pod that is ready.
        ControlPlaneAvailable,
        /// Every member is up.
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

reasons! {
    /// Reasons of conditions, and of Events.
    Reason {
        /// Not looked at yet.
        NotYetObserved => "Nothing. If it stays, look at the operator.",
        /// All is as it should be.
        AsExpected => "Nothing.",
        /// Waits for something that is expected to come by itself; the message says what.
        Waiting => "Nothing. For a load balancer's address: see to the meta cluster's load balancer.",
        /// A rollout is under way.
        RollingOut => "Nothing.",
        /// Nothing is changing.
        Settled => "Nothing.",
        /// Pods run, or should, and are not ready.
        PodsNotReady => "Nothing at first. Then look at the pod that the message names, and its log.",
        /// An image cannot be pulled.
        ImageUnavailable => "Check the version, access to the registry, and `spec.images` or the chart's `imageRegistry` and `agent.image`. Those of the chart count from the next version on, and before it where a pod waits in vain: another registry at once, another agent as long as nothing has come up with the old one. Otherwise put the image where the message looks for it.",
        /// A container ends again and again, or cannot be started.
        ContainerFailing => "Its log says why. After a change of `extraArgs` or `authentication`: take it back.",
        /// A pod finds no node.
        Unschedulable => "The message is the scheduler's: room, a volume, a taint.",
        /// The spec asks for what cannot be, or this operator cannot read the object.
        InvalidSpec => "",
        /// The spec asks for something of the meta cluster that the platform team does not allow its writers: an annotation, a
        /// class, a place, a registry.
        NotAllowed => "Remove it, or have it added to `writers` in the values of Berth's chart. What runs goes on.",
        /// No templates for that Kubernetes or etcd version, or a pinned template set that this operator cannot read.
        VersionUnsupported => "Set one that the message lists, or run an operator that has it. What runs goes on.",
        /// Another minor than the one that runs.
        MinorChangeUnsupported => "Set a patch version of the minor that runs. What runs goes on.",
        /// A field is set that the pinned templates do not use; the message names it. Everything else is applied.
        NotInTemplates => "Set `spec.version` to another patch version of its minor, which brings newer templates, or remove the field. An `EtcdCluster` cannot change its version yet.",
        /// Version or number of members are not those of the etcd that runs, or of the data that was kept.
        EtcdChangeUnsupported => "Set it back to what the message says. What runs goes on.",
        /// Something of that name exists and is not Berth's. It was left as it is.
        ForeignObject => "Remove or rename it, or choose another name for the `Cluster`.",
        /// The control-plane namespace belongs to a `Cluster` of this name with another UID, as after a restore.
        AdoptionRequired => "If this is the same tenant: set the annotation `berth.dev/adopt` to the UID in the message. Keys and data stay.",
        /// The recorded control-plane namespace is gone, or another one is in its place.
        ControlPlaneLost => "Restore it from a backup and set the annotation as the message says; or delete the `Cluster`.",
        /// A CA, the service-account key or the encryption key is gone while something depends on it. Pods are left alone.
        CertificateAuthorityLost => "Restore the Secret from a backup. No new one is made: nothing that trusts the old one would accept it.",
        /// Such a Secret does not parse, or its halves do not match, or the CA is out of its validity.
        CertificateAuthorityInvalid => "Restore the Secret from a backup.",
        /// Less than a quarter of a CA's life is left.
        CertificateAuthorityExpiring => "Plan. Rotation is not there yet.",
        /// The clock of the operator's node is two minutes or more from the meta cluster's API server's.
        ClockSkew => "Set the time of that node (NTP), or of the API server's, whichever is wrong. What runs goes on, and what is issued is valid by both clocks. Only where they are further apart than a third of a certificate's life (a month), none is renewed for its age.",
        /// The claim of an etcd member's volume is being deleted; the data lasts as long as the member's pod.
        VolumeDeleting => "",
        /// An etcd member that was in its cluster before found its volume empty. The pod is held, nothing is overwritten.
        DataLost => "Restore the volume and delete the pod. One member, data not wanted: delete the `Cluster` and make it anew.",
        /// An etcd member found a volume of another member or cluster; or there are volumes and no record whose they are.
        ForeignData => "Give it the right volume, or restore the ConfigMap that the message names.",
        /// Too few etcd members are up.
        QuorumLost => "See to the pods that the message names.",
        /// etcd raised an alarm: `NOSPACE` (the database is full) or `CORRUPT`.
        EtcdAlarm => "",
        /// The tenant's API does not answer through its endpoint.
        APINotReachable => "With `endpoint.host`: the operator must reach that name, too. Otherwise look at kube-apiserver.",
        /// The meta cluster refused a call for lack of rights.
        PermissionDenied => "Is the chart installed as it is? For a stand-alone `EtcdCluster`: is its namespace in `etcdNamespaces`?",
        /// The meta cluster, or a webhook or policy, refused an object or a pod.
        Rejected => "The message is the refusal: quota, policy, a wrong value. Where something changes objects on their way, keep it from control-plane namespaces.",
        /// `spec.paused` is true: nothing is changed, repaired or renewed.
        Paused => "Set it to false to go on. Deletion goes on in any case.",
        /// Being deleted; the message says what it waits for.
        Deleting => "If it says that the `Cluster` is protected: set `spec.deletion.protected` to false.",
        /// A call failed, or something is wrong in Berth itself.
        Error => "It is tried again. If it stays: the operator's log.",
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
    fn every_value_says_what_it_means_in_sentences() {
        let texts = Reason::ALL.iter().flat_map(|r| [r.meaning(), r.what_to_do()]);
        for text in texts.chain(ConditionType::ALL.iter().map(|t| t.meaning())) {
            assert!(text.is_empty() || text.ends_with(['.', '?']), "{text}");
            assert!(!text.contains(['|', '\n']), "{text}");
        }
        assert_eq!("DataLost".parse(), Ok(Reason::DataLost));
        assert_eq!("Nonsense".parse::<Reason>(), Err(UnknownValue));
    }
}
