//! Who may do what in a tenant by a `ClusterAccess`: before, while it lasts, after it ended, and after it is gone, as the tenant's own API server says.

use crate::common::team::ACME;
use crate::common::{SOON, Team, shared_operator};
use anyhow::{Context as _, Result, ensure};
use berth_api::ClusterAccess;
use berth_api::conditions::{ConditionType, find};
use berth_api::{labels, names};
use berth_testkit::fixtures::eventually;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// How soon rights are gone that are taken back, in a tenant that answers.
const GONE: Duration = Duration::from_secs(10);

/// Role, and whether it is for the tenant's namespace `default` alone.
const ROLES: [(&str, bool); 4] = [("Viewer", false), ("Editor", true), ("Admin", true), ("auditor", false)];

/// Verb, group, resource, whether in `default`; and the roles that may.
const TABLE: &[(&str, &str, &str, bool, &[&str])] = &[
    ("get", "", "pods", true, &["Viewer", "Editor", "Admin"]),
    ("list", "apps", "deployments", true, &["Viewer", "Editor", "Admin"]),
    ("watch", "batch", "jobs", true, &["Viewer", "Editor", "Admin"]),
    ("list", "", "nodes", false, &["Viewer"]),
    ("list", "", "pods", false, &["Viewer"]),
    ("get", "", "secrets", true, &["Editor", "Admin"]),
    ("list", "", "secrets", false, &[]),
    ("create", "", "pods", true, &["Editor", "Admin"]),
    ("create", "", "pods/exec", true, &["Editor", "Admin"]),
    ("get", "", "pods/log", true, &["Viewer", "Editor", "Admin"]),
    ("delete", "apps", "deployments", true, &["Editor", "Admin"]),
    ("patch", "", "configmaps", true, &["Editor", "Admin"]),
    ("create", "rbac.authorization.k8s.io", "rolebindings", true, &["Admin"]),
    ("escalate", "rbac.authorization.k8s.io", "roles", true, &[]),
    ("create", "rbac.authorization.k8s.io", "clusterrolebindings", false, &[]),
    ("impersonate", "", "users", false, &[]),
    ("get", "acme.example", "widgets", true, &["auditor"]),
    ("delete", "acme.example", "widgets", true, &[]),
];

struct Tenant {
    team: Team,
    /// The namespace that stands for `default`.
    default: String,
}

impl Tenant {
    async fn ready() -> Self {
        let team = Team::with_cluster(shared_operator().await).await;
        team.ready().await.unwrap_or_else(|e| panic!("{e:#}"));
        let default = team.tenant().await.unwrap();
        Self { team, default }
    }

    fn all(&self) -> Api<ClusterAccess> {
        Api::namespaced(self.team.client.clone(), &self.team.ns)
    }

    /// The person who has that role, and nobody else of the other tests.
    fn person(&self, role: &str) -> String {
        format!("{}@{}.example", role.to_lowercase(), self.team.ns)
    }

    async fn create(&self, role: &str, spec: Value) -> ClusterAccess {
        let name = role.to_lowercase();
        let mut all = json!({
            "clusterRefs": [{"name": ACME}], "role": role, "subjects": [{"kind": "User", "name": self.person(role)}],
        });
        all.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        let object = json!({"apiVersion": "berth.dev/v1alpha1", "kind": "ClusterAccess", "metadata": {"name": name}, "spec": all});
        let object = serde_json::from_value(object).unwrap();
        self.all().create(&PostParams::default(), &object).await.expect("create")
    }

    /// Whether a person may, by what the API server says.
    async fn may(&self, person: &str, (verb, group, resource, in_default): (&str, &str, &str, bool)) -> bool {
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        let mut asked = json!({"verb": verb, "group": group, "resource": resource, "subresource": subresource});
        if in_default {
            asked["namespace"] = self.default.as_str().into();
        }
        let spec = json!({"user": format!("access:{person}"), "resourceAttributes": asked});
        let review = serde_json::from_value(json!({"spec": spec})).unwrap();
        let reviews = Api::<SubjectAccessReview>::all(self.team.client.clone());
        reviews.create(&PostParams::default(), &review).await.expect("review").status.expect("status").allowed
    }

    /// Asserts the whole table; `given`: roles that are given now.
    async fn is_as_the_table_says(&self, given: &[&str]) -> Result<()> {
        for (verb, group, resource, in_default, roles) in TABLE {
            for (role, _) in ROLES {
                let may = self.may(&self.person(role), (*verb, *group, *resource, *in_default)).await;
                let wanted = given.contains(&role) && roles.contains(&role);
                ensure!(may == wanted, "{role}: {verb} {group}/{resource}, in default: {in_default}: {may}");
            }
        }
        Ok(())
    }

    /// Waits until it says so of `Ready`; its message.
    async fn says(&self, role: &str, status: &str, reason: &str) -> String {
        let attempt = async || {
            let access = self.all().get(&role.to_lowercase()).await?;
            let told = access.status.clone().unwrap_or_default();
            ensure!(told.observed_generation == access.metadata.generation, "not observed");
            let ready = find(&told.conditions, ConditionType::Ready).context("no condition")?;
            ensure!(
                ready.status == status && ready.reason == reason,
                "{}: {}: {}",
                ready.status,
                ready.reason,
                ready.message
            );
            Ok(ready.message.clone())
        };
        eventually(SOON, "what it says", attempt).await.unwrap_or_else(|e| panic!("{role}: {e:#}"))
    }

    /// Bindings in the tenant by that UID.
    async fn bindings(&self, uid: &str) -> usize {
        let all =
            Api::<ClusterRoleBinding>::all(self.team.client.clone()).list(&ListParams::default()).await.expect("list");
        all.iter().filter(|binding| binding.name_any().ends_with(uid)).count()
    }
}

#[tokio::test]
async fn rights_in_a_tenant_are_those_of_the_table_while_they_last() {
    let tenant = Tenant::ready().await;
    tenant.is_as_the_table_says(&[]).await.expect("before");
    // A role of the platform's own, that no other test has.
    let auditor = format!("auditor-{}", tenant.team.ns);
    let role = json!({
        "metadata": {"name": auditor, "labels": {labels::ROLE: "true"}},
        "rules": [{"apiGroups": ["acme.example"], "resources": ["widgets"], "verbs": ["get"]}],
    });
    let roles = Api::<ClusterRole>::all(tenant.team.client.clone());
    roles.create(&PostParams::default(), &serde_json::from_value(role).unwrap()).await.expect("create");
    let mut made = vec![];
    for (role, in_default) in ROLES {
        let mut spec = if in_default { json!({"namespaces": ["default"]}) } else { json!({}) };
        if role == "auditor" {
            spec["role"] = auditor.as_str().into();
        }
        made.push(tenant.create(role, spec).await);
    }
    for (role, _) in ROLES {
        let message = tenant.says(role, "True", "AsExpected").await;
        assert!(message.contains("is given in 1 Cluster"), "{message}");
    }
    let given = ROLES.map(|(role, _)| role);
    let as_given = async || tenant.is_as_the_table_says(&given).await;
    eventually(SOON, "the table", as_given).await.unwrap_or_else(|e| panic!("{e:#}"));

    // Taken back by whoever deletes it.
    let since = Instant::now();
    tenant.all().delete("viewer", &DeleteParams::default()).await.expect("delete");
    let left = async || tenant.is_as_the_table_says(&given[1..]).await;
    eventually(GONE, "revoked", left).await.unwrap_or_else(|e| panic!("{e:#}"));
    assert!(since.elapsed() < GONE);
    let gone = async || {
        ensure!(tenant.all().get_opt("viewer").await?.is_none());
        Ok(())
    };
    eventually(SOON, "the finalizer is taken off", gone).await.unwrap_or_else(|e| panic!("{e:#}"));
    assert_eq!(tenant.bindings(&made[0].uid().unwrap()).await, 0);

    // It ends by itself.
    let until = Timestamp::now() + SignedDuration::from_secs(4);
    let until = json!({"spec": {"expiresAt": until.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()}});
    tenant.all().patch("editor", &PatchParams::default(), &Patch::Merge(until)).await.expect("patch");
    let left = async || tenant.is_as_the_table_says(&given[2..]).await;
    eventually(Duration::from_mins(1), "expired", left).await.unwrap_or_else(|e| panic!("{e:#}"));
    let message = tenant.says("Editor", "True", "AsExpected").await;
    assert!(message.contains("it ended at") && message.contains("all rights are taken back"), "{message}");

    // Its role is gone, and so is what it gave.
    roles.delete(&auditor, &DeleteParams::default()).await.expect("delete");
    let touch = json!({"spec": {"reason": "look again"}});
    tenant.all().patch("auditor", &PatchParams::default(), &Patch::Merge(touch)).await.expect("patch");
    let message = tenant.says("auditor", "False", "Error").await;
    assert!(message.contains(&format!("ClusterRole {auditor} of the meta cluster is not there")), "{message}");
    tenant.is_as_the_table_says(&["Admin"]).await.expect("Admin alone");
    let record = tenant.team.inside::<ConfigMap>().get(names::USERS_RECORD).await.expect("the record");
    let record: Value = serde_json::from_str(&record.data.unwrap()["record"]).unwrap();
    let of = |list: &str| record[list].as_array().unwrap().iter().filter(|entry| entry["of"].is_object()).count();
    assert_eq!((of("objects"), of("revoked")), (1, 3), "{record:#}");
}

#[tokio::test]
async fn what_may_not_be_given_is_refused_with_the_way_out() {
    let tenant = Tenant::ready().await;
    // Not among what this platform lets teams give.
    tenant.create("ClusterAdmin", json!({})).await;
    let message = tenant.says("ClusterAdmin", "False", "NotAllowed").await;
    assert!(
        message.contains("spec.role: ClusterAdmin is not allowed in namespace") && message.contains("writers.access"),
        "{message}"
    );
    assert!(!tenant.may(&tenant.person("ClusterAdmin"), ("get", "", "pods", true)).await);
    // A namespace that is not there yet, and a Cluster that is not.
    tenant.create("Viewer", json!({"namespaces": ["nowhere"]})).await;
    let message = tenant.says("Viewer", "False", "Waiting").await;
    assert!(message.contains("namespace nowhere is not there in the tenant"), "{message}");
    tenant.create("Editor", json!({"clusterRefs": [{"name": "other"}]})).await;
    let message = tenant.says("Editor", "False", "Waiting").await;
    assert!(message.contains("there is no Cluster") && message.contains("/other"), "{message}");
    // What the schema refuses.
    let wrong = [
        (json!({"clusterRefs": [{"name": "a"}], "clusterSelector": {}}), "set one of clusterSelector and clusterRefs"),
        (json!({}), "set one of clusterSelector and clusterRefs"),
        (
            json!({"clusterSelector": {}, "subjects": [{"kind": "Group", "name": "system:masters"}]}),
            "Kubernetes' and Berth's own",
        ),
        (
            json!({"clusterSelector": {}, "subjects": [{"kind": "Group", "name": "berth:cluster-admins"}]}),
            "Kubernetes' and Berth's own",
        ),
        (json!({"clusterSelector": {}, "subjects": [{"kind": "User", "name": "access:jane"}]}), "leave out access:"),
        (json!({"clusterSelector": {}, "subjects": []}), "subjects"),
        (json!({"clusterSelector": {}, "role": "ClusterAdmin", "namespaces": ["a"]}), "leave namespaces out"),
        (json!({"clusterSelector": {}, "role": "Root"}), "role"),
        (json!({"clusterSelector": {}, "expiresAt": "9999-12-31T23:59:59Z"}), "expiresAt"),
        (json!({"clusterSelector": {}, "expiresAt": "2026-12-01T18:00:00+99:99"}), "expiresAt"),
        (json!({"clusterSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}}), "values"),
    ];
    for (spec, said) in wrong {
        let mut all = json!({"subjects": [{"kind": "User", "name": "jane"}], "role": "Viewer"});
        all.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        let object = json!({"apiVersion": "berth.dev/v1alpha1", "kind": "ClusterAccess", "metadata": {"name": "wrong"}, "spec": all});
        let request =
            http::Request::post(format!("/apis/berth.dev/v1alpha1/namespaces/{}/clusteraccesses", tenant.team.ns));
        let request =
            request.header("content-type", "application/json").body(serde_json::to_vec(&object).unwrap()).unwrap();
        let error = tenant.team.client.request::<Value>(request).await.expect_err(said).to_string();
        assert!(error.contains(said), "{object}: {error}");
    }
}

#[tokio::test]
async fn what_somebody_changes_in_the_tenant_is_set_back_and_a_tenant_that_goes_holds_nobody() {
    let tenant = Tenant::ready().await;
    let access = tenant.create("Viewer", json!({"clusterRefs": [{"name": ACME}]})).await;
    tenant.says("Viewer", "True", "AsExpected").await;
    let bindings = Api::<ClusterRoleBinding>::all(tenant.team.client.clone());
    let uid = access.uid().unwrap();
    let all = bindings.list(&ListParams::default()).await.expect("list");
    let binding = all.iter().find(|binding| binding.name_any().ends_with(&uid)).expect("the binding").name_any();
    let more = json!({"subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "access:eve"}]});
    bindings.patch(&binding, &PatchParams::default(), &Patch::Merge(more)).await.expect("patch");
    // A change of the ClusterAccess has it looked at.
    let touch = json!({"spec": {"reason": "look"}});
    tenant.all().patch("viewer", &PatchParams::default(), &Patch::Merge(touch)).await.expect("patch");
    let attempt = async || {
        let subjects = bindings.get(&binding).await?.subjects.unwrap_or_default();
        ensure!(subjects.len() == 1 && subjects[0].name.starts_with("access:viewer@"), "{subjects:?}");
        Ok(())
    };
    eventually(SOON, "set back", attempt).await.unwrap_or_else(|e| panic!("{e:#}"));
    tenant.team.delete().await;
    tenant.team.gone().await.unwrap_or_else(|e| panic!("{e:#}"));
    tenant.all().delete("viewer", &DeleteParams::default()).await.expect("delete");
    let gone = async || {
        ensure!(tenant.all().get_opt("viewer").await?.is_none());
        Ok(())
    };
    eventually(SOON, "gone", gone).await.unwrap_or_else(|e| panic!("{e:#}"));
}
