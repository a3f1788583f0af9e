//! What each part of the world needs to read and write.

use std::fmt::Display;
use std::sync::{Arc, Mutex, PoisonError};

use berth_plan::objects::diff::contains;
use jiff::{Timestamp, Unit};
use kube::api::{
    ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams, Preconditions, PropagationPolicy,
};
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};

use super::store::Store;
use super::{Knobs, Scope};

/// The client, what is known, and where the world may act.
pub(super) struct Context {
    pub(super) client: Client,
    pub(super) store: Arc<Store>,
    scope: Scope,
    knobs: Arc<Mutex<Knobs>>,
}

impl Context {
    pub(super) fn new(client: Client, store: Arc<Store>, scope: Scope, knobs: Arc<Mutex<Knobs>>) -> Self {
        Self { client, store, scope, knobs }
    }

    pub(super) fn knob<T>(&self, read: impl FnOnce(&Knobs) -> T) -> T {
        read(&self.knobs.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether the world acts in a namespace.
    pub(super) fn covers(&self, namespace: &str) -> bool {
        (self.scope)(namespace)
    }

    /// The objects of a kind in the namespaces that the world covers.
    pub(super) fn list(&self, kind: &str) -> Vec<Arc<DynamicObject>> {
        let covered = |o: &Arc<DynamicObject>| o.namespace().is_some_and(|ns| self.covers(&ns));
        self.store.of_kind(kind).into_iter().filter(covered).collect()
    }

    /// Creates an object; that it exists already is fine.
    pub(super) async fn create(&self, kind: &str, namespace: &str, object: Value) {
        let object = serde_json::from_value(object).expect("the world makes objects");
        match self.api(kind, namespace).create(&PostParams::default(), &object).await {
            Ok(made) => self.store.put(kind, made),
            Err(e) => expected(format_args!("creating {kind} {namespace}/{}", object.name_any()), &e),
        }
    }

    /// Writes these fields of the status if they differ by more than their times; whether they did.
    pub(super) async fn set_status(&self, kind: &str, object: &DynamicObject, mut status: Value) -> bool {
        keep_times(&object.data["status"], &mut status);
        if contains(&object.data["status"], &status) {
            return false;
        }
        let api = self.api(kind, &object.namespace().unwrap_or_default());
        let patch = Patch::Merge(json!({"status": status}));
        match api.patch_status(&object.name_any(), &PatchParams::default(), &patch).await {
            Ok(changed) => self.store.put(kind, changed),
            Err(e) => expected(format_args!("status of {kind} {}", object.name_any()), &e),
        }
        true
    }

    /// A merge patch that fails if the object has changed since it was read.
    pub(super) async fn patch(&self, kind: &str, object: &DynamicObject, mut patch: Value) {
        patch["metadata"]["resourceVersion"] = json!(object.resource_version());
        patch["metadata"]["uid"] = json!(object.uid());
        let api = self.api(kind, &object.namespace().unwrap_or_default());
        match api.patch(&object.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await {
            Ok(changed) => self.store.put(kind, changed),
            Err(e) => expected(format_args!("patching {kind} {}", object.name_any()), &e),
        }
    }

    /// Deletes exactly this incarnation, in the background.
    pub(super) async fn delete(&self, kind: &str, object: &DynamicObject, grace: Option<u32>) {
        let params = DeleteParams {
            grace_period_seconds: grace,
            propagation_policy: Some(PropagationPolicy::Background),
            preconditions: Some(Preconditions { uid: object.uid(), resource_version: None }),
            ..DeleteParams::default()
        };
        let api = self.api(kind, &object.namespace().unwrap_or_default());
        if let Err(e) = api.delete(&object.name_any(), &params).await {
            expected(format_args!("deleting {kind} {}", object.name_any()), &e);
        }
    }

    /// An object with its kind: items of lists come without it.
    pub(super) fn whole(&self, kind: &str, object: &DynamicObject) -> Value {
        let (mut whole, resource) = (json!(object), self.resource(kind));
        whole["apiVersion"] = json!(resource.api_version);
        whole["kind"] = json!(resource.kind);
        whole
    }

    /// Access to a kind of the store.
    pub(super) fn api(&self, kind: &str, namespace: &str) -> Api<DynamicObject> {
        let resource = self.resource(kind);
        if namespace.is_empty() {
            Api::all_with(self.client.clone(), resource)
        } else {
            Api::namespaced_with(self.client.clone(), namespace, resource)
        }
    }

    fn resource(&self, kind: &str) -> &ApiResource {
        self.store.resource(kind).unwrap_or_else(|| panic!("the world does not know {kind}"))
    }
}

/// Conflicts and disappearances are daily business: the next reconcile sees the present state.
pub(super) fn expected(what: impl Display, error: &kube::Error) {
    match error {
        kube::Error::Api(status) if matches!(status.code, 404 | 409) => {}
        error => tracing::debug!(%error, "the world: {what}"),
    }
}

/// Takes over `last*Time` of conditions whose status is as before.
fn keep_times(old: &Value, new: &mut Value) {
    let Some(conditions) = new["conditions"].as_array_mut() else { return };
    for condition in conditions {
        let before = old["conditions"].as_array().into_iter().flatten().find(|c| c["type"] == condition["type"]);
        let Some(before) = before else { continue };
        for time in ["lastTransitionTime", "lastUpdateTime"] {
            let same = before["status"] == condition["status"] && before["reason"] == condition["reason"];
            if same && condition.get(time).is_some() && before.get(time).is_some() {
                condition[time] = before[time].clone();
            }
        }
    }
}

/// The present time, in seconds as Kubernetes has it.
pub(super) fn now() -> Timestamp {
    Timestamp::now().round(Unit::Second).expect("it is not the end of time")
}

/// Whether it is being deleted.
pub(super) fn terminating(object: &DynamicObject) -> bool {
    object.metadata.deletion_timestamp.is_some()
}

/// Whether `owner` is the object's controller.
pub(super) fn controlled_by(object: &DynamicObject, owner: &DynamicObject) -> bool {
    object.owner_references().iter().any(|r| r.controller == Some(true) && Some(&r.uid) == owner.metadata.uid.as_ref())
}
