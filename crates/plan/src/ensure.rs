//! One object: is it there, is it ours, does it say what it should?

use crate::model::{Action, Stage, State};
use crate::observed::{self, Observed};
use berth_api::labels;
use berth_render::{Kind, Object};
use serde_json::Value;

/// The action that brings one object to what it should be; none if it is. Err: it is somebody else's, or going away.
pub(crate) fn reconcile(
    observed: &Observed,
    object: Object,
    ours: impl Fn(&Value) -> bool,
) -> Result<Option<Action>, State> {
    let digest = object.digest();
    let object = object.with_annotation(labels::APPLIED_DIGEST, &digest);
    let Some(live) = observed.get(object.key()) else { return Ok(Some(Action::Apply(object))) };
    if !ours(live) {
        return Err(crate::secrets::foreign(object.key()));
    }
    if observed::deleting(live) {
        return Err(State::waiting(format!("{} to be gone: it is being deleted", object.key())));
    }
    // What somebody adds to a policy allows more: it is drift even where it touches nothing that we set.
    if object.key().kind == Kind::NetworkPolicy && !crate::diff::same(&live["spec"], &object.value()["spec"]) {
        return Ok(Some(Action::Apply(without_additions(object, live))));
    }
    Ok((!crate::diff::contains(live, object.value())).then_some(Action::Apply(object)))
}

/// The policy with an empty list for each that only somebody else has filled. Empty lists are not sent otherwise: to the API server
/// they are a change each time.
fn without_additions(object: Object, live: &Value) -> Object {
    let mut value = object.value().clone();
    for list in ["ingress", "egress"] {
        if value["spec"][list].is_null() && !live["spec"][list].is_null() {
            value["spec"][list] = Value::Array(vec![]);
        }
    }
    Object::new(value).unwrap_or(object)
}

/// Puts `object` into the stage: owned, and applied if it differs. The stage's state turns to waiting or blocked.
pub(crate) fn ensure(stage: &mut Stage, observed: &Observed, object: Object, ours: impl Fn(&Value) -> bool) {
    stage.owns.push(object.key().clone());
    let key = object.key().to_string();
    match reconcile(observed, object, ours) {
        Ok(None) => {}
        Ok(Some(action)) => {
            stage.actions.push(action);
            if stage.state.is_done() {
                stage.state = State::waiting(format!("{key} to be written"));
            }
        }
        Err(state) => {
            if !matches!(stage.state, State::Blocked { .. }) {
                stage.state = state;
            }
        }
    }
}
