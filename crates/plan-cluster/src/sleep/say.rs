//! What people read of a tenant's sleep.

use super::backup;
use crate::subject::Tenant;
use berth_api::conditions::{ConditionType, Reason, Verdict};
use berth_api::hibernation::{HibernationStatus, SleepState};
use berth_plan::model::State;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// The state of a component whose pods are not to run. None: it is stopped for another reason.
pub(crate) fn component_state(t: &Tenant<'_>) -> Option<State> {
    match t.sleep.state() {
        SleepState::Awake | SleepState::Waking => None,
        SleepState::Asleep => Some(State::Ready),
        SleepState::FallingAsleep => {
            let on = "its pods to end, so that the tenant sleeps".into();
            Some(State::Waiting { reason: Reason::FallingAsleep, on })
        }
    }
}

/// What `Ready` says beside that all is well: it is to sleep, and waits for something, or cannot do so by itself.
pub(crate) fn note(t: &Tenant<'_>) -> Option<(Reason, String)> {
    let waits = t.sleep.next.waits.as_ref();
    let waits = waits.map(|waits| (Reason::FallingAsleep, format!("it is to sleep, and waits for {waits}")));
    waits.or_else(|| Some((Reason::StaysAwake, t.sleep.note.clone()?)))
}

/// Why the API does not answer, where that is as it is to be. None: it is awake.
pub(crate) fn said(t: &Tenant<'_>) -> Option<(Reason, String)> {
    let record = t.sleep.record.as_ref()?;
    let since = record.since.0.strftime("%Y-%m-%dT%H:%M:%SZ");
    let held_up = record.hindrance.as_ref().map(|why| format!(". {why}")).unwrap_or_default();
    Some(match record.state {
        SleepState::Awake => return None,
        SleepState::FallingAsleep => {
            (Reason::FallingAsleep, format!("its pods end since {since}, so that it sleeps{held_up}"))
        }
        SleepState::Asleep => {
            let by_itself =
                t.sleep.change.as_ref().map(|next| {
                    format!("It wakes at {} by {}. ", next.at.0.strftime("%Y-%m-%dT%H:%M:%SZ"), next.cause)
                });
            let (by_itself, before) = by_itself.map_or((String::new(), ""), |text| (text, " before"));
            let way =
                format!("{by_itself}To wake it{before}: kubectl berth wake {} -n {}{held_up}", t.name, t.namespace);
            let note = t.sleep.note.as_ref().map(|note| format!("; {note}")).unwrap_or_default();
            let text =
                format!("it sleeps since {since} ({}): it has no pods, and its data stays{note}. {way}", record.cause);
            (Reason::Asleep, text)
        }
        SleepState::Waking => (Reason::Waking, format!("its pods start since {since}, after a sleep{held_up}")),
    })
}

/// What the conditions say while it is not awake. `held`: what waits for it to be.
pub(crate) fn judged(t: &Tenant<'_>, verdicts: Vec<Verdict>, held: Option<&str>) -> Vec<Verdict> {
    use ConditionType as T;
    let Some((reason, text)) = said(t) else { return verdicts };
    let part = if t.sleep.is_asleep() { "it sleeps, and has no pods".to_owned() } else { text.clone() };
    let backup = t.sleep.record.as_ref().and_then(|record| record.backup.as_deref());
    let said = |v: Verdict| match v.type_ {
        T::BackupReady if t.sleep.is_asleep() && backup.is_some() => {
            let backup = backup.unwrap_or_default();
            let message = format!("it sleeps; EtcdBackup {backup}, which was taken before, has its last revision");
            Verdict::new(T::BackupReady, Some(true), Reason::AsExpected, message)
        }
        // What is wrong beside the sleep is worth more.
        T::Ready if t.sleep.is_asleep() && v.status == Some(false) && v.reason == Reason::Asleep => {
            let held = held.map(|held| format!(". {held}")).unwrap_or_default();
            Verdict::new(T::Ready, Some(true), reason, format!("{text}{held}"))
        }
        T::Available | T::EtcdAvailable | T::ControlPlaneAvailable if v.status != Some(true) && is_by_sleep(&v) => {
            Verdict::new(v.type_, Some(false), reason, part.clone())
        }
        T::VPCReady | T::AddonsReady | T::AppsReady | T::PodsReachAPI if t.sleep.is_asleep() => {
            Verdict::new(v.type_, None, reason, part.clone())
        }
        _ => v,
    };
    verdicts.into_iter().map(said).collect()
}

/// Whether it says no more than that pods are not there yet, or any more.
fn is_by_sleep(verdict: &Verdict) -> bool {
    use Reason as R;
    let reasons =
        [R::Asleep, R::FallingAsleep, R::Waking, R::Waiting, R::PodsNotReady, R::NotYetObserved, R::AsExpected];
    reasons.contains(&verdict.reason)
}

/// For the status. None: it was never asked to sleep, and no schedule will.
pub(crate) fn status(t: &Tenant<'_>) -> Option<HibernationStatus> {
    let next = t.sleep.change.clone();
    let Some(record) = t.sleep.record.as_ref() else {
        let since = t.cluster.metadata.creation_timestamp.clone().unwrap_or(Time(t.now));
        let awake = |next| HibernationStatus { state: SleepState::Awake, since, cause: "creation".into(), next };
        return next.is_some().then(|| awake(next));
    };
    Some(HibernationStatus { state: record.state, since: record.since.clone(), cause: record.cause.clone(), next })
}

/// The state of the etcd that is backed up before it stops. None: it is not.
pub(crate) fn backup_state(t: &Tenant<'_>) -> Option<State> {
    Some(State::Waiting { reason: Reason::FallingAsleep, on: backup::waits(t)? })
}

/// Why no backup can be taken before it sleeps.
pub(crate) fn unfit_backup(t: &Tenant<'_>) -> Option<String> {
    t.sleep.unfit.clone()
}

/// What is wrong with `spec.hibernation.schedules`. Meanwhile it stays as it is.
pub(crate) fn wrong_schedules(t: &Tenant<'_>) -> Option<String> {
    t.sleep.wrong.clone()
}
