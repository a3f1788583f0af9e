//! Policies and kubeconfigs, good and bad.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use berth_pki::{CA_LIFETIME, CertSpec, Usage, issue_ca};
use serde_json::{Value, json};

const LEVELS: &[&str] = &["None", "Metadata", "Request", "RequestResponse", "", "metadata", "All"];
const STAGES: &[&str] = &["RequestReceived", "ResponseStarted", "ResponseComplete", "Panic", "", "panic"];
const URLS: &[&str] = &["*", "/", "/*", "/healthz*", "/a/b", "", "healthz", "**", "/a*b", "/**", "*/", "/é*", "/é*x"];
const GROUPS: &[&str] = &[
    "",
    "apps",
    "rbac.authorization.k8s.io",
    "a-b.c0",
    "rbac.authorization.k8s.io/v1",
    "Apps",
    "-a",
    "a-",
    "a..b",
    ".a",
    "a.",
    "a_b",
    "*",
];

/// Every value of each field, alone and beside others.
pub(super) fn rules() -> Vec<Value> {
    let mut all: Vec<Value> = LEVELS.iter().map(|level| json!({"level": level})).collect();
    all.extend([json!({}), json!(null), json!({"level": null})]);
    for level in ["None", "Request"] {
        all.extend(STAGES.iter().map(|stage| json!({"level": level, "omitStages": [stage]})));
        all.extend(STAGES.iter().map(|stage| json!({"level": level, "omitStages": ["Panic", stage]})));
        for url in URLS {
            all.push(json!({"level": level, "nonResourceURLs": [url]}));
            all.push(json!({"level": level, "nonResourceURLs": ["/a", url], "verbs": ["get"]}));
            all.push(json!({"level": level, "nonResourceURLs": [url], "namespaces": ["a"]}));
            all.push(json!({"level": level, "nonResourceURLs": [url], "resources": []}));
            all.push(json!({"level": level, "nonResourceURLs": [url], "resources": [{}], "users": [""]}));
        }
        for group in GROUPS {
            all.push(json!({"level": level, "resources": [{"group": group}]}));
            all.push(json!({"level": level, "resources": [{"group": group, "resources": ["pods/*", "*"]}]}));
            all.push(json!({"level": level, "resources": [{"group": group, "resourceNames": ["x"]}]}));
            all.push(json!({"level": level, "resources": [{}, {"group": group, "resourceNames": ["x"], "resources": ["pods"]}]}));
            all.push(json!({"level": level, "resources": [{"group": group}], "namespaces": ["", "a"], "omitManagedFields": true}));
        }
        for list in ["users", "userGroups", "verbs", "namespaces", "nonResourceURLs", "omitStages", "resources"] {
            all.extend([json!([]), json!(null), json!([null])].map(|value| json!({"level": level, list: value})));
        }
        let long = "a".repeat(254);
        all.extend(["a".repeat(253), long].map(|group| json!({"level": level, "resources": [{"group": group}]})));
    }
    all
}

/// Places in a policy, and values of another type there.
pub(super) const TYPES: &[(&str, &str)] = &[
    ("/rules", "{}"),
    ("/rules/0", "\"Metadata\""),
    ("/rules/0/level", "1"),
    ("/rules/0/resources", "{}"),
    ("/rules/0/resources/0/group", "[]"),
];

/// Policies that Berth refuses, each with whether kube-apiserver does.
pub(super) const POLICIES: &[(&str, bool)] = &[
    (r#"{"apiVersion": "audit.k8s.io/v1", "kind": "Policy"}"#, true),
    (r#"{"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": []}"#, true),
    (r#"{"apiVersion": "audit.k8s.io/v2", "kind": "Policy", "rules": [{"level": "None"}]}"#, true),
    (r#"{"apiVersion": "audit.k8s.io/v1", "kind": "Event", "rules": [{"level": "None"}]}"#, true),
    // It writes a line into its log, and goes on without.
    (r#"{"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [{"level": "None", "user": ["a"]}]}"#, false),
    (r#"{"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [{"level": "None"}], "omitStage": []}"#, false),
];

fn kubeconfig(cluster: &Value, user: Option<&Value>) -> Value {
    let mut context = json!({"cluster": "c"});
    let mut users = vec![];
    if let Some(user) = user {
        context["user"] = "u".into();
        users.push(json!({"name": "u", "user": user}));
    }
    json!({
        "clusters": [{"name": "c", "cluster": cluster}], "users": users,
        "contexts": [{"name": "x", "context": context}], "current-context": "x",
    })
}

/// What Berth takes.
pub(super) fn kubeconfigs() -> Vec<Value> {
    let now: jiff::Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    let pair = issue_ca(&CertSpec::new("sink", Usage::Ca, CA_LIFETIME), now).unwrap();
    let (cert, key) = (STANDARD.encode(&pair.cert_pem), STANDARD.encode(pair.key_pem.expose()));
    let https = json!({"server": "https://[fd00::1]:8443/a%20b", "tls-server-name": "audit.example.com"});
    let trusted = json!({"server": "https://a.example.com", "certificate-authority-data": cert});
    vec![
        kubeconfig(&https, None),
        kubeconfig(&https, Some(&json!({"token": "abc"}))),
        kubeconfig(&json!({"server": "http://10.0.0.1:80"}), Some(&json!({"username": "a", "password": "b"}))),
        kubeconfig(&json!({"server": "https://a_b.", "insecure-skip-tls-verify": true}), Some(&json!({}))),
        kubeconfig(&trusted, Some(&json!({"client-certificate-data": cert, "client-key-data": key}))),
        kubeconfig(&trusted, Some(&json!({"token": "t", "client-certificate-data": cert, "client-key-data": key}))),
    ]
}
