//! What happens next to the etcd. What is to be written down is in the record from here on.

use crate::health::{self, Health};
use crate::members::are_applied;
use crate::planned::EtcdPlan;
use crate::procedures::growth::{self, GrowthStep};
use crate::procedures::membership::{self, MemberStep};
use crate::procedures::recovery::{self, RecoveryStep};
use crate::procedures::restore::{self, RestoreStep};
use crate::procedures::upgrade::{self, UpgradeStep};
use crate::subject::Subject;
use berth_api::etcd_recovery::RecoveryStatus;
use berth_api::restore::RestoreRequest;
use berth_plan::etcd_home::Home;

/// What happens next, of which one is something at most.
pub(crate) struct Steps {
    /// To the members.
    pub(crate) members: MemberStep,
    /// In a restore.
    pub(crate) restore: RestoreStep,
    /// By itself, about a lost quorum.
    pub(crate) recovery: RecoveryStep,
    /// To the version.
    pub(crate) upgrade: UpgradeStep,
    /// To the size of the volumes.
    pub(crate) growth: GrowthStep,
}

impl Steps {
    /// Those that write the record, which wait for each other: a restore first, then members, then the version.
    pub(crate) fn of_the_record(s: &mut Subject<'_>, health: &mut Health) -> Self {
        let request = restore::request(s.etcd);
        let restore = restore_step(s, health, request.as_ref());
        let members = match &restore {
            RestoreStep::None => members_step(s, health),
            RestoreStep::Write(_) => MemberStep::Write(membership::journal(&s.record)),
            RestoreStep::Wait(_) | RestoreStep::Refuse(_) => MemberStep::Rest,
        };
        let is_free = restore == RestoreStep::None && members == MemberStep::Rest;
        let upgrade = if is_free { upgrade_step(s, health) } else { UpgradeStep::Rest };
        Self { members, restore, recovery: RecoveryStep::None, upgrade, growth: GrowthStep::Rest }
    }

    /// And those that follow from the record as it is now.
    pub(crate) fn complete(self, s: &Subject<'_>, out: &mut EtcdPlan) -> Self {
        Self { recovery: recovery_step(s, out), growth: growth::decide_growth(s), ..self }
    }
}
/// What is done by itself about a quorum that is lost for good.
fn recovery_step(s: &Subject<'_>, out: &mut EtcdPlan) -> RecoveryStep {
    let view = recovery::view_recovery(s, &out.health);
    let (step, mut status) = recovery::decide_recovery(&view);
    if let (RecoveryStep::Begin { name, .. }, Some(status)) = (&step, &mut status) {
        view.begun(status, Home::of(s.etcd).namespace, name);
    }
    if let (Some(status), Some(loss)) = (&mut status, &view.loss) {
        status.left.retain(|member| !loss.lost.contains(&member.name));
    }
    let begins = matches!(step, RecoveryStep::Begin { .. });
    let goes_on = |status: &&mut RecoveryStatus| status.begun.is_some() && status.goes_on();
    if let Some(status) = status.as_mut().filter(goes_on).filter(|status| begins || status.left.is_empty()) {
        status.left = recovery::left(s, &view);
    }
    out.recovery = status;
    step
}

/// What a restore does next, before all else. What is to be written down is in the record from here on.
fn restore_step(s: &mut Subject<'_>, health: &mut Health, request: Option<&RestoreRequest>) -> RestoreStep {
    let is_known = s.templates().is_some();
    let step = restore::decide_restore(&restore::view_restore(s, health, request));
    if s.etcd.spec.paused || !is_known {
        return match step {
            RestoreStep::None => RestoreStep::None,
            _ => RestoreStep::Wait("spec.paused to be false, and its pinned templates to be there".into()),
        };
    }
    if let RestoreStep::Write(entry) = &step {
        restore::take(&mut s.record, entry);
        *health = health::judge(s);
    }
    step
}

/// What happens to the members next. What is to be written down is in the record from here on.
fn members_step(s: &mut Subject<'_>, health: &mut Health) -> MemberStep {
    if s.etcd.spec.paused || s.templates().is_none() {
        return MemberStep::Rest;
    }
    let step = membership::decide_members(&membership::view_members(s, health));
    if let MemberStep::Write(journal) = &step {
        membership::take(&mut s.record, journal);
        *health = health::judge(s);
    }
    step
}

/// What happens to the version next. What is to be written down is in the record from here on.
fn upgrade_step(s: &mut Subject<'_>, health: &mut Health) -> UpgradeStep {
    if s.etcd.spec.paused || s.templates().is_none() {
        return UpgradeStep::Rest;
    }
    let step = upgrade::decide_upgrade(&upgrade::view_upgrade(s, health, are_applied(s, health)));
    if let UpgradeStep::Write(entry) = &step {
        if s.record.bootstrap.members.is_empty() {
            let Some(members) = membership::recorded(&membership::view_members(s, health)) else {
                return UpgradeStep::Rest;
            };
            s.record.bootstrap.members = members;
        }
        upgrade::take(s, entry);
        *health = health::judge(s);
    }
    step
}
