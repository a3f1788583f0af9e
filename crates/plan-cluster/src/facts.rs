//! What is known of a tenant, judged once from one observation: for the plan, and for what is asked inside of the tenant before it.

use crate::planned::Input;
use crate::release::{Release, decide_release};
use crate::revision::Rollout;
use crate::sleep;
use crate::subject::Tenant;
use berth_api::cluster::Cluster;
use berth_plan::model::State;

/// A tenant, judged.
#[derive(Debug)]
pub(crate) struct Facts<'a> {
    /// As its spec is written.
    pub(crate) written: Tenant<'a>,
    /// What becomes of the release in the spec.
    pub(crate) rollout: Rollout<'a>,
    /// The `Cluster` that the plan is made for, if that is not the one that was read: one that did not come up is passed over for the last
    /// that did, and one that has to wait for the newest, as if a person had set that again.
    instead: Option<Cluster>,
    /// What it is to be rendered with. None: nothing can be made.
    pub(crate) release: Option<Release>,
    /// Why the version that it is planned for is refused.
    pub(crate) refusal: Option<State>,
}

impl<'a> Facts<'a> {
    /// Judges what was observed.
    pub(crate) fn judge(input: Input<'a>) -> Self {
        Self::judge_tenant(input, sleep::tenant(input))
    }

    /// Judges the tenant that these make.
    pub(crate) fn judge_tenant(input: Input<'a>, written: Tenant<'a>) -> Self {
        let as_written = decide_release(&written);
        let asks = Tenant { release: as_written.0.clone().unwrap_or_default(), ..written.clone() };
        let rollout = Rollout::judge(input, &asks, as_written.1.as_ref());
        let mut facts = Self { written, rollout, instead: None, release: as_written.0, refusal: as_written.1 };
        if facts.rollout.begins() || facts.rollout.newest_rolls() {
            facts.written.sleep.stay_awake("the rollout of the newest release to end");
        }
        facts.instead = facts.rollout.cluster();
        if facts.instead.is_some() || facts.rollout.refusal().is_some() {
            (facts.release, facts.refusal) = decide_release(&Tenant { release: Release::default(), ..facts.tenant() });
        }
        facts
    }

    /// The tenant as it is to run now.
    pub(crate) fn tenant(&self) -> Tenant<'_> {
        Tenant {
            cluster: self.instead.as_ref().unwrap_or(self.written.cluster),
            refused: self.rollout.refusal().is_some(),
            audit_copy: self.rollout.audit_copy(&self.written),
            release: self.release.clone().unwrap_or_default(),
            ..self.written.clone()
        }
    }
}
