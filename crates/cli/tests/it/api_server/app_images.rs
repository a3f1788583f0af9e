//! `images --app` and `apps plan --objects`, by the real Helm.

use super::*;
use berth_testkit::apiserver::binary;
use berth_testkit::charts;
use std::path::Path;

const TEMPLATE: &str = r#"apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  template:
    spec:
      containers:
        - {name: web, image: "{{ .Values.registry | default "docker.io/acme" }}/web:{{ .Values.tag }}"}
        {{- if .Values.sidecar }}
        - {name: sidecar, image: {{ required "sidecar.image is missing" .Values.sidecar.image | quote }}}
        {{- end }}
"#;

/// A repository with a chart.
fn repository(dir: &Path) -> String {
    charts::serve(dir, "kubeVersion: '>=1.36'\n", "tag: latest\n", TEMPLATE)
}

fn all(output: &Output) -> String {
    format!("{}{}", out(output), err(output))
}

#[tokio::test]
async fn images_of_an_app_are_those_that_its_chart_renders_for_each_cluster() {
    let team = Team::new(ADMIN).await;
    let helm = binary("tools", "helm-3.22.0", "helm").unwrap();
    let path = format!("{}:{}", helm.parent().unwrap().display(), std::env::var("PATH").unwrap());
    let run = |args: &[&str]| team.run_with(&[args, &["-n", &team.ns]].concat(), &[("PATH", &*path)]);
    let apps = format!("/apis/berth.dev/v1alpha1/namespaces/{}/apps", team.ns);
    let maps = format!("/api/v1/namespaces/{}/configmaps", team.ns);
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "tags", "labels": {"berth.dev/app-values": "true"}},
        "data": {"values.yaml": "tag: 2.0.0\n"},
    });
    let chart = json!({"repository": repository(team.dir.path()), "name": "web", "version": "1.0.0"});
    let app = |name: &str, more: &Value| {
        let mut spec = json!({"clusterSelector": {}, "chart": chart});
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"apiVersion": "berth.dev/v1alpha1", "kind": "App", "metadata": {"name": name}, "spec": spec})
    };
    let from_map = json!({
        "valuesFrom": [{"configMapRef": {"name": "tags"}}],
        "valuesTemplate": "{% if cluster.imageRegistry %}\nregistry: {{ cluster.imageRegistry }}\n{% endif %}\n",
        "values": {"sidecar": {"image": "docker.io/acme/side:1"}},
    });
    let made = team.post(&apps, &app("web", &from_map)).await;
    let early = run(&["images", "--app", "web"]);
    let says = format!("key values.yaml of ConfigMap {}/tags, which spec.valuesFrom names", team.ns);
    assert!(early.status.code() == Some(1) && err(&early).contains(&says), "{}", all(&early));
    team.post(&maps, &map).await;
    let listed = run(&["images", "--app", "web", "--to", "mirror.example.com/k8s"]);
    let lines = "docker.io/acme/side:1 mirror.example.com/k8s/side:1\ndocker.io/acme/web:2.0.0 mirror.example.com/k8s/web:2.0.0\n";
    assert_eq!((out(&listed), listed.status.code()), (lines, Some(0)), "{}", all(&listed));
    assert!(err(&listed).contains("are not listed"), "{}", err(&listed));

    // What an App would change is said by the same Helm.
    let plan = run(&["apps", "plan", "web", "--objects"]);
    let says = format!("{}/acme\n  create Deployment.apps default/web\n", team.ns);
    assert!(plan.status.code() == Some(3) && out(&plan).contains(&says), "{}", all(&plan));

    let mut release = made["spec"].clone();
    release
        .as_object_mut()
        .unwrap()
        .retain(|field, _| ["chart", "valuesFrom", "valuesTemplate", "values"].contains(&&**field));
    let installation = json!({
        "apiVersion": "berth.dev/v1alpha1", "kind": "AppInstallation",
        "metadata": {
            "name": "acme-web",
            "labels": {"berth.dev/app": "web", "berth.dev/app-namespace": team.ns, "berth.dev/cluster-name": "acme"},
        },
        "spec": {
            "app": {"namespace": team.ns, "name": "web", "uid": made["metadata"]["uid"]}, "cluster": {"name": "acme", "uid": "u"},
            "release": release, "digest": "of-an-older-map",
            "configMaps": [{"name": "tags", "key": "values.yaml", "values": "{\"tag\":\"1.0.0\"}"}],
        },
    });
    team.post(&format!("/apis/berth.dev/v1alpha1/namespaces/{}/appinstallations", team.ns), &installation).await;
    let plan = run(&["apps", "plan", "web", "--objects"]);
    let says = "  change Deployment.apps default/web  its pods restart\n    .spec.template.spec.containers[0].image: docker.io/acme/web:1.0.0 → docker.io/acme/web:2.0.0\n";
    assert!(plan.status.code() == Some(3) && out(&plan).contains(says), "{}", all(&plan));

    // What fails is said, and what the others have is listed.
    team.post(&apps, &app("broken", &json!({"values": {"sidecar": {"on": true}}}))).await;
    let some = run(&["images", "--apps"]);
    assert_eq!(some.status.code(), Some(1), "{}", all(&some));
    assert!(out(&some).contains("docker.io/acme/web:2.0.0\n"), "{}", all(&some));
    assert!(err(&some).contains("/broken: helm template: ") && err(&some).contains("sidecar.image is missing"));
    team.post(&apps, &app("waits", &json!({"valuesTemplate": "tag: {{ cluster.endpoint.host }}"}))).await;
    let waits = run(&["images", "--app", "waits", "--cluster", "acme"]);
    assert!(
        waits.status.code() == Some(3) && err(&waits).contains("is left out: its values wait for"),
        "{}",
        all(&waits)
    );
    let other = run(&["images", "--app", "web", "--cluster", "nosuch"]);
    assert!(other.status.code() == Some(1) && err(&other).contains("it is not for Cluster"), "{}", all(&other));
}
