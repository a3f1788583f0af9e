//! Who writes AppInstallations: whoever could would have a Job install any chart, from anywhere.

use super::protection::{delete, in_one_namespace, merge};
use super::*;

fn installation(name: &str) -> Value {
    let release = json!({"chart": {"oci": "oci://anywhere/web", "version": "1.0.0"}});
    let spec = json!({
        "app": {"namespace": "berth-system", "name": "web", "uid": "u"}, "cluster": {"name": "acme", "uid": "u"},
        "release": release, "digest": "d",
    });
    json!({"apiVersion": "berth.dev/v1alpha1", "kind": "AppInstallation", "metadata": {"name": name}, "spec": spec})
}

/// Ok once the policy of this page refuses.
pub(crate) async fn in_force(server: &ApiServer) -> Result<(), String> {
    let root = in_one_namespace(server, "root-of-default", "default").await;
    denied(create(&root, "AppInstallation", "default", installation("probe"), true).await)
}

#[tokio::test]
async fn berth_alone_writes_installations() {
    let server = server().await;
    let team = server.namespace("team").await;
    let root = in_one_namespace(server, "root-of-apps", &team).await;
    let said = "change or delete the App instead";
    let make = async || create(&root, "AppInstallation", &team, installation("own"), true).await;
    let refused = async || {
        let Err(kube::Error::Api(error)) = make().await else { return Err("it was let through".to_owned()) };
        if error.message.contains(said) { Ok(()) } else { Err(error.message) }
    };
    eventually(Duration::from_secs(5), "rights", refused).await.expect("nobody makes one");
    create(&operator(server), "AppInstallation", &team, installation("web"), false).await.expect("the operator");
    let more = json!({"spec": {"release": {"chart": {"version": "2.0.0"}}}});
    for refused in [
        refusal(merge(&root, "AppInstallation", &team, "web", more.clone()).await),
        refusal(delete(&root, "AppInstallation", &team, "web", true).await),
    ] {
        assert!(refused.contains(said), "{refused}");
    }
    let status = Patch::Merge(json!({"status": {"phase": "Deployed"}}));
    let of_team = dynamic(&root, "AppInstallation", &team);
    let refused = refusal(of_team.patch_status("web", &PatchParams::default(), &status).await);
    // That of all statuses refuses it as well, and either is the first to say so.
    assert!(refused.contains(said) || refused.contains("only Berth writes the status"), "{refused}");
    merge(&operator(server), "AppInstallation", &team, "web", more).await.expect("the operator");
    delete(&server.client(), "AppInstallation", &team, "web", false).await.expect("a cluster-admin");
}
