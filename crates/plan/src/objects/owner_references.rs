//! Owner references. Berth sets none, and Kubernetes deletes what has one as soon as that owner is gone: one that somebody adds is
//! taken away again.

use crate::model::{Action, Plan, State};
use crate::object_meta::deleting;
use crate::observed::Observed;
use serde_json::Value;

/// Removes the owner references of what the stages own.
pub fn clear_owner_references(plan: &mut Plan, observed: &Observed, ours: impl Fn(&Value) -> bool) {
    for stage in &mut plan.stages {
        let live = stage.owns.iter().filter_map(|key| Some((key, observed.get(key)?)));
        let owned = live.filter(|(_, o)| has_owner(o) && ours(o) && !deleting(o));
        let freed: Vec<Action> = owned.map(|(key, o)| Action::clear_owner_references(key, o)).collect();
        if let (Some(first), true) = (freed.first(), stage.state.is_done()) {
            stage.state = State::waiting(format!("Berth to {}", first.describe()));
        }
        stage.actions.splice(0..0, freed);
    }
}

pub fn has_owner(object: &Value) -> bool {
    object.pointer("/metadata/ownerReferences").and_then(Value::as_array).is_some_and(|o| !o.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Stage, StageId};
    use berth_render::{Kind, ObjectKey};
    use serde_json::json;

    #[test]
    fn ours_are_freed_and_others_keep_their_owners() {
        let (mut plan, mut observed) = (Plan::default(), Observed::default());
        let mut stage = Stage::new(StageId::Pki, State::Ready);
        for (name, ours, owners) in
            [("a", true, json!([{"uid": "o"}])), ("b", false, json!([{"uid": "o"}])), ("c", true, json!([]))]
        {
            let key = ObjectKey::namespaced(Kind::Secret, "n", name);
            observed.put(key.clone(), json!({"ours": ours, "metadata": {"uid": name, "ownerReferences": owners}}));
            stage.owns.push(key);
        }
        plan.stages.push(stage);
        clear_owner_references(&mut plan, &observed, |o| o["ours"] == true);
        let said: Vec<_> = plan.actions().map(Action::describe).collect();
        assert_eq!(said, ["remove ownerReferences from Secret n/a"]);
        assert!(!plan.stages[0].state.is_done());
    }
}
