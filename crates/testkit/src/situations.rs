//! Situations of objects, which planners' tests lead to, and write down beside them: the page of all messages is made from these, and other
//! tests show them to Helm's, Flux's and Argo CD's own code.

use serde::Serialize;
use serde_json::{Value, json};
use std::path::PathBuf;

/// What happened to an object, and what it is then.
#[derive(Clone, Debug)]
pub struct Situation {
    kind: &'static str,
    text: &'static str,
    by_a_failed_call: bool,
    object: Value,
}

impl Situation {
    /// An object with its status, and in words what happened.
    pub fn of(kind: &'static str, text: &'static str, object: &impl Serialize) -> Self {
        Self { kind, text, by_a_failed_call: false, object: serde_json::to_value(object).unwrap() }
    }

    /// A call failed, and that is what the object's conditions say.
    #[must_use]
    pub fn by_a_failed_call(self) -> Self {
        Self { by_a_failed_call: true, ..self }
    }

    /// What a tool that waits for it reads, and the situation, on one line.
    fn line(&self) -> String {
        let Self { kind, text, object, .. } = self;
        let by = self.by_a_failed_call.then_some("a failed call");
        let meta = &object["metadata"];
        let status = &object["status"];
        let mut object = json!({
            "apiVersion": "berth.dev/v1alpha1", "kind": kind,
            "metadata": {"name": meta["name"], "namespace": meta["namespace"], "annotations": {"situation": text},
                "generation": meta["generation"], "deletionTimestamp": meta["deletionTimestamp"]},
            "spec": {"paused": object["spec"]["paused"]},
            "status": {"observedGeneration": status["observedGeneration"], "conditions": status["conditions"]},
        });
        if let Some(by) = by {
            object["metadata"]["annotations"]["by"] = by.into();
        }
        for part in object.as_object_mut().into_iter().flat_map(|o| o.values_mut()) {
            if let Some(fields) = part.as_object_mut() {
                fields.retain(|_, value| !value.is_null());
            }
        }
        format!("{object}\n")
    }
}

/// Compares them with `src/tests/situations.jsonl` of the package under test. With `BERTH_GEN` set it writes that file first, as `make gen`
/// does.
pub fn compare(all: &[Situation]) {
    let package: PathBuf = std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo, or `make test`, sets it").into();
    let file = package.join("src/tests/situations.jsonl");
    let lines: String = all.iter().map(Situation::line).collect();
    if std::env::var_os("BERTH_GEN").is_some() {
        std::fs::write(&file, &lines).unwrap();
    }
    let there = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(there == lines, "{} is not up to date: run `make gen`", file.display());
}
