//! What the operator's service account may do, and what it may not.

use super::*;
use k8s_openapi::api::core::v1::Secret;
use kube::api::ListParams;

fn secret(name: &str, type_: &str, managed: bool) -> Secret {
    let label = if managed { "berth" } else { "somebody" };
    yaml!(
        "{{apiVersion: v1, kind: Secret, type: {type_}, data: {{value: c2VjcmV0}},
           metadata: {{name: {name}, labels: {{app.kubernetes.io/managed-by: {label}}}}}}}"
    )
}

const CAPI: &str = "cluster.x-k8s.io/secret";

/// A name of a control-plane namespace.
fn named(server: &ApiServer, prefix: &str) -> String {
    names::control_plane_namespace("team", &server.unique(prefix))
}

fn service(spec: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "kube-apiserver"}, "spec": spec})
}

/// Ok once the policy for Services refuses.
pub(crate) async fn services_in_force(server: &ApiServer) -> Result<(), String> {
    let me = operator(server);
    let home = home("team", "probe");
    let name = home["metadata"]["name"].as_str().expect("a name").to_owned();
    let _ = create(&me, "Namespace", "", home, false).await;
    binding(&me, &name, names::OPERATOR_NAMESPACE_ROLE, &["berth-operator"], false).await.map_err(|e| e.to_string())?;
    denied(create(&me, "Service", &name, service(&json!({"type": "ExternalName", "externalName": "a.b"})), true).await)
}

#[tokio::test]
async fn a_foreign_secret_is_neither_read_nor_written() {
    let server = server().await;
    let ns = server.namespace("team").await;
    let admin = Api::<Secret>::namespaced(server.client(), &ns);
    let mine = Api::<Secret>::namespaced(operator(server), &ns);
    for foreign in [secret("opaque", "Opaque", false), secret("label", "Opaque", true), secret("type", CAPI, false)] {
        admin.create(&PostParams::default(), &foreign).await.expect("create");
        let name = foreign.name_any();
        assert!(refusal(mine.get(&name).await).contains("cannot get resource \"secrets\""));
        // This is how the operator looks at its kubeconfig: an empty patch answers with the object, or with a refusal.
        for dry_run in [true, false] {
            let parameters = PatchParams { dry_run, ..PatchParams::default() };
            let message = refusal(mine.patch(&name, &parameters, &Patch::Merge(json!({}))).await);
            assert!(
                message.contains("this Secret was not created by Berth") && !message.contains("c2VjcmV0"),
                "{message}"
            );
            let adopt = json!({"metadata": {"labels": {"app.kubernetes.io/managed-by": "berth"}}});
            refusal(mine.patch(&name, &parameters, &Patch::Merge(adopt)).await);
            let parameters = DeleteParams { dry_run, ..DeleteParams::default() };
            assert!(refusal(mine.delete(&name, &parameters).await).contains("not created by Berth"));
        }
        let now = admin.get(&name).await.expect("it is there");
        assert_eq!((now.data, now.metadata.labels), (foreign.data, foreign.metadata.labels));
    }
    refusal(mine.list(&ListParams::default()).await);
    refusal(Api::<Secret>::all(operator(server)).list(&ListParams::default()).await);
}

#[tokio::test]
async fn a_teams_store_and_its_audit_webhook_are_looked_at_for_their_type_and_never_written() {
    for type_ in ["berth.dev/object-store", "berth.dev/audit-webhook"] {
        is_looked_at_and_never_written(type_).await;
    }
}

async fn is_looked_at_and_never_written(type_: &str) {
    let server = server().await;
    let ns = server.namespace("team").await;
    let admin = Api::<Secret>::namespaced(server.client(), &ns);
    let mine = Api::<Secret>::namespaced(operator(server), &ns);
    let made = admin.create(&PostParams::default(), &secret("mine", type_, false)).await.expect("create");
    let dry = PatchParams { dry_run: true, ..PatchParams::default() };
    let seen = mine.patch("mine", &dry, &Patch::Merge(json!({}))).await.expect("its type says that it may be read");
    assert_eq!(seen.data, made.data);
    let change = json!({"data": {"value": "bmV3"}});
    for patch in [json!({}), change] {
        let message = refusal(mine.patch("mine", &PatchParams::default(), &Patch::Merge(patch)).await);
        assert!(message.contains("not created by Berth"), "{message}");
    }
    for dry_run in [true, false] {
        let parameters = DeleteParams { dry_run, ..DeleteParams::default() };
        assert!(refusal(mine.delete("mine", &parameters).await).contains("not created by Berth"));
        let parameters = PostParams { dry_run, ..PostParams::default() };
        refusal(mine.create(&parameters, &secret("other", type_, true)).await);
    }
    assert!(refusal(mine.get("mine").await).contains("cannot get resource"));
    assert_eq!(admin.get("mine").await.expect("it is there").data, made.data);
}

#[tokio::test]
async fn its_own_kubeconfig_it_writes_looks_at_and_deletes() {
    let server = server().await;
    let ns = server.namespace("team").await;
    let mine = Api::<Secret>::namespaced(operator(server), &ns);
    let look = async |name: &str| {
        let parameters = PatchParams { dry_run: true, ..PatchParams::default() };
        mine.patch(name, &parameters, &Patch::Merge(json!({}))).await
    };
    assert!(
        matches!(look("acme-kubeconfig").await, Err(kube::Error::Api(e)) if e.code == 404),
        "absent is 404, not 403"
    );
    for other in [secret("a", "Opaque", true), secret("b", CAPI, false)] {
        refusal(mine.create(&PostParams::default(), &other).await);
    }
    let made = mine.create(&PostParams::default(), &secret("acme-kubeconfig", CAPI, true)).await.expect("create");
    let seen = look("acme-kubeconfig").await.expect("its own");
    assert_eq!((seen.data, seen.metadata.resource_version), (made.data, made.metadata.resource_version));
    let drop_label = json!({"metadata": {"labels": null}});
    refusal(mine.patch("acme-kubeconfig", &PatchParams::default(), &Patch::Merge(drop_label)).await);
    let change = json!({"data": {"value": "bmV3"}});
    mine.patch("acme-kubeconfig", &PatchParams::default(), &Patch::Merge(change)).await.expect("change");
    mine.delete("acme-kubeconfig", &DeleteParams::default()).await.expect("delete");
}

#[tokio::test]
async fn it_binds_itself_to_one_role_in_its_own_namespaces() {
    const ROLE: &str = "berth-control-plane-namespace";
    let server = server().await;
    let me = operator(server);
    let (team, cp_namespace) = (server.namespace("team").await, cp_namespace(server).await);
    assert!(refusal(binding(&me, &team, ROLE, &["berth-operator"], false).await).contains("only in namespaces with"));
    for (role, subjects, why) in [
        ("cluster-admin", &["berth-operator"][..], "attempting to grant RBAC permissions not currently held"),
        ("berth-operator", &["berth-operator"][..], "and no other"),
        (ROLE, &["default"][..], "binds itself and nobody else"),
        (ROLE, &["berth-operator", "default"][..], "binds itself and nobody else"),
        (ROLE, &[][..], "binds itself and nobody else"),
    ] {
        let message = refusal(binding(&me, &cp_namespace, role, subjects, false).await);
        assert!(message.contains(why), "{role} {subjects:?}: {message}");
    }
    refusal(named_binding(&me, &cp_namespace, "another", ROLE, &["berth-operator"], false).await);

    let secrets = |ns: &str| Api::<Secret>::namespaced(me.clone(), ns);
    refusal(secrets(&cp_namespace).list(&ListParams::default()).await);
    binding(&me, &cp_namespace, ROLE, &["berth-operator"], false).await.expect("its own namespace");
    let list = async || secrets(&cp_namespace).list(&ListParams::default()).await;
    eventually(Duration::from_secs(5), "rights in its namespace", list).await.expect("it reads Secrets there");
    secrets(&cp_namespace).create(&PostParams::default(), &secret("ca", "Opaque", true)).await.expect("any type there");
    refusal(secrets(&team).list(&ListParams::default()).await);
    // Once bound, it may not turn the binding over to somebody else.
    refusal(binding(&me, &cp_namespace, ROLE, &["default"], false).await);
}

#[tokio::test]
async fn namespaces_of_others_are_left_alone() {
    let server = server().await;
    let me = operator(server);
    let (team, cp_namespace) = (server.namespace("team").await, cp_namespace(server).await);
    let namespaces = dynamic(&me, "Namespace", "");
    let label = Patch::Merge(json!({"metadata": {"labels": {"app.kubernetes.io/managed-by": "berth"}}}));
    let unlabel = Patch::Merge(json!({"metadata": {"labels": null}}));
    assert!(
        refusal(namespaces.patch(&team, &PatchParams::default(), &label).await).contains("was not created by Berth")
    );
    assert!(refusal(namespaces.delete(&team, &DeleteParams::default()).await).contains("was not created by Berth"));
    refusal(namespaces.delete("kube-system", &DeleteParams::default()).await);
    let bare = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": named(server, "bare")}});
    refusal(create(&me, "Namespace", "", bare, false).await);
    refusal(namespaces.patch(&cp_namespace, &PatchParams::default(), &unlabel).await);
    let annotate = |key: &str| Patch::Merge(json!({"metadata": {"annotations": {key: "b"}}}));
    namespaces.patch(&cp_namespace, &PatchParams::default(), &annotate("berth.dev/a")).await.expect("its own");
    let said = refusal(namespaces.patch(&cp_namespace, &PatchParams::default(), &annotate("a")).await);
    assert!(said.contains("only Berth's own annotations"), "{said}");
    namespaces.delete(&cp_namespace, &DeleteParams::default()).await.expect("its own");
}

#[tokio::test]
async fn no_namespace_is_made_in_which_a_pod_could_take_its_node() {
    const WHY: &str = "only namespaces with the label pod-security.kubernetes.io/enforce=restricted";
    let server = server().await;
    let me = operator(server);
    let namespaces = dynamic(&me, "Namespace", "");
    let namespace = |name: &str, enforce: Option<&str>| {
        let mut labels = json!({"app.kubernetes.io/managed-by": "berth"});
        if let Some(enforce) = enforce {
            labels[ENFORCE] = json!(enforce);
        }
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})
    };
    let apply = async |object: &Value| {
        let name = object["metadata"]["name"].as_str().expect("a name");
        let parameters = PatchParams::apply("berth-cluster").force();
        namespaces.patch(name, &parameters, &Patch::Apply(object)).await
    };
    let cp_namespace = cp_namespace(server).await;
    for enforce in [None, Some("baseline"), Some("privileged")] {
        let new = namespace(&named(server, "open"), enforce);
        assert!(refusal(apply(&new).await).contains(WHY), "{enforce:?}");
        assert!(refusal(create(&me, "Namespace", "", new, false).await).contains(WHY), "{enforce:?}");
        let patch = Patch::Merge(json!({"metadata": {"labels": {ENFORCE: enforce}}}));
        assert!(
            refusal(namespaces.patch(&cp_namespace, &PatchParams::default(), &patch).await).contains(WHY),
            "{enforce:?}"
        );
    }
    // One that somebody opened: the operator closes it, and may always remove it.
    for closed in [true, false] {
        let name = named(server, "opened");
        create(&server.client(), "Namespace", "", namespace(&name, None), false).await.expect("create");
        let annotate = Patch::Merge(json!({"metadata": {"annotations": {"a": "b"}}}));
        assert!(refusal(namespaces.patch(&name, &PatchParams::default(), &annotate).await).contains(WHY));
        if closed {
            apply(&namespace(&name, Some("restricted"))).await.expect("closed again");
        }
        namespaces.delete(&name, &DeleteParams::default()).await.expect("delete");
    }
}

#[tokio::test]
async fn the_role_for_writers_is_for_clusters_where_it_is_bound_and_for_nothing_else() {
    let server = server().await;
    let (ours, theirs) = (server.namespace("team").await, server.namespace("team").await);
    for (user, role) in [("jane", "berth-cluster-editor"), ("joe", "berth-cluster-viewer")] {
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": user, "namespace": ours},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
        });
        apply(&server.client(), binding).await.expect("binding");
    }
    let (jane, joe) = (server.client_as("jane", &[]), server.client_as("joe", &[]));
    let list = async |who: &Client| dynamic(who, "Cluster", &ours).list(&ListParams::default()).await;
    for who in [&jane, &joe] {
        eventually(Duration::from_secs(5), "rights in the namespace", async || list(who).await).await.expect("list");
    }
    refusal(create(&joe, "Cluster", &ours, cluster("acme"), false).await);
    let made = create(&jane, "Cluster", &ours, cluster("acme"), false).await.expect("create");
    let clusters = dynamic(&jane, "Cluster", &ours);
    let open = Patch::Merge(json!({"spec": {"deletion": {"protected": false}}}));
    refusal(dynamic(&joe, "Cluster", &ours).patch("acme", &PatchParams::default(), &open).await);
    clusters.patch("acme", &PatchParams::default(), &open).await.expect("patch");
    let status = Patch::Merge(json!({"status": {"phase": "Ready"}}));
    refusal(clusters.patch_status("acme", &PatchParams::default(), &status).await);
    assert_eq!(dynamic(&joe, "Cluster", &ours).get("acme").await.expect("get").uid(), made.uid());
    clusters.delete("acme", &DeleteParams::default()).await.expect("delete");

    refusal(create(&jane, "Cluster", &theirs, cluster("acme"), false).await);
    refusal(Api::<Secret>::namespaced(jane.clone(), &ours).list(&ListParams::default()).await);
    let etcd = ApiResource::from_gvk(&GroupVersionKind::gvk("berth.dev", "v1alpha1", "EtcdCluster"));
    refusal(Api::<DynamicObject>::namespaced_with(jane, &ours, &etcd).list(&ListParams::default()).await);
}

#[tokio::test]
async fn stand_alone_etcd_namespaces_are_opened_by_a_value() {
    let server = server().await;
    let secrets = Api::<Secret>::namespaced(operator(server), "etcd-team");
    secrets.create(&PostParams::default(), &secret("etcd-peer-ca", "Opaque", true)).await.expect("create");
    secrets.get("etcd-peer-ca").await.expect("get");
    secrets.delete("etcd-peer-ca", &DeleteParams::default()).await.expect("delete");
}

#[tokio::test]
async fn a_protected_cluster_is_not_deleted_and_the_refusal_says_how() {
    let server = server().await;
    let ns = server.namespace("team").await;
    let clusters = dynamic(&server.client(), "Cluster", &ns);
    create(&server.client(), "Cluster", &ns, cluster("acme"), false).await.expect("create");
    let message = refusal(clusters.delete("acme", &DeleteParams::default()).await);
    let how = format!(
        "kubectl patch clusters.berth.dev acme -n {ns} --type merge -p '{{\"spec\":{{\"deletion\":{{\"protected\":false}}}}}}'"
    );
    assert!(message.contains(&how), "{message}");
    refusal(clusters.delete_collection(&DeleteParams::default(), &ListParams::default()).await);
    let open = json!({"spec": {"deletion": {"protected": false}}});
    clusters.patch("acme", &PatchParams::default(), &Patch::Merge(open)).await.expect("patch");
    clusters.delete("acme", &DeleteParams::default()).await.expect("delete");
}

#[tokio::test]
async fn policies_have_no_type_warnings() {
    let server = server().await;
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(
        "admissionregistration.k8s.io",
        "v1",
        "ValidatingAdmissionPolicy",
    ));
    let api: Api<DynamicObject> = Api::all_with(server.client(), &resource);
    for policy in api.list(&ListParams::default()).await.expect("list") {
        let warnings = policy.data.pointer("/status/typeChecking/expressionWarnings");
        assert!(warnings.is_none(), "{}: {warnings:?}", policy.name_any());
    }
}

/// With its token one can make namespaces: not where somebody will install something, nor with labels that others trust.
#[tokio::test]
async fn its_namespaces_have_names_and_labels_of_a_closed_form() {
    const NAME: &str = "eight hexadecimal digits";
    const LABELS: &str = "only Berth's own labels";
    let server = server().await;
    let me = operator(server);
    let new = home("team", &server.unique("closed"));
    let with = |label: &str, value: &str| {
        let mut changed = new.clone();
        changed["metadata"]["labels"][label] = value.into();
        changed
    };
    for name in ["monitoring", "kube-system-1234567", "acme-9201d5eg", "acme9201d5e7"] {
        let mut renamed = new.clone();
        renamed["metadata"]["name"] = name.into();
        assert!(refusal(create(&me, "Namespace", "", renamed, true).await).contains(NAME), "{name}");
    }
    for (label, value) in [
        ("openshift.io/run-level", "0"),
        ("pod-security.kubernetes.io/enforce-version", "v1.0"),
        ("pod-security.kubernetes.io/warn", "privileged"),
        ("pod-security.kubernetes.io/audit", "privileged"),
        (labels::CLUSTER_NAME, "other"),
        (labels::CLUSTER_UID, "kube-system"),
        (labels::ALLOW_DELETION, "true"),
        (labels::PROTECTED, "true"),
    ] {
        assert!(refusal(create(&me, "Namespace", "", with(label, value), true).await).contains(LABELS), "{label}");
    }
    let name = create(&me, "Namespace", "", new.clone(), false).await.expect("as the planner writes it").name_any();
    let apply = async |object: &Value| {
        let parameters = PatchParams::apply("berth-cluster").force();
        dynamic(&me, "Namespace", "").patch(&name, &parameters, &Patch::Apply(object)).await
    };
    refusal(apply(&with("pod-security.kubernetes.io/enforce-version", "v1.0")).await);
    // What somebody else set does not hold the operator up, and it may not change it.
    let admin = dynamic(&server.client(), "Namespace", "");
    let theirs = json!({"metadata": {"labels": {"example.com/team": "a", labels::ALLOW_DELETION: "true"}}});
    admin.patch(&name, &PatchParams::default(), &Patch::Merge(theirs)).await.expect("label");
    let adopted = with(labels::CLUSTER_UID, "00000000-e89b-42d3-a456-426614174000");
    assert_eq!(apply(&adopted).await.expect("adopted").labels()["example.com/team"], "a");
    assert!(refusal(apply(&with("example.com/team", "b")).await).contains(LABELS));
}

#[tokio::test]
async fn its_services_take_no_traffic_of_others() {
    let server = server().await;
    let (me, cp_namespace) = (operator(server), cp_namespace(server).await);
    binding(&me, &cp_namespace, names::OPERATOR_NAMESPACE_ROLE, &["berth-operator"], false).await.expect("binding");
    let ports = json!([{"port": 6443}]);
    let plain = service(&json!({"type": "ClusterIP", "ports": ports}));
    let make = async || create(&me, "Service", &cp_namespace, plain.clone(), false).await;
    eventually(Duration::from_secs(5), "rights in its namespace", make).await.expect("as the planner writes it");
    let services = dynamic(&me, "Service", &cp_namespace);
    let change = async |who: &Api<DynamicObject>, spec: Value| {
        who.patch("kube-apiserver", &PatchParams::default(), &Patch::Merge(json!({"spec": spec}))).await
    };
    for (taken, why) in [
        (json!({"ports": ports, "externalIPs": ["192.0.2.7"]}), "no Service with spec.externalIPs"),
        (json!({"type": "ExternalName", "externalName": "api.example.com"}), "no Service of type ExternalName"),
    ] {
        let mut new = service(&taken);
        new["metadata"]["name"] = "etcd-0".into();
        assert!(refusal(create(&me, "Service", &cp_namespace, new, false).await).contains(why), "{taken}");
        assert!(refusal(change(&services, taken.clone()).await).contains(why), "{taken}");
    }
    // What somebody else set does not hold the operator up.
    let admin = dynamic(&server.client(), "Service", &cp_namespace);
    change(&admin, json!({"externalIPs": ["192.0.2.7"]})).await.expect("set by somebody else");
    change(&services, json!({"sessionAffinity": "ClientIP"})).await.expect("repaired");
    refusal(change(&services, json!({"externalIPs": ["192.0.2.7", "192.0.2.8"]})).await);
    change(&services, json!({"externalIPs": null})).await.expect("taken away");
}

/// Annotations choose nodes, ranges of users and load balancers; a name of a volume takes somebody's; a class of the cluster's own evicts others.
#[tokio::test]
async fn what_it_writes_takes_no_node_no_volume_and_no_place_of_others() {
    const SELECTOR: &str = "scheduler.alpha.kubernetes.io/node-selector";
    let server = server().await;
    let (me, cp_namespace) = (operator(server), cp_namespace(server).await);
    binding(&me, &cp_namespace, names::OPERATOR_NAMESPACE_ROLE, &["berth-operator"], false).await.expect("binding");
    let annotate = |key: &str, value: &Value| json!({"metadata": {"annotations": {key: value}}});
    let namespaces = |who: &Client| dynamic(who, "Namespace", "");
    let patch = async |who: &Client, patch: Value| {
        namespaces(who).patch(&cp_namespace, &PatchParams::default(), &Patch::Merge(patch)).await
    };
    let message = refusal(patch(&me, annotate(SELECTOR, &json!("pool=others"))).await);
    assert!(message.contains("only Berth's own annotations on a namespace"), "{message}");
    patch(&me, annotate(labels::TURN, &json!("1.36.3"))).await.expect("its own");
    // What the platform set stays, and holds nothing up.
    patch(&server.client(), annotate(SELECTOR, &json!("pool=control-planes"))).await.expect("the platform");
    patch(&me, annotate(labels::TURN, &Value::Null)).await.expect("its own");
    for value in [json!("pool=others"), Value::Null] {
        refusal(patch(&me, annotate(SELECTOR, &value)).await);
    }

    let labelled = json!({"app": "a"});
    let container = json!({"name": "c", "image": "i"});
    let template = |class: &str| json!({"metadata": {"labels": labelled}, "spec": {"priorityClassName": class, "containers": [container]}});
    let deployment = |class: &str| {
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"},
            "spec": {"replicas": 0, "selector": {"matchLabels": labelled}, "template": template(class)}})
    };
    let claims = |volume: Option<&str>| {
        let spec = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "volumeName": volume});
        json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "a"}, "spec": {
            "replicas": 0, "serviceName": "a", "selector": {"matchLabels": labelled}, "template": template(""),
            "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": spec}]}})
    };
    let make = async || create(&me, "Deployment", &cp_namespace, deployment("high"), true).await;
    eventually(Duration::from_secs(5), "rights in its namespace", make).await.expect("a class of the platform's");
    let message = refusal(create(&me, "Deployment", &cp_namespace, deployment("system-node-critical"), true).await);
    assert!(message.contains("no priority class of the cluster's own"), "{message}");
    create(&me, "StatefulSet", &cp_namespace, claims(None), true).await.expect("a new volume");
    let message = refusal(create(&me, "StatefulSet", &cp_namespace, claims(Some("somebodys")), true).await);
    assert!(message.contains("none by its name"), "{message}");

    let mut annotated = service(&json!({"type": "LoadBalancer", "ports": [{"port": 6443}]}));
    annotated["metadata"]["annotations"] = json!({"example.com/security-group": "sg-1"});
    let message = refusal(create(&me, "Service", &cp_namespace, annotated, true).await);
    assert!(message.contains("writers.service.annotations"), "{message}");
}
