//! One object: is it there, is it ours, does it say what it should?

use crate::model::{Action, Stage, State};
use crate::observed::{self, Observed};
use berth_api::labels;
use berth_render::{Kind, Object, ObjectKey};
use serde_json::Value;

/// The action that brings one object to what it should be; none if it is. Err: it is somebody else's, or going away.
pub(crate) fn reconcile(
    observed: &Observed,
    object: Object,
    ours: impl Fn(&Value) -> bool,
) -> Result<Option<Action>, State> {
    let digest = object.digest();
    let object = object.with_annotation(labels::APPLIED_DIGEST, &digest);
    let Some(live) = usable(observed, &object, ours)? else { return Ok(Some(Action::Apply(object))) };
    // What somebody adds to a policy allows more: it is drift even where it touches nothing that we set.
    if object.key().kind == Kind::NetworkPolicy && !crate::diff::same(&live["spec"], &object.value()["spec"]) {
        return Ok(Some(Action::Apply(without_additions(object, live))));
    }
    Ok((!crate::diff::contains(live, object.value())).then_some(Action::Apply(object)))
}

/// What is there under that key, if anything is and it may be written.
fn usable<'a>(
    observed: &'a Observed,
    object: &Object,
    ours: impl Fn(&Value) -> bool,
) -> Result<Option<&'a Value>, State> {
    let live = observed.get(object.key());
    match live {
        Some(live) if !ours(live) => Err(crate::secrets::foreign(object.key())),
        Some(live) if observed::deleting(live) => {
            Err(State::waiting(format!("{} to be gone: it is being deleted", object.key())))
        }
        _ => Ok(live),
    }
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
    let key = object.key().clone();
    put(stage, &key, reconcile(observed, object, ours));
}

/// Likewise for an immutable object whose contents are not observed: its name has their digest, so its labels say the rest.
pub(crate) fn ensure_immutable(stage: &mut Stage, observed: &Observed, object: Object, ours: impl Fn(&Value) -> bool) {
    let labels = &object.value()["metadata"]["labels"];
    let same = |live: &Value| live["immutable"] == true && crate::diff::contains(&live["metadata"]["labels"], labels);
    let done = usable(observed, &object, ours).map(|live| live.is_some_and(same));
    let key = object.key().clone();
    let apply = || {
        let digest = object.digest();
        Action::Apply(object.with_annotation(labels::APPLIED_DIGEST, &digest))
    };
    put(stage, &key, done.map(|done| (!done).then(apply)));
}

fn put(stage: &mut Stage, key: &ObjectKey, action: Result<Option<Action>, State>) {
    stage.owns.push(key.clone());
    match action {
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
