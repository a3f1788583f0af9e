//! Does what is there already say everything that we would apply?

use super::changed::Difference;
use super::fields::writers;
use super::meaning::{At, differences, is_only_pinned};
use crate::settings::MayChange;
use crate::settings::may_change::joined;
use berth_api::labels;
use berth_render::{Kind, Object};
use serde_json::Value;
use std::ops::ControlFlow;

/// What is there, beside what is asked for.
#[derive(Debug, Default)]
pub struct Compared {
    /// What is otherwise, so that it has to be applied.
    pub drift: Vec<Difference>,
    /// What admission made otherwise, and may.
    pub declared: Vec<Difference>,
}

/// Compares what is there with `object`. What somebody adds to a policy allows more: it is drift even where it touches nothing that
/// we set. What a platform's admission may change is no drift, and neither is a digest beside an image's tag, unless another writer than
/// Berth is noted for it.
pub fn compare(live: &Value, object: &Object, may: &MayChange) -> Compared {
    let (mut all, kind) = (Compared::default(), object.key().kind);
    let told = differences(&At::ROOT, Some(live), object.value(), &mut |at, live_value, want| {
        let steps = at.steps();
        let is_nobodys = || !is_of_another(live, &steps);
        if is_only_pinned(at, live_value, want) && is_nobodys() {
            return ControlFlow::Continue(());
        }
        let is_declared = may.has(kind, &steps) && is_nobodys();
        let of = if is_declared { &mut all.declared } else { &mut all.drift };
        of.push(Difference::new(kind, &steps, live_value, want));
        ControlFlow::Continue(())
    });
    let widened = kind == Kind::NetworkPolicy && !same(&live["spec"], &object.value()["spec"]);
    if told.is_continue() && all.drift.is_empty() && widened {
        all.drift.push(Difference::new(kind, &["spec"], Some(&live["spec"]), &object.value()["spec"]));
    }
    all
}

/// Whether what is there has to be applied.
pub fn differs(live: &Value, object: &Object, may: &MayChange) -> bool {
    !compare(live, object, may).drift.is_empty()
}

/// Whether what is there has the pod template of `object`, as far as a platform's admission lets it. The digest tells whether `object` was
/// applied.
pub fn has_pods_of(live: &Value, object: &Object, may: &MayChange) -> bool {
    let at = [At::ROOT.below("spec")];
    let told = differences(
        &at[0].below("template"),
        Some(&live["spec"]["template"]),
        &object.value()["spec"]["template"],
        &mut |at, live_value, want| {
            let steps = at.steps();
            let may = is_only_pinned(at, live_value, want) || may.has(object.key().kind, &steps);
            if may && !is_of_another(live, &steps) { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        },
    );
    told.is_continue()
}

/// Whether another writer than Berth is noted for a field. What admission changes counts to whoever applies.
fn is_of_another(live: &Value, steps: &[&str]) -> bool {
    let own = [labels::MANAGER_CLUSTER, labels::MANAGER_ETCD];
    writers(live, steps).any(|writer| !own.contains(&writer))
}

/// True if every field of `want` means the same in `live`. Fields that only `live` has are the API server's defaults or other
/// writers' business. Lists of named items (containers, volumes, ports) match by name, so that an injected sidecar is no drift. An image may have a
/// digest beside its tag, whoever wrote that.
pub fn contains(live: &Value, want: &Value) -> bool {
    let tell = &mut |at: &At<'_>, live: Option<&Value>, want: &Value| {
        if is_only_pinned(at, live, want) { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    };
    differences(&At::ROOT, Some(live), want, tell).is_continue()
}

/// The fields of `want` that are otherwise in `live`, by their paths.
pub fn paths(live: &Value, want: &Value) -> Vec<String> {
    let mut all = vec![];
    let told = differences(&At::ROOT, Some(live), want, &mut |at, live, want| {
        if !is_only_pinned(at, live, want) {
            all.push(joined(&at.steps()));
        }
        ControlFlow::Continue(())
    });
    if told.is_break() { vec![] } else { all }
}

/// True if both say the same, but for lists that are empty in one and left out in the other. An empty object is not nothing: as
/// a selector it selects everything.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Object(x), Value::Object(y)) => {
            let keys = x.keys().chain(y.keys());
            keys.into_iter().all(|k| same(x.get(k).unwrap_or(&Value::Null), y.get(k).unwrap_or(&Value::Null)))
        }
        (Value::Array(x), Value::Array(y)) => x.len() == y.len() && x.iter().zip(y).all(|(x, y)| same(x, y)),
        _ => a == b || (nothing(a) && nothing(b)),
    }
}

fn nothing(v: &Value) -> bool {
    v.is_null() || v.as_array().is_some_and(Vec::is_empty)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn quantities_are_numbers() {
        let want = json!({"resources": {"requests": {"memory": "1024Mi", "cpu": "1000m"}}});
        let live = |memory: &str| json!({"resources": {"requests": {"memory": memory, "cpu": "1", "x": "2"}}});
        assert!(contains(&live("1Gi"), &want));
        assert!(!contains(&live("1G"), &want));
        assert!(!contains(&json!({"resources": {"requests": {"cpu": "1"}}}), &want));
    }

    #[test]
    fn a_digest_that_admission_adds_stays_and_one_that_somebody_writes_goes_back() {
        let deployment = |images: [&str; 2]| {
            let pods = json!({
                "containers": [{"name": "a", "image": images[0]}], "volumes": [{"name": "agent", "image": {"reference": images[1]}}],
            });
            json!({
                "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "namespace": "n"},
                "spec": {"template": {"spec": pods}},
            })
        };
        let want = Object::new(deployment(["a:1", "b:1"])).unwrap();
        let of_container = json!({"f:containers": {"k:{\"name\":\"a\"}": {"f:image": {}}}});
        let of_volume = json!({"f:volumes": {"k:{\"name\":\"agent\"}": {"f:image": {"f:reference": {}}}}});
        for (images, fields) in [(["a:1@sha256:ab", "b:1"], of_container), (["a:1", "b:1@sha256:ab"], of_volume)] {
            for (manager, is_drift) in [("", false), (labels::MANAGER_CLUSTER, false), ("kubectl-set", true)] {
                let mut live = deployment(images);
                if !manager.is_empty() {
                    let set = json!({"f:spec": {"f:template": {"f:spec": fields}}});
                    live["metadata"]["managedFields"] = json!([{"manager": manager, "fieldsV1": set}]);
                }
                let may = MayChange::default();
                let found = (differs(&live, &want, &may), !has_pods_of(&live, &want, &may));
                assert_eq!(found, (is_drift, is_drift), "{images:?} by {manager}");
                assert!(compare(&live, &want, &may).declared.is_empty() && contains(&live, want.value()));
            }
        }
    }

    #[test]
    fn the_same_is_the_same_both_ways() {
        let a = json!({"from": [{"podSelector": {}}], "ingress": []});
        assert!(same(&a, &json!({"from": [{"podSelector": {}}]})));
        assert!(!same(&a, &json!({"from": [{"podSelector": {}, "namespaceSelector": {}}]})), "selects more");
        assert!(!same(&a, &json!({"from": [{"podSelector": {}}], "egress": [{}]})));
        assert!(!same(&a, &json!({"from": [{"podSelector": {}}, {}]})));
    }

    #[test]
    fn defaults_and_sidecars_are_no_drift_but_edits_are() {
        let want = json!({"spec": {"replicas": 1, "containers": [{"name": "a", "args": ["x"]}], "empty": []}});
        let check = |live: Value, expect: bool| {
            assert_eq!(contains(&live, &want), expect, "{live}");
        };
        check(
            json!({"spec": {"replicas": 1, "more": 2, "containers": [{"name": "a", "args": ["x"], "tty": false}]}}),
            true,
        );
        check(json!({"spec": {"replicas": 1, "containers": [{"name": "b"}, {"name": "a", "args": ["x"]}]}}), true);
        check(json!({"spec": {"replicas": 2, "containers": [{"name": "a", "args": ["x"]}]}}), false);
        check(json!({"spec": {"replicas": 1, "containers": [{"name": "a", "args": ["x", "y"]}]}}), false);
        check(json!({"spec": {"replicas": 1, "containers": []}}), false);
    }
}
