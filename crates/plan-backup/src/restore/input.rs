//! What a plan is made from, and what comes of it.

use crate::jobs::JobOwner;
use crate::objects::list;
use crate::target::Target;
use berth_api::backup::Failure;
use berth_api::restore::{FoundSnapshot, RestoreRequest, phase};
use berth_api::{EtcdBackup, EtcdRestore, labels};
use berth_plan::backup_jobs::job_names;
use berth_plan::etcd_home::Home;
use berth_plan::object_meta::{self, uid};
use berth_plan::{Action, Input, Observed, Plan, Stage, State};
use berth_render::{Kind, Object, ObjectKey};
use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube_core::ResourceExt;
use serde_json::{Value, json};
use std::ops::Deref;

/// A plan, and what the status needs beside it.
#[derive(Clone, Debug, Default)]
pub struct RestorePlan {
    /// What to do.
    pub plan: Plan,
    /// Reconcile again after this long, even without an event.
    pub requeue_after: Option<SignedDuration>,
    /// The phase for people.
    pub phase: &'static str,
    /// The backup that is restored: its name, and when it was taken.
    pub backup: Option<(String, Option<Time>)>,
    /// It was found fit.
    pub checked: bool,
    /// What the manifest says of a snapshot that has no `EtcdBackup`.
    pub found: Option<FoundSnapshot>,
    /// The epoch that begins with it, once it is on record.
    pub epoch: Option<i64>,
    /// etcd serves it.
    pub restored: bool,
    /// For how long what etcd held before stays on the volumes.
    pub keeps: Option<SignedDuration>,
    /// Why it failed, if it did just now.
    pub failed: Option<Failure>,
}

/// An `EtcdRestore` with what several steps need to know of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RestoreInput<'a>(pub(crate) Input<'a, EtcdRestore>);

impl<'a> Deref for RestoreInput<'a> {
    type Target = Input<'a, EtcdRestore>;

    fn deref(&self) -> &Input<'a, EtcdRestore> {
        &self.0
    }
}

impl<'a> RestoreInput<'a> {
    /// What a person types to restore something else into the same etcd, but for the source.
    pub(super) fn command(&self) -> String {
        let spec = &self.object.spec;
        let (field, of) = match &spec.cluster_ref {
            Some(of) => ("clusterRef", Some(of)),
            None => ("etcdClusterRef", spec.etcd_cluster_ref.as_ref()),
        };
        Home { namespace: self.namespace(), field, name: of.map_or("", |of| &of.name) }.command("restore")
    }

    pub(super) fn target(&self) -> Target {
        self.object.into()
    }

    /// What its Jobs are made for.
    pub(super) fn owner(&self) -> JobOwner<'a> {
        JobOwner::new(self.0, Kind::EtcdRestore)
    }

    /// The etcd.
    pub(super) fn etcd(&self) -> Option<&'a Value> {
        self.observed.get(&self.target().etcd)
    }

    /// The command that sets fields of its spec.
    pub(super) fn patch(&self, spec: &Value) -> String {
        let patch = json!({"spec": spec});
        format!("kubectl -n {} patch etcdrestore {} --type=merge -p '{patch}'", self.namespace(), self.name())
    }

    /// What it asks of the etcd, if that was told.
    pub(super) fn request(&self) -> Option<RestoreRequest> {
        let text = object_meta::annotation(self.etcd()?, labels::RESTORE_REQUEST)?;
        serde_json::from_str(text).ok().filter(|request: &RestoreRequest| request.uid == self.uid())
    }

    /// Whether etcd has stopped for it, and cannot go on as it was.
    pub(super) fn has_stopped_it(&self) -> bool {
        self.etcd_is_past(&["WaitingForClients", "Stop"])
    }

    /// The etcd's pods end, or have ended, for a restore.
    pub(super) fn stops_it(&self) -> bool {
        self.etcd_is_past(&["WaitingForClients"])
    }

    /// The etcd does what this asks for, and is in none of these phases any more.
    pub(super) fn etcd_is_past(&self, phases: &[&str]) -> bool {
        let phase = |etcd: &'a Value| etcd.pointer("/status/operation/phase").and_then(Value::as_str);
        let at = self.etcd().and_then(phase);
        self.request().is_some() && at.is_some_and(|at| !phases.contains(&at))
    }

    /// Asks for it no more. What another one asks for stays.
    pub(super) fn withdraw(&self, stage: &mut Stage) -> bool {
        let Some(etcd) = self.etcd().filter(|_| self.request().is_some()) else { return true };
        let version = etcd["metadata"]["resourceVersion"].as_str().unwrap_or_default();
        let object = annotated(&self.target().etcd, uid(etcd), None).map(|o| o.with_resource_version(version));
        stage.actions.extend(object.ok().map(Action::Apply));
        false
    }
}

/// Whether it says that Berth created it by itself, and nobody says that what etcd holds may be lost.
pub(super) fn claims_automatic(restore: &EtcdRestore) -> bool {
    restore.spec.confirm.is_none() && restore.labels().contains_key(labels::RECOVERY)
}

/// Whether Berth created it by itself: anybody may write its label, and only Berth the status of the etcd.
pub(super) fn is_automatic(input: RestoreInput<'_>) -> bool {
    let own = format!("{}/{}", input.namespace(), input.name());
    let named = |etcd: &Value| etcd.pointer("/status/recovery/restore").and_then(Value::as_str) == Some(own.as_str());
    claims_automatic(input.object) && input.etcd().is_some_and(named)
}

/// The `EtcdRestore` that restores a backup: it needs it until its end.
pub(crate) fn restoring(observed: &Observed, backup: &EtcdBackup) -> Option<ObjectKey> {
    let namespace = backup.namespace().unwrap_or_default();
    let needs = |restore: &EtcdRestore| {
        restore.metadata.deletion_timestamp.is_none()
            && !restore.has_ended()
            && restore.status.as_ref().is_some_and(|s| s.backup.is_some() && s.backup == backup.metadata.name)
    };
    let found = list::<EtcdRestore>(observed, Kind::EtcdRestore, &namespace).find(needs)?;
    Some(ObjectKey::namespaced(Kind::EtcdRestore, namespace, found.name_any()))
}

/// The annotation of an `EtcdCluster`, which is all that is applied of it.
pub(super) fn annotated(key: &ObjectKey, uid: &str, request: Option<&RestoreRequest>) -> Result<Object, String> {
    let mut object = json!({
        "apiVersion": "berth.dev/v1alpha1", "kind": "EtcdCluster",
        "metadata": {"name": key.name, "namespace": key.namespace},
    });
    if let Some(request) = request {
        let text = serde_json::to_string(request).map_err(|e| e.to_string())?;
        object["metadata"]["annotations"] = json!({(labels::RESTORE_REQUEST): text});
    }
    Object::new(object).map(|o| o.with_uid(uid))
}

/// Deletes both Jobs, each with its Secret.
pub(super) fn clean(input: RestoreInput<'_>, stage: &mut Stage) -> bool {
    let (target, owner) = (input.target(), input.owner());
    let jobs = job_names(Kind::EtcdRestore, input.name()).into_iter();
    let left = jobs.filter(|job| !owner.clean(stage, &target.job(job.clone()))).count();
    left == 0
}

pub(super) fn ends(out: &mut RestorePlan, failure: Failure) -> (&'static str, State) {
    out.failed = Some(failure);
    (phase::FAILED, State::waiting("Berth to record why it failed"))
}
