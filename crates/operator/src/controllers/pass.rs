//! What both drivers share: watches by metadata, and what follows from how a pass went.

use super::passes::{Next, Passes};
use crate::context::Context;
use crate::metrics::{Controller as ControllerLabel, Pass};
use berth_api::cluster::CertificatesStatus;
use berth_api::conditions::{ConditionType, Reason};
use berth_kubeio::{IoError, Kindred, Own, chain, write_status};
use berth_plan::{Failure, Settings};
use berth_render::ObjectKey;
use futures::{FutureExt, Stream, StreamExt};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::PartialObjectMeta;
use kube::runtime::controller;
use kube::runtime::utils::Backoff;
use kube::runtime::watcher::{self, watcher};
use kube::runtime::{Predicate, WatchStreamExt, predicates};
use kube::{Api, Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::HashMap;
use std::fmt::Debug;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::time::{Duration, Instant};

/// A pass that failed; it was reported where it happened.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct PassError(#[from] pub IoError);

/// Controllers of one API server are told of each other's writes in bursts; a moment's patience saves passes.
pub(super) const CALM: Duration = Duration::from_millis(50);

/// The controllers' own objects are listed at once: in a second list, after a watch that was too old, the store takes over only at its
/// end, and a new object whose page came much earlier would be asked for in vain.
pub(super) fn in_one_page() -> watcher::Config {
    watcher::Config { page_size: None, ..watcher::Config::default() }
}

/// What people change in an object. Its status is the operator's own, and no reason for another pass.
pub(super) fn asked<K: Resource>(object: &K) -> Option<u64> {
    use predicates::{annotations, finalizers, generation, labels};
    generation.combine(annotations).combine(labels).combine(finalizers).hash_property(object)
}

/// Changes of all objects of a kind that carry a label, by metadata alone; those of a status tell by their resourceVersion.
pub(super) fn changes<K>(
    client: Client,
    label: &str,
) -> impl Stream<Item = Result<PartialObjectMeta<K>, watcher::Error>> + Send + use<K>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    let api = Api::<PartialObjectMeta<K>>::all(client);
    let stream = watcher(api, watcher::Config::default().labels(label));
    stream.modify(|o| o.metadata.managed_fields = None).backoff(Patience::watch()).touched_objects()
}

/// How long to wait after an error of a watch: doubled each time, from the beginning again once something came.
#[derive(Clone, Debug)]
pub(super) struct Patience {
    first: Duration,
    most: Duration,
    next: Duration,
}

impl Patience {
    /// For one watch. An API server that is back is to be noticed within seconds.
    pub(super) fn watch() -> Self {
        let first = Duration::from_millis(200);
        Self { first, most: Duration::from_secs(5), next: first }
    }

    /// For a controller: none, since each watch has its own. One patience for all would add up: while it waits for the error of
    /// one watch, no other is heard, and each one's error would double it.
    pub(super) fn controller() -> Self {
        Self { first: Duration::ZERO, most: Duration::ZERO, next: Duration::ZERO }
    }
}

impl Iterator for Patience {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let now = self.next;
        self.next = (now * 2).min(self.most);
        Some(now)
    }
}

impl Backoff for Patience {
    fn reset(&mut self) {
        self.next = self.first;
    }
}

/// Runs one pass with a span, metrics and back-off around it.
pub(super) async fn run<F>(ctx: &Context, controller: &'static str, about: &ObjectReference, pass: F) -> Next
where
    F: Future<Output = Result<Next, IoError>>,
{
    let key = (controller, about.namespace.clone().unwrap_or_default(), about.name.clone().unwrap_or_default());
    let started = Instant::now();
    let result = caught(pass).await;
    let label = if result.is_ok() { "ok" } else { "error" };
    tracing::debug!(controller, result = label, took = ?started.elapsed(), "pass");
    ctx.metrics.passes.get_or_create(&Pass { controller, result: label }).inc();
    ctx.metrics.duration.get_or_create(&ControllerLabel { controller }).observe(started.elapsed().as_secs_f64());
    match result {
        Ok(next) => {
            ctx.backoff.forget(&key);
            next
        }
        Err(error) if error.kind == Kindred::Fenced => {
            tracing::info!(
                controller,
                namespace = key.1,
                name = key.2,
                "may write no more: the lease is another's, or on its way to it; the pass ends"
            );
            Some(Duration::from_secs(5))
        }
        Err(error) => {
            let (failures, wait) = ctx.backoff.failed(key.clone());
            // A conflict or a right that is about to come is nothing to wake anybody for.
            if matches!(error.kind, Kindred::Conflict) || failures < 3 {
                tracing::debug!(controller, namespace = key.1, name = key.2, %error, "again");
            } else {
                tracing::warn!(controller, namespace = key.1, name = key.2, failures, %error, "pass failed");
            }
            Some(wait)
        }
    }
}

/// A panic is an error like any other: it is about one object, and others go on. Why is for the log alone, since nobody chose its words.
pub(super) async fn caught<T>(work: impl Future<Output = Result<T, IoError>>) -> Result<T, IoError> {
    let panic = match AssertUnwindSafe(work).catch_unwind().await {
        Ok(result) => return result,
        Err(panic) => panic,
    };
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    tracing::error!(panic = text.unwrap_or_default(), "a pass panicked");
    let message = "panicked, which is a bug of this operator; its log says why".into();
    Err(IoError { kind: Kindred::Other, what: "a pass".into(), message })
}

/// An object that this build cannot read: its status says so, and others go on.
pub(super) async fn unreadable(
    ctx: &Context,
    own: &Own,
    live: &Value,
    types: &[ConditionType],
    error: &serde_json::Error,
    now: Timestamp,
) -> Result<Next, IoError> {
    let failure = Failure {
        reason: Reason::InvalidSpec,
        message: format!(
            "this operator cannot read the object: {error}. Correct that field, or run an operator that knows it; what runs is left as it is"
        ),
    };
    tell(ctx, own, live, types, &failure, now).await?;
    Ok(Some(Duration::from_mins(5)))
}

/// Failures in a row from which on one that should be over in a moment is told: a webhook that hangs looks like a lost answer.
const LASTING: u32 = 3;

/// Whether a failure is over in a moment, so that nobody needs to hear of it: a conflict is solved by looking again.
pub(super) fn passing(ctx: &Context, controller: &'static str, own: &Own, error: &IoError) -> bool {
    match error.kind {
        Kindred::Conflict | Kindred::Fenced => true,
        Kindred::Transient => {
            let key = (controller, own.key.namespace.clone().unwrap_or_default(), own.key.name.clone());
            ctx.backoff.failures(&key) < LASTING
        }
        _ => false,
    }
}

/// The pass could not even look, or not hold the object: the status says so, unless it may be over in a moment. Returns the error.
pub(super) async fn blind(
    ctx: &Context,
    controller: &'static str,
    own: &Own,
    live: &Value,
    types: &[ConditionType],
    error: IoError,
    now: Timestamp,
) -> IoError {
    if passing(ctx, controller, own, &error) {
        return error;
    }
    tell(ctx, own, live, types, &error.failure(), now).await.err().unwrap_or(error)
}

/// The object is gone, or about to be: nothing is left to do or to tell.
pub(super) fn gone(ctx: &Context, key: &ObjectKey) -> Next {
    ctx.metrics.tenants.forget(key.kind.name(), key.namespace.as_deref().unwrap_or_default(), &key.name);
    None
}

/// What its status says, for Prometheus.
pub(super) fn measure(ctx: &Context, own: &Own, conditions: &[Condition], certificates: Option<&CertificatesStatus>) {
    let expiry = certificates.and_then(|c| c.next_expiry.as_ref());
    let namespace = own.key.namespace.as_deref().unwrap_or_default();
    ctx.metrics.tenants.say(own.key.kind.name(), namespace, &own.key.name, conditions, expiry);
}

/// Writes conditions alone: what else the status says was true once, and is not known to be false.
async fn tell(
    ctx: &Context,
    own: &Own,
    live: &Value,
    types: &[ConditionType],
    failure: &Failure,
    now: Timestamp,
) -> Result<(), IoError> {
    let old = live.pointer("/status/conditions").cloned();
    let old = old.and_then(|c| serde_json::from_value(c).ok()).unwrap_or_default();
    let generation = live.pointer("/metadata/generation").and_then(Value::as_i64).unwrap_or_default();
    let old = Conditions { conditions: old };
    let new = Conditions { conditions: failure.conditions(types, &old.conditions, generation, now) };
    let certificates = live.pointer("/status/certificates").cloned().and_then(|c| serde_json::from_value(c).ok());
    measure(ctx, own, &new.conditions, certificates.as_ref());
    write_status(&ctx.io, own, Some(&old), &new).await.map(|_| ())
}

#[derive(PartialEq, Serialize)]
struct Conditions {
    conditions: Vec<Condition>,
}

/// What a plan asks for, within bounds. Where the operator lacks a right, soon: news may not reach it, and its return is to show.
pub(super) fn look_again(look_again: Option<SignedDuration>, settings: &Settings) -> Duration {
    let wait = look_again.and_then(|d| Duration::try_from(d).ok()).unwrap_or(Duration::from_mins(1));
    let most = if settings.denied.is_none() { Duration::from_mins(10) } else { Duration::from_secs(30) };
    wait.clamp(Duration::from_millis(50), most)
}

/// Drains a controller's stream. Errors of passes were reported there; those of watches are said here, and what is gone without a
/// pass of its own is forgotten. No pass of a namesake is harmed: the stream begins none before its item is taken from it.
pub(super) async fn drain<K, T, P: 'static>(
    controller: &'static str,
    ctx: &Context,
    passes: &Passes<K>,
    stream: impl Stream<Item = Result<T, controller::Error<P, watcher::Error>>>,
) where
    K: Resource<DynamicType = ()> + Debug + Send + Sync + 'static,
{
    let mut said = Said::default();
    let mut stream = pin!(stream);
    while let Some(item) = stream.next().await {
        match item {
            Err(controller::Error::ObjectNotFound(of)) => {
                passes.forget(ctx, of.namespace.as_deref().unwrap_or_default(), &of.name);
            }
            Err(controller::Error::QueueError(error)) => {
                let error = chain(&error);
                ctx.failed(&error);
                if said.is_news(&error, Instant::now()) {
                    tracing::warn!(
                        controller,
                        error,
                        "a watch failed: until it is back, changes are noticed late or not at all"
                    );
                }
            }
            _ => {}
        }
    }
}

/// What was logged lately, so that a watch that fails every few seconds fills no log.
#[derive(Debug, Default)]
struct Said(HashMap<String, Instant>);

impl Said {
    const AGAIN: Duration = Duration::from_mins(1);

    fn is_news(&mut self, text: &str, now: Instant) -> bool {
        self.0.retain(|_, at| now.duration_since(*at) < Self::AGAIN);
        if self.0.contains_key(text) {
            return false;
        }
        self.0.insert(text.to_owned(), now);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_is_said_once_a_minute() {
        let (mut said, now) = (Said::default(), Instant::now());
        assert!(said.is_news("a", now) && said.is_news("b", now) && !said.is_news("a", now));
        assert!(said.is_news("a", now + Said::AGAIN));
    }
}
