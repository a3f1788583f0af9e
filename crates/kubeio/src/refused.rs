//! Why pods of a `StatefulSet` or a Job are not there: its controller tells that by Events, and by nothing else.

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
    let selector = format!("regarding.kind=StatefulSet,regarding.name={set},reason=FailedCreate");
    let url = format!("/apis/events.k8s.io/v1/namespaces/{namespace}/events?fieldSelector={}", encode(&selector));
    match io.raw(&url).await {
        Ok(list) => {
            let events = list["items"].as_array().map(Vec::as_slice).unwrap_or_default();
            pods.into_iter().filter_map(|pod| Some((pod.clone(), newest(events, &pod, now)?))).collect()
        }
        Err(error) => {
            tracing::warn!(namespace, set, error = error.message, "cannot read Events, which say why pods are missing");
            BTreeMap::new()
        }
    }
}

/// What refuses the pods of a Job, as far as is known. Without the right to read Events, nothing.
pub(crate) async fn refused_by_job(io: &Io, namespace: &str, job: &str, now: Timestamp) -> Option<String> {
    let selector = format!("regarding.kind=Job,regarding.name={job},reason=FailedCreate");
    let url = format!("/apis/events.k8s.io/v1/namespaces/{namespace}/events?fieldSelector={}", encode(&selector));
    match io.raw(&url).await {
        Ok(list) => newest_of_job(list["items"].as_array().map(Vec::as_slice).unwrap_or_default(), now),
        Err(error) => {
            tracing::warn!(namespace, job, error = error.message, "cannot read Events, which say why pods are missing");
            None
        }
    }
}

/// What the newest of a Job's Events says.
fn newest_of_job(events: &[Value], now: Timestamp) -> Option<String> {
    let told = events.iter().filter_map(|e| Some((at(e)?, e["note"].as_str()?)));
    let (_, note) = told.filter(|(at, _)| now.duration_since(*at) <= RECENT).max_by_key(|(at, _)| *at)?;
    Some(note.strip_prefix("Error creating: ").unwrap_or(note).to_owned())
}

/// Why each of these pods gets no network, as far as is known. Without the right to read Events, nothing.
pub async fn without_network(io: &Io, namespace: &str, pods: Vec<String>, now: Timestamp) -> BTreeMap<String, String> {
    if pods.is_empty() {
        return BTreeMap::new();
    }
    let selector = "regarding.kind=Pod,reason=FailedCreatePodSandBox";
    let url = format!("/apis/events.k8s.io/v1/namespaces/{namespace}/events?fieldSelector={}", encode(selector));
    let list = match io.raw(&url).await {
        Ok(list) => list,
        Err(error) => {
            tracing::warn!(namespace, error = error.message, "cannot read Events, which say why pods get no network");
            return BTreeMap::new();
        }
    };
    let events = list["items"].as_array().map(Vec::as_slice).unwrap_or_default();
    let why = |pod: &str| {
        let told = events
            .iter()
            .filter(|e| e["regarding"]["name"] == *pod)
            .filter_map(|e| Some((at(e)?, e["note"].as_str()?)));
        let (_, note) = told.filter(|(at, _)| now.duration_since(*at) <= RECENT).max_by_key(|(at, _)| *at)?;
        Some(note.to_owned())
    };
    pods.into_iter().filter_map(|pod| Some((pod.clone(), why(&pod)?))).collect()
}

/// What the newest of them says about this pod.
fn newest(events: &[Value], pod: &str, now: Timestamp) -> Option<String> {
    let prefix = format!("Create Pod {pod} in ");
    let told = events.iter().filter_map(|e| Some((at(e)?, e["note"].as_str()?)));
    let about = told.filter(|(at, note)| note.starts_with(&prefix) && now.duration_since(*at) <= RECENT);
    let (_, note) = about.max_by_key(|(at, _)| *at)?;
    Some(note.split_once("failed error: ").map_or(note, |(_, why)| why).to_owned())
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
        let said = newest(&events, "etcd-0", now);
        assert_eq!(said.as_deref(), Some("pods \"etcd-0\" is forbidden: exceeded quota: small"));
        assert_eq!(newest(&events, "etcd-2", now), None);
        let of_job =
            |seen: &str, why: &str| json!({"deprecatedLastTimestamp": seen, "note": format!("Error creating: {why}")});
        let events = [of_job("2026-01-01T00:50:00Z", "pods are refused"), of_job("2026-01-01T00:45:00Z", "older")];
        assert_eq!(newest_of_job(&events, now).as_deref(), Some("pods are refused"));
        assert_eq!(newest_of_job(&events[..0], now), None);
        assert_eq!(newest(&events, "etcd-3", now), None);
    }
}
