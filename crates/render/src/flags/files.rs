//! Flags that name a file, a folder or a socket. A component's pod has none of the user's, so a component that is given one does not start,
//! or does nothing with it.

use super::{API_SERVER, AUTHORIZERS, CONTROLLER_MANAGER, Flag, KUBERNETES};
use crate::Binary;
use berth_api::common::Arg;

/// Flags that share what to use instead.
struct FileFlags {
    components: &'static [Binary],
    /// Their names, without dashes.
    names: &'static [&'static str],
    /// What to use instead, or why there is nothing: the end of the message.
    instead: &'static str,
}

const fn names(components: &'static [Binary], names: &'static [&'static str], instead: &'static str) -> FileFlags {
    FileFlags { components, names, instead }
}

const NO_FIELD: &str = "no field has its content, so remove the flag";
const NO_PLUGINS: &str = "the image has no plugins and no cloud provider";
const PEERS: &str = "API servers of one control plane do not forward requests to each other";

/// The table. Flags of [`super::FLAGS`] are not in it: those are refused whatever they name.
const FILES: &[FileFlags] = &[
    names(KUBERNETES, &["allow-metric-labels-manifest"], "use --allow-metric-labels, which has the same content"),
    names(API_SERVER, &["egress-selector-config-file", "tracing-config-file"], NO_FIELD),
    names(API_SERVER, &["authentication-token-webhook-config-file"], "use spec.apiServer.authentication.jwt"),
    names(API_SERVER, &["authorization-webhook-config-file"], AUTHORIZERS),
    names(
        API_SERVER,
        &["debug-socket-path"],
        "use --profiling=true, which serves the same behind the API's authorization",
    ),
    names(API_SERVER, &["peer-ca-file"], PEERS),
    names(CONTROLLER_MANAGER, &["cloud-config", "flex-volume-plugin-dir"], NO_PLUGINS),
    names(
        CONTROLLER_MANAGER,
        &[
            "leader-migration-config",
            "pv-recycler-pod-template-filepath-hostpath",
            "pv-recycler-pod-template-filepath-nfs",
        ],
        NO_FIELD,
    ),
];

/// Whether the flag names a file of which nobody but the user would know the content.
pub fn names_a_file(component: Binary, name: &str) -> bool {
    find(component, name).is_some()
}

fn find(component: Binary, name: &str) -> Option<&'static FileFlags> {
    let name = Flag::spelled(name);
    FILES.iter().find(|row| row.components.contains(&component) && row.names.contains(&&*name))
}

/// The first of these extra arguments that names a file, with why it is refused and what to use instead. `runs`: those that a component
/// runs with already, and goes on with.
pub fn file_of(component: Binary, own: &[Arg], runs: impl Fn(&Arg) -> bool) -> Option<String> {
    // An empty one names nothing.
    let named = |arg: &&Arg| !arg.value.is_empty() && find(component, &arg.name).is_some();
    let arg = own.iter().filter(named).find(|arg| !runs(arg))?;
    let instead = find(component, &arg.name)?.instead;
    Some(format!("--{} names a file, and the pod has none of yours; {instead}", arg.name))
}

#[cfg(test)]
mod tests {
    use super::super::FLAGS;
    use super::*;
    use crate::Binary::{ApiServer, ControllerManager, Scheduler};
    use std::collections::BTreeSet;

    fn arg(name: &str, value: &str) -> Arg {
        Arg { name: name.to_owned(), value: value.to_owned() }
    }

    #[test]
    fn a_file_is_refused_with_what_to_use_instead() {
        let said = |component, name: &str| file_of(component, &[arg("v", "2"), arg(name, "/etc/x")], |_| false);
        for (component, name, message) in [
            (
                ApiServer,
                "tracing-config-file",
                Some(
                    "--tracing-config-file names a file, and the pod has none of yours; no field has its content, so remove the flag",
                ),
            ),
            (
                ApiServer,
                "authentication_token_webhook_config_file",
                Some(
                    "--authentication_token_webhook_config_file names a file, and the pod has none of yours; use spec.apiServer.authentication.jwt",
                ),
            ),
            (
                Scheduler,
                "allow-metric-labels-manifest",
                Some(
                    "--allow-metric-labels-manifest names a file, and the pod has none of yours; use --allow-metric-labels, which has the same content",
                ),
            ),
            (ControllerManager, "tracing-config-file", None),
            (ApiServer, "audit-webhook-mode", None),
        ] {
            assert_eq!(said(component, name).as_deref(), message);
        }
        assert_eq!(file_of(ApiServer, &[arg("tracing-config-file", "")], |_| false), None);
        assert_eq!(file_of(ApiServer, &[arg("tracing-config-file", "/x")], |_| true), None, "it runs with it");
    }

    #[test]
    fn a_flag_has_one_row_in_both_tables() {
        let mut seen = BTreeSet::new();
        for row in FILES {
            for (component, name) in row.components.iter().flat_map(|c| row.names.iter().map(move |name| (c, *name))) {
                assert!(seen.insert((component, name)) && Flag::find(FLAGS, *component, name).is_none(), "{name}");
            }
        }
    }

    #[test]
    fn every_field_that_a_row_names_exists() {
        let crds = serde_json::to_value(berth_api::crds::all()).unwrap();
        let crd = crds.as_array().unwrap().iter().find(|crd| crd["spec"]["names"]["kind"] == "Cluster").unwrap();
        let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        let words = FILES.iter().flat_map(|row| row.instead.split([' ', ',', ';']));
        for path in words.filter(|word| word.starts_with("spec.")) {
            assert!(path.split('.').fold(schema, |at, name| &at["properties"][name]).is_object(), "there is no {path}");
        }
    }
}
