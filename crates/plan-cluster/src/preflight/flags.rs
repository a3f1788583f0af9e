//! Arguments of the user that go with no emulation, or leave no way back.

use crate::components::ALL;
use crate::validate::extra_args;
use berth_api::cluster::ClusterSpec;
use berth_api::common::Arg;
use berth_api::version::Minor;
use berth_plan::asked::Facts;
use berth_render::Binary;

/// Those that Berth sets itself.
pub(super) fn refused(spec: &ClusterSpec) -> Vec<String> {
    ALL.into_iter().filter_map(|component| extra_args(spec, component).err()).collect()
}

/// `running`: the minor that is emulated at first.
pub(super) fn without_way_back(spec: &ClusterSpec, facts: Option<&Facts>, running: Minor) -> Vec<String> {
    let mut findings = vec![];
    for component in ALL {
        let own = (component.asked)(spec).extra_args;
        let place = format!("spec.{}.extraArgs", component.field());
        for (gate, on) in entries(own, "feature-gates") {
            let why = gate_of(gate_name(gate), on, facts, component.binary, running);
            findings.extend(why.map(|why| format!("{place}: --feature-gates has {gate}={on}, {why}")));
        }
        for (api, on) in entries(own, "runtime-config").filter(|_| component.binary == Binary::ApiServer) {
            findings
                .extend(api_of(api).filter(|_| on).map(|why| format!("{place}: --runtime-config has {api}, {why}")));
        }
    }
    findings
}

/// Names and whether they are turned on: without a value they are.
fn entries<'a>(args: &'a [Arg], flag: &'a str) -> impl Iterator<Item = (&'a str, bool)> {
    let own = args.iter().filter(move |arg| arg.name.replace('_', "-") == flag);
    let words = own.flat_map(|arg| arg.value.split(',')).map(str::trim).filter(|word| !word.is_empty());
    words.map(|word| match word.split_once('=') {
        Some((name, value)) => (name.trim(), !["false", "0", "f", "F", "False", "FALSE"].contains(&value.trim())),
        None => (word, true),
    })
}

/// Without the component that it is of: what comes before a colon, in any spelling that the binaries take for `kube`. They refuse any other.
fn gate_name(gate: &str) -> &str {
    gate.split_once(':').map_or(gate, |(_, name)| name.trim())
}

const OTHER: &str = "which differs between minor versions and rules out a rollback";

fn gate_of(gate: &str, on: bool, facts: Option<&Facts>, binary: Binary, running: Minor) -> Option<String> {
    if ["AllAlpha", "AllBeta"].contains(&gate) {
        return on.then(|| format!("{OTHER}: name single features, or remove it"));
    }
    let mut servers = facts?.servers.values().filter_map(|said| said.as_ref().ok());
    let Some(features) = servers.next().map(|server| &server.metrics.features).filter(|all| !all.is_empty()) else {
        return Some("whose stage no API server reported".to_owned());
    };
    match features.get(gate).map(String::as_str) {
        Some("ALPHA") if on => Some(format!(
            "which is alpha in {running}: another minor version may not read its data, which rules out a rollback. Remove it"
        )),
        // The other components have features of their own.
        None if binary == Binary::ApiServer => {
            Some(format!("which is unknown to {running}, the version emulated at first: set it after the upgrade"))
        }
        _ => None,
    }
}

fn api_of(api: &str) -> Option<String> {
    match api {
        "api/all" | "api/alpha" | "api/beta" => Some(format!("{OTHER}: name single versions, or remove it")),
        _ => api.split('/').any(|word| word.starts_with('v') && word.contains("alpha")).then(|| {
            "which is alpha: another minor version may not have it, which rules out a rollback. Remove it".to_owned()
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn gates_are_found_in_every_spelling_that_binaries_take() {
        for component in ["controllerManager", "scheduler", "apiServer"] {
            for gate in ["AllAlpha", "kube:AllAlpha", "kube :AllAlpha", "kube: AllAlpha", ":AllAlpha", " : AllAlpha "] {
                for value in ["true", "TRUE", "t", "1", " true "] {
                    let args = json!([{"name": "feature-gates", "value": format!("A=false,{gate}={value},")}]);
                    let spec = json!({"version": "1.36.3", (component): {"extraArgs": args}});
                    let found = without_way_back(&serde_json::from_value(spec).unwrap(), None, "1.35".parse().unwrap());
                    assert!(
                        found.iter().any(|why| why.contains("AllAlpha=true, which differs")),
                        "{gate:?}={value:?} {found:?}"
                    );
                }
            }
        }
    }
}
