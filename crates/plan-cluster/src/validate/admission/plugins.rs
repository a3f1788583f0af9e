//! The plugins that can be configured without a file, and what kube-apiserver asks of each.

use super::super::jwt::fault::Fault;
use super::super::jwt::shape::{
    Shape::{self, Fields, List, Number, Text},
    list, text,
};
use super::names::{is_label, is_subdomain};
use serde_json::Value;
use std::collections::BTreeSet;

/// A plugin of kube-apiserver.
pub(super) struct Plugin {
    pub(super) name: &'static str,
    pub(super) api_version: &'static str,
    pub(super) kind: &'static str,
    pub(super) shape: &'static Shape,
    /// Appends what breaks its rules: configuration, where it is, faults.
    pub(super) rules: fn(&Value, &str, &mut Vec<Fault>),
}

/// A list of exemptions: its field, what an entry has to be, why another is refused.
type Rule = (&'static str, fn(&str) -> bool, &'static str);

pub(super) const POD_SECURITY: &str = "PodSecurity";

/// The plugins, in the order of messages.
pub(super) static ALL: [Plugin; 3] = [
    Plugin {
        name: "EventRateLimit",
        api_version: "eventratelimit.admission.k8s.io/v1alpha1",
        kind: "Configuration",
        shape: &EVENT_RATE_LIMIT,
        rules: event_rate_limit,
    },
    Plugin {
        name: POD_SECURITY,
        api_version: "pod-security.admission.config.k8s.io/v1",
        kind: "PodSecurityConfiguration",
        shape: &SECURITY,
        rules: pod_security,
    },
    Plugin {
        name: "ResourceQuota",
        api_version: "apiserver.config.k8s.io/v1",
        kind: "ResourceQuotaConfiguration",
        shape: &QUOTA,
        rules: resource_quota,
    },
];

static EVENT_RATE_LIMIT: Shape = Fields(&[
    ("apiVersion", Text),
    ("kind", Text),
    ("limits", List(&Fields(&[("type", Text), ("qps", Number), ("burst", Number), ("cacheSize", Number)]))),
]);

static SECURITY: Shape = Fields(&[
    ("apiVersion", Text),
    ("kind", Text),
    (
        "defaults",
        Fields(&[
            ("enforce", Text),
            ("enforce-version", Text),
            ("audit", Text),
            ("audit-version", Text),
            ("warn", Text),
            ("warn-version", Text),
        ]),
    ),
    ("exemptions", Fields(&[("usernames", List(&Text)), ("namespaces", List(&Text)), ("runtimeClasses", List(&Text))])),
]);

static QUOTA: Shape = Fields(&[
    ("apiVersion", Text),
    ("kind", Text),
    (
        "limitedResources",
        List(&Fields(&[
            ("apiGroup", Text),
            ("resource", Text),
            ("matchContains", List(&Text)),
            ("matchScopes", List(&Fields(&[("scopeName", Text), ("operator", Text), ("values", List(&Text))]))),
        ])),
    ),
]);

fn event_rate_limit(of: &Value, path: &str, faults: &mut Vec<Fault>) {
    const TYPES: [&str; 4] = ["Server", "Namespace", "User", "SourceAndObject"];
    let limits = list(of, "limits");
    if limits.is_empty() {
        faults.push(Fault::new(
            format!("{path}.limits"),
            "is empty. Set a limit, such as {type: Server, qps: 50, burst: 100}",
        ));
    }
    for (at, limit) in limits.iter().enumerate() {
        let mut fault = |field: &str, why: &str| faults.push(Fault::new(format!("{path}.limits[{at}].{field}"), why));
        let (kind, number) = (text(limit, "type"), |field: &str| limit[field].as_i64().unwrap_or_default());
        if !TYPES.contains(&kind) {
            fault("type", &format!("has to be one of {}", TYPES.join(", ")));
        }
        for field in ["qps", "burst"] {
            if number(field) <= 0 {
                fault(field, "has to be 1 or more");
            }
        }
        if kind != "Server" && number("cacheSize") < 0 {
            fault("cacheSize", "has to be 0 or more");
        }
    }
}

fn pod_security(of: &Value, path: &str, faults: &mut Vec<Fault>) {
    let mut fault = |at: String, why: &str| faults.push(Fault::new(format!("{path}.{at}"), why));
    for mode in ["enforce", "audit", "warn"] {
        // An empty one is the default: privileged, and latest.
        if !["", "privileged", "baseline", "restricted"].contains(&text(&of["defaults"], mode)) {
            fault(format!("defaults.{mode}"), "has to be privileged, baseline or restricted");
        }
        let version = format!("{mode}-version");
        if !is_version(text(&of["defaults"], &version)) {
            fault(format!("defaults.{version}"), "has to be latest, or a minor version such as v1.36");
        }
    }
    let rules: [Rule; 3] = [
        ("namespaces", is_label, "is no name of a namespace"),
        ("runtimeClasses", is_subdomain, "is no name of a RuntimeClass"),
        ("usernames", |name| !name.is_empty(), "is empty"),
    ];
    for (field, is_name, why) in rules {
        let mut seen = BTreeSet::new();
        for (at, name) in list(&of["exemptions"], field).iter().enumerate() {
            let name = name.as_str().unwrap_or_default();
            if !is_name(name) {
                fault(format!("exemptions.{field}[{at}]"), why);
            } else if !seen.insert(name) {
                fault(format!("exemptions.{field}[{at}]"), "is listed twice. Remove one of the two");
            }
        }
    }
}

fn is_version(text: &str) -> bool {
    let is_minor = |digits: &str| {
        digits.bytes().all(|b| b.is_ascii_digit())
            && (digits == "0" || !digits.starts_with('0'))
            && digits.parse::<i64>().is_ok()
    };
    ["", "latest"].contains(&text) || text.strip_prefix("v1.").is_some_and(is_minor)
}

fn resource_quota(of: &Value, path: &str, faults: &mut Vec<Fault>) {
    for (at, limited) in list(of, "limitedResources").iter().enumerate() {
        if text(limited, "resource").is_empty() {
            faults
                .push(Fault::new(format!("{path}.limitedResources[{at}].resource"), "is empty. Set one, such as pods"));
        }
    }
}
