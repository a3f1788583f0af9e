//! What happens next to the etcd. What is to be written down is in the record from here on.

use crate::health::{self, Health};
use crate::members::are_applied;
use crate::planned::EtcdPlan;
use crate::procedures::growth::{self, GrowthStep};
use crate::procedures::membership::{self, MemberStep};
use crate::procedures::recovery::{self, RecoveryStep};
use crate::procedures::restore::{self, RestoreStep};
use crate::procedures::sleep::{self, SleepStep};
use crate::procedures::upgrade::{self, UpgradeStep};
use crate::subject::Subject;
use berth_api::etcd_recovery::RecoveryStatus;
use berth_plan::etcd_home::Home;

/// What happens next, of which one is something at most.
#[derive(Default)]
pub(crate) struct Steps {
    /// To the members.
    pub(crate) members: MemberStep,
    /// In a restore.
    pub(crate) restore: RestoreStep,
    /// Into a sleep, or out of it.
    pub(crate) sleep: SleepStep,
    /// By itself, about a lost quorum.
    pub(crate) recovery: RecoveryStep,
    /// To the version.
    pub(crate) upgrade: UpgradeStep,
    /// To the size of the volumes.
    pub(crate) growth: GrowthStep,
}

impl Steps {
    /// Those that write the record, which wait for each other: a restore first, then a sleep, then members, then the version. What is to be written down is
    /// in the record from here on.
    pub(crate) fn of_the_record(s: &mut Subject<'_>, health: &mut Health) -> Self {
        let request = restore::request(s.etcd);
        let restore = restore::decide_restore(&restore::view_restore(s, health, request.as_ref()));
        let mut steps = Self { restore, ..Self::default() };
        if steps.restore == RestoreStep::None {
            steps.sleep = sleep::decide_sleep(&sleep::view_sleep(s, health));
        }
        if !s.acts() {
            if matches!(steps.sleep, SleepStep::Write(_)) {
                let sleeps = s.record.operation.clone().filter(|_| s.sleeps());
                let on = "spec.paused to be false, and its pinned templates to be there";
                let otherwise = || if s.wakes() { SleepStep::Waking } else { SleepStep::Hold(on.into()) };
                steps.sleep = sleeps.map_or_else(otherwise, SleepStep::Asleep);
            }
            if steps.restore != RestoreStep::None {
                let on = "spec.paused to be false, and its pinned templates to be there";
                steps.restore = RestoreStep::Wait(on.into());
            }
            return steps;
        }
        let is_free = matches!(steps.sleep, SleepStep::None | SleepStep::Hold(_));
        if steps.restore == RestoreStep::None && is_free {
            steps.members = membership::decide_members(&membership::view_members(s, health));
            if steps.members == MemberStep::Rest {
                steps.upgrade = upgrade_step(s, health);
            }
        }
        if let Self { restore: RestoreStep::Write(record), .. }
        | Self { sleep: SleepStep::Write(record), .. }
        | Self { members: MemberStep::Write(record), .. }
        | Self { upgrade: UpgradeStep::Write(record), .. } = &steps
        {
            s.record.clone_from(record);
            *health = health::judge(s);
        }
        steps
    }

    /// And those that follow from the record as it is now.
    pub(crate) fn complete(self, s: &Subject<'_>, out: &mut EtcdPlan) -> Self {
        // A volume grows to its end only where a pod uses it.
        let growth = if s.sleeps() { GrowthStep::Rest } else { growth::decide_growth(s) };
        Self { recovery: recovery_step(s, out), growth, ..self }
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

/// What happens to the version next. From then on all members are on record.
fn upgrade_step(s: &Subject<'_>, health: &Health) -> UpgradeStep {
    let mut step = upgrade::decide_upgrade(&upgrade::view_upgrade(s, health, are_applied(s, health)));
    if let UpgradeStep::Write(record) = &mut step
        && record.bootstrap.members.is_empty()
    {
        let Some(members) = membership::recorded(&membership::view_members(s, health)) else {
            return UpgradeStep::Rest;
        };
        record.bootstrap.members = members;
    }
    step
}
