//! Events that a person would want: what turned well, what went wrong, said once.

use berth_api::conditions::{ConditionType, Reason, find, shortened};
use berth_api::text::printable;
use berth_fence::{Closed, FencedClient};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// How long publishing one may take.
const DEADLINE: Duration = Duration::from_secs(5);

/// How long an Event counts up if it is said again, as in kube's [`Recorder`].
const SERIES: Duration = Duration::from_mins(6);

/// Publishes Events: one series for each object, reason and message. A [`Recorder`] takes every message of a reason for one series, and
/// shows the first one with the count of all; so each message has a recorder of its own, as long as its series lasts.
pub struct Events {
    client: FencedClient,
    reporter: Reporter,
    series: Mutex<HashMap<Series, (Recorder, Instant)>>,
}

/// UID of the object, reason, message.
type Series = (Option<String>, String, Option<String>);

impl std::fmt::Debug for Events {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Events")
    }
}

impl Events {
    /// Publishes as `identity`.
    pub fn new(client: &FencedClient, identity: &str) -> Self {
        let reporter = Reporter { controller: "berth.dev/operator".into(), instance: Some(identity.into()) };
        Self { client: client.clone(), reporter, series: Mutex::default() }
    }

    fn recorder(&self, about: &ObjectReference, event: &Event) -> Recorder {
        let now = Instant::now();
        let mut all = self.series.lock();
        all.retain(|_, (_, last)| now.duration_since(*last) < SERIES);
        let series = (about.uid.clone(), event.reason.clone(), event.note.clone());
        let new = || (Recorder::new((*self.client).clone(), self.reporter.clone()), now);
        let (recorder, last) = all.entry(series).or_insert_with(new);
        *last = now;
        recorder.clone()
    }

    /// Says what changed between two statuses: `Ready`, `Degraded` and `BackupReady`, when status or reason is another.
    pub async fn transitions(&self, about: &ObjectReference, old: &[Condition], new: &[Condition]) {
        for event in changes(old, new) {
            self.publish(about, &event).await;
        }
    }

    /// Says what was taken away that somebody had added.
    pub async fn removed(&self, about: &ObjectReference, all: Vec<String>) {
        for note in all {
            self.publish(about, &event(EventType::Warning, "AdditionsRemoved", &printable(&note))).await;
        }
    }

    async fn publish(&self, about: &ObjectReference, event: &Event) {
        // An Event that is lost is no reason to stop.
        match tokio::time::timeout(DEADLINE, self.recorder(about, event).publish(event, about)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) if Closed::is(&error) => {}
            Ok(Err(error)) => tracing::warn!(%error, "event not published"),
            Err(_) => tracing::warn!("event not published: no answer within {DEADLINE:?}"),
        }
    }
}

fn event(type_: EventType, reason: &str, note: &str) -> Event {
    let note = Some(shortened(note, 1000));
    Event { type_, reason: reason.into(), note, action: "Reconcile".into(), secondary: None }
}

/// Pure: the Events for a change of conditions.
fn changes(old: &[Condition], new: &[Condition]) -> Vec<Event> {
    let mut events = vec![];
    // What is being deleted recovers from nothing.
    let deleting = find(new, ConditionType::Ready).is_some_and(|c| c.reason == Reason::Deleting.as_str());
    let kinds =
        [(ConditionType::Ready, "True"), (ConditionType::Degraded, "False"), (ConditionType::BackupReady, "True")];
    for (type_, good) in kinds {
        let (before, Some(now)) = (find(old, type_), find(new, type_)) else { continue };
        let changed = before.is_none_or(|b| b.status != now.status || b.reason != now.reason);
        // It is well, and somebody else's trouble keeps it.
        let stopped = now.reason == Reason::FleetStopped.as_str();
        let well = now.status == good && !stopped;
        // Being not ready at first, waiting, or free of trouble that never was, is no change.
        let publish = if well {
            !deleting && before.is_some_and(|b| b.status != now.status)
        } else {
            stopped
                || type_ == ConditionType::Degraded
                || (type_ == ConditionType::BackupReady && now.status == "False")
        };
        if changed && publish {
            let reason = match (type_, well) {
                (ConditionType::Ready, true) => "Ready",
                (ConditionType::BackupReady, true) => "BackupReady",
                (_, true) => "Recovered",
                (_, false) => &now.reason,
            };
            events.push(event(if well { EventType::Normal } else { EventType::Warning }, reason, &now.message));
        }
    }
    events
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_api::conditions::{Verdict, merge};
    use berth_fence::Fence;
    use http::{Method, Request, Response};
    use kube::Client;
    use kube::client::Body;
    use serde_json::Value;
    use std::convert::Infallible;
    use std::sync::Arc;

    /// What was sent.
    type Sent = Arc<Mutex<Vec<(Method, Value)>>>;

    /// Each request is answered with what it said.
    fn recorded() -> (Events, Sent) {
        let sent = Sent::default();
        let log = sent.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let log = log.clone();
            async move {
                let (head, body) = request.into_parts();
                let bytes = body.collect_bytes().await.unwrap();
                log.lock().push((head.method, serde_json::from_slice(&bytes).unwrap()));
                Ok::<_, Infallible>(Response::new(Body::from(bytes.to_vec())))
            }
        });
        let client = FencedClient::new(Client::new(service, "default"), Fence::open());
        (Events::new(&client, "test"), sent)
    }

    #[tokio::test]
    async fn each_object_and_message_has_a_series_of_its_own() {
        let (events, sent) = recorded();
        let about = |uid: &str| ObjectReference {
            namespace: Some("team-a".into()),
            name: Some("acme".into()),
            uid: Some(uid.into()),
            ..ObjectReference::default()
        };
        let failing = |message: &str| {
            let v = Verdict::new(ConditionType::Degraded, Some(true), Reason::ContainerFailing, message);
            merge(&[], &[v], 1, jiff::Timestamp::UNIX_EPOCH)
        };
        let (flag, gate) = (failing("unknown flag: --nope"), failing("unrecognized feature gate: Nope"));
        for (uid, new) in [("a", &flag), ("a", &flag), ("a", &gate), ("b", &flag), ("a", &flag)] {
            events.transitions(&about(uid), &[], new).await;
        }
        let said: Vec<_> = sent.lock().drain(..).collect();
        let said: Vec<_> = said
            .iter()
            .map(|(method, e)| (method.as_str(), e["note"].as_str().unwrap(), e["series"]["count"].as_i64()))
            .collect();
        let (flag, gate) = ("unknown flag: --nope", "unrecognized feature gate: Nope");
        assert_eq!(
            said,
            [
                ("POST", flag, None),
                ("PATCH", flag, Some(2)),
                ("POST", gate, None),
                ("POST", flag, None),
                ("PATCH", flag, Some(3)),
            ]
        );
    }

    #[test]
    fn a_deletion_is_no_recovery() {
        let of = |type_, status, reason| Verdict::new(type_, Some(status), reason, "m");
        let at = |verdicts: &[Verdict]| merge(&[], verdicts, 1, jiff::Timestamp::UNIX_EPOCH);
        let failing = at(&[
            of(ConditionType::Ready, false, Reason::ContainerFailing),
            of(ConditionType::Degraded, true, Reason::ContainerFailing),
        ]);
        let leaving = at(&[
            of(ConditionType::Ready, false, Reason::Deleting),
            of(ConditionType::Degraded, false, Reason::AsExpected),
        ]);
        assert!(changes(&failing, &leaving).is_empty());
        // One that is protected is held, which is trouble.
        let held = at(&[
            of(ConditionType::Ready, false, Reason::Deleting),
            of(ConditionType::Degraded, true, Reason::Deleting),
        ]);
        assert_eq!(changes(&leaving, &held).len(), 1);
    }

    #[test]
    fn a_fleet_that_stops_is_reported_though_the_tenant_is_ready() {
        let of = |reason| vec![Verdict::new(ConditionType::Ready, Some(true), reason, "m")];
        let at = |reason| merge(&[], &of(reason), 1, jiff::Timestamp::UNIX_EPOCH);
        let (well, waits, stopped) = (at(Reason::AsExpected), at(Reason::WaitingForTurn), at(Reason::FleetStopped));
        assert!(changes(&well, &waits).is_empty());
        let said = changes(&waits, &stopped);
        assert_eq!((said.len(), &*said[0].reason), (1, "FleetStopped"));
        assert!(matches!(said[0].type_, EventType::Warning));
        assert!(changes(&stopped, &stopped).is_empty() && changes(&stopped, &well).is_empty());
    }

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
