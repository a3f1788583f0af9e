//! A proxy that admission of the meta cluster puts into pods: what connects a tenant's parts then goes by it, unless `NO_PROXY` names that.

use crate::meta_cluster::addresses::network;
use berth_api::proxy::{HTTP_PROXY, HTTPS_PROXY, NO_PROXY};
use serde_json::Value;

/// Names that lead a pod of Berth's to another: etcd's members among themselves, and all that uses etcd or the API.
pub const BY_NAME: &str = ".svc";

/// What a person should know of a proxy in a pod that Berth did not set, where that takes connections which must not go by it. `needed`: domains
/// and networks that are to be reached without; `own`: URLs of proxies that Berth set. No URL is repeated: it may have a password.
pub fn injected_proxy(pod: &Value, needed: &[String], own: &[&str]) -> Option<String> {
    let containers = pod.pointer("/spec/containers")?.as_array()?;
    let (container, variable, lacks) = containers.iter().find_map(|container| {
        let (variable, _) = [HTTPS_PROXY, HTTP_PROXY]
            .into_iter()
            .filter_map(|name| Some((name, value(container, name)?)))
            .find(|(_, url)| !own.contains(url))?;
        let without = value(container, NO_PROXY).unwrap_or_default();
        let lacks: Vec<&str> = needed.iter().map(String::as_str).filter(|entry| !covers(without, entry)).collect();
        (!lacks.is_empty()).then(|| (container["name"].as_str().unwrap_or("?"), variable, lacks.join(",")))
    })?;
    let at = |path: &str| pod.pointer(path).and_then(Value::as_str).unwrap_or("?");
    let (namespace, name) = (at("/metadata/namespace"), at("/metadata/name"));
    Some(format!(
        "pod {name}: container {container} has a proxy that Berth did not set ({variable}), and goes by it to what is the tenant's own: {NO_PROXY} lacks {lacks}. A mutating webhook or policy added it: exempt namespace {namespace} from that, or have it add these to {NO_PROXY}, and delete the pod. A proxy for API servers is spec.proxy of the Cluster"
    ))
}

/// A variable of a container, in capitals or not, if it says something. Of two of a name the last one counts.
fn value<'a>(container: &'a Value, name: &str) -> Option<&'a str> {
    let all = container["env"].as_array()?;
    let of = |name: &str| all.iter().rev().find(|variable| variable["name"] == *name)?["value"].as_str();
    of(name).filter(|text| !text.is_empty()).or_else(|| of(&name.to_lowercase()).filter(|text| !text.is_empty()))
}

/// Whether a domain, such as `.svc`, or a network is reached without, as Go reads the variable.
fn covers(without: &str, entry: &str) -> bool {
    let wanted = network(entry);
    without.split(',').map(|token| token.trim().to_ascii_lowercase()).any(|token| match (&wanted, network(&token)) {
        _ if token == "*" => true,
        (Some(wanted), Some(has)) => has.contains(wanted),
        (None, None) => {
            let domain = token.strip_prefix('*').unwrap_or(&token).trim_start_matches('.');
            !domain.is_empty() && (entry == domain || entry.ends_with(&format!(".{domain}")))
        }
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(env: &[(&str, &str)]) -> Value {
        let env: Vec<Value> = env.iter().map(|(name, value)| json!({"name": name, "value": value})).collect();
        json!({
            "metadata": {"namespace": "acme-1", "name": "kube-apiserver-0"},
            "spec": {"containers": [{"name": "other"}, {"name": "kube-apiserver", "env": env}]},
        })
    }

    #[test]
    fn a_proxy_is_told_where_what_is_needed_would_go_by_it() {
        let needed = [".svc".to_owned(), "10.112.0.0/16".to_owned(), "fd00::/108".to_owned()];
        let url = "http://user:planted-7@proxy:3128";
        for (env, lacks) in [
            (&[][..], None),
            (&[("NO_PROXY", "a")], None),
            (&[("HTTPS_PROXY", "")], None),
            (&[("HTTPS_PROXY", url)], Some(".svc,10.112.0.0/16,fd00::/108")),
            (&[("http_proxy", url), ("no_proxy", ".svc")], Some("10.112.0.0/16,fd00::/108")),
            (&[("HTTPS_PROXY", url), ("NO_PROXY", "localhost, SVC ,10.0.0.0/8")], Some("fd00::/108")),
            (&[("HTTPS_PROXY", url), ("NO_PROXY", "*.svc,10.0.0.0/8,fd00::/64")], None),
            (&[("HTTPS_PROXY", url), ("NO_PROXY", "*")], None),
            (
                &[("HTTPS_PROXY", url), ("NO_PROXY", "vc,10.112.0.0/17,fd00::/109")],
                Some(".svc,10.112.0.0/16,fd00::/108"),
            ),
            (&[("HTTPS_PROXY", "http://own:3128"), ("NO_PROXY", "")], None),
        ] {
            let told = injected_proxy(&pod(env), &needed, &["http://own:3128"]);
            assert_eq!(told.is_some(), lacks.is_some(), "{env:?}: {told:?}");
            let (Some(told), Some(lacks)) = (told, lacks) else { continue };
            assert!(told.contains(&format!("NO_PROXY lacks {lacks}. ")), "{env:?}: {told}");
            assert!(told.starts_with("pod kube-apiserver-0: container kube-apiserver ") && !told.contains("planted-7"));
        }
    }
}
