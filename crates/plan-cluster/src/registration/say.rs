//! `Registered`.

use super::decide::{connection, next};
use super::record::{is_gone, recorded, status, target};
use super::rights;
use super::wish::{Target, Wish};
use crate::ours::is_ours;
use crate::subject::Tenant;
use berth_api::conditions::{ConditionType, Reason, Verdict};
use berth_api::names;
use berth_plan::ending;
use berth_plan::observed::Registered;
use berth_render::{Kind, ObjectKey};

/// None: nothing is asked for, and nothing left.
pub(crate) fn verdict(t: &Tenant<'_>) -> Option<Verdict> {
    let (status, reason, message) = match (target(t), Wish::of(t.cluster, t.settings)) {
        (Some(target), _) => on(t, &target),
        (None, Wish::Refused(why)) => {
            let left = left(t).map(|(_, on)| format!("; {on}")).unwrap_or_default();
            (Some(false), Reason::NotAllowed, why + &left)
        }
        (None, _) => {
            let (reason, message) = left(t)?;
            (Some(false), reason, message)
        }
    };
    let of = |reason, message| Verdict::new(ConditionType::Registered, status, reason, message);
    if t.acts() || status == Some(true) || reason == Reason::NotAllowed {
        return Some(of(reason, message));
    }
    Some(of(Reason::Paused, format!("{message}; spec.paused is true: set it to false to continue")))
}

fn on(t: &Tenant<'_>, target: &Target<'_>) -> (Option<bool>, Reason, String) {
    let Target { key, name, project, .. } = target;
    let waits = |on: String| (Some(false), Reason::Waiting, format!("waiting for {on}"));
    let source = t.secret(names::ARGOCD_KUBECONFIG);
    let foreign = t.get(Kind::Secret, names::ARGOCD_KUBECONFIG).filter(|live| !is_ours(live));
    match &t.observed.registered {
        Registered::Foreign(why) => (
            Some(false),
            Reason::ForeignObject,
            format!(
                "{key} exists and is not Berth's ({why}), so Berth leaves it alone. Rename it or, if nobody needs it, delete it: then Berth registers the tenant there"
            ),
        ),
        Registered::Failed(why) => failed(why),
        Registered::Ours(live) if live.ends.is_some() => {
            waits(ends(key, live.ends.as_deref().unwrap_or_default()) + ". Then Berth registers the tenant anew")
        }
        Registered::Ours(_) if foreign.is_none() && next(t, target).is_none() => {
            (Some(true), Reason::AsExpected, format!("Argo CD knows it as {name} in project {project} ({key})"))
        }
        _ if foreign.is_some() => (
            Some(false),
            Reason::ForeignObject,
            format!(
                "{source} exists and is not Berth's, so Berth leaves it alone. Delete it: then Berth registers the tenant"
            ),
        ),
        Registered::Absent if connection(t).is_none() => waits(format!("{source} to be written")),
        Registered::Absent if !rights::are_there(t) => waits(format!("{}{}", rights_of(), once_awake(t))),
        Registered::Unknown | Registered::Absent | Registered::Ours(_) => waits(format!("{key} to be written")),
    }
}

/// What is left to be taken back.
fn left(t: &Tenant<'_>) -> Option<(Reason, String)> {
    status(t)?;
    let key = recorded(t)?;
    let waits = |on: String| (Reason::Waiting, format!("waiting for {on}"));
    Some(match &t.observed.registered {
        Registered::Failed(why) => {
            let (_, reason, message) = failed(why);
            (reason, message)
        }
        Registered::Ours(live) if live.ends.is_some() => waits(ends(&key, live.ends.as_deref().unwrap_or_default())),
        _ if is_gone(t) => waits(format!("{} to be deleted{}", rights_of(), once_awake(t))),
        _ => waits(format!("{key} to be deleted")),
    })
}

/// One that is being deleted, and what keeps it.
pub(super) fn ends(key: &ObjectKey, finalizers: &[String]) -> String {
    let kept = ending::kept(key, finalizers);
    format!("{kept}, which is being deleted, to be gone: whoever put finalizers on it has to take them off")
}

fn failed(why: &str) -> (Option<bool>, Reason, String) {
    (Some(false), Reason::Rejected, format!("{why}. Berth tries again every minute"))
}

fn rights_of() -> String {
    format!("{} in the tenant", rights::binding())
}

fn once_awake(t: &Tenant<'_>) -> &'static str {
    if t.sleep.is_asleep() { ", once it is awake" } else { "" }
}
