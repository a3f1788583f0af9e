//! Rules of kube-apiserver for the configuration of its admission plugins: one that breaks them ends the process at its start.

mod names;
mod plugins;

use super::jwt::fault::{self, Fault};
use super::jwt::shape::{self, text};
use berth_api::ClusterSpec;
use berth_api::cluster::{Admission, PluginConfiguration};
use plugins::{ALL, Plugin};
use serde_json::Value;

/// The field of the spec.
const FIELD: &str = "spec.apiServer.admission.configuration";
/// Of one plugin, as JSON. All are in one ConfigMap, and in a record of each release.
const LARGEST: usize = 32 * 1024;

fn plugin(name: &str) -> Option<&'static Plugin> {
    ALL.iter().find(|plugin| plugin.name == name)
}

/// Why kube-apiserver would not start with this configuration, and how many faults there are beside.
pub(crate) fn refusal(asked: &Admission) -> Option<String> {
    fault::told(&faults(asked), FIELD)
}

/// All faults, in their order. Where fields are unknown or of another type, kube-apiserver reads no further, and so does this.
pub fn faults(asked: &Admission) -> Vec<Fault> {
    let mut faults = vec![];
    for (at, PluginConfiguration { name, configuration }) in asked.configuration.iter().enumerate() {
        let path = format!("admission.configuration[{at}]");
        let Some(plugin) = plugin(name) else {
            let known = ALL.iter().map(|plugin| plugin.name).collect::<Vec<_>>().join(", ");
            let why = format!("Berth takes no configuration of other plugins. Known are {known}");
            faults.push(Fault::new(format!("{path}.name"), why));
            continue;
        };
        if asked.configuration.iter().take(at).any(|other| other.name == *name) {
            faults.push(Fault::new(format!("{path}.name"), "is listed twice. Remove one of the two"));
        }
        one(plugin, &Value::Object(configuration.clone()), &format!("{path}.configuration"), &mut faults);
    }
    faults
}

fn one(plugin: &Plugin, configuration: &Value, path: &str, faults: &mut Vec<Fault>) {
    let before = faults.len();
    if configuration.to_string().len() > LARGEST {
        faults.push(Fault::new(path, "is larger than 32 KiB. Shorten it"));
        return;
    }
    for (field, is) in [("apiVersion", plugin.api_version), ("kind", plugin.kind)] {
        if text(configuration, field) != is {
            faults.push(Fault::new(format!("{path}.{field}"), format!("has to be {is}")));
        }
    }
    shape::check(configuration, path, plugin.shape, faults);
    if faults.len() == before {
        (plugin.rules)(configuration, path, faults);
    }
}

/// What of the spec goes not with it: a plugin that is turned off, or Berth's own pods in `kube-system`.
pub(crate) fn conflict(spec: &ClusterSpec) -> Option<String> {
    turned_off(spec).or_else(|| addons(spec))
}

fn turned_off(spec: &ClusterSpec) -> Option<String> {
    let args =
        spec.api_server.extra_args.iter().filter(|arg| arg.name.replace('_', "-") == "disable-admission-plugins");
    let off: Vec<_> = args.flat_map(|arg| arg.value.split(',')).map(str::trim).collect();
    let configured = spec.api_server.admission.configuration.iter();
    let at = configured.clone().position(|of| off.contains(&&*of.name))?;
    let name = &configured.map(|of| &of.name).nth(at)?;
    Some(format!(
        "{FIELD}[{at}]: spec.apiServer.extraArgs turns off {name} (--disable-admission-plugins). Remove one of the two"
    ))
}

/// Pods of add-ons that a default of PodSecurity would refuse.
fn addons(spec: &ClusterSpec) -> Option<String> {
    const NAMESPACE: &str = "kube-system";
    let all = &spec.api_server.admission.configuration;
    let at = all.iter().position(|of| of.name == plugins::POD_SECURITY)?;
    let configuration = Value::Object(all.get(at)?.configuration.clone());
    let is_exempt = shape::list(&configuration["exemptions"], "namespaces").iter().any(|name| *name == NAMESPACE);
    let may_run = |enabled: Option<bool>| enabled != Some(false);
    let (proxy, dns) = (may_run(spec.addons.kube_proxy.enabled), may_run(spec.addons.core_dns.enabled));
    let level = text(&configuration["defaults"], "enforce");
    let (refused, field) = match level {
        _ if is_exempt => return None,
        "baseline" | "restricted" if proxy => ("kube-proxy", "kubeProxy"),
        "baseline" | "restricted" if spec.addons.api_proxy.is_on() => ("api-proxy", "apiProxy"),
        "restricted" if dns => ("CoreDNS", "coreDNS"),
        _ => return None,
    };
    Some(format!(
        "{FIELD}[{at}].configuration.defaults.enforce: {level} refuses the pods of {refused} in {NAMESPACE}. Add {NAMESPACE} to exemptions.namespaces, or set spec.addons.{field}.enabled to false"
    ))
}

#[cfg(test)]
mod tests;
