//! Rights that the operator lacks.

use crate::common::{SOON, roles::cluster_roles};
use anyhow::{Context as _, Result, ensure};
use berth_api::names;
use berth_testkit::{ApiServer, fixtures::eventually, fixtures::from_json, fixtures::from_yaml, yaml};
use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, RoleBinding};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use std::fmt;

pub(crate) const ACCOUNT: &str = "system:serviceaccount:berth-system:berth-operator";
pub(crate) const GROUPS: [&str; 2] = ["system:serviceaccounts", "system:serviceaccounts:berth-system"];

/// A namespace in which the operator has the rights of a control-plane namespace.
const PLACE: &str = "rights-place";

/// What a deletion deletes, and by which role.
const DELETED: [(&str, &str); 5] = [
    ("berth-operator", "secrets"),
    ("berth-operator", "namespaces"),
    (names::OPERATOR_NAMESPACE_ROLE, "etcdclusters"),
    (names::OPERATOR_NAMESPACE_ROLE, "pods"),
    (names::OPERATOR_NAMESPACE_ROLE, "persistentvolumeclaims"),
];

/// A rule, or one verb of it, and the role that it was taken from.
pub(crate) struct Lack {
    role: Value,
    rule: usize,
    verb: Option<&'static str>,
}

impl fmt::Display for Lack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} rule {} ({:?})", self.name(), self.rule, self.rights())
    }
}

fn all() -> impl Iterator<Item = Lack> {
    let of = |role: Value| {
        let rules = role["rules"].as_array().map_or(0, Vec::len);
        (0..rules).map(move |rule| Lack { role: role.clone(), rule, verb: None })
    };
    cluster_roles().into_iter().flat_map(of)
}

/// Every rule of every role but the one to read Events, which are read only while a pod of etcd is not there, see [`events`], and the one to read
/// ClusterRoles, which are read only where a `ClusterAccess` names one, whose own status says it.
pub(crate) fn rules() -> Vec<Lack> {
    let seldom = [("list", "events"), ("get", "clusterroles")].map(|(verb, of)| (verb.to_owned(), of.to_owned()));
    all().filter(|lack| !seldom.iter().any(|right| lack.rights() == [right.clone()])).collect()
}

/// The rules to write Events and to read them.
pub(crate) fn events() -> [Lack; 2] {
    let events: Vec<_> = all().filter(|lack| lack.resources() == ["events"]).collect();
    events.try_into().unwrap_or_else(|all: Vec<_>| panic!("{} rules for Events", all.len()))
}

/// Each right that nothing but a deletion needs.
pub(crate) fn deletions() -> Vec<Lack> {
    let of = |(role, resource): (&str, &str)| {
        let role = cluster_roles().into_iter().find(|r| r["metadata"]["name"] == role)?;
        let has = |rule: &Value, field: &str, value: &str| {
            rule[field].as_array().is_some_and(|all| all.iter().any(|v| v == value))
        };
        let rules = role["rules"].as_array()?;
        let rule = rules.iter().position(|r| has(r, "resources", resource) && has(r, "verbs", "delete"))?;
        Some(Lack { role, rule, verb: Some("delete") })
    };
    DELETED.into_iter().map(|right| of(right).expect("a rule")).collect()
}

impl Lack {
    pub(crate) fn name(&self) -> String {
        self.role["metadata"]["name"].as_str().unwrap_or_default().to_owned()
    }

    fn texts(&self, field: &str) -> Vec<String> {
        let all = self.role["rules"][self.rule][field].as_array().into_iter().flatten();
        all.filter_map(Value::as_str).map(str::to_owned).collect()
    }

    pub(crate) fn resources(&self) -> Vec<String> {
        self.texts("resources")
    }

    /// Every verb that is lacked, on every resource of the rule.
    pub(crate) fn rights(&self) -> Vec<(String, String)> {
        let verbs = self.verb.map_or_else(|| self.texts("verbs"), |verb| vec![verb.to_owned()]);
        self.resources().into_iter().flat_map(|r| verbs.iter().map(move |v| (v.clone(), r.clone()))).collect()
    }

    /// Whether nothing of a tenant is the worse for the lack of it, or no status can say so: then the log tells.
    pub(crate) fn is_quiet(&self) -> bool {
        let silent = ["events", "customresourcedefinitions"];
        let own = ["clusters", "clusters/status"];
        let resources = self.resources();
        resources.iter().all(|r| silent.contains(&&**r)) || resources.iter().any(|r| own.contains(&&**r))
    }

    /// Whether an operator that runs has asked already, and asks again after minutes.
    pub(crate) fn was_asked(&self) -> bool {
        let rarely = ["nodes", "servicecidrs", "endpointslices", "customresourcedefinitions"];
        self.resources().iter().all(|r| rarely.contains(&&**r))
    }

    /// Whether only watches need it.
    pub(crate) fn is_of_watches(&self) -> bool {
        self.texts("verbs") == ["list", "watch"]
    }

    /// Whether only an operator that starts asks.
    pub(crate) fn is_of_the_start(&self) -> bool {
        self.resources().iter().all(|r| r == "customresourcedefinitions")
    }

    /// Whether a text names one of the rights, as the API server does.
    pub(crate) fn reported_by(&self, text: &str) -> bool {
        self.rights().iter().any(|(verb, resource)| text.contains(&format!("cannot {verb} resource \"{resource}\"")))
    }

    /// Takes it from the operator, or gives it back.
    pub(crate) async fn set(&self, server: &ApiServer, granted: bool) -> Result<()> {
        let mut role = self.role.clone();
        let rules = role["rules"].as_array_mut().context("rules")?;
        match self.verb {
            _ if granted => {}
            None => drop(rules.remove(self.rule)),
            Some(verb) => rules[self.rule]["verbs"].as_array_mut().context("verbs")?.retain(|v| v != verb),
        }
        let api = Api::<ClusterRole>::all(server.client());
        api.replace(&self.name(), &PostParams::default(), &from_json(role)).await?;
        self.in_force(server, granted).await
    }

    /// Waits until the authorizer knows: some right of the rule is denied, or all are there.
    async fn in_force(&self, server: &ApiServer, granted: bool) -> Result<()> {
        let rule = &self.role["rules"][self.rule];
        let place = if self.name() == names::OPERATOR_NAMESPACE_ROLE { PLACE } else { "" };
        let reviews = Api::<SubjectAccessReview>::all(server.client());
        let known = async || {
            let mut all = true;
            for (verb, resource) in self.rights() {
                let (resource, sub) = resource.split_once('/').unwrap_or((&resource, ""));
                let review = from_json(json!({"spec": {"user": ACCOUNT, "groups": GROUPS, "resourceAttributes": {
                    "verb": verb, "group": rule["apiGroups"][0], "resource": resource, "subresource": sub,
                    "namespace": place, "name": rule["resourceNames"][0].as_str().unwrap_or_default(),
                }}}));
                let answer = reviews.create(&PostParams::default(), &review).await?;
                all &= answer.status.is_some_and(|s| s.allowed);
            }
            ensure!(all == granted, "allowed: {all}");
            Ok(())
        };
        eventually(SOON, "the right is as it should be", known).await
    }
}

/// All of the roles for the operator's account.
pub(crate) async fn grant(server: &ApiServer) {
    let (client, params) = (server.client(), PatchParams::apply("test").force());
    for role in cluster_roles() {
        let role: ClusterRole = from_json(role);
        Api::<ClusterRole>::all(client.clone())
            .patch(&role.name_any(), &params, &Patch::Apply(&role))
            .await
            .expect("role");
    }
    let subject = "{kind: ServiceAccount, namespace: berth-system, name: berth-operator}";
    let binding = |kind: &str, role: &str| {
        format!(
            "{{apiVersion: rbac.authorization.k8s.io/v1, kind: {kind}, metadata: {{name: rights-{role}}}, subjects: [{subject}],
               roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: {role}}}}}"
        )
    };
    let everywhere: ClusterRoleBinding = from_yaml(&binding("ClusterRoleBinding", "berth-operator"));
    let bindings = Api::<ClusterRoleBinding>::all(client.clone());
    bindings.patch(&everywhere.name_any(), &params, &Patch::Apply(&everywhere)).await.expect("binding");
    let place: Namespace = yaml!("{{apiVersion: v1, kind: Namespace, metadata: {{name: {PLACE}}}}}");
    let places = Api::<Namespace>::all(client.clone());
    places.patch(PLACE, &params, &Patch::Apply(&place)).await.expect("namespace");
    // The server under test does not say where it is by itself.
    let slice: EndpointSlice = yaml!(
        "{{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {{name: kubernetes}}, addressType: IPv4,
           endpoints: [{{addresses: [192.0.2.1]}}]}}"
    );
    let slices = Api::<EndpointSlice>::namespaced(client.clone(), "default");
    slices.patch("kubernetes", &params, &Patch::Apply(&slice)).await.expect("slice");
    let inside: RoleBinding = from_yaml(&binding("RoleBinding", names::OPERATOR_NAMESPACE_ROLE));
    let bindings = Api::<RoleBinding>::namespaced(client, PLACE);
    bindings.patch(&inside.name_any(), &params, &Patch::Apply(&inside)).await.expect("binding");
}
