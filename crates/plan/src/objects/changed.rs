//! What admission made of what Berth applied, for people.

use crate::settings::may_change::{declarable, joined};
use berth_render::{Kind, ObjectKey};
use serde_json::Value;
use std::collections::BTreeSet;

/// So many fields are named.
const NAMED: usize = 3;

/// Longer values are not shown.
const SHORT: usize = 160;

/// A field that is otherwise than asked for.
#[derive(Debug, PartialEq, Eq)]
pub struct Difference {
    path: String,
    /// By which it would be declared.
    open: Option<&'static str>,
    /// What was asked for, and what is there: where nothing else than settings of the platform's can be in it, and where it is short.
    values: Option<[String; 2]>,
}

impl Difference {
    pub(super) fn new(kind: Kind, steps: &[&str], live: Option<&Value>, want: &Value) -> Self {
        let open = declarable(kind, steps);
        let plain =
            live.is_none_or(|live| live.is_number() || live.is_boolean()) && (want.is_number() || want.is_boolean());
        let values = [shown(Some(want)), shown(live)];
        let values = values.iter().all(|text| text.len() <= SHORT).then_some(values);
        Self { path: joined(steps), open, values: values.filter(|_| open.is_some() || plain) }
    }
}

fn shown(value: Option<&Value>) -> String {
    match value {
        None => "nothing".to_owned(),
        Some(Value::String(text)) => text.chars().filter(|c| !c.is_control()).collect(),
        Some(other) => other.to_string(),
    }
}

/// The fields, with their values as far as these are shown.
pub(super) fn listed(all: &[Difference]) -> String {
    let one = |of: &Difference| match &of.values {
        Some([asked, became]) => format!("{}: asked for {asked}, became {became}", of.path),
        None => format!("{} differs", of.path),
    };
    let more = all.len().saturating_sub(NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", all.iter().take(NAMED).map(one).collect::<Vec<_>>().join(", "))
}

/// Whose admission it is that changes an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// The meta cluster's, which the platform team has.
    Platform,
    /// That of a tenant, inside which the object is. There nothing can be declared.
    Tenant,
}

/// What of an object came back otherwise, with the way out.
pub fn describe(key: &ObjectKey, all: &[Difference], by: Admission) -> String {
    let open: Option<BTreeSet<_>> = all.iter().map(|of| of.open).collect();
    let way_out = match open {
        _ if by == Admission::Tenant => {
            let first: Vec<_> = all.iter().map(|of| &*of.path).take(1).collect();
            format!("Berth needs {} as asked for: exempt {key} from that webhook in the tenant", first.concat())
        }
        Some(paths) => {
            let paths = paths.into_iter().collect::<Vec<_>>().join(", ");
            format!(
                "If the platform wants that, add to the chart's values: admission.mayChange: [{{kinds: [{}], paths: [{paths}]}}]",
                key.kind.name()
            )
        }
        None => {
            let closed: Vec<_> = all.iter().filter(|of| of.open.is_none()).map(|of| &*of.path).take(1).collect();
            let namespace = key.namespace.as_deref().unwrap_or(&key.name);
            format!("Berth needs {} as asked for: exempt namespace {namespace} from that", closed.concat())
        }
    };
    format!("{}. {way_out}", listed(all))
}

/// What the platform lets its admission change, if it did.
pub(super) fn note(key: &ObjectKey, declared: &[Difference]) -> Option<String> {
    (!declared.is_empty())
        .then(|| format!("{key}: admission changed, as admission.mayChange allows it, {}", listed(declared)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const RESOURCES: [&str; 6] = ["spec", "template", "spec", "containers", "a", "resources"];

    fn cpu() -> Difference {
        let steps = [&RESOURCES[..], &["requests", "cpu"]].concat();
        Difference::new(Kind::Deployment, &steps, Some(&json!("250m")), &json!("100m"))
    }

    #[test]
    fn what_can_be_declared_is_shown_with_its_line_and_else_with_the_way_out() {
        let key = ObjectKey::namespaced(Kind::Deployment, "n", "d");
        let at = "/spec/template/spec/containers/a/resources/requests/cpu: asked for 100m, became 250m";
        let line = "If the platform wants that, add to the chart's values: admission.mayChange: [{kinds: [Deployment], paths: [/spec/template/spec/containers/*/resources]}]";
        let describe = |key, all: &[Difference]| describe(key, all, Admission::Platform);
        assert_eq!(describe(&key, &[cpu()]), format!("{at}. {line}"));
        let replicas = Difference::new(Kind::Deployment, &["spec", "replicas"], Some(&json!(5)), &json!(1));
        let needed = "Berth needs /spec/replicas as asked for: exempt namespace n from that";
        let both = format!("{at}, /spec/replicas: asked for 1, became 5. {needed}");
        assert_eq!(describe(&key, &[cpu(), replicas]), both);
        let of_a_set = ObjectKey::namespaced(Kind::Service, "n", "s");
        let port = Difference::new(Kind::Service, &["spec", "type"], Some(&json!("x")), &json!("y"));
        assert!(describe(&of_a_set, &[port]).contains("/spec/type differs. Berth needs /spec/type"));
    }

    /// There the chart's value has no say, and would only open the control planes.
    #[test]
    fn inside_a_tenant_the_webhook_there_is_the_way_out() {
        let dns = ObjectKey::namespaced(Kind::Deployment, "kube-system", "coredns");
        let role = ObjectKey::cluster(Kind::ClusterRole, "system:coredns");
        let rules = Difference::new(Kind::ClusterRole, &["rules"], None, &json!([{"verbs": ["get"]}]));
        for (key, of, path) in
            [(dns, cpu(), "/spec/template/spec/containers/a/resources/requests/cpu"), (role, rules, "/rules")]
        {
            let said = describe(&key, &[of], Admission::Tenant);
            let way_out = format!(". Berth needs {path} as asked for: exempt {key} from that webhook in the tenant");
            assert!(said.ends_with(&way_out) && !said.contains("mayChange"), "{said}");
        }
    }

    #[test]
    fn lists_and_values_are_bounded_and_what_may_be_secret_is_not_shown() {
        let said = listed(&(0..9).map(|_| cpu()).collect::<Vec<_>>());
        assert!(said.ends_with(" and 6 more") && said.matches("250m").count() == 3, "{said}");
        let of = |field: &str, live: Value| {
            let steps = ["spec", "template", "spec", "containers", "a", field];
            listed(&[Difference::new(Kind::Deployment, &steps, Some(&live), &json!("x"))])
        };
        assert!(of("image", json!("y".repeat(161))).ends_with("/a/image differs"));
        assert!(of("env", json!("hunter2")).ends_with("/a/env differs"));
        assert!(of("image", json!("a\nb")).ends_with("became ab"));
    }
}
