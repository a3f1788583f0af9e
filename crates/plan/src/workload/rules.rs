//! What a `ResourceQuota` or a `LimitRange` of a namespace refuses, and the fields that change it. Sentences are those of Kubernetes 1.34 to
//! 1.36: `pkg/quota` of kube-apiserver, and its admission plugin `LimitRanger`.

use berth_api::{names, quantity};
use berth_render::Binary;
use serde_json::Value;
use std::collections::BTreeSet;

/// Says after a refusal which fields change it. `template`: what the pod is made from. A refusal that is about nothing of it stays as it is.
pub(super) fn with_fields(refusal: &str, template: &Value) -> String {
    let fields = fields(refusal, template);
    let refusal = refusal.trim_end_matches('.');
    match fields.as_slice() {
        [] => refusal.to_owned(),
        all if refusal.contains("exceeded quota: ") => {
            format!("{refusal}. Lower {}, or have the quota raised", listed(all))
        }
        all => format!("{refusal}. Set {}", listed(all)),
    }
}

fn listed(all: &[String]) -> String {
    match all {
        [some @ .., last] if !some.is_empty() => format!("{} and {last}", some.join(", ")),
        all => all.concat(),
    }
}

/// The field of a container: the first one is the component's.
fn field(container: &Value, is_first: bool) -> String {
    let name = container["name"].as_str().unwrap_or_default();
    if let Some(field) = of_helper(name) {
        return field.to_owned();
    }
    match Binary::ALL.into_iter().find(|binary| is_first && binary.name() == name) {
        Some(Binary::Etcd) => "spec.etcd.resources".to_owned(),
        Some(component) => format!("spec.{}.resources", component.field()),
        None => "spec.helpers.resources".to_owned(),
    }
}

/// Containers beside the components, and the fields that have their resources.
const HELPERS: [(&str, &str); 5] = [
    (names::APPROVER, "spec.helpers.resources"),
    ("install-agent", "spec.helpers.resources"),
    ("vpc", "spec.helpers.resources"),
    ("install", "spec.helpers.resources"),
    ("backup", "spec.helpers.jobs.resources"),
];

/// The field that has the resources of a container beside a component.
pub(super) fn of_helper(name: &str) -> Option<&'static str> {
    HELPERS.iter().find(|(of, _)| *of == name).map(|(_, field)| *field)
}

/// A container, and the field that has its resources.
struct Container<'a> {
    object: &'a Value,
    field: String,
}

impl Container<'_> {
    fn amount(&self, of: &str, resource: &str) -> Option<&str> {
        self.object["resources"][of][resource].as_str()
    }
}

fn containers(template: &Value) -> Vec<Container<'_>> {
    let all = |list: &str| template["spec"][list].as_array().into_iter().flatten().enumerate();
    let own = all("containers").map(|(at, object)| Container { object, field: field(object, at == 0) });
    let before = all("initContainers").map(|(_, object)| Container { object, field: field(object, false) });
    own.chain(before).collect()
}

/// Paths of fields, each once, those of components first.
fn fields(refusal: &str, template: &Value) -> Vec<String> {
    let all = containers(template);
    let mut out: BTreeSet<(usize, String)> = BTreeSet::new();
    let mut add = |container: &Container<'_>, of: &str, resource: &str| {
        let at = usize::from(container.field.starts_with("spec.helpers"));
        out.insert((at, format!("{}.{of}.{resource}", container.field)));
    };
    for (amount, names) in unspecified(refusal) {
        let (of, resource) = split(amount);
        let is_named = |c: &&Container<'_>| names.contains(&c.object["name"].as_str().unwrap_or_default());
        all.iter().filter(is_named).for_each(|c| add(c, of, resource));
    }
    for amount in exceeded(refusal) {
        let (of, resource) = split(amount);
        all.iter().filter(|c| c.amount(of, resource).is_some()).for_each(|c| add(c, of, resource));
    }
    for rule in refusal.split(['[', ',', ']']).filter_map(Rule::read).chain(Rule::read(refusal)) {
        all.iter().filter(|c| rule.is_broken_by(c)).for_each(|c| add(c, rule.changes(c), rule.resource));
    }
    out.into_iter().map(|(_, field)| field).collect()
}

/// An amount of a quota, such as `limits.cpu`, or `cpu`, which is a request.
fn split(amount: &str) -> (&str, &str) {
    match amount.split_once('.') {
        Some((of @ ("limits" | "requests"), resource)) => (of, resource),
        _ => ("requests", amount),
    }
}

/// `failed quota: q: must specify limits.cpu for: a,b; limits.memory for: a`.
fn unspecified(refusal: &str) -> Vec<(&str, Vec<&str>)> {
    let Some((_, all)) = refusal.split_once(": must specify ") else { return vec![] };
    let one = |part: &'_ str| -> Option<(usize, usize)> { part.find(" for: ").map(|at| (at, at + " for: ".len())) };
    all.split("; ")
        .filter_map(|part| {
            let (end, begin) = one(part)?;
            let names = part.get(begin..)?.split(',').map(|name| name.trim_end_matches('.')).collect();
            Some((part.get(..end)?, names))
        })
        .collect()
}

/// `exceeded quota: q, requested: limits.cpu=2,pods=1, used: limits.cpu=7, limited: limits.cpu=8`: what is requested.
fn exceeded(refusal: &str) -> Vec<&str> {
    let requested = refusal.split_once(", requested: ").and_then(|(_, rest)| rest.split_once(", used: "));
    let Some((requested, _)) = requested.filter(|_| refusal.contains("exceeded quota: ")) else { return vec![] };
    requested.split(',').filter_map(|one| Some(one.split_once('=')?.0.trim())).collect()
}

/// What a `LimitRange` bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bound {
    Least,
    Most,
    Ratio,
}

/// A sentence of a `LimitRange`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rule<'a> {
    bound: Bound,
    resource: &'a str,
    /// Of all containers of a pod together.
    of_pod: bool,
    amount: &'a str,
}

impl<'a> Rule<'a> {
    fn read(text: &'a str) -> Option<Self> {
        let between = |begin: &str, end: &str| {
            let (before, after) = text.split_once(end)?;
            let resource = if begin.is_empty() { before.rsplit(' ').next() } else { before.split(begin).last() };
            Some((resource?, after))
        };
        let read = |bound, found: Option<(&'a str, &'a str)>| {
            let (resource, after) = found?;
            let (type_, rest) = after.split_once(" is ")?;
            let amount = rest.split([' ', ',']).next()?.trim_end_matches('.');
            Some(Self { bound, resource, of_pod: type_ == "Pod", amount })
        };
        let has = |word: &str| text.contains(word);
        match () {
            () if has(" max limit to request ratio per ") => {
                read(Bound::Ratio, between("", " max limit to request ratio per "))
            }
            () if has("inimum ") => read(Bound::Least, between("inimum ", " usage per ")),
            () if has("aximum ") => read(Bound::Most, between("aximum ", " usage per ")),
            () => None,
        }
    }

    fn is_broken_by(&self, container: &Container<'_>) -> bool {
        let of = |of: &str| container.amount(of, self.resource);
        let (request, limit) = (of("requests"), of("limits"));
        // A pod's amount is the sum of those of all.
        self.of_pod
            || match self.bound {
                Bound::Least => [request, limit.or(request)]
                    .iter()
                    .any(|amount| amount.is_none_or(|amount| quantity::is_less(amount, self.amount))),
                Bound::Most => limit.is_none_or(|limit| quantity::is_less(self.amount, limit)),
                Bound::Ratio => !is_within(request, limit, self.amount),
            }
    }

    /// What is to be changed of it.
    fn changes(&self, container: &Container<'_>) -> &'static str {
        let has_limit = container.amount("limits", self.resource).is_some();
        match self.bound {
            Bound::Most => "limits",
            Bound::Ratio if !has_limit => "limits",
            Bound::Least | Bound::Ratio => "requests",
        }
    }
}

/// Whether a limit is at most so many times its request.
fn is_within(request: Option<&str>, limit: Option<&str>, ratio: &str) -> bool {
    let (Some(request), Some(limit)) = (request, limit) else { return false };
    quantity::ratio(limit, request).zip(quantity::ratio(ratio, "1")).is_some_and(|(is, most)| is <= most)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn manager() -> Value {
        json!({"spec": {
            "initContainers": [{"name": "install-agent", "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}}}],
            "containers": [
                {"name": "kube-controller-manager", "resources": {
                    "requests": {"cpu": "20m", "memory": "112Mi"}, "limits": {"cpu": "1", "memory": "4Gi"}}},
                {"name": "berth-approve", "resources": {"requests": {"cpu": "5m", "memory": "8Mi"}, "limits": {"memory": "64Mi"}}},
            ],
        }})
    }

    /// As kube-apiserver says them.
    #[test]
    fn each_sentence_names_the_fields_that_change_it() {
        const OWN: &str = "spec.controllerManager.resources";
        const HELPERS: &str = "spec.helpers.resources";
        let f = |of: &[(&str, &str)]| of.iter().map(|(field, rest)| format!("{field}.{rest}")).collect::<Vec<_>>();
        for (said, wanted) in [
            (
                "failed quota: q: must specify limits.cpu for: berth-approve,kube-controller-manager",
                f(&[(OWN, "limits.cpu"), (HELPERS, "limits.cpu")]),
            ),
            (
                "failed quota: q: must specify limits.cpu for: berth-approve; requests.ephemeral-storage for: install-agent,kube-controller-manager",
                f(&[
                    (OWN, "requests.ephemeral-storage"),
                    (HELPERS, "limits.cpu"),
                    (HELPERS, "requests.ephemeral-storage"),
                ]),
            ),
            ("failed quota: q: must specify cpu for: install-agent", f(&[(HELPERS, "requests.cpu")])),
            (
                "exceeded quota: q, requested: limits.memory=4160Mi,pods=1, used: limits.memory=8Gi, limited: limits.memory=10Gi",
                f(&[(OWN, "limits.memory"), (HELPERS, "limits.memory")]),
            ),
            ("exceeded quota: q, requested: pods=1, used: pods=4, limited: pods=4", vec![]),
            (
                "maximum memory usage per Container is 1Gi, but limit is 4Gi",
                f(&[(OWN, "limits.memory"), (HELPERS, "limits.memory")]),
            ),
            ("maximum cpu usage per Container is 2.  No limit is specified", f(&[(HELPERS, "limits.cpu")])),
            ("Minimum cpu usage per Container is 10m, but request is 5m.", f(&[(HELPERS, "requests.cpu")])),
            ("minimum memory usage per Container is 32Mi, but request is 8Mi", f(&[(HELPERS, "requests.memory")])),
            (
                "[minimum cpu usage per Container is 10m, but request is 5m, maximum memory usage per Container is 1Gi, but limit is 4Gi]",
                f(&[(OWN, "limits.memory"), (HELPERS, "limits.memory"), (HELPERS, "requests.cpu")]),
            ),
            (
                "cpu max limit to request ratio per Container is 4, but provided ratio is 50.000000",
                f(&[(OWN, "requests.cpu"), (HELPERS, "limits.cpu")]),
            ),
            (
                "cpu max limit to request ratio per Container is 100, but no limit is specified or limit is 0",
                f(&[(HELPERS, "limits.cpu")]),
            ),
            (
                "memory max limit to request ratio per Container is 8, but provided ratio is 36.571429",
                f(&[(OWN, "requests.memory"), (HELPERS, "limits.memory")]),
            ),
            ("maximum cpu usage per Pod is 1, but limit is 2", f(&[(OWN, "limits.cpu"), (HELPERS, "limits.cpu")])),
            ("violates PodSecurity \"restricted:latest\": runAsNonRoot != true", vec![]),
            ("admission webhook \"x\" denied the request: must specify a team", vec![]),
        ] {
            let refusal = format!("pods \"kube-controller-manager-5c56cc5b7-j9s6j\" is forbidden: {said}");
            assert_eq!(fields(&refusal, &manager()), wanted, "{said}");
            let told = with_fields(&refusal, &manager());
            assert!(told.starts_with(refusal.trim_end_matches('.')), "{told}");
            assert_eq!(told.contains(". Set ") || told.contains(". Lower "), !wanted.is_empty(), "{told}");
        }
    }

    #[test]
    fn etcd_and_jobs_have_fields_of_their_own() {
        let said = "failed quota: q: must specify limits.cpu for: backup,etcd,install";
        let pod = |name: &str| json!({"spec": {"containers": [{"name": name}]}});
        assert_eq!(fields(said, &pod("etcd")), ["spec.etcd.resources.limits.cpu"]);
        assert_eq!(fields(said, &pod("backup")), ["spec.helpers.jobs.resources.limits.cpu"]);
        assert_eq!(fields(said, &pod("install")), ["spec.helpers.resources.limits.cpu"]);
    }

    /// Of an older template than the one that is there.
    #[test]
    fn what_is_set_already_is_not_named() {
        let mut fits = manager();
        for list in ["containers", "initContainers"] {
            for container in fits["spec"][list].as_array_mut().unwrap() {
                container["resources"] = json!({"requests": {"cpu": "1"}, "limits": {"cpu": "1"}});
            }
        }
        assert_eq!(fields("maximum cpu usage per Container is 2.  No limit is specified", &fits), Vec::<String>::new());
    }
}
