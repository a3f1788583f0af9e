//! What the fleet decides from, only Berth writes: whoever may do anything in one namespace is refused, for each kind of the table.

use super::protection::{in_one_namespace, merge};
use super::*;
use berth_render::Kind;

/// Kinds that teams write. `ClusterRevision`s are in control-plane namespaces, and `AppInstallation`s Berth alone writes, see `apps.rs`.
fn kinds() -> impl Iterator<Item = Kind> {
    let others = [Kind::ClusterRevision, Kind::AppInstallation];
    Kind::ALL.into_iter().filter(move |kind| kind.group() == berth_api::GROUP && !others.contains(kind))
}

/// An object that the schema of its kind takes.
fn object(kind: Kind, name: &str) -> Value {
    let spec = match kind {
        Kind::Cluster => json!({"version": "1.36.3"}),
        Kind::EtcdCluster => json!({"version": "3.6.16"}),
        Kind::EtcdBackup => json!({"clusterRef": {"name": "acme"}, "store": "main"}),
        Kind::EtcdBackupSchedule => json!({"clusterRef": {"name": "acme"}, "store": "main", "schedule": "0 3 * * *"}),
        Kind::EtcdRestore => json!({"clusterRef": {"name": "acme"}, "source": {"backup": "b"}}),
        Kind::ClusterAccess => {
            json!({"clusterRefs": [{"name": "acme"}], "subjects": [{"kind": "User", "name": "jane"}], "role": "Viewer"})
        }
        Kind::App => json!({"clusterSelector": {}, "chart": {"oci": "oci://reg/web", "version": "1.0.0"}}),
        other => panic!("{other}: a spec that its schema takes"),
    };
    json!({"apiVersion": kind.api_version(), "kind": kind.name(), "metadata": {"name": name}, "spec": spec})
}

/// As that person creates it.
fn by(who: &str, mut object: Value) -> Value {
    if object["kind"] == Kind::ClusterAccess.name() {
        object["spec"]["grantedBy"] = who.into();
    }
    object
}

fn with(kind: Kind, name: &str, field: &str, key: &str, value: &str) -> Value {
    let mut object = object(kind, name);
    object["metadata"][field] = json!({key: value});
    object
}

async fn patch_status(who: &Client, kind: Kind, namespace: &str, name: &str) -> kube::Result<DynamicObject> {
    let patch = Patch::Merge(json!({"status": {"conditions": []}}));
    dynamic(who, kind.name(), namespace).patch_status(name, &PatchParams::default(), &patch).await
}

/// Ok once the policy of this page refuses.
pub(crate) async fn in_force(server: &ApiServer) -> Result<(), String> {
    let root = in_one_namespace(server, "root-of-default", "default").await;
    denied(
        create(&root, "EtcdBackup", "default", with(Kind::EtcdBackup, "probe", "labels", "berth.dev/x", "y"), true)
            .await,
    )
}

#[tokio::test]
async fn a_status_is_written_by_the_operator_and_by_who_may_in_all_namespaces() {
    let server = server().await;
    let team = server.namespace("team").await;
    let root = in_one_namespace(server, "root-of-statuses", &team).await;
    for kind in kinds() {
        create(&server.client(), kind.name(), &team, object(kind, "acme"), false)
            .await
            .unwrap_or_else(|e| panic!("{kind}: {e}"));
        let attempt =
            async || merge(&root, kind.name(), &team, "acme", json!({"metadata": {"labels": {"a": "b"}}})).await;
        eventually(Duration::from_secs(5), "rights", attempt).await.expect("it may be changed");
        let message = refusal(patch_status(&root, kind, &team, "acme").await);
        let plural = kind.plural();
        for part in [
            format!("only Berth writes the status of {plural}.berth.dev acme in namespace {team}"),
            format!("who may update {plural}/status in all namespaces"),
        ] {
            assert!(message.contains(&part), "{message}");
        }
        let whole = dynamic(&root, kind.name(), &team).get("acme").await.expect("get");
        refusal(dynamic(&root, kind.name(), &team).replace_status("acme", &PostParams::default(), &whole).await);
        patch_status(&operator(server), kind, &team, "acme")
            .await
            .unwrap_or_else(|e| panic!("the operator: {kind}: {e}"));
        patch_status(&server.client(), kind, &team, "acme")
            .await
            .unwrap_or_else(|e| panic!("cluster-admin: {kind}: {e}"));
    }
}

#[tokio::test]
async fn labels_and_annotations_of_berth_are_its_own_but_for_those_that_people_are_told_to_set() {
    let server = server().await;
    let team = server.namespace("team").await;
    let root = in_one_namespace(server, "root-of-labels", &team).await;
    let people = [
        (Kind::Cluster, "annotations", labels::ADOPT),
        (Kind::Cluster, "annotations", labels::ROLL),
        (Kind::Cluster, "annotations", labels::DEFRAG),
        (Kind::EtcdCluster, "annotations", labels::DEFRAG),
        (Kind::EtcdCluster, "labels", labels::ALLOW_DELETION),
    ];
    let decide = [
        ("labels", labels::CLUSTER_NAME),
        ("labels", labels::CLUSTER_NAMESPACE),
        ("labels", labels::ETCD_BACKUP_SCHEDULE),
        ("labels", labels::ETCD_RESTORE_UID),
        ("labels", labels::RECOVERY),
        ("annotations", labels::RESTORE_REQUEST),
        ("annotations", labels::ETCD_DEFAULT),
    ];
    for kind in kinds() {
        for (n, (field, key)) in decide.into_iter().enumerate() {
            let attempt =
                async || create(&root, kind.name(), &team, by("root-of-labels", object(kind, "acme")), true).await;
            eventually(Duration::from_secs(5), "rights", attempt).await.expect("without it");
            let told = by("root-of-labels", with(kind, "acme", field, key, "x"));
            let message = refusal(create(&root, kind.name(), &team, told, true).await);
            assert!(message.contains(&format!("metadata.{field}[{key}]")), "{message}");
            // What is there may stay, and is nobody's to take away.
            let name = format!("old-{n}");
            create(&server.client(), kind.name(), &team, with(kind, &name, field, key, "x"), false)
                .await
                .expect("admin");
            let touch = json!({"metadata": {"labels": {"example.com/a": "b"}}});
            merge(&root, kind.name(), &team, &name, touch).await.expect("it is left as it is");
            for value in [json!("y"), Value::Null] {
                let patch = json!({"metadata": {field: {key: value}}});
                refusal(merge(&root, kind.name(), &team, &name, patch).await);
            }
            let patch = json!({"metadata": {field: {key: null}}});
            merge(&operator(server), kind.name(), &team, &name, patch).await.expect("the operator");
        }
    }
    for (kind, field, key) in people {
        create(&root, kind.name(), &team, with(kind, "people", field, key, "x"), true)
            .await
            .unwrap_or_else(|e| panic!("{kind} {key}: {e}"));
    }
}

#[tokio::test]
async fn waves_before_those_of_others_are_given_by_the_platform() {
    let server = server().await;
    let team = server.namespace("team").await;
    let root = in_one_namespace(server, "root-of-waves", &team).await;
    let wave = |name: &str, wave: &str| with(Kind::Cluster, name, "labels", labels::WAVE, wave);
    let attempt = async || create(&root, "Cluster", &team, wave("late", "5"), false).await;
    eventually(Duration::from_secs(5), "rights", attempt).await.expect("not before others");
    for early in ["0", "4", "00"] {
        let message = refusal(create(&root, "Cluster", &team, wave("early", early), true).await);
        assert!(message.contains("waves below 5") && message.contains("admissionPolicies.earlyWaves"), "{message}");
        refusal(merge(&root, "Cluster", &team, "late", json!({"metadata": {"labels": {labels::WAVE: early}}})).await);
    }
    for late in ["6", "9", "x"] {
        create(&root, "Cluster", &team, wave("other", late), true).await.expect("not before others");
    }
    // One of before the policy.
    create(&server.client(), "Cluster", &team, wave("old", "0"), false).await.expect("admin");
    merge(&root, "Cluster", &team, "old", json!({"spec": {"version": "1.36.2"}})).await.expect("it stays");
    merge(&root, "Cluster", &team, "old", json!({"metadata": {"labels": {labels::WAVE: null}}}))
        .await
        .expect("it may go");
}

#[tokio::test]
async fn metadata_of_berths_kinds_is_bounded() {
    let server = server().await;
    let team = server.namespace("team").await;
    let root = in_one_namespace(server, "root-of-sizes", &team).await;
    for kind in kinds() {
        let large = |bytes: usize| by("root-of-sizes", with(kind, "large", "annotations", "a", &"x".repeat(bytes)));
        let attempt = async || create(&root, kind.name(), &team, large(65_535), true).await;
        eventually(Duration::from_secs(5), "rights", attempt).await.expect("as much as may be");
        let message = refusal(create(&root, kind.name(), &team, large(65_536), true).await);
        assert!(message.contains("has 65537 bytes, and may have 65536"), "{message}");
        let mut many = by("root-of-sizes", object(kind, "large"));
        many["metadata"]["labels"] =
            (0..200).map(|n| (format!("l{n}"), serde_json::json!(""))).collect::<serde_json::Map<_, _>>().into();
        let message = refusal(create(&root, kind.name(), &team, many, true).await);
        assert!(
            message.contains("has 200 labels, annotations, finalizers and owner references, and may have 128"),
            "{message}"
        );
        // One of before the policy is changed, and made smaller.
        create(&server.client(), kind.name(), &team, object(kind, "large"), false).await.expect("admin");
        merge(
            &operator(server),
            kind.name(),
            &team,
            "large",
            json!({"metadata": {"annotations": {"a": "x".repeat(200_000)}}}),
        )
        .await
        .expect("the operator");
        let touch = |value: usize| json!({"metadata": {"annotations": {"a": "x".repeat(value)}}});
        merge(&root, kind.name(), &team, "large", touch(100_000)).await.expect("smaller");
        refusal(merge(&root, kind.name(), &team, "large", touch(100_001)).await);
    }
}
