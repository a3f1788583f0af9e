//! Events that a person would want: what turned well, what went wrong, said once.

use berth_api::conditions::{ConditionType, find, shortened};
use berth_fence::{Closed, FencedClient};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use std::time::Duration;

/// How long publishing one may take.
const DEADLINE: Duration = Duration::from_secs(5);

/// Publishes Events.
pub struct Events {
    recorder: Recorder,
}

impl std::fmt::Debug for Events {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Events")
    }
}

impl Events {
    /// Publishes as `identity`.
    pub fn new(client: &FencedClient, identity: &str) -> Self {
        let reporter = Reporter { controller: "berth.dev/operator".into(), instance: Some(identity.into()) };
        Self { recorder: Recorder::new((**client).clone(), reporter) }
    }

    /// Says what changed between two statuses: `Ready` and `Degraded`, when status or reason is another.
    pub async fn transitions(&self, about: &ObjectReference, old: &[Condition], new: &[Condition]) {
        for event in changes(old, new) {
            self.publish(about, &event).await;
        }
    }

    async fn publish(&self, about: &ObjectReference, event: &Event) {
        // An Event that is lost is no reason to stop.
        match tokio::time::timeout(DEADLINE, self.recorder.publish(event, about)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) if Closed::is(&error) => {}
            Ok(Err(error)) => tracing::warn!(%error, "event not published"),
            Err(_) => tracing::warn!("event not published: no answer within {DEADLINE:?}"),
        }
    }
}

/// Pure: the Events for a change of conditions.
fn changes(old: &[Condition], new: &[Condition]) -> Vec<Event> {
    let mut events = vec![];
    for (type_, good) in [(ConditionType::Ready, "True"), (ConditionType::Degraded, "False")] {
        let (before, Some(now)) = (find(old, type_), find(new, type_)) else { continue };
        let changed = before.is_none_or(|b| b.status != now.status || b.reason != now.reason);
        let well = now.status == good;
        // Being not ready at first, waiting, or free of trouble that never was, is no change.
        let publish =
            if well { before.is_some_and(|b| b.status != now.status) } else { type_ == ConditionType::Degraded };
        if changed && publish {
            events.push(Event {
                type_: if well { EventType::Normal } else { EventType::Warning },
                reason: match (type_, well) {
                    (ConditionType::Ready, _) => "Ready".into(),
                    (_, true) => "Recovered".into(),
                    (_, false) => now.reason.clone(),
                },
                note: Some(shortened(&now.message, 1000)),
                action: "Reconcile".into(),
                secondary: None,
            });
        }
    }
    events
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_api::conditions::{Reason, Verdict, merge};

    #[test]
    fn a_change_is_reported_once() {
        let at = |ready: bool, degraded: Option<Reason>| {
            let verdicts = [
                Verdict::new(ConditionType::Ready, Some(ready), Reason::AsExpected, "r"),
                Verdict::new(
                    ConditionType::Degraded,
                    Some(degraded.is_some()),
                    degraded.unwrap_or(Reason::AsExpected),
                    "d",
                ),
            ];
            merge(&[], &verdicts, 1, jiff::Timestamp::UNIX_EPOCH)
        };
        let reasons = |old: &[Condition], new: &[Condition]| -> Vec<String> {
            changes(old, new).into_iter().map(|e| e.reason).collect()
        };
        assert!(reasons(&[], &at(false, None)).is_empty());
        assert_eq!(reasons(&at(false, None), &at(true, None)), ["Ready"]);
        assert!(reasons(&at(true, None), &at(true, None)).is_empty());
        assert_eq!(reasons(&at(true, None), &at(false, Some(Reason::DataLost))), ["DataLost"]);
        assert_eq!(reasons(&at(false, Some(Reason::DataLost)), &at(true, None)), ["Ready", "Recovered"]);
    }
}
