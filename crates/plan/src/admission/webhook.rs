//! A webhook of a tenant's, and what it takes.

use super::Write;
use berth_api::text::TenantText;
use serde_json::Value;

/// What of a name, or of a rule, is told.
const LONGEST: usize = 100;

/// What API servers wait, in seconds, where a webhook does not say.
const TIMEOUT: i64 = 10;

/// Who answers for a webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A Service: namespace and name.
    Service((String, String)),
    /// A URL.
    Url,
}

/// A webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Webhook {
    /// `validatingwebhookconfiguration` or `mutatingwebhookconfiguration`.
    pub kind: &'static str,
    /// The name of its configuration.
    pub configuration: TenantText,
    /// Its name.
    pub name: TenantText,
    /// `failurePolicy`: Ignore.
    pub is_ignored: bool,
    /// How long API servers wait for it, in seconds.
    pub timeout: i64,
    /// Who answers.
    pub target: Target,
    takes: Vec<(Write, TenantText)>,
}

impl Webhook {
    /// The webhooks of a configuration.
    pub fn of(kind: &'static str, configuration: &Value) -> Vec<Self> {
        let text = |value: &Value| TenantText::of(value.as_str().unwrap_or_default(), LONGEST);
        let all = configuration["webhooks"].as_array().into_iter().flatten();
        all.map(|webhook| {
            let service = &webhook["clientConfig"]["service"];
            let part = |field: &str| Some(service[field].as_str().filter(|name| is_name(name))?.to_owned());
            Self {
                kind,
                configuration: text(&configuration["metadata"]["name"]),
                name: text(&webhook["name"]),
                is_ignored: webhook["failurePolicy"] == "Ignore",
                timeout: webhook["timeoutSeconds"].as_i64().unwrap_or(TIMEOUT),
                target: part("namespace").zip(part("name")).map_or(Target::Url, Target::Service),
                takes: Write::ALL.into_iter().filter_map(|write| Some((write, taken(webhook, write)?))).collect(),
            }
        })
        .collect()
    }

    /// Its Service.
    pub fn service(&self) -> Option<&(String, String)> {
        match &self.target {
            Target::Service(service) => Some(service),
            Target::Url => None,
        }
    }

    /// Whether API servers ask it about such a write.
    pub fn takes(&self, write: Write) -> bool {
        self.rule(write).is_some()
    }

    /// The rule by which they do.
    pub fn rule(&self, write: Write) -> Option<&TenantText> {
        self.takes.iter().find(|(taken, _)| *taken == write).map(|(_, rule)| rule)
    }

    /// The name of its configuration, if it can be part of a command.
    pub fn in_a_command(&self) -> Option<&str> {
        Some(&*self.configuration).filter(|name| name.len() < LONGEST && is_name(name))
    }
}

/// As Kubernetes takes it: so it is part of a URL or of a command as it is.
fn is_name(text: &str) -> bool {
    let plain = text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-.".contains(&b));
    plain && (1..=253).contains(&text.len()) && !text.starts_with(['-', '.']) && !text.ends_with(['-', '.'])
}

/// The rule by which a webhook takes a write, as text.
fn taken(webhook: &Value, write: Write) -> Option<TenantText> {
    // Labels that are not known are taken as not there: `kube-system` has this one alone by itself.
    let of_namespace = [("kubernetes.io/metadata.name", "kube-system")];
    if write.is_namespaced() && !selects(&webhook["namespaceSelector"], &of_namespace) {
        return None;
    }
    if !selects(&webhook["objectSelector"], &[]) {
        return None;
    }
    let exact = webhook["matchPolicy"] == "Exact";
    let rule = webhook["rules"].as_array()?.iter().find(|rule| matches(rule, write, exact))?;
    let list = |field: &str| words(&rule[field]).collect::<Vec<_>>().join(",");
    let (groups, resources, operations) = (list("apiGroups"), list("resources"), list("operations"));
    Some(TenantText::of(&format!("{operations} of {resources} in apiGroups {groups:?}"), LONGEST))
}

fn words(list: &Value) -> impl Iterator<Item = &str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str)
}

fn matches(rule: &Value, write: Write, exact: bool) -> bool {
    let (group, resource, subresource) = write.resource();
    let has = |field: &str, all: &[&str]| words(&rule[field]).any(|word| word == "*" || all.contains(&word));
    let of_resource = words(&rule["resources"]).any(|word| {
        let (name, sub) = word.split_once('/').unwrap_or((word, ""));
        (name == "*" || name == resource) && (sub == "*" || sub == subresource)
    });
    let scope = match rule["scope"].as_str() {
        Some("Cluster") => !write.is_namespaced(),
        Some("Namespaced") => write.is_namespaced(),
        _ => true,
    };
    let operations: &[&str] = if write == Write::Token { &["CREATE"] } else { &["CREATE", "UPDATE"] };
    // Equivalent: whatever version it names.
    let version = !exact || has("apiVersions", &["v1"]);
    has("apiGroups", &[group]) && has("operations", operations) && of_resource && scope && version
}

/// As label selectors select; none, or an empty one, selects all.
fn selects(selector: &Value, labels: &[(&str, &str)]) -> bool {
    let get = |key: &str| labels.iter().find(|(name, _)| *name == key).map(|(_, value)| *value);
    let by_labels = selector["matchLabels"].as_object().into_iter().flatten();
    let by_expressions = selector["matchExpressions"].as_array().into_iter().flatten();
    by_labels.into_iter().all(|(key, value)| get(key) == value.as_str())
        && by_expressions.into_iter().all(|one| {
            let value = get(one["key"].as_str().unwrap_or_default());
            let among = value.is_some_and(|value| words(&one["values"]).any(|word| word == value));
            match one["operator"].as_str() {
                Some("In") => among,
                Some("NotIn") => !among,
                Some("Exists") => value.is_some(),
                Some("DoesNotExist") => value.is_none(),
                _ => false,
            }
        })
}
