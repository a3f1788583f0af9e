use super::*;
use crate::api_files;
use serde_json::json;

fn spec(value: &Value) -> ClusterSpec {
    serde_json::from_value(json!({"version": "1.36.3", "apiServer": value})).unwrap()
}

/// PodSecurity with these fields.
fn security(fields: &Value) -> Value {
    let mut all = json!({"apiVersion": "pod-security.admission.config.k8s.io/v1", "kind": "PodSecurityConfiguration"});
    all.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    json!({"name": "PodSecurity", "configuration": all})
}

fn limits(limits: &Value) -> Value {
    let version = "eventratelimit.admission.k8s.io/v1alpha1";
    json!({"name": "EventRateLimit", "configuration": {"apiVersion": version, "kind": "Configuration", "limits": limits}})
}

fn said(all: &Value) -> String {
    let spec = spec(&json!({"admission": {"configuration": all}}));
    refusal(&spec.api_server.admission).unwrap_or_default()
}

#[test]
fn a_refusal_names_the_field_and_what_to_do() {
    let one = json!({"type": "Server", "qps": 1, "burst": 1});
    for good in [
        json!([]),
        json!([security(&json!({}))]),
        json!([security(&json!({"defaults": {"enforce": "baseline", "enforce-version": "v1.36", "warn": ""}}))]),
        json!([
            security(&json!({"exemptions": {"namespaces": ["kube-system"], "usernames": ["a b"]}})),
            limits(&json!([one]))
        ]),
    ] {
        assert_eq!(said(&good), "", "{good}");
    }
    for (all, message) in [
        (
            json!([{"name": "ImagePolicyWebhook", "configuration": {}}]),
            "[0].name: Berth takes no configuration of other plugins. Known are EventRateLimit, PodSecurity, ResourceQuota",
        ),
        (json!([limits(&json!([one])), limits(&json!([one]))]), "[1].name: is listed twice. Remove one of the two"),
        (
            json!([{"name": "PodSecurity", "configuration": {"kind": "PodSecurityConfiguration"}}]),
            "[0].configuration.apiVersion: has to be pod-security.admission.config.k8s.io/v1",
        ),
        (
            json!([security(&json!({"default": {}}))]),
            "[0].configuration.default: is no field. Known are apiVersion, kind, defaults, exemptions",
        ),
        (
            json!([security(&json!({"defaults": {"enforce": "Baseline"}}))]),
            "[0].configuration.defaults.enforce: has to be privileged, baseline or restricted",
        ),
        (
            json!([security(&json!({"defaults": {"warn-version": "1.36"}}))]),
            "[0].configuration.defaults.warn-version: has to be latest, or a minor version such as v1.36",
        ),
        (
            json!([security(&json!({"exemptions": {"namespaces": ["a", "B", "a"]}}))]),
            "[0].configuration.exemptions.namespaces[1]: is no name of a namespace. spec.apiServer.admission.configuration has 1 more of such faults",
        ),
        (
            json!([limits(&json!([]))]),
            "[0].configuration.limits: is empty. Set a limit, such as {type: Server, qps: 50, burst: 100}",
        ),
        (
            json!([limits(&json!([{"type": "server", "qps": 1, "burst": 1}]))]),
            "[0].configuration.limits[0].type: has to be one of Server, Namespace, User, SourceAndObject",
        ),
        (
            json!([limits(&json!([{"type": "User", "qps": "1", "burst": 1}]))]),
            "[0].configuration.limits[0].qps: has to be a whole number of at most 2147483647",
        ),
        (
            json!([security(&json!({"exemptions": {"usernames": ["x".repeat(LARGEST)]}}))]),
            "[0].configuration: is larger than 32 KiB. Shorten it",
        ),
    ] {
        assert_eq!(said(&all), format!("{FIELD}{message}"));
    }
}

#[test]
fn what_goes_not_with_it_is_named() {
    let conflict = |value: Value| conflict(&serde_json::from_value(value).unwrap()).unwrap_or_default();
    let with = |configuration: &Value, rest: Value| {
        let mut spec = json!({"version": "1.36.3", "apiServer": {"admission": {"configuration": [configuration]}}});
        for (name, value) in rest.as_object().unwrap() {
            spec[name] = value.clone();
        }
        spec
    };
    let baseline = security(&json!({"defaults": {"enforce": "baseline"}}));
    let restricted = security(&json!({"defaults": {"enforce": "restricted"}}));
    let exempt =
        security(&json!({"defaults": {"enforce": "restricted"}, "exemptions": {"namespaces": ["kube-system"]}}));
    let off = |name: &str| json!({"addons": {(name): {"enabled": false}}});
    let own = json!({"addons": {"kubeProxy": {"enabled": false}, "apiProxy": {"enabled": true}}});
    let (neither, nothing) =
        (json!({"addons": {"kubeProxy": {"enabled": false}, "coreDNS": {"enabled": false}}}), json!({}));
    for (configuration, rest, said) in [
        (&baseline, &nothing, "baseline refuses the pods of kube-proxy in kube-system."),
        (&baseline, &off("kubeProxy"), ""),
        (&baseline, &own, "baseline refuses the pods of api-proxy in kube-system."),
        (&restricted, &off("kubeProxy"), "restricted refuses the pods of CoreDNS in kube-system."),
        (&restricted, &off("coreDNS"), "restricted refuses the pods of kube-proxy in kube-system."),
        (&restricted, &neither, ""),
        (&exempt, &nothing, ""),
        (&security(&json!({"defaults": {"warn": "restricted"}})), &nothing, ""),
    ] {
        let found = conflict(with(configuration, rest.clone()));
        assert!(found.contains(said) && found.is_empty() == said.is_empty(), "{said}: {found}");
    }
    for (flag, value, is_off) in [
        ("disable-admission-plugins", "ServiceAccount, PodSecurity", true),
        ("disable_admission_plugins", "PodSecurity", true),
        ("disable-admission-plugins", "ServiceAccount", false),
        ("enable-admission-plugins", "PodSecurity", false),
    ] {
        let mut spec = with(&exempt, nothing.clone());
        spec["apiServer"]["extraArgs"] = json!([{"name": flag, "value": value}]);
        let said = conflict(spec);
        assert_eq!(said.contains("turns off PodSecurity"), is_off, "{flag}={value}: {said}");
    }
}

#[test]
fn what_is_off_by_default_is_turned_on() {
    let all = json!([security(&json!({})), limits(&json!([{"type": "Server", "qps": 1, "burst": 1}]))]);
    let asked = spec(&json!({"admission": {"configuration": all}})).api_server.admission;
    assert_eq!(api_files::enabled(&asked), ["EventRateLimit"]);
    assert_eq!(Value::Array(api_files::plugins(&asked)), all);
}
