//! `apps`, against an API server on which nobody works.

use super::*;

fn text(output: &Output) -> String {
    format!("{}{}", out(output), err(output))
}

/// An App as its controller has left it, with an installation in acme.
async fn app(team: &Team) {
    let all = format!("/apis/berth.dev/v1alpha1/namespaces/{}", team.ns);
    let spec = json!({
        "clusterSelector": {}, "chart": {"oci": "oci://reg.example.com/charts/web", "version": "2.0.0"},
        "valuesTemplate": "host: {{ cluster.endpoint.host }}\nname: {{ cluster.name }}\n",
        "values": {"rule": "{{ $labels.pod }}"},
    });
    let app = json!({"apiVersion": "berth.dev/v1alpha1", "kind": "App", "metadata": {"name": "web"}, "spec": spec});
    let made = team.post(&format!("{all}/apps"), &app).await;
    let release = json!({"chart": spec["chart"], "namespace": "shop"});
    let installation = json!({
        "apiVersion": "berth.dev/v1alpha1", "kind": "AppInstallation",
        "metadata": {"name": "acme-web", "labels": {
            "berth.dev/app": "web", "berth.dev/app-namespace": team.ns, "berth.dev/cluster-name": "acme",
        }},
        "spec": {
            "app": {"namespace": team.ns, "name": "web", "uid": made["metadata"]["uid"]},
            "cluster": {"name": "acme", "uid": "u"}, "release": release, "digest": "of-an-older-spec",
        },
    });
    team.post(&format!("{all}/appinstallations"), &installation).await;
}

#[tokio::test]
async fn apps_are_listed_and_their_values_shown() {
    let team = Team::new(ADMIN).await;
    let none = team.here(&["apps"]);
    assert!(none.status.code() == Some(0) && text(&none).contains("there is no App"), "{}", text(&none));
    app(&team).await;
    let listed = team.here(&["apps"]);
    assert!(
        listed.status.code() == Some(3) && text(&listed).contains(&format!("{}/web", team.ns)),
        "{}",
        text(&listed)
    );
    let one = team.here(&["apps", "web", "-o", "json"]);
    let tenants: Value = serde_json::from_slice(&one.stdout).unwrap();
    assert_eq!(tenants[0]["cluster"], format!("{}/acme", team.ns));
    assert_eq!((tenants[0]["state"].as_str(), one.status.code()), (Some("Queued"), Some(3)), "it has an older spec");
    let has = team.here(&["apps", "--cluster", "acme"]);
    assert!(out(&has).contains("Running"), "{}", text(&has));
    let gone = team.here(&["apps", "nosuch"]);
    assert!(gone.status.code() == Some(1) && text(&gone).contains("does not exist"), "{}", text(&gone));

    let waits = team.here(&["apps", "render", "web"]);
    let says = "waiting for Cluster";
    assert!(waits.status.code() == Some(3) && out(&waits).contains(says), "{}", text(&waits));
    let endpoint = json!({"name": "admin", "host": "192.0.2.1", "port": 6443});
    team.merge("/acme/status", &json!({"status": {"version": "1.36.3", "endpoints": [endpoint]}})).await;
    let rendered = team.here(&["apps", "render", "web", "--cluster", "acme", "-o", "json"]);
    let values: Value = serde_json::from_slice(&rendered.stdout).unwrap();
    assert_eq!(values[0]["values"], json!({"host": "192.0.2.1", "name": "acme", "rule": "{{ $labels.pod }}"}));

    let from = json!({"spec": {"valuesFrom": [{"configMapRef": {"name": "sizes"}}]}});
    let patch = Request::patch(format!("/apis/berth.dev/v1alpha1/namespaces/{}/apps/web", team.ns));
    let patch = patch.header("content-type", "application/merge-patch+json").body(from.to_string().into_bytes());
    team.server.client().request::<Value>(patch.unwrap()).await.unwrap();
    for verb in ["render", "plan"] {
        let missing = team.here(&["apps", verb, "web"]);
        let says = format!("the App waits for key values.yaml of ConfigMap {}/sizes", team.ns);
        assert!(missing.status.code() == Some(1) && text(&missing).contains(&says), "{}", text(&missing));
    }
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "sizes", "labels": {"berth.dev/app-values": "true"}},
        "data": {"values.yaml": "size: 2\nname: counts less\n"}, "immutable": true,
    });
    team.post(&format!("/api/v1/namespaces/{}/configmaps", team.ns), &map).await;
    let rendered = team.here(&["apps", "render", "web", "--cluster", "acme", "-o", "json"]);
    let values: Value = serde_json::from_slice(&rendered.stdout).unwrap();
    let expected = json!({"size": 2, "host": "192.0.2.1", "name": "acme", "rule": "{{ $labels.pod }}"});
    assert_eq!(values[0]["values"], expected);
    let plan = team.here(&["apps", "plan", "web"]);
    assert!(plan.status.code() == Some(3) && out(&plan).contains("Upgrade"), "{}", text(&plan));

    let file = team.file(
        "app.yaml",
        "apiVersion: berth.dev/v1alpha1\nkind: App\nmetadata: {name: new}\nspec:\n  clusterRefs: [{name: nosuch}]\n  chart: {oci: oci://reg.example.com/web, version: 1.0.0}\n",
    );
    let file = team.here(&["apps", "render", "-f", &file]);
    assert!(text(&file).contains("nosuch does not exist") && text(&file).contains("it is for no Cluster"));
}
