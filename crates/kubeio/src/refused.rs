//! Why pods of a `StatefulSet` or a Job are not there: its controller tells that by Events, and by nothing else.

mod note;

use crate::calls::{Io, encode};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use std::collections::BTreeMap;

/// Its controller tries again at least each quarter of an hour; what is older is not what keeps a pod away now.
const RECENT: SignedDuration = SignedDuration::from_mins(20);

/// What refuses each of these pods, as far as is known. Without the right to read Events, nothing.
pub async fn refused(
    io: &Io,
    namespace: &str,
    set: &str,
    pods: Vec<String>,
    now: Timestamp,
) -> BTreeMap<String, String> {
    if pods.is_empty() {
        return BTreeMap::new();
    }
    let events = events(io, namespace, &format!("kind=StatefulSet,regarding.name={set},reason=FailedCreate")).await;
    of_each(pods, |pod| refused_pod(&events, pod, now))
}

/// What refuses the pods of a Job, as far as is known. Without the right to read Events, nothing.
pub(crate) async fn refused_by_job(io: &Io, namespace: &str, job: &str, now: Timestamp) -> Option<String> {
    let events = events(io, namespace, &format!("kind=Job,regarding.name={job},reason=FailedCreate")).await;
    refused_pods(&events, now)
}

/// Why each of these pods gets no network, as far as is known. Without the right to read Events, nothing.
pub async fn without_network(io: &Io, namespace: &str, pods: Vec<String>, now: Timestamp) -> BTreeMap<String, String> {
    if pods.is_empty() {
        return BTreeMap::new();
    }
    let events = events(io, namespace, "kind=Pod,reason=FailedCreatePodSandBox").await;
    let why = |pod: &str| {
        newest(&events, now, |event, note| (event["regarding"]["name"] == *pod).then_some(note)).map(str::to_owned)
    };
    of_each(pods, why)
}

/// Events about these objects.
async fn events(io: &Io, namespace: &str, about: &str) -> Vec<Value> {
    let selector = encode(&format!("regarding.{about}"));
    match io.raw(&format!("/apis/events.k8s.io/v1/namespaces/{namespace}/events?fieldSelector={selector}")).await {
        Ok(list) => list["items"].as_array().cloned().unwrap_or_default(),
        Err(error) => {
            tracing::warn!(
                namespace,
                about,
                error = error.message,
                "cannot read Events, which say why pods are missing"
            );
            vec![]
        }
    }
}

fn of_each(pods: Vec<String>, why: impl Fn(&str) -> Option<String>) -> BTreeMap<String, String> {
    pods.into_iter().filter_map(|pod| why(&pod).map(|why| (pod, why))).collect()
}

/// What the newest of a Job's Events says.
fn refused_pods(events: &[Value], now: Timestamp) -> Option<String> {
    newest(events, now, |_, note| note::of_job(note)).map(str::to_owned)
}

/// What the newest Event of a StatefulSet says about this pod.
fn refused_pod(events: &[Value], pod: &str, now: Timestamp) -> Option<String> {
    newest(events, now, |_, note| note::of_pod(note, pod)).map(str::to_owned)
}

/// What the newest Event says that is recent and about the right object. `says`: what its note says of that, if anything.
fn newest<'e>(
    events: &'e [Value],
    now: Timestamp,
    says: impl Fn(&'e Value, &'e str) -> Option<&'e str>,
) -> Option<&'e str> {
    let told = events.iter().filter_map(|e| Some((at(e)?, says(e, e["note"].as_str()?)?)));
    told.filter(|(at, _)| now.duration_since(*at) <= RECENT).max_by_key(|(at, _)| *at).map(|(_, why)| why)
}

/// When it was seen last. Controllers of the meta cluster write the old fields.
fn at(event: &Value) -> Option<Timestamp> {
    ["/series/lastObservedTime", "/deprecatedLastTimestamp", "/eventTime", "/metadata/creationTimestamp"]
        .iter()
        .find_map(|path| event.pointer(path)?.as_str()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_newest_event_about_a_pod_says_why() {
        let event = |pod: &str, seen: &str, why: &str| {
            json!({
                "metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"}, "eventTime": null, "deprecatedLastTimestamp": seen,
                "note": format!("Create Pod {pod} in StatefulSet etcd failed error: {why}"),
            })
        };
        let events = [
            event("etcd-0", "2026-01-01T00:50:00Z", "pods \"etcd-0\" is forbidden: exceeded quota: small"),
            event("etcd-0", "2026-01-01T00:45:00Z", "an older one"),
            event("etcd-1", "2026-01-01T00:55:00Z", "another pod's"),
            event("etcd-2", "2026-01-01T00:10:00Z", "long ago"),
        ];
        let now = "2026-01-01T01:00:00Z".parse().unwrap();
        let said = refused_pod(&events, "etcd-0", now);
        assert_eq!(said.as_deref(), Some("pods \"etcd-0\" is forbidden: exceeded quota: small"));
        assert_eq!(refused_pod(&events, "etcd-2", now), None);
        let of_job =
            |seen: &str, why: &str| json!({"deprecatedLastTimestamp": seen, "note": format!("Error creating: {why}")});
        let events = [of_job("2026-01-01T00:50:00Z", "pods are refused"), of_job("2026-01-01T00:45:00Z", "older")];
        assert_eq!(refused_pods(&events, now).as_deref(), Some("pods are refused"));
        assert_eq!(refused_pods(&events[..0], now), None);
        assert_eq!(refused_pod(&events, "etcd-3", now), None);
    }
}
