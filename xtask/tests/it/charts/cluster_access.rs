//! Who gives which rights in tenants: ways to give more than one may, or in another's name, and who refuses each.

use super::protection::{in_one_namespace, merge};
use super::*;

/// What writers of the teams of these tests may give.
pub(crate) const ON: [&str; 2] =
    ["writers.access[0].namespaces={team*}", "writers.access[0].roles={Viewer,Editor,audit-*}"];

fn access(name: &str, by: &str, spec: &Value) -> Value {
    let mut all = json!({
        "clusterRefs": [{"name": "acme"}], "subjects": [{"kind": "User", "name": "jane"}], "role": "Viewer", "grantedBy": by,
    });
    for (field, value) in spec.as_object().expect("a spec") {
        all[field] = value.clone();
    }
    all.as_object_mut().expect("a spec").retain(|_, value| !value.is_null());
    json!({"apiVersion": "berth.dev/v1alpha1", "kind": "ClusterAccess", "metadata": {"name": name}, "spec": all})
}

/// Ok once the policy of this page refuses.
pub(crate) async fn in_force(server: &ApiServer) -> Result<(), String> {
    let root = in_one_namespace(server, "root-of-default", "default").await;
    denied(create(&root, "ClusterAccess", "default", access("probe", "somebody", &json!({})), true).await)
}

const WHO: &str = "root-of-rights";

#[tokio::test]
async fn nobody_gives_more_than_the_platform_lets_them_nor_in_another_name() {
    let server = server().await;
    let team = server.namespace("team").await;
    let root = in_one_namespace(server, WHO, &team).await;
    let attempt = async || create(&root, "ClusterAccess", &team, access("first", WHO, &json!({})), true).await;
    eventually(Duration::from_secs(5), "rights", attempt).await.expect("what is allowed");
    let of = |kind: &str, name: &str| json!({"subjects": [{"kind": kind, "name": name}]});
    let refused = [
        // Roles that this platform does not let teams give.
        (json!({"role": "Admin"}), "spec.role: Admin may not be given in namespace"),
        (json!({"role": "ClusterAdmin"}), "spec.role: ClusterAdmin may not be given"),
        (json!({"role": "cluster-admin"}), "may not be given"),
        (json!({"role": "admin"}), "may not be given"),
        (json!({"role": "edit"}), "may not be given"),
        (json!({"role": "view"}), "may not be given"),
        (json!({"role": "audit"}), "may not be given"),
        (json!({"role": "Admin", "namespaces": ["default"]}), "may not be given"),
        (json!({"role": "ClusterAdmin", "issuer": "Tenant"}), "may not be given"),
        // In another name, or in none.
        (json!({"grantedBy": "admin"}), "set it to root-of-rights"),
        (json!({"grantedBy": null}), "set it to root-of-rights"),
        (json!({"grantedBy": "Root-of-rights"}), "set it to root-of-rights"),
        (json!({"grantedBy": "root-of-rights "}), "set it to root-of-rights"),
        // In tenants of others.
        (json!({"clusterRefs": [{"name": "acme", "namespace": "default"}]}), "leave namespace out"),
        (json!({"clusterRefs": [{"name": "a"}, {"name": "acme", "namespace": "berth-system"}]}), "leave namespace out"),
    ];
    for (spec, said) in refused {
        let made = create(&root, "ClusterAccess", &team, access("more", WHO, &spec), false).await;
        let message = refusal(made);
        assert!(message.contains(said), "{spec}: {message}");
    }
    // What the schema refuses, whoever asks.
    let wrong = [
        of("Group", "system:masters"),
        of("Group", "system:authenticated"),
        of("User", "system:admin"),
        of("User", "system:serviceaccount:kube-system:default"),
        of("Group", "berth:cluster-admins"),
        of("User", "berth:operator"),
        of("Group", "kubeadm:cluster-admins"),
        of("User", "access:jane"),
        of("ServiceAccount", "default"),
        of("User", ""),
        of("User", "jane\n"),
        json!({"subjects": (0..101).map(|n| json!({"kind": "User", "name": format!("u{n}")})).collect::<Vec<_>>()}),
        json!({"role": "Viewer "}),
        json!({"role": "viewer:all"}),
        json!({"namespaces": ["*"]}),
        json!({"namespaces": []}),
        json!({"clusterSelector": {}}),
        json!({"clusterRefs": null}),
        json!({"expiresAt": "tomorrow"}),
        // Kubernetes takes these for times, and not everybody who reads them does.
        json!({"expiresAt": "2029-12-31T23:59:59-10:00"}),
        json!({"expiresAt": "2026-12-01T18:00:00+99:99"}),
        json!({"expiresAt": "2026-12-01T18:00:00Zt"}),
        json!({"expiresAt": "2026-12-01t18:00:00z"}),
        json!({"expiresAt": "9999-12-31T23:59:59Z"}),
        json!({"expiresAt": "0000-01-01T00:00:00Z"}),
        json!({"issuer": "Meta"}),
    ];
    for spec in wrong {
        for who in [&root, &server.client()] {
            let made = create(who, "ClusterAccess", &team, access("wrong", WHO, &spec), true).await;
            let Err(kube::Error::Api(error)) = made else { panic!("{spec}: was let through") };
            assert!(error.code == 422 || error.code == 400, "{spec}: {error:?}");
        }
    }
    for spec in
        [json!({"role": "Editor"}), json!({"role": "audit-all"}), json!({"clusterRefs": null, "clusterSelector": {}})]
    {
        create(&root, "ClusterAccess", &team, access("right", WHO, &spec), true)
            .await
            .unwrap_or_else(|e| panic!("{spec}: {e}"));
    }
}

#[tokio::test]
async fn whoever_may_write_it_takes_back_and_nobody_gives_more_by_a_change() {
    let server = server().await;
    let team = server.namespace("team").await;
    let root = in_one_namespace(server, WHO, &team).await;
    let spec = json!({"grantedBy": "admin", "expiresAt": "2030-01-02T00:00:00Z", "namespaces": ["web"]});
    let admin = server.client_as("admin", &["system:masters"]);
    create(&admin, "ClusterAccess", &team, access("given", "admin", &spec), false).await.expect("create");
    let change =
        async |who: &Client, spec: Value| merge(who, "ClusterAccess", &team, "given", json!({"spec": spec})).await;
    let sooner = async || change(&root, json!({"expiresAt": "2030-01-01T00:00:00Z"})).await;
    eventually(Duration::from_secs(5), "rights", sooner).await.expect("it ends sooner");
    let labelled = json!({"metadata": {"labels": {"a": "b"}}});
    merge(&root, "ClusterAccess", &team, "given", labelled).await.expect("what gives nothing");
    change(&root, json!({"reason": "why"})).await.expect("nor does this");
    for spec in [
        json!({"expiresAt": "2030-01-02T00:00:00Z"}),
        json!({"expiresAt": null}),
        json!({"subjects": [{"kind": "User", "name": "eve"}]}),
        json!({"role": "Editor"}),
        json!({"namespaces": null}),
        json!({"clusterRefs": [{"name": "other"}]}),
        json!({"clusterRefs": null, "clusterSelector": {}}),
        json!({"issuer": "Tenant"}),
        json!({"grantedBy": "jane"}),
        json!({"role": "Admin", "grantedBy": WHO}),
    ] {
        refusal(change(&root, spec).await);
    }
    change(&root, json!({"role": "Editor", "grantedBy": WHO})).await.expect("in the own name");
    // In the operator's namespace everything is given, in the own name.
    let platform = in_one_namespace(server, "platform", "berth-system").await;
    let spec = json!({"role": "ClusterAdmin", "clusterRefs": [{"name": "acme", "namespace": team}]});
    let give =
        async || create(&platform, "ClusterAccess", "berth-system", access("all", "platform", &spec), true).await;
    eventually(Duration::from_secs(5), "rights", give).await.expect("the platform");
    refusal(create(&platform, "ClusterAccess", "berth-system", access("all", "root", &spec), true).await);
}
