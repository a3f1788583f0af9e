//! One object: is it there, is it ours, does it say what it should?

pub(crate) mod additions;
pub mod changed;
pub mod diff;
mod fields;
mod meaning;
pub mod owner_references;
pub mod ownership;
pub(crate) mod same_image;
pub mod service_address;

use crate::model::{Action, Stage, State};
use crate::object_meta;
use crate::observed::Observed;
use berth_api::conditions::Reason;
use berth_api::labels;
use berth_render::{Kind, Object, ObjectKey, TemplateSet};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The action that brings one object to what it should be; none if it is. Err: it is somebody else's, or going away. `notes`: what is
/// left of others.
fn action_for(
    observed: &Observed,
    object: Object,
    ours: impl Fn(&Value) -> bool,
    notes: &mut Vec<String>,
) -> Result<Option<Action>, State> {
    let digest = object.digest();
    let object = object.with_annotation(labels::APPLIED_DIGEST, &digest);
    let live = usable(observed, object.key(), ours)?;
    let may = &observed.meta.may_change;
    let judged = additions::judge(live, object, may);
    notes.extend(judged.notes);
    let object = judged.object;
    let Some(live) = live else { return Ok(Some(Action::Apply(object))) };
    if judged.removal.is_some() {
        return Ok(judged.removal);
    }
    let object = match object.key().kind {
        Kind::NetworkPolicy => without_additions(object, live),
        // One that is paused takes nothing up, and what waits for its pods would wait for ever.
        Kind::Deployment => unpaused(object, live),
        // Made anew by this write, one that was deleted meanwhile would have another address.
        Kind::Service => object.with_uid(object_meta::uid(live)),
        _ => object,
    };
    let compared = diff::compare(live, &object, may);
    if judged.unowned || !compared.drift.is_empty() {
        return Ok(Some(Action::Apply(object)));
    }
    notes.extend(changed::note(object.key(), &compared.declared));
    Ok(None)
}

/// What is there under that key, if anything is and it may be written.
pub(crate) fn usable<'a>(
    observed: &'a Observed,
    key: &ObjectKey,
    ours: impl Fn(&Value) -> bool,
) -> Result<Option<&'a Value>, State> {
    let live = observed.get(key);
    match live {
        Some(live) if !ours(live) => Err(foreign(key)),
        Some(live) if object_meta::deleting(live) => {
            Err(State::waiting(format!("the deletion of {key}; if that lasts, see its metadata.finalizers")))
        }
        _ => Ok(live),
    }
}

/// Somebody else's object under our name.
pub fn foreign(key: &ObjectKey) -> State {
    State::blocked(
        Reason::ForeignObject,
        format!(
            "{key} exists and does not belong to this cluster, so Berth leaves it alone. If nobody needs it, delete it; otherwise create this cluster under another name; if Berth created it, set its label {}={} again",
            labels::MANAGED_BY,
            labels::MANAGED_BY_VALUE
        ),
    )
}

/// The policy with an empty list for each that only somebody else has filled. Empty lists are not sent otherwise: to the API server
/// they are a change each time.
fn without_additions(object: Object, live: &Value) -> Object {
    let added = |list: &&str| object.value()["spec"][*list].is_null() && !live["spec"][*list].is_null();
    let added: Vec<_> = ["ingress", "egress"].into_iter().filter(added).collect();
    if added.is_empty() {
        return object;
    }
    let mut value = object.value().clone();
    for list in added {
        value["spec"][list] = Value::Array(vec![]);
    }
    Object::new(value).unwrap_or(object)
}

/// The Deployment, set going if somebody paused it. That it is not paused is not sent otherwise: the API server leaves it out of
/// what it answers, and so it would be a change each time.
fn unpaused(object: Object, live: &Value) -> Object {
    if live["spec"]["paused"] != true {
        return object;
    }
    let mut value = object.value().clone();
    value["spec"]["paused"] = false.into();
    Object::new(value).unwrap_or(object)
}

/// Puts `object` into the stage: owned, and applied if it differs. The stage's state turns to waiting or blocked.
pub fn ensure(stage: &mut Stage, observed: &Observed, object: Object, ours: impl Fn(&Value) -> bool) {
    let key = object.key().clone();
    let action = action_for(observed, object, ours, &mut stage.notes);
    put(stage, &key, action);
}

/// Puts a ConfigMap with a set of templates into the stage. It is immutable and its name has the digest of its texts, which are
/// therefore not observed: what may differ is the labels.
pub fn ensure_templates(
    stage: &mut Stage,
    observed: &Observed,
    (key, labels): (&ObjectKey, BTreeMap<String, String>),
    set: &TemplateSet,
    ours: impl Fn(&Value) -> bool,
) {
    let labels = json!(labels);
    let same = |live: &Value| {
        live["immutable"] == true && crate::objects::diff::contains(&live["metadata"]["labels"], &labels)
    };
    let action = match usable(observed, key, ours) {
        Ok(Some(live)) if same(live) => Ok(None),
        Ok(_) => templates(key, &labels, set).map(Some),
        Err(state) => Err(state),
    };
    put(stage, key, action);
}

fn templates(key: &ObjectKey, labels: &Value, set: &TemplateSet) -> Result<Action, State> {
    let object = Object::new(json!({
        "apiVersion": "v1", "kind": "ConfigMap", "immutable": true,
        "metadata": {"name": key.name, "namespace": key.namespace, "labels": labels},
        "data": set.to_data(),
    }));
    let object = object.map_err(|e| State::blocked(Reason::Error, e))?;
    let digest = object.digest();
    Ok(Action::Apply(object.with_annotation(labels::APPLIED_DIGEST, &digest)))
}

fn put(stage: &mut Stage, key: &ObjectKey, action: Result<Option<Action>, State>) {
    stage.owns.push(key.clone());
    match action {
        Ok(None) => {}
        Ok(Some(action)) => {
            if stage.state.is_done() {
                stage.state = State::waiting(match &action {
                    Action::RemoveAdditions { .. } => format!("Berth to {}", action.describe()),
                    _ => format!("{key} to be written"),
                });
            }
            stage.actions.push(action);
        }
        Err(state) => {
            if !matches!(stage.state, State::Blocked { .. }) {
                stage.state = state;
            }
        }
    }
}
