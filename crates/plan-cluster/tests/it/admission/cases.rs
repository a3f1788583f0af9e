//! Configurations of admission plugins, good and bad.

use serde_json::{Value, json};

pub(super) struct Case {
    pub(super) what: String,
    pub(super) plugins: Vec<Value>,
}

/// Where both differ, by a part of what a test says of it. Berth refuses what would be without effect.
pub(super) const KNOWN: &[&str] = &[
    "only Berth refuses: limits.unknown",
    "only Berth refuses: limits[0].unknown",
    "only Berth refuses: twice",
    "only Berth refuses: a plugin of another name",
    "only Berth refuses: PodSecurity v1beta1",
    "only Berth refuses: PodSecurity v1alpha1",
];

const SECURITY: &str = "pod-security.admission.config.k8s.io/v1";
const LIMITS: &str = "eventratelimit.admission.k8s.io/v1alpha1";
const QUOTA: &str = "apiserver.config.k8s.io/v1";

fn plugin(name: &str, api_version: &str, kind: &str, rest: &Value) -> Value {
    let mut configuration = json!({"apiVersion": api_version, "kind": kind});
    configuration.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
    json!({"name": name, "configuration": configuration})
}

fn security(rest: &Value) -> Value {
    plugin("PodSecurity", SECURITY, "PodSecurityConfiguration", rest)
}

fn limits(rest: &Value) -> Value {
    plugin("EventRateLimit", LIMITS, "Configuration", rest)
}

fn quota(rest: &Value) -> Value {
    plugin("ResourceQuota", QUOTA, "ResourceQuotaConfiguration", rest)
}

pub(super) fn all() -> Vec<Case> {
    let mut all = vec![];
    let mut add = |what: String, plugin: Value| {
        // EventRateLimit is on in each, and does not start without limits.
        let mut plugins = vec![plugin];
        if plugins[0]["name"] != "EventRateLimit" {
            plugins.push(limits(&json!({"limits": [{"type": "Server", "qps": 1, "burst": 1}]})));
        }
        all.push(Case { what, plugins });
    };
    for level in ["", "privileged", "baseline", "restricted", "Baseline", "none", " restricted"] {
        add(format!("enforce {level:?}"), security(&json!({"defaults": {"enforce": level}})));
        add(format!("warn {level:?}"), security(&json!({"defaults": {"warn": level}})));
    }
    for version in [
        "",
        "latest",
        "v1.0",
        "v1.36",
        "v1.99",
        "v1.036",
        "v1",
        "1.36",
        "v2.1",
        "v1.36.3",
        "v1.",
        "v1.99999999999999999999",
    ] {
        add(format!("audit-version {version:?}"), security(&json!({"defaults": {"audit-version": version}})));
    }
    for names in [
        json!(["a"]),
        json!(["kube-system", "a-1"]),
        json!(["a", "a"]),
        json!(["A"]),
        json!([""]),
        json!(["-a"]),
        json!(["a.b"]),
        json!(["a".repeat(63)]),
        json!(["a".repeat(64)]),
        json!(["a".repeat(253)]),
        json!(["a".repeat(254)]),
        json!(["a..b"]),
        json!([null]),
        json!(null),
        json!("a"),
        json!([1]),
        json!([]),
    ] {
        for field in ["namespaces", "runtimeClasses", "usernames"] {
            let short: String = names.to_string().chars().take(40).collect();
            add(
                format!("{field} {short} {}", names.to_string().len()),
                security(&json!({"exemptions": {(field): names}})),
            );
        }
    }
    for rest in [
        json!({}),
        json!({"defaults": null}),
        json!({"exemptions": {}}),
        json!({"defaults": []}),
        json!({"defaults": {"x": ""}}),
        json!({"exemptions": {"users": []}}),
        json!({"default": {}}),
        json!({"defaults": {"enforce": 1}}),
    ] {
        add(format!("PodSecurity {rest}"), security(&rest));
    }
    for version in ["v1", "v1beta1", "v1alpha1", "v2"] {
        let group = "pod-security.admission.config.k8s.io";
        add(
            format!("PodSecurity {version}"),
            plugin("PodSecurity", &format!("{group}/{version}"), "PodSecurityConfiguration", &json!({})),
        );
    }
    add("PodSecurity kind".to_owned(), plugin("PodSecurity", SECURITY, "Configuration", &json!({})));
    add("PodSecurity without a version".to_owned(), plugin("PodSecurity", "", "PodSecurityConfiguration", &json!({})));
    for kind in ["Server", "Namespace", "User", "SourceAndObject", "server", ""] {
        let limit = json!({"type": kind, "qps": 10, "burst": 20, "cacheSize": -1});
        add(format!("limit {kind:?}"), limits(&json!({"limits": [limit]})));
    }
    for number in [
        json!(1),
        json!(0),
        json!(-1),
        json!(2_147_483_647),
        json!(2_147_483_648_i64),
        json!("1"),
        json!(1.5),
        json!(null),
    ] {
        for field in ["qps", "burst", "cacheSize"] {
            let mut limit = json!({"type": "User", "qps": 10, "burst": 20});
            limit[field] = number.clone();
            add(format!("limit {field} {number}"), limits(&json!({"limits": [limit]})));
        }
    }
    for rest in [
        json!({}),
        json!({"limits": []}),
        json!({"limits": null}),
        json!({"limits": {}}),
        json!({"limits": [null]}),
        json!({"limits": [{}]}),
    ] {
        add(format!("EventRateLimit {rest}"), limits(&rest));
    }
    let good = json!({"type": "Server", "qps": 1, "burst": 1});
    add("limits.unknown".to_owned(), limits(&json!({"limits": [good], "unknown": 1})));
    let mut unknown = good.clone();
    unknown["unknown"] = json!(1);
    add("limits[0].unknown".to_owned(), limits(&json!({"limits": [unknown]})));
    add("EventRateLimit kind".to_owned(), plugin("EventRateLimit", LIMITS, "Config", &json!({"limits": [good]})));
    for limited in [
        json!([{"resource": "pods"}]),
        json!([{"resource": "pods", "apiGroup": "", "matchContains": ["a"]}]),
        json!([{"resource": ""}]),
        json!([{}]),
        json!([null]),
        json!([]),
        json!(null),
        json!({}),
        json!([{"resource": "pods", "matchScopes": [{"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}]}]),
        json!([{"resource": "pods", "matchScopes": [{"scopeName": "PriorityClass", "operator": "In", "values": "high"}]}]),
        json!([{"resource": "pods", "matchScopes": [{"scopeName": "Nope", "operator": "Nope"}]}]),
        json!([{"resource": 1}]),
    ] {
        add(format!("limitedResources {limited}"), quota(&json!({"limitedResources": limited})));
    }
    add(
        "limitedResources[0].unknown".to_owned(),
        quota(&json!({"limitedResources": [{"resource": "pods", "unknown": 1}]})),
    );
    add("ResourceQuota kind".to_owned(), plugin("ResourceQuota", QUOTA, "Configuration", &json!({})));
    add("a plugin of another name".to_owned(), json!({"name": "Nope", "configuration": {}}));
    let one = limits(&json!({"limits": [good]}));
    all.push(Case { what: "twice".to_owned(), plugins: vec![one.clone(), one] });
    all
}
