//! Kubernetes' own controllers, the real ones, under the policies: what they have to do they can, and a protected `Cluster` and what
//! cannot be made again stay.

use super::protection::{delete, merge, tenant};
use super::*;
use berth_testkit::apiserver::{Options, Process, binary};

/// Those that delete things: namespaces' content, garbage; and what lets claims go.
const CONTROLLERS: &str =
    "namespace-controller,garbage-collector-controller,persistentvolumeclaim-protection-controller";

const SOON: Duration = Duration::from_mins(2);

fn start(server: &ApiServer) -> Process {
    let program = binary("kubernetes", &Options::default().kubernetes, "kube-controller-manager").expect("binary");
    let kubeconfig = server.dir().join("controllers.kubeconfig");
    std::fs::write(&kubeconfig, server.kubeconfig_as("admin", &["system:masters"])).expect("kubeconfig");
    let args = [
        format!("--kubeconfig={}", kubeconfig.display()),
        format!("--controllers={CONTROLLERS}"),
        "--use-service-account-credentials".into(),
        "--leader-elect=false".into(),
        "--secure-port=0".into(),
    ];
    Process::spawn(server.dir(), "kube-controller-manager", &program, &args).expect("kube-controller-manager starts")
}

#[tokio::test]
async fn the_real_ones_empty_what_ends_and_take_nothing_that_is_protected() {
    // Of its own: other tests look into namespaces that end.
    let server = &ApiServer::start().await.expect("a server");
    install(server).await;
    let mut controllers = start(server);
    let admin = server.client();
    let (team, cp_namespace) = tenant(server).await;
    create(&admin, "Cluster", &team, cluster("acme"), false).await.expect("a protected Cluster");
    let gone = async |namespace: &str| {
        let ended = async || match dynamic(&admin, "Namespace", "").get_opt(namespace).await {
            Ok(None) => Ok(()),
            other => Err(format!("{other:?}")),
        };
        eventually(SOON, "the namespace is gone", ended).await.unwrap_or_else(|e| panic!("{e:#}"));
    };

    // The garbage collector, for an owner that somebody added: a key stays, something else goes.
    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "owner"}});
    let owner = create(&admin, "ConfigMap", &cp_namespace, owner, false).await.expect("owner");
    let owned = json!({"metadata": {"ownerReferences": [
        {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner.uid()},
    ]}});
    for secret in ["acme-ca", names::SCHEDULER_PKI] {
        merge(&admin, "Secret", &cp_namespace, secret, owned.clone()).await.expect("owned");
    }
    delete(&admin, "ConfigMap", &cp_namespace, "owner", false).await.expect("delete");
    let collected = async || {
        let audit = server.audit();
        let tried = |name: &str, code: u16| {
            audit.iter().any(|e| {
                e.user.ends_with(":generic-garbage-collector") && e.verb == "delete" && e.name == name && e.code == code
            })
        };
        if tried("acme-ca", 403) && tried(names::SCHEDULER_PKI, 200) { Ok(()) } else { Err("not tried") }
    };
    eventually(SOON, "the garbage collector", collected).await.unwrap_or_else(|e| panic!("{e:#}"));
    controllers.check().expect("it runs");
    dynamic(&admin, "Secret", &cp_namespace).get("acme-ca").await.expect("the key stays");

    // ADR 12: the operator deletes the namespace, and the namespace controller what is in it.
    delete(&operator(server), "Namespace", "", &cp_namespace, false).await.expect("its own");
    gone(&cp_namespace).await;

    // A team's namespace waits for its protected Cluster.
    delete(&admin, "Namespace", "", &team, false).await.expect("delete");
    let held = async || {
        let live = dynamic(&admin, "Namespace", "").get(&team).await.map_err(|e| e.to_string())?;
        let conditions = live.data["status"]["conditions"].to_string();
        if conditions.contains("this Cluster is protected from deletion") { Ok(()) } else { Err(conditions) }
    };
    eventually(SOON, "the namespace says what holds it", held).await.unwrap_or_else(|e| panic!("{e:#}"));
    let live = dynamic(&admin, "Cluster", &team).get("acme").await.expect("it is there");
    assert_eq!(live.metadata.deletion_timestamp, None);
    let open = json!({"spec": {"deletion": {"protected": false}}});
    merge(&admin, "Cluster", &team, "acme", open).await.expect("patch");
    gone(&team).await;
}
