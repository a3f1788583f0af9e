//! What the operator is configured with; the same for all tenants.

use crate::meta::MetaRanges;
use berth_api::common::AgentDelivery;
use berth_api::conditions::{Reason, Verdict};
use berth_pki::{Clocks, Lifetime};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

/// Configuration that plans depend on.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Registry (and path) that holds upstream's images under upstream's names. Default: empty, upstream's own.
    pub registry: String,
    /// Image of Berth's agent that new tenants are pinned to.
    pub agent_image: String,
    /// How the agent gets into the pods of new tenants. Default: by an init container.
    pub agent_delivery: AgentDelivery,
    /// Service account of the operator, as (namespace, name). It is bound to the namespace role in every control-plane
    /// namespace. None: the operator runs with rights of its own (outside of the meta cluster).
    pub service_account: Option<(String, String)>,
    /// What keeps tenants apart from each other and from the meta cluster.
    pub isolation: Isolation,
    /// What writers of a `Cluster` may ask for.
    pub writers: Writers,
    /// Life of leaf certificates. Default 90 days.
    pub leaf_lifetime: Lifetime,
    /// Life of CAs. Default 10 years.
    pub ca_lifetime: Lifetime,
    /// How far the operator's clock is ahead of the meta cluster's API server's; negative: behind. Default: not at all.
    pub clock_ahead: SignedDuration,
    /// How the meta cluster refuses what the operator reads of it as a whole, for lack of rights. Default: it refuses nothing.
    pub denied: Option<String>,
}

impl Settings {
    /// The verdict on what is wrong, with what is wrong for all tenants.
    pub(crate) fn with_surroundings(&self, degraded: Verdict) -> Verdict {
        self.with_clock(self.with_denied(degraded))
    }

    /// Where the operator lacks a right, too. Any other reason is of more use to alerts.
    fn with_denied(&self, degraded: Verdict) -> Verdict {
        let Some(denied) = &self.denied else { return degraded };
        let denied = format!("changes are noticed late or not at all: {denied}");
        let (reason, message) = match degraded.status {
            Some(true) => (degraded.reason, format!("{}; {denied}", degraded.message)),
            _ => (Reason::PermissionDenied, denied),
        };
        Verdict::new(degraded.type_, Some(true), reason, message)
    }

    /// Where the operator's clock is wrong, too. What needs a person keeps its reason, unless the clock may be its cause.
    fn with_clock(&self, degraded: Verdict) -> Verdict {
        let Some(clock) = self.clock_warning() else { return degraded };
        let message = match degraded.status {
            Some(true) => format!("{clock}; {}", degraded.message),
            _ => clock,
        };
        let reason = match degraded.reason {
            Reason::AsExpected
            | Reason::Error
            | Reason::CertificateAuthorityInvalid
            | Reason::CertificateAuthorityExpiring => Reason::ClockSkew,
            other => other,
        };
        Verdict::new(degraded.type_, Some(true), reason, message)
    }

    /// What is issued at that time of the API server's is valid by the operator's clock, too.
    pub fn clocks(&self, now: Timestamp) -> Clocks {
        Clocks::new(now, self.clock_ahead)
    }

    /// One of two clocks is so wrong that no certificate can be valid by both.
    pub(crate) fn clocks_are_far_apart(&self) -> bool {
        self.clock_ahead.abs() > Clocks::within(self.leaf_lifetime.total)
    }

    /// What is wrong with the operator's clock, in whole minutes so that it is not told anew each second.
    fn clock_warning(&self) -> Option<String> {
        let seconds = self.clock_ahead.as_secs();
        let minutes = (seconds.abs() + 30) / 60;
        let direction = if seconds > 0 { "ahead of" } else { "behind" };
        let consequence =
            if self.clocks_are_far_apart() { ": no certificate is renewed for its age until they agree" } else { "" };
        (seconds.abs() >= 120).then(|| {
            format!("the clock of the operator's node is {minutes} min {direction} the API server's{consequence}")
        })
    }
}

/// What writers of a `Cluster`, who are not trusted with the meta cluster, may ask for. Each list holds names; `*` at the end of one
/// stands for any rest. Default: nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Writers {
    /// Keys of annotations on the Service of the API.
    pub service_annotations: Vec<String>,
    /// Load-balancer classes.
    pub load_balancer_classes: Vec<String>,
    /// Labels of nodes, as `key` or `key=value`.
    pub node_selectors: Vec<String>,
    /// Keys of taints.
    pub tolerations: Vec<String>,
    /// PriorityClasses.
    pub priority_classes: Vec<String>,
    /// StorageClasses of etcd's volumes, where one is asked for by name.
    pub storage_classes: Vec<String>,
    /// Registries of images, with their paths.
    pub image_registries: Vec<String>,
    /// Secrets for pulling images.
    pub pull_secrets: Vec<String>,
}

impl Writers {
    /// Everything may be asked for.
    pub fn anything() -> Self {
        let all = || vec!["*".to_owned()];
        Self {
            service_annotations: all(),
            load_balancer_classes: all(),
            node_selectors: all(),
            tolerations: all(),
            priority_classes: all(),
            storage_classes: all(),
            image_registries: all(),
            pull_secrets: all(),
        }
    }
}

/// What NetworkPolicies are made from. Peers and rules are in the shape of `networking.k8s.io/v1`.
#[derive(Clone, Debug)]
pub struct Isolation {
    /// Addresses of the meta cluster, or why they are not known.
    pub meta: Result<MetaRanges, String>,
    /// Where the meta cluster's DNS is.
    pub dns: Vec<Value>,
    /// Who may read metrics. Default: nobody.
    pub monitoring: Vec<Value>,
    /// What a tenant's API server may reach in addition.
    pub api_server_egress: Vec<Value>,
}

impl Default for Isolation {
    fn default() -> Self {
        let dns = json!({
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}},
            "podSelector": {"matchLabels": {"k8s-app": "kube-dns"}},
        });
        Self { meta: Ok(MetaRanges::default()), dns: vec![dns], monitoring: vec![], api_server_egress: vec![] }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            registry: String::new(),
            agent_image: "berth.dev/agent:dev".into(),
            agent_delivery: AgentDelivery::default(),
            service_account: None,
            isolation: Isolation::default(),
            writers: Writers::default(),
            leaf_lifetime: Lifetime::LEAF_90D,
            ca_lifetime: Lifetime::CA_10Y,
            clock_ahead: SignedDuration::ZERO,
            denied: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_api::conditions::ConditionType;

    #[test]
    fn a_right_that_is_lacked_is_told_and_hides_nothing() {
        let all = Settings { denied: Some("nodes".into()), ..Settings::default() };
        let verdict = |status, reason, message| Verdict::new(ConditionType::Degraded, Some(status), reason, message);
        let lacked = "changes are noticed late or not at all: nodes";
        assert_eq!(
            all.with_surroundings(verdict(false, Reason::AsExpected, "")),
            verdict(true, Reason::PermissionDenied, lacked)
        );
        let lost = all.with_surroundings(verdict(true, Reason::DataLost, "etcd-0"));
        assert_eq!((lost.reason, lost.message), (Reason::DataLost, format!("etcd-0; {lacked}")));
        let fine = verdict(false, Reason::AsExpected, "");
        assert_eq!(Settings::default().with_surroundings(fine.clone()), fine);
    }

    #[test]
    fn a_clock_is_told_in_minutes_from_two_on() {
        let told = |seconds| {
            Settings { clock_ahead: SignedDuration::from_secs(seconds), ..Settings::default() }.clock_warning()
        };
        for fine in [0, 60, -60, 119, -119] {
            assert_eq!(told(fine), None, "{fine} s");
        }
        let behind = "the clock of the operator's node is 4 min behind the API server's";
        assert_eq!(told(-240).as_deref(), Some(behind));
        assert_eq!(told(-241), told(-240), "not told anew each second");
        assert!(told(900).unwrap().ends_with("15 min ahead of the API server's"));
        let a_month = told(31 * 24 * 3600).unwrap();
        assert!(a_month.ends_with("ahead of the API server's: no certificate is renewed for its age until they agree"));
        let settings = Settings { clock_ahead: SignedDuration::from_mins(-15), ..Settings::default() };
        let both = |reason| settings.with_clock(Verdict::new(ConditionType::Degraded, Some(true), reason, "etcd-0"));
        assert_eq!(both(Reason::DataLost).reason, Reason::DataLost, "alerts and `adopt` go by it");
        assert_eq!(both(Reason::CertificateAuthorityInvalid).reason, Reason::ClockSkew, "the clock may be why");
        assert!(both(Reason::DataLost).message.ends_with("the API server's; etcd-0"));
    }
}
