//! Conditions that every kind of Berth's has, from its plan.

use crate::model::{Plan, StageId};
use berth_api::conditions::{ConditionType as T, Reason, Verdict};

/// Reasons that do not go away by waiting.
pub(crate) const LASTING: [Reason; 6] = [
    Reason::ImageUnavailable,
    Reason::ContainerFailing,
    Reason::Unschedulable,
    Reason::Rejected,
    Reason::QuorumLost,
    Reason::EtcdAlarm,
];

/// `problem`: what is not done; `unread`: the message for fields that the pinned templates do not read.
pub(crate) fn ready(
    available: &Verdict,
    problem: Option<&(Reason, String)>,
    unread: Option<&String>,
    paused: bool,
    deleting: bool,
) -> Verdict {
    let no = |reason, message| Verdict::new(T::Ready, Some(false), reason, message);
    match (problem, unread) {
        _ if deleting => {
            let rest = problem.map(|(_, message)| format!("; {message}")).unwrap_or_default();
            no(Reason::Deleting, format!("being deleted{rest}"))
        }
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
pub(crate) fn progressing(moving: Option<(Reason, String)>, paused: bool, deleting: bool) -> Verdict {
    let of = |status, reason, message: &str| Verdict::new(T::Progressing, Some(status), reason, message);
    match moving {
        _ if deleting => of(true, Reason::Deleting, "being deleted"),
        _ if paused => of(false, Reason::Paused, "spec.paused is true: nothing is changed, repaired or renewed"),
        Some((_, message)) => of(true, Reason::RollingOut, &message),
        None => of(false, Reason::Settled, "nothing is changing"),
    }
}

/// Where nothing else is wrong: CAs that expire, and fields without an effect.
pub(crate) fn degraded(warnings: &[String], unread: Option<&String>) -> Verdict {
    let yes = |reason, message: &String| Verdict::new(T::Degraded, Some(true), reason, message.clone());
    match (warnings.first(), unread) {
        (Some(warning), _) => yes(Reason::CertificateAuthorityExpiring, warning),
        (None, Some(message)) => yes(Reason::NotInTemplates, message),
        (None, None) => Verdict::new(T::Degraded, Some(false), Reason::AsExpected, "nothing is wrong"),
    }
}

/// `valid`: the message when its stage is done.
pub(crate) fn pki(plan: &Plan, valid: &str) -> Verdict {
    let Some(stage) = plan.stage(StageId::Pki) else {
        return Verdict::new(T::PKIReady, None, Reason::NotYetObserved, "not checked yet");
    };
    match stage.state.sentence() {
        None => Verdict::new(T::PKIReady, Some(true), Reason::AsExpected, valid),
        Some((reason, message)) => Verdict::new(T::PKIReady, Some(false), reason, message),
    }
}
