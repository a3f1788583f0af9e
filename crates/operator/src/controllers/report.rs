//! What follows from how a reconcile went: metrics, back-off, and what the status says where it could not go on.

use crate::context::Context;
use crate::metrics::{Controller as ControllerLabel, ReconcileLabels, part};
use crate::panics::catch_panic;
use berth_api::conditions::{ConditionType, Reason};
use berth_api::crds;
use berth_kubeio::{ErrorKind, IoError, ResourceRef, write_status};
use berth_plan::fleet::TenantId;
use berth_plan::{Failure, MetaCluster};
use berth_render::{Kind, ObjectKey};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::runtime::controller::Action;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::time::{Duration, Instant};

/// Failures in a row from which on one that should be over in a moment is reported: a webhook that hangs looks like a lost answer.
pub(super) const LASTING: u32 = 3;

/// Runs one reconcile with metrics and back-off around it.
pub(super) async fn run<F>(ctx: &Context, controller: &'static str, key: &ObjectKey, reconcile: F) -> Action
where
    F: Future<Output = Result<Action, IoError>>,
{
    let ObjectKey { namespace, name, .. } = key;
    let started = Instant::now();
    let result = catch_panic(reconcile).await;
    let label = if result.is_ok() { "ok" } else { "error" };
    tracing::debug!(controller, result = label, took = ?started.elapsed(), "reconciled");
    ctx.metrics.reconciles.get_or_create(&ReconcileLabels { controller, result: label }).inc();
    ctx.metrics.duration.get_or_create(&ControllerLabel { controller }).observe(started.elapsed().as_secs_f64());
    match result {
        Ok(next) => {
            ctx.backoff.forget(key);
            next
        }
        Err(error) if error.kind == ErrorKind::Fenced => {
            tracing::info!(controller, namespace, name, "lost the lease; reconcile aborted");
            Action::requeue(Duration::from_secs(5))
        }
        Err(error) => {
            // What waited long for answers is to be cheap for others.
            let took = if error.kind == ErrorKind::Transient { started.elapsed() } else { Duration::ZERO };
            let (failures, wait) = ctx.backoff.failed(key.clone(), took);
            // A conflict or a right that is about to come is not worth a warning.
            if matches!(error.kind, ErrorKind::Conflict) || failures < LASTING {
                tracing::debug!(controller, namespace, name, %error, "reconcile failed, and is retried");
            } else {
                tracing::warn!(controller, namespace, name, failures, %error, "reconcile failed");
            }
            Action::requeue(wait)
        }
    }
}

/// The object is gone, or about to be: nothing is left to do or to report.
pub(super) fn gone(ctx: &Context, key: &ObjectKey) -> Action {
    if key.kind == Kind::Cluster {
        let id = TenantId::from(key);
        ctx.fleet.gone(&id);
        ctx.heard.forget(&id);
        ctx.metrics.rollouts.forget(&id);
        ctx.users.gone(&id);
    }
    ctx.metrics.tenants.forget(key);
    Action::await_change()
}

/// What a plan asks for, within bounds. Where the operator lacks a right, soon: changes may not reach it, and its return is to show.
pub(super) fn requeue_after(requeue_after: Option<SignedDuration>, meta: &MetaCluster) -> Duration {
    let wait = requeue_after.and_then(|d| Duration::try_from(d).ok()).unwrap_or(Duration::from_mins(1));
    let most = if meta.denied.is_none() { Duration::from_mins(10) } else { Duration::from_secs(30) };
    wait.clamp(Duration::from_millis(50), most)
}

/// An object as it was read, for what is said of it.
pub(super) struct Report<'a> {
    pub(super) ctx: &'a Context,
    pub(super) resource: ResourceRef,
    pub(super) live: Value,
    pub(super) now: Timestamp,
}

impl Report<'_> {
    /// Whether a failure is over in a moment, so that nobody needs to hear of it: a conflict is resolved by the next reconcile.
    pub(super) fn is_brief(&self, error: &IoError) -> bool {
        match error.kind {
            ErrorKind::Conflict | ErrorKind::Fenced => true,
            ErrorKind::Transient => self.ctx.backoff.failures(&self.resource.key) < LASTING,
            _ => false,
        }
    }

    /// The operator could not even look, or not hold the object: the status says so, unless it may be over in a moment. Returns the
    /// error.
    pub(super) async fn failed(&self, error: IoError) -> IoError {
        if self.is_brief(&error) {
            return error;
        }
        self.write(&error.failure(), None).await.err().unwrap_or(error)
    }

    /// This build cannot read the object: its status says so, and others go on.
    pub(super) async fn unreadable(&self, error: &serde_json::Error) -> Result<Action, IoError> {
        let failure = Failure {
            reason: Reason::InvalidSpec,
            message: format!(
                "this operator cannot read the object: {error}. Correct that field, or run an operator version that knows it; until then what runs stays as it is"
            ),
            in_tenant: false,
        };
        // This spec was looked at, and nothing comes of it.
        self.write(&failure, Some(self.generation())).await?;
        Ok(Action::requeue(Duration::from_mins(5)))
    }

    /// Logs what the platform team alone is told, once.
    pub(super) fn tell_platform(&self, told: &[String]) {
        let ObjectKey { kind, namespace, name } = &self.resource.key;
        for why in self.ctx.told.news(&self.resource.uid, told, self.now) {
            tracing::warn!(kind = kind.name(), namespace, name, why, "nodes of the meta cluster hold this object up");
        }
    }

    /// The conditions that were published before.
    pub(super) fn old_conditions(&self) -> Vec<Condition> {
        part(&self.live, "/status/conditions").unwrap_or_default()
    }

    /// Sets the metrics of a status; returns its conditions.
    pub(super) fn measure(&self, status: &impl Serialize) -> Vec<Condition> {
        let status = serde_json::to_value(status).unwrap_or_default();
        self.ctx.metrics.tenants.say(&self.resource.key, &status)
    }

    fn generation(&self) -> i64 {
        self.live.pointer("/metadata/generation").and_then(Value::as_i64).unwrap_or_default()
    }

    /// Writes conditions alone, and which spec was observed, if it was: what else the status says was true once, and is not known to be
    /// false.
    async fn write(&self, failure: &Failure, observed: Option<i64>) -> Result<(), IoError> {
        let kind = self.resource.key.kind.name();
        let types = crds::conditions().find(|(of, _)| *of == kind).map(|(_, types)| types).unwrap_or_default();
        let old = self.old_conditions();
        let is_there = |t: ConditionType| old.iter().any(|c| c.type_ == t.as_str());
        let vpc = !self.live["spec"]["vpc"].is_null();
        let applies = |t: &&ConditionType| {
            !ConditionType::OPTIONAL.contains(t) || is_there(**t) || (**t == ConditionType::VPCReady && vpc)
        };
        let types: Vec<_> = types.iter().filter(applies).copied().collect();
        let new = failure.conditions(&types, &old, self.generation(), self.now);
        let mut status = self.live["status"].clone();
        status["conditions"] = serde_json::to_value(&new).unwrap_or_default();
        self.measure(&status);
        let before: Option<i64> = part(&self.live, "/status/observedGeneration");
        let old = Conditions { observed_generation: before, conditions: old };
        let new = Conditions { observed_generation: observed.or(before), conditions: new };
        write_status(&self.ctx.io, &self.resource, Some(&old), &new).await.map(|_| ())
    }
}

#[derive(Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Conditions {
    #[serde(skip_serializing_if = "Option::is_none")]
    observed_generation: Option<i64>,
    conditions: Vec<Condition>,
}
