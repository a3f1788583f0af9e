//! What nobody deletes by one command: a protected `Cluster`, its control plane, a team's namespace; and who may all the same.

use super::*;
use kube::api::ListParams;

const CONTROLLER: &str = "system:serviceaccount:kube-system:namespace-controller";
const COLLECTOR: &str = "system:serviceaccount:kube-system:generic-garbage-collector";
const SYSTEM: [&str; 2] = ["system:serviceaccounts", "system:serviceaccounts:kube-system"];

/// What cannot be made again in a control-plane namespace.
const KEPT: [(&str, &str); 10] = [
    ("Secret", "acme-ca"),
    ("Secret", "acme-proxy"),
    ("Secret", "acme-sa"),
    ("Secret", names::APISERVER_ENCRYPTION),
    ("Secret", "etcd-peer-ca"),
    ("Secret", "etcd-client-ca"),
    ("ConfigMap", "etcd-bootstrap"),
    ("ConfigMap", names::USERS_RECORD),
    ("PersistentVolumeClaim", "data-etcd-0"),
    ("EtcdCluster", "etcd"),
];

/// What Berth makes again, and what is none of its own.
const FREE: [(&str, &str); 7] = [
    ("Secret", names::SCHEDULER_PKI),
    ("Secret", names::ADMIN_KUBECONFIG),
    ("Secret", "etcd-client-kube-apiserver"),
    ("Secret", "etcd-peer"),
    ("Secret", "mirror-ca"),
    ("ConfigMap", "kube-apiserver"),
    ("Pod", "debug"),
];

fn object(kind: &str, name: &str) -> Value {
    let mut object = json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}});
    match kind {
        "EtcdCluster" => {
            object["apiVersion"] = "berth.dev/v1alpha1".into();
            object["spec"] = json!({"version": "3.6.16"});
        }
        "EtcdBackup" | "EtcdBackupSchedule" | "EtcdRestore" => {
            object["apiVersion"] = "berth.dev/v1alpha1".into();
            object["spec"] = json!({"clusterRef": {"name": "acme"}});
            match kind {
                "EtcdRestore" => object["spec"]["source"] = json!({"backup": "one"}),
                "EtcdBackup" => object["spec"]["store"] = "main".into(),
                _ => (object["spec"]["store"], object["spec"]["schedule"]) = ("main".into(), "0 3 * * *".into()),
            }
        }
        "ClusterAccess" => {
            object["apiVersion"] = "berth.dev/v1alpha1".into();
            let subjects = json!([{"kind": "User", "name": "jane"}]);
            object["spec"] = json!({"clusterRefs": [{"name": "acme"}], "subjects": subjects, "role": "Viewer"});
        }
        "App" => {
            object["apiVersion"] = "berth.dev/v1alpha1".into();
            object["spec"] = json!({"clusterSelector": {}, "chart": {"oci": "oci://reg/web", "version": "1.0.0"}});
        }
        "PersistentVolumeClaim" => {
            object["spec"] = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
        }
        "Pod" => {
            let context = json!({"allowPrivilegeEscalation": false, "runAsNonRoot": true,
                "capabilities": {"drop": ["ALL"]}, "seccompProfile": {"type": "RuntimeDefault"}});
            let container = json!({"name": "c", "image": "i", "securityContext": context});
            object["spec"] = json!({"containers": [container], "automountServiceAccountToken": false});
        }
        _ => {}
    }
    object
}

/// The control plane of a `Cluster` `acme` in a team's namespace; both namespaces.
pub(crate) async fn tenant(server: &ApiServer) -> (String, String) {
    let team = server.namespace("team").await;
    let made = create(&operator(server), "Namespace", "", home(&team, "acme"), false).await;
    let cp_namespace = made.expect("the operator makes it").name_any();
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
    create(&server.client(), "ServiceAccount", &cp_namespace, account, false).await.expect("account");
    for (kind, name) in KEPT.into_iter().chain(FREE) {
        let made = create(&server.client(), kind, &cp_namespace, object(kind, name), false).await;
        made.unwrap_or_else(|e| panic!("{kind} {name}: {e}"));
    }
    (team, cp_namespace)
}

pub(crate) async fn delete(who: &Client, kind: &str, namespace: &str, name: &str, dry_run: bool) -> kube::Result<()> {
    let parameters = DeleteParams { dry_run, ..DeleteParams::default() };
    dynamic(who, kind, namespace).delete(name, &parameters).await.map(drop)
}

pub(crate) async fn merge(
    who: &Client,
    kind: &str,
    namespace: &str,
    name: &str,
    patch: Value,
) -> kube::Result<DynamicObject> {
    dynamic(who, kind, namespace).patch(name, &PatchParams::default(), &Patch::Merge(patch)).await
}

fn labelled(label: &str, value: &str) -> Value {
    json!({"metadata": {"labels": {label: value}}})
}

/// Ok once every policy of this page refuses.
pub(crate) async fn in_force(server: &ApiServer) -> Result<(), String> {
    let admin = server.client();
    let mut held = cluster("held");
    held["metadata"]["finalizers"] = json!([labels::FINALIZER]);
    let _ = create(&admin, "Namespace", "", home("team", "in-force"), false).await;
    let cp_namespace = names::control_plane_namespace("team", "in-force");
    let mut team = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "in-force"}});
    team["metadata"]["labels"] = json!({labels::PROTECTED: "true"});
    let _ = create(&admin, "Namespace", "", team, false).await;
    let _ = create(&admin, "ConfigMap", &cp_namespace, object("ConfigMap", "etcd-bootstrap"), false).await;
    let _ = create(&admin, "Cluster", "default", held, false).await;
    denied(delete(&admin, "Namespace", "", &cp_namespace, true).await)?;
    denied(delete(&admin, "ConfigMap", &cp_namespace, "etcd-bootstrap", true).await)?;
    denied(delete(&admin, "Namespace", "", "in-force", true).await)?;
    denied(delete(&admin, "CustomResourceDefinition", "", "clusters.berth.dev", true).await)?;
    // An administrator may; somebody who writes Clusters in one namespace may not.
    let parameters = PatchParams { dry_run: true, ..PatchParams::default() };
    let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    let writer = writer(server, "in-force", "default", "berth-cluster-editor").await;
    denied(dynamic(&writer, "Cluster", "default").patch("held", &parameters, &free).await)
}

/// Somebody with a ClusterRole in one namespace.
async fn writer(server: &ApiServer, user: &str, namespace: &str, role: &str) -> Client {
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": user, "namespace": namespace},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
    });
    apply(&server.client(), binding).await.expect("binding");
    server.client_as(user, &[])
}

/// Somebody who may do anything in one namespace.
pub(crate) async fn in_one_namespace(server: &ApiServer, user: &str, namespace: &str) -> Client {
    let everything = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "everything-in-one-namespace"},
        "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}],
    });
    apply(&server.client(), everything).await.expect("role");
    writer(server, user, namespace, "everything-in-one-namespace").await
}

#[tokio::test]
async fn a_control_plane_namespace_is_deleted_by_the_operator_and_else_only_with_a_label() {
    let server = server().await;
    let (team, cp_namespace) = tenant(server).await;
    let collector = server.client_as(COLLECTOR, &SYSTEM);
    for (who, may) in [(server.client(), "admin"), (collector, "the garbage collector")] {
        for dry_run in [true, false] {
            let message = refusal(delete(&who, "Namespace", "", &cp_namespace, dry_run).await);
            for part in [
                format!("namespace {cp_namespace} holds the keys and the data of a tenant"),
                format!("delete its Cluster: kubectl delete clusters.berth.dev acme -n {team}"),
                format!("first run: kubectl label namespace {cp_namespace} berth.dev/allow-deletion=true"),
            ] {
                assert!(message.contains(&part), "{may}: {message}");
            }
        }
    }
    let admin = server.client();
    for value in ["false", ""] {
        let patch = labelled(labels::ALLOW_DELETION, value);
        merge(&admin, "Namespace", "", &cp_namespace, patch).await.expect("label");
        refusal(delete(&admin, "Namespace", "", &cp_namespace, false).await);
    }
    merge(&admin, "Namespace", "", &cp_namespace, labelled(labels::ALLOW_DELETION, "true")).await.expect("label");
    delete(&admin, "Namespace", "", &cp_namespace, true).await.expect("the label lifts it");
    let unlabel = json!({"metadata": {"labels": {labels::ALLOW_DELETION: null}}});
    merge(&admin, "Namespace", "", &cp_namespace, unlabel).await.expect("unlabel");
    // ADR 12.
    delete(&operator(server), "Namespace", "", &cp_namespace, false).await.expect("its own");
    // Namespaces of others are none of this policy's.
    delete(&admin, "Namespace", "", &team, false).await.expect("a namespace without labels");
}

#[tokio::test]
async fn what_cannot_be_made_again_is_deleted_by_the_operator_and_else_only_with_a_label() {
    let server = server().await;
    let ((team, cp_namespace), admin) = (tenant(server).await, server.client());
    for (kind, name) in KEPT {
        let message = refusal(delete(&admin, kind, &cp_namespace, name, false).await);
        let plural = format!("{}s", kind.to_lowercase()) + if kind == "EtcdCluster" { ".berth.dev" } else { "" };
        for part in [
            format!("{plural} {name} in namespace {cp_namespace} belongs to a tenant"),
            format!("delete its Cluster: kubectl delete clusters.berth.dev acme -n {team}"),
            format!("first run: kubectl label {plural} {name} -n {cp_namespace} berth.dev/allow-deletion=true"),
        ] {
            assert!(message.contains(&part), "{message}");
        }
    }
    for kind in ["Secret", "ConfigMap", "PersistentVolumeClaim", "EtcdCluster"] {
        let all = dynamic(&admin, kind, &cp_namespace);
        refusal(all.delete_collection(&DeleteParams::default(), &ListParams::default()).await);
        for (of, name) in KEPT {
            assert!(of != kind || all.get(name).await.is_ok(), "{kind} {name}");
        }
    }
    let (_, other) = tenant(server).await;
    for (kind, name) in FREE {
        delete(&admin, kind, &other, name, false).await.unwrap_or_else(|e| panic!("{kind} {name}: {e}"));
    }
    // With the label on the object at once; with that on the namespace as soon as admission knows of it.
    for (kind, name) in KEPT {
        merge(&admin, kind, &other, name, labelled(labels::ALLOW_DELETION, "true")).await.expect("label");
        delete(&admin, kind, &other, name, false).await.unwrap_or_else(|e| panic!("{kind} {name}: {e}"));
    }
    let (_, third) = tenant(server).await;
    merge(&admin, "Namespace", "", &third, labelled(labels::ALLOW_DELETION, "true")).await.expect("label");
    for (kind, name) in KEPT {
        let attempt = async || delete(&admin, kind, &third, name, false).await;
        eventually(Duration::from_secs(10), "the label is known", attempt).await.unwrap_or_else(|e| panic!("{e:#}"));
    }
    // The operator, with the rights that it gives itself there.
    let me = operator(server);
    binding(&me, &cp_namespace, names::OPERATOR_NAMESPACE_ROLE, &["berth-operator"], false).await.expect("binding");
    for (kind, name) in KEPT {
        let attempt = async || delete(&me, kind, &cp_namespace, name, false).await;
        eventually(Duration::from_secs(10), "its own", attempt)
            .await
            .unwrap_or_else(|e| panic!("{kind} {name}: {e:#}"));
    }
    // The same names elsewhere are none of this policy's.
    for (kind, name) in KEPT {
        create(&admin, kind, &team, object(kind, name), false).await.expect("create");
        delete(&admin, kind, &team, name, false).await.unwrap_or_else(|e| panic!("{kind} {name}: {e}"));
    }
}

#[tokio::test]
async fn kubernetes_empties_a_control_plane_namespace_that_ends_and_deletes_no_protected_cluster() {
    let server = server().await;
    let (team, cp_namespace) = tenant(server).await;
    create(&server.client(), "Cluster", &team, cluster("acme"), false).await.expect("a protected Cluster");
    let controller = server.client_as(CONTROLLER, &SYSTEM);
    for user in [CONTROLLER, COLLECTOR] {
        let who = server.client_as(user, &SYSTEM);
        refusal(delete(&who, "Secret", &cp_namespace, "acme-ca", false).await);
    }
    delete(&operator(server), "Namespace", "", &cp_namespace, false).await.expect("its own");
    // As the controller does it: all of a kind, or one by one.
    for kind in ["Secret", "ConfigMap", "PersistentVolumeClaim", "EtcdCluster"] {
        let all = dynamic(&controller, kind, &cp_namespace);
        let attempt = async || all.delete_collection(&DeleteParams::default(), &ListParams::default()).await;
        eventually(Duration::from_secs(10), "it ends", attempt).await.unwrap_or_else(|e| panic!("{kind}: {e:#}"));
    }
    let left = dynamic(&controller, "Secret", &cp_namespace).list(&ListParams::default()).await.expect("list");
    assert!(left.items.is_empty(), "{left:?}");

    // A team's namespace that ends does not take a protected Cluster along.
    delete(&server.client(), "Namespace", "", &team, false).await.expect("delete");
    let clusters = dynamic(&controller, "Cluster", &team);
    let message = refusal(clusters.delete("acme", &DeleteParams::default()).await);
    assert!(message.contains("this Cluster is protected from deletion"), "{message}");
    refusal(clusters.delete_collection(&DeleteParams::default(), &ListParams::default()).await);
    assert!(clusters.get("acme").await.expect("it is there").metadata.deletion_timestamp.is_none());
    let open = json!({"spec": {"deletion": {"protected": false}}});
    merge(&server.client(), "Cluster", &team, "acme", open).await.expect("patch");
    clusters.delete("acme", &DeleteParams::default()).await.expect("as asked");
}

#[tokio::test]
async fn customresourcedefinitions_of_berth_are_not_deleted_while_it_is_installed() {
    const KIND: &str = "CustomResourceDefinition";
    let admin = server().await.client();
    for (name, lost) in [
        ("clusters.berth.dev", "every Cluster"),
        ("etcdclusters.berth.dev", "the etcd of every tenant"),
        ("etcdbackups.berth.dev", "the record of every backup"),
        ("clusterrevisions.berth.dev", "the record of every release"),
    ] {
        let message = refusal(delete(&admin, KIND, "", name, false).await);
        let way_out = format!("first run: kubectl label customresourcedefinition {name} berth.dev/allow-deletion=true");
        assert!(message.contains(lost) && message.contains(&way_out), "{message}");
        merge(&admin, KIND, "", name, labelled(labels::ALLOW_DELETION, "true")).await.expect("label");
        delete(&admin, KIND, "", name, true).await.expect("the label lifts it");
        let unlabel = json!({"metadata": {"labels": {labels::ALLOW_DELETION: null}}});
        merge(&admin, KIND, "", name, unlabel).await.expect("unlabel");
    }
    let names = json!({"plural": "things", "singular": "thing", "kind": "Thing"});
    let schema = json!({"openAPIV3Schema": {"type": "object"}});
    let version = json!({"name": "v1", "served": true, "storage": true, "schema": schema});
    let other = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": KIND, "metadata": {"name": "things.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]}});
    create(&admin, KIND, "", other, false).await.expect("create");
    delete(&admin, KIND, "", "things.example.com", false).await.expect("none of this policy's");
}

#[tokio::test]
async fn a_team_namespace_with_the_label_is_not_deleted_until_the_label_is_removed() {
    let server = server().await;
    let (team, admin) = (server.namespace("team").await, server.client());
    for value in ["true", "", "yes", "False"] {
        merge(&admin, "Namespace", "", &team, labelled(labels::PROTECTED, value)).await.expect("label");
        let message = refusal(delete(&admin, "Namespace", "", &team, false).await);
        let way_out = format!("first run: kubectl label namespace {team} berth.dev/protected-");
        assert!(
            message.contains(&format!("namespace {team} has the label")) && message.contains(&way_out),
            "{message}"
        );
    }
    merge(&admin, "Namespace", "", &team, labelled(labels::PROTECTED, "false")).await.expect("label");
    delete(&admin, "Namespace", "", &team, true).await.expect("false is no protection");
    merge(&admin, "Namespace", "", &team, labelled(labels::PROTECTED, "true")).await.expect("label");
    refusal(delete(&admin, "Namespace", "", &team, true).await);
    let unlabel = json!({"metadata": {"labels": {labels::PROTECTED: null}}});
    merge(&admin, "Namespace", "", &team, unlabel).await.expect("unlabel");
    delete(&admin, "Namespace", "", &team, false).await.expect("delete");
}

/// What Berth reconciles has its finalizer, and a status: name and plural.
fn reconciled() -> Vec<(String, String)> {
    let all = berth_api::crds::all().into_iter();
    let all = all.filter(|crd| crd.spec.versions.iter().any(|version| version.subresources.is_some()));
    all.map(|crd| (crd.spec.names.kind, crd.spec.names.plural)).collect()
}

#[test]
fn the_finalizer_of_every_kind_that_has_it_is_held() {
    let is = |o: &&Value| o["kind"] == "ValidatingAdmissionPolicy" && o["metadata"]["name"] == "berth-finalizers";
    let objects = render("berth", &[]);
    let policy = objects.iter().find(is).expect("the policy");
    let held = policy.pointer("/spec/matchConstraints/resourceRules/0/resources").and_then(Value::as_array).unwrap();
    let mut held: Vec<&str> = held.iter().filter_map(Value::as_str).collect();
    let wanted = reconciled();
    let mut wanted: Vec<&str> = wanted.iter().map(|(_, plural)| plural.as_str()).collect();
    held.sort_unstable();
    wanted.sort_unstable();
    assert_eq!(held, wanted);
}

/// Otherwise: `protected: false`, no finalizer and a deletion in one moment leave a control plane that no quota counts; and an `EtcdBackup`
/// whose Job runs on, with the keys of the store.
#[tokio::test]
async fn the_finalizer_is_taken_off_by_the_operator_and_by_who_may_in_all_namespaces() {
    let server = server().await;
    let team = server.namespace("team").await;
    let jane = writer(server, "jane-of-finalizers", &team, "berth-cluster-editor").await;
    let root = in_one_namespace(server, "root-of-a-team", &team).await;
    let all = ["example.com/mine", labels::FINALIZER];
    let finalizers = |all: &[&str]| json!({"metadata": {"finalizers": all}});
    let (me, admin) = (operator(server), server.client());
    // An AppInstallation nobody but Berth changes at all, see apps.rs.
    for (kind, plural) in reconciled().iter().filter(|(kind, _)| kind != "AppInstallation") {
        let kind = kind.as_str();
        let mut new = if kind == "Cluster" { cluster("acme") } else { object(kind, "acme") };
        new["metadata"]["finalizers"] = json!(all);
        create(&admin, kind, &team, new.clone(), false).await.expect("create");
        // Writers of Clusters have no right to EtcdClusters, nor to Apps, and none to give rights.
        let people =
            if ["EtcdCluster", "ClusterAccess", "App"].contains(&kind) { vec![&root] } else { vec![&jane, &root] };
        for who in people {
            let attempt = async || merge(who, kind, &team, "acme", labelled("a", "b")).await;
            eventually(Duration::from_secs(5), "rights", attempt).await.expect("it may be changed");
            for left in [&all[..1], &[]] {
                let message = refusal(merge(who, kind, &team, "acme", finalizers(left)).await);
                assert!(message.contains(&format!("of {plural}.berth.dev acme in namespace {team}")), "{message}");
                assert!(
                    message.contains(&format!("Only who may update {plural}/finalizers in all namespaces")),
                    "{message}"
                );
            }
            // As `kubectl replace` with a file that has none.
            let mut replaced = dynamic(who, kind, &team).get("acme").await.expect("get");
            replaced.metadata.finalizers = None;
            refusal(dynamic(who, kind, &team).replace("acme", &PostParams::default(), &replaced).await);
            // By way of the status nothing but the status is changed.
            let status = Patch::Merge(finalizers(&[]));
            let _ = dynamic(who, kind, &team).patch_status("acme", &PatchParams::default(), &status).await;
            assert_eq!(dynamic(&admin, kind, &team).get("acme").await.expect("get").finalizers(), all);
        }
        // Finalizers of others are none of this policy's; nor is what a controller of Kubernetes adds.
        merge(&root, kind, &team, "acme", finalizers(&all[1..])).await.expect("another finalizer");
        merge(&root, kind, &team, "acme", finalizers(&["foregroundDeletion", all[1]])).await.expect("one more");
        merge(&me, kind, &team, "acme", finalizers(&["foregroundDeletion"])).await.expect("the operator");
        merge(&admin, kind, &team, "acme", finalizers(&all)).await.expect("again");
        merge(&admin, kind, &team, "acme", finalizers(&[])).await.expect("cluster-admin");
    }
}
