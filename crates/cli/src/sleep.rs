//! `sleep` and `wake`: asks Berth for it, by an annotation, and waits.

use crate::access::Access;
use crate::args::{Meta, Sleep, Wake};
use crate::confirm::confirmed;
use crate::outcome::Outcome;
use crate::wait::until;
use crate::{output, unchanged};
use anyhow::bail;
use berth_api::conditions::{ConditionType, find};
use berth_api::hibernation::{SleepRequest, SleepState};
use berth_api::{Cluster, labels};
use berth_plan_cluster::next_by_schedule;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

/// What it is called, and how it was read.
type Read = (String, Value, Cluster);

/// Asks, sets the annotation, and waits.
pub(crate) async fn sleep(meta: &Meta, args: &Sleep) -> anyhow::Result<Outcome> {
    let access = Access::to_write(meta).await?;
    let read = access.read_cluster(&args.name).await?;
    let of = &read.0;
    output::print(&format!(
        "{of}: all pods of its control plane end, and its API does not answer until it wakes. Its data, address and kubeconfigs stay\n"
    ))?;
    if !args.yes && !confirmed(&args.name, "put it to sleep")? {
        bail!("{of}: nothing was changed");
    }
    ask(&access, &args.name, read, true, args.wait.then_some(args.timeout)).await
}

/// Sets the annotation, and waits.
pub(crate) async fn wake(meta: &Meta, args: &Wake) -> anyhow::Result<Outcome> {
    let access = Access::to_write(meta).await?;
    let read = access.read_cluster(&args.name).await?;
    ask(&access, &args.name, read, false, args.wait.then_some(args.timeout)).await
}

/// `read`: the `Cluster` as the person was shown it.
async fn ask(
    access: &Access,
    name: &str,
    (of, value, cluster): Read,
    sleep: bool,
    wait: Option<SignedDuration>,
) -> anyhow::Result<Outcome> {
    if !sleep && cluster.spec.hibernation.enabled {
        bail!(
            "{of}: spec.hibernation.enabled is true, which holds whatever else is asked for: set it to false, and it wakes"
        );
    }
    let request = SleepRequest { sleep, at: Timestamp::now() };
    let patch = json!({"metadata": {"annotations": {(labels::HIBERNATE): request.to_string()}}});
    unchanged::patch(access, &value, &patch).await?;
    let then = then(&cluster, sleep, request.at);
    output::print(&format!("{of}: annotation {}={request} is set{then}\n", labels::HIBERNATE))?;
    let Some(timeout) = wait else { return Ok(Outcome::Done) };
    let look = async || Ok(progress(&access.read_cluster(name).await?.2, sleep));
    Ok(Outcome::done_if(until(timeout, look).await?.is_some()))
}

/// When a schedule changes that.
fn then(cluster: &Cluster, sleeps: bool, now: Timestamp) -> String {
    let next = next_by_schedule(cluster, sleeps, now).filter(|_| !cluster.spec.hibernation.enabled);
    next.map(|next| by_schedule(next.state, next.at.0, &next.cause)).unwrap_or_default()
}

/// What people read of a change by a schedule, behind what is so until then.
pub(crate) fn by_schedule(state: SleepState, at: Timestamp, cause: &str) -> String {
    let verb = if state == SleepState::Asleep { "sleeps" } else { "wakes" };
    format!("; at {} it {verb} by schedule: {cause}", at.strftime("%Y-%m-%dT%H:%M:%SZ"))
}

/// Whether it is as asked for, and what is to be said.
fn progress(cluster: &Cluster, sleep: bool) -> (Option<()>, String) {
    let status = cluster.status.as_ref();
    let state = status.and_then(|status| status.hibernation.as_ref()).map(|h| h.state).unwrap_or_default();
    let conditions = status.map_or(&[][..], |status| &status.conditions);
    let serves = find(conditions, ConditionType::Available).is_some_and(|available| available.status == "True");
    match (sleep, state) {
        (true, SleepState::Asleep) => (Some(()), "it sleeps".into()),
        (false, SleepState::Awake) if serves => (Some(()), "it is awake".into()),
        _ => {
            let ready = find(conditions, ConditionType::Ready);
            (None, ready.map_or_else(|| "wait".into(), |ready| format!("wait: {}", ready.message)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_waits_for_the_state_and_says_what_ready_says() {
        let cluster = |state: Value, available: &str| -> Cluster {
            let at = "2026-01-01T00:00:00Z";
            let condition = |type_: &str, status: &str| json!({"type": type_, "status": status, "reason": "X", "message": format!("{type_} it is"), "lastTransitionTime": at});
            let hibernation = if state.is_null() { state } else { json!({"state": state, "since": at, "cause": "x"}) };
            serde_json::from_value(json!({
                "apiVersion": "berth.dev/v1alpha1", "kind": "Cluster", "metadata": {"name": "acme"},
                "spec": {"version": "1.36.3"},
                "status": {"hibernation": hibernation, "conditions": [condition("Ready", "True"), condition("Available", available)]},
            }))
            .unwrap()
        };
        assert_eq!(progress(&cluster(json!("Asleep"), "False"), true).0, Some(()));
        assert_eq!(progress(&cluster(json!("FallingAsleep"), "True"), true), (None, "wait: Ready it is".into()));
        assert_eq!(progress(&cluster(Value::Null, "True"), false).0, Some(()));
        assert_eq!(progress(&cluster(json!("Awake"), "False"), false).0, None, "it has to answer");
        assert_eq!(progress(&cluster(json!("Waking"), "True"), false).0, None);
    }

    #[test]
    fn it_says_when_a_schedule_changes_that() {
        let cluster = |hibernation: Value| -> Cluster {
            serde_json::from_value(json!({
                "apiVersion": "berth.dev/v1alpha1", "kind": "Cluster", "metadata": {"name": "acme", "uid": "a"},
                "spec": {"version": "1.36.3", "hibernation": hibernation},
            }))
            .unwrap()
        };
        let now = "2026-01-01T12:00:00Z".parse().unwrap();
        let office = cluster(json!({"schedules": [{"sleep": "0 20 * * *", "wake": "0 7 * * *"}]}));
        let said = then(&office, true, now);
        assert!(said.starts_with("; at 2026-01-02T07:0"), "{said}");
        assert!(said.ends_with(" it wakes by schedule: schedules[0].wake (0 7 * * * UTC)"), "{said}");
        let said = then(&office, false, now);
        assert!(said.ends_with(" it sleeps by schedule: schedules[0].sleep (0 20 * * * UTC)"), "{said}");
        assert_eq!(then(&cluster(json!({})), true, now), "");
        let always = cluster(json!({"enabled": true, "schedules": [{"wake": "0 7 * * *"}]}));
        assert_eq!(then(&always, true, now), "", "it sleeps on");
    }
}
