//! Conditions that every kind of Berth's has, from its plan.

use crate::model::{LASTING, Plan, Stage, StageId, State};
use berth_api::conditions::{self, ConditionType as T, Reason, Verdict};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

/// What is wrong with pods, or with the name of the API, may be over soon: a node, an image or a DNS record comes. After so long it counts as stalled, as a Deployment does by its
/// `progressDeadlineSeconds`.
const PROGRESS_DEADLINE: SignedDuration = SignedDuration::from_mins(10);

/// `Ready`, and `Degraded` with the same words where something is wrong.
pub fn both(ready: Option<bool>, degraded: bool, reason: Reason, message: impl Into<String>) -> Vec<Verdict> {
    let message = message.into();
    let (of_degraded, wrong) =
        if degraded { (reason, message.clone()) } else { (Reason::AsExpected, "nothing is wrong".into()) };
    vec![Verdict::new(T::Ready, ready, reason, message), Verdict::new(T::Degraded, Some(degraded), of_degraded, wrong)]
}

/// Of what is being deleted; `rest`: what that waits for.
pub fn deleting(rest: Option<&str>) -> Vec<Verdict> {
    let rest = rest.map(|text| format!("; {text}")).unwrap_or_default();
    both(Some(false), false, Reason::Deleting, format!("being deleted{rest}"))
}

/// Of what has failed for good: as it was said when it failed. `otherwise`: the reason, if that cannot be read.
pub fn failed(old: &[Condition], otherwise: Reason) -> Vec<Verdict> {
    let old = conditions::find(old, T::Degraded);
    let reason = old.and_then(|c| c.reason.parse().ok()).unwrap_or(otherwise);
    both(Some(false), true, reason, old.map_or_else(|| "it failed".into(), |c| c.message.clone()))
}

/// Of what its Jobs are at work for: what the first stage that is not done says, or `otherwise`.
pub fn under_way(problem: Option<&Stage>, otherwise: &str) -> Vec<Verdict> {
    let blocked = problem.is_some_and(|stage| matches!(stage.state, State::Blocked { .. }));
    let sentence = problem.and_then(|stage| stage.state.sentence());
    let (reason, message) = sentence.unwrap_or((Reason::Waiting, otherwise.into()));
    let wrong = blocked || matches!(reason, Reason::StoreUnavailable | Reason::Rejected);
    both(Some(false), wrong, reason, message)
}

/// The conditions to publish, in a fixed order, so that nothing changes but what changed.
pub fn publish(
    old: &[Condition],
    mut verdicts: Vec<Verdict>,
    generation: i64,
    now: Timestamp,
    paused: bool,
) -> Vec<Condition> {
    verdicts.sort_by_key(|v| v.type_);
    with_kstatus(old, conditions::merge(old, &verdicts, generation, now), generation, now, paused)
}

/// These, and `Reconciling` or `Stalled` as follows from them.
pub(crate) fn with_kstatus(
    old: &[Condition],
    mut new: Vec<Condition>,
    generation: i64,
    now: Timestamp,
    paused: bool,
) -> Vec<Condition> {
    let more = for_kstatus(&new, now, paused);
    new.extend(conditions::merge(old, more.as_slice(), generation, now));
    new
}

/// `Reconciling` or `Stalled`, for tools that wait: <https://github.com/kubernetes-sigs/cli-utils/blob/master/pkg/kstatus/README.md>.
/// kstatus knows a deletion by the object's `deletionTimestamp`.
fn for_kstatus(conditions: &[Condition], now: Timestamp, paused: bool) -> Option<Verdict> {
    let ready = conditions::find(conditions, T::Ready).filter(|c| c.status != "True")?;
    let verdict = |type_, of: &Condition| {
        let reason = of.reason.parse().unwrap_or(Reason::Error);
        (reason != Reason::Deleting).then(|| Verdict::new(type_, Some(true), reason, of.message.clone()))
    };
    let degraded = conditions::find(conditions, T::Degraded).filter(|c| c.status == "True");
    let stalled = degraded.filter(|c| match c.reason.parse() {
        // It is retried, or goes on by itself.
        Ok(Reason::Error | Reason::Restoring) | Err(_) => false,
        Ok(reason) => {
            !(LASTING.contains(&reason) || reason == Reason::APINotReachable)
                || now.duration_since(c.last_transition_time.0) >= PROGRESS_DEADLINE
        }
    });
    match stalled {
        Some(degraded) => verdict(T::Stalled, degraded),
        None if paused => verdict(T::Stalled, ready),
        None => verdict(T::Reconciling, ready),
    }
}

/// `problem`: what is not done; `unread`: the message for fields that the pinned templates do not read.
pub fn ready(
    available: &Verdict,
    problem: Option<&(Reason, String)>,
    unread: Option<&String>,
    paused: bool,
    deleting: bool,
) -> Verdict {
    let no = |reason, message| Verdict::new(T::Ready, Some(false), reason, message);
    match (problem, unread) {
        (Some((_, message)), _) if deleting => no(Reason::Deleting, message.clone()),
        (None, _) if deleting => no(Reason::Deleting, "being deleted".into()),
        (Some((reason, message)), _) if paused => {
            no(*reason, format!("{message}; spec.paused is true: set it to false to continue"))
        }
        (Some((reason, message)), _) => no(*reason, message.clone()),
        (None, _) if available.status != Some(true) => Verdict { type_: T::Ready, ..available.clone() },
        (None, Some(message)) => no(Reason::NotInTemplates, message.clone()),
        (None, None) => Verdict::new(T::Ready, Some(true), Reason::AsExpected, "everything is as asked for"),
    }
}

/// `moving`: what is waited for.
pub fn progressing(moving: Option<(Reason, String)>, paused: bool, deleting: bool) -> Verdict {
    let of = |status, reason, message: &str| Verdict::new(T::Progressing, Some(status), reason, message);
    match moving {
        _ if deleting => of(true, Reason::Deleting, "being deleted"),
        _ if paused => of(false, Reason::Paused, "spec.paused is true: nothing is changed, repaired or renewed"),
        Some((_, message)) => of(true, Reason::RollingOut, &message),
        None => of(false, Reason::Settled, "nothing is changing"),
    }
}

/// Where nothing else is wrong: CAs that expire, fields without an effect, and in `note` what may be so for good reason.
pub fn degraded(warnings: &[String], unread: Option<&String>, note: Option<(Reason, String)>) -> Verdict {
    let yes = |reason, message: &String| Verdict::new(T::Degraded, Some(true), reason, message.clone());
    match (warnings.first(), unread, note) {
        (Some(warning), ..) => yes(Reason::CertificateAuthorityExpiring, warning),
        (None, Some(message), _) => yes(Reason::NotInTemplates, message),
        (None, None, Some((reason, note))) => Verdict::new(T::Degraded, Some(false), reason, note),
        (None, None, None) => Verdict::new(T::Degraded, Some(false), Reason::AsExpected, "nothing is wrong"),
    }
}

/// Why an etcd that was formed serves nobody. It may pass, but nobody should read beside it that nothing is wrong.
const AWAY: [Reason; 7] = [
    Reason::DataLost,
    Reason::EtcdAlarm,
    Reason::ForeignData,
    Reason::QuorumLost,
    Reason::RecoveryHeld,
    Reason::RestoreFailed,
    Reason::Restoring,
];

/// An API, or a name, that does not answer may be starting anew. After so long it counts as degraded.
const DEGRADED_AFTER: SignedDuration = SignedDuration::from_mins(2);

/// `Degraded`, which is not to deny what `available` says. `was_up`: it has served once. `old`: the conditions so far.
pub fn beside(available: &Verdict, degraded: Verdict, was_up: bool, old: &[Condition], now: Timestamp) -> Verdict {
    if degraded.status == Some(true) || available.status != Some(false) || !was_up {
        return degraded;
    }
    let of = |status, message: String| Verdict::new(T::Degraded, Some(status), available.reason, message);
    if AWAY.contains(&available.reason) {
        return of(true, available.message.clone());
    }
    if available.reason != Reason::APINotReachable {
        return degraded;
    }
    let since = conditions::find(old, T::Available).filter(|c| c.status == "False");
    let lasts = since.is_some_and(|c| now.duration_since(c.last_transition_time.0) >= DEGRADED_AFTER);
    let more = if lasts { "" } else { "; after 2 minutes that counts as degraded" };
    of(lasts, format!("{}{more}", available.message))
}

/// What the loss of a CA is said with, whoever's it is.
const CA_LOST: [Reason; 2] = [Reason::CertificateAuthorityLost, Reason::CertificateAuthorityInvalid];

/// `valid`: the message when its stage is done, and no other stage lacks a CA.
pub fn pki(plan: &Plan, valid: &str) -> Verdict {
    let Some(stage) = plan.stage(StageId::Pki) else {
        return Verdict::new(T::PKIReady, None, Reason::NotYetObserved, "not checked yet");
    };
    let lacks_ca = |stage: &&Stage| stage.state.problem().is_some_and(|(reason, _)| CA_LOST.contains(&reason));
    let elsewhere = || plan.stages.iter().find(lacks_ca).and_then(Stage::sentence);
    match stage.state.sentence().or_else(elsewhere) {
        None => Verdict::new(T::PKIReady, Some(true), Reason::AsExpected, valid),
        Some((reason, message)) => Verdict::new(T::PKIReady, Some(false), reason, message),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn published(ready: Option<bool>, degraded: Reason, minutes: i64, paused: bool) -> Vec<String> {
        let then: Timestamp = "2026-01-31T12:00:00Z".parse().unwrap();
        let bad = degraded != Reason::AsExpected;
        let verdicts = || {
            let waiting = if ready == Some(true) { Reason::AsExpected } else { Reason::Waiting };
            vec![
                Verdict::new(T::Degraded, Some(bad), degraded, "what is wrong"),
                Verdict::new(T::Ready, ready, waiting, "what it waits for"),
            ]
        };
        let old = publish(&[], verdicts(), 1, then, paused);
        let new = publish(&old, verdicts(), 1, then + SignedDuration::from_mins(minutes), paused);
        new.into_iter().skip(2).map(|c| format!("{} {} {}", c.type_, c.reason, c.message)).collect()
    }

    #[test]
    fn one_that_is_not_ready_is_reconciling_or_stalled() {
        let reconciling = ["Reconciling Waiting what it waits for"];
        assert_eq!(published(Some(false), Reason::AsExpected, 60, false), reconciling);
        assert_eq!(published(None, Reason::AsExpected, 60, false), reconciling);
        assert_eq!(published(Some(false), Reason::Error, 60, false), reconciling);
        assert_eq!(published(Some(false), Reason::Unschedulable, 9, false), reconciling);
        assert_eq!(published(Some(false), Reason::APINotReachable, 9, false), reconciling);
        assert_eq!(published(Some(false), Reason::Unschedulable, 10, false), ["Stalled Unschedulable what is wrong"]);
        assert_eq!(published(Some(false), Reason::InvalidSpec, 0, false), ["Stalled InvalidSpec what is wrong"]);
        assert_eq!(published(Some(false), Reason::AsExpected, 0, true), ["Stalled Waiting what it waits for"]);
    }

    #[test]
    fn one_that_is_ready_is_neither() {
        assert!(published(Some(true), Reason::AsExpected, 0, false).is_empty());
        assert!(published(Some(true), Reason::AsExpected, 0, true).is_empty());
        assert!(published(Some(true), Reason::CertificateAuthorityExpiring, 60, false).is_empty());
    }
}
