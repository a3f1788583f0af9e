//! What the platform team may apply beside the charts.

use super::*;

const OLDEST: &str = include_str!("../../../../examples/oldest-patch-releases.yaml");

#[tokio::test]
async fn writers_get_no_patch_release_older_than_the_platform_teams_oldest() {
    let server = server().await;
    let team = server.namespace("team").await;
    let made = async |name: &str, version: &str| {
        let mut object = cluster(name);
        object["spec"]["version"] = version.into();
        create(&server.client(), "Cluster", &team, object, false).await
    };
    made("older", "1.36.1").await.expect("there is no policy yet");
    for object in OLDEST.split("---\n") {
        apply(&server.client(), berth_testkit::fixtures::from_yaml(object)).await.expect("the example is valid");
    }
    let refused = async || {
        let name = server.unique("probe");
        let error = made(&name, "1.34.0").await.err().map(|e| e.to_string()).unwrap_or_default();
        let message = "spec.version 1.34.0 is too old: ask for 1.34.4, 1.35.4, 1.36.2 or newer";
        if error.contains(message) { Ok(()) } else { Err(error) }
    };
    eventually(Duration::from_secs(30), "the policy is in force", refused).await.expect("it refuses");
    for (name, version) in [("a", "1.34.4"), ("b", "1.35.12"), ("c", "1.36.2"), ("d", "1.37.0")] {
        made(name, version).await.expect(version);
    }
    // What runs is left as it is; another version is a choice.
    let client = server.client();
    let change = async |patch: Value| protection::merge(&client, "Cluster", &team, "older", patch).await;
    change(json!({"spec": {"replicas": 2}, "metadata": {"finalizers": ["berth.dev/control-plane"]}}))
        .await
        .expect("kept");
    refusal(change(json!({"spec": {"version": "1.35.3"}})).await);
    change(json!({"spec": {"version": "1.36.2"}})).await.expect("new enough");
}
