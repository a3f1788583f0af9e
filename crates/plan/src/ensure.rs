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
    let widened =
        object.key().kind == Kind::NetworkPolicy && !crate::diff::same(&live["spec"], &object.value()["spec"]);
    let differs = widened || !crate::diff::contains(live, object.value());
    Ok(differs.then_some(Action::Apply(object)))
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
