//! The meta cluster as a whole: what was observed of it is the same for all tenants.

pub mod addresses;
pub mod nodes;
pub mod pull_secrets;

use crate::room::Node;
use crate::settings::{MayChange, Settings};
use addresses::MetaRanges;
use berth_api::conditions::{Reason, Verdict};
use berth_pki::Clocks;
use jiff::{SignedDuration, Timestamp};
use pull_secrets::PullSecret;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What was observed of the meta cluster apart from any tenant.
#[derive(Clone, Debug)]
pub struct MetaCluster {
    /// Its addresses, or why they are not known. Default: it has none.
    pub addresses: Result<MetaRanges, String>,
    /// How far the operator's clock is ahead of its API server's; negative: behind. Default: not at all.
    pub clock_ahead: SignedDuration,
    /// What its API server's clock said when it was last seen to have been set while this operator ran. Default: nobody set it.
    pub clock_set: Option<Timestamp>,
    /// Its nodes, as they were a few minutes ago. None: they could not be read, so nothing is judged by them.
    pub room: Option<Arc<Vec<Node>>>,
    /// How it refuses what the operator reads of it as a whole, for lack of rights. Default: it refuses nothing.
    pub denied: Option<String>,
    /// What its admission may change of what Berth applies. Default: nothing.
    pub may_change: Arc<MayChange>,
    /// The platform's pull Secrets by name, as far as they have been read.
    pub pull_secrets: BTreeMap<String, PullSecret>,
}

impl Default for MetaCluster {
    fn default() -> Self {
        Self {
            addresses: Ok(MetaRanges::default()),
            clock_ahead: SignedDuration::ZERO,
            clock_set: None,
            room: None,
            denied: None,
            may_change: Arc::default(),
            pull_secrets: BTreeMap::new(),
        }
    }
}

impl MetaCluster {
    /// One with these addresses, of which no more is known than what the operator is configured with.
    pub fn new(addresses: Result<MetaRanges, String>, settings: &Settings) -> Self {
        Self { addresses, may_change: Arc::new(settings.may_change.clone()), ..Self::default() }
    }

    /// What is issued at that time of the API server's is valid by the operator's clock, too.
    pub fn clocks(&self, now: Timestamp) -> Clocks {
        Clocks::new(now, self.clock_ahead)
    }

    /// Its API server's clock was set since then: how long that was ago, nobody knows.
    pub fn was_set_since(&self, then: Timestamp) -> bool {
        self.clock_set.is_some_and(|set| then < set)
    }

    /// One of two clocks is so wrong that no leaf certificate of that lifetime can be valid by both.
    pub fn clocks_are_far_apart(&self, leaf: SignedDuration) -> bool {
        self.clock_ahead.abs() > Clocks::within(leaf)
    }

    /// The verdict on a tenant, with what is wrong for all of them. `leaf`: how long leaf certificates live.
    pub fn add_to(&self, degraded: Verdict, leaf: SignedDuration) -> Verdict {
        self.add_clock(self.add_denied(degraded), leaf)
    }

    /// Any other reason is of more use to alerts than a right that the operator lacks.
    fn add_denied(&self, degraded: Verdict) -> Verdict {
        let Some(denied) = &self.denied else { return degraded };
        let denied = format!("the operator notices changes late or not at all: {denied}");
        let (reason, message) = match degraded.status {
            Some(true) => (degraded.reason, format!("{}; {denied}", degraded.message)),
            _ => (Reason::PermissionDenied, denied),
        };
        Verdict::new(degraded.type_, Some(true), reason, message)
    }

    /// What needs a person keeps its reason, unless a wrong clock may be its cause.
    fn add_clock(&self, degraded: Verdict, leaf: SignedDuration) -> Verdict {
        let Some(clock) = self.clock_warning(leaf) else { return degraded };
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

    /// What is wrong with the operator's clock, in whole minutes or hours so that a status does not change each second.
    fn clock_warning(&self, leaf: SignedDuration) -> Option<String> {
        let seconds = self.clock_ahead.as_secs();
        let off = match (seconds.abs() + 30) / 60 {
            minutes @ ..=120 => format!("{minutes} min"),
            minutes => format!("{} h", minutes / 60),
        };
        let direction = if seconds > 0 { "ahead of" } else { "behind" };
        let consequence = if self.clocks_are_far_apart(leaf) {
            ". Certificate renewal is suspended until the clocks agree"
        } else {
            ""
        };
        (seconds.abs() >= 120).then(|| {
            format!("the clock of the operator's node is {off} {direction} the API server's; set the time (NTP) of the one that is wrong{consequence}")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_api::conditions::ConditionType;

    const LEAF: SignedDuration = berth_pki::LEAF_LIFETIME;

    fn ahead(seconds: i64) -> MetaCluster {
        MetaCluster { clock_ahead: SignedDuration::from_secs(seconds), ..MetaCluster::default() }
    }

    #[test]
    fn a_right_that_is_lacked_is_reported_and_hides_nothing() {
        let meta = MetaCluster { denied: Some("nodes".into()), ..MetaCluster::default() };
        let verdict = |status, reason, message| Verdict::new(ConditionType::Degraded, Some(status), reason, message);
        let lacked = "the operator notices changes late or not at all: nodes";
        assert_eq!(
            meta.add_to(verdict(false, Reason::AsExpected, ""), LEAF),
            verdict(true, Reason::PermissionDenied, lacked)
        );
        let lost = meta.add_to(verdict(true, Reason::DataLost, "etcd-0"), LEAF);
        assert_eq!((lost.reason, lost.message), (Reason::DataLost, format!("etcd-0; {lacked}")));
        let fine = verdict(false, Reason::AsExpected, "");
        assert_eq!(MetaCluster::default().add_to(fine.clone(), LEAF), fine);
    }

    #[test]
    fn a_clock_is_reported_in_minutes_from_two_on() {
        let told = |seconds| ahead(seconds).clock_warning(LEAF);
        for fine in [0, 60, -60, 119, -119] {
            assert_eq!(told(fine), None, "{fine} s");
        }
        let behind = "the clock of the operator's node is 4 min behind the API server's; set the time (NTP) of the one that is wrong";
        assert_eq!(told(-240).as_deref(), Some(behind));
        assert_eq!(told(-241), told(-240), "not told anew each second");
        assert!(told(900).unwrap().contains(" 15 min ahead of the API server's; "));
        let a_month = told(31 * 24 * 3600).unwrap();
        assert!(
            a_month.contains(" 744 h ahead of the API server's; ")
                && a_month.ends_with("Certificate renewal is suspended until the clocks agree"),
            "{a_month}"
        );
        let degraded = |reason| Verdict::new(ConditionType::Degraded, Some(true), reason, "etcd-0");
        let both = |reason| ahead(-900).add_clock(degraded(reason), LEAF);
        assert_eq!(both(Reason::DataLost).reason, Reason::DataLost, "alerts and `adopt` go by it");
        assert_eq!(both(Reason::CertificateAuthorityInvalid).reason, Reason::ClockSkew, "the clock may be why");
        assert!(both(Reason::DataLost).message.ends_with("; etcd-0"));
    }
}
