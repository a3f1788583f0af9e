//! What the charts render, without a cluster.

use super::{helm, render};
use serde_json::Value;

#[test]
fn values_that_make_no_sense_are_refused() {
    for (value, why) in [
        ("operator.replicas=99", "replicas"),
        ("operator.image.tag=latest", "tag"),
        ("operator.imge=x", "imge"),
        ("operator.image.digest=sha256:ab", "digest"),
        ("etcdNamespaces={A_B}", "etcdNamespaces"),
        ("imageRegistry=registry/", "imageRegistry"),
        ("imagePullPolicy=Sometimes", "imagePullPolicy"),
        ("admissionPolicies.namespaceLabels={a b}", "namespaceLabels"),
    ] {
        let output = helm(&["template", "berth", "berth", "--set", value]);
        let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && complaint.contains(why), "{value}: {complaint}");
    }
}

#[test]
fn labels_that_webhooks_add_are_allowed_by_a_value() {
    let label = "admissionPolicies.namespaceLabels={example.com/cost-center}";
    for (values, allowed) in [(&[][..], false), (&["--set", label], true)] {
        let objects = render("berth", values);
        let named =
            |o: &&Value| o["metadata"]["name"] == "berth-operator-namespaces" && o["spec"]["validations"].is_array();
        let policy = objects.iter().find(named).expect("the policy").to_string();
        assert_eq!(policy.contains("|| key in ['example.com/cost-center'])"), allowed, "{policy}");
    }
}

#[test]
fn a_team_may_write_clusters_and_read_the_kubeconfigs_that_are_named() {
    let team = r#"teams=[{"namespace": "team-a", "kubeconfigs": ["acme"],
        "subjects": [{"kind": "Group", "name": "team-a"}, {"kind": "ServiceAccount", "name": "ci", "namespace": "ci"}]}]"#;
    let objects = render("berth", &["--set-json", team]);
    let in_team: Vec<_> = objects.iter().filter(|o| o["metadata"]["namespace"] == "team-a").collect();
    let named = |kind: &str, name: &str| {
        let found = in_team.iter().find(|o| o["kind"] == kind && o["metadata"]["name"] == name);
        *found.unwrap_or_else(|| panic!("{kind} {name}"))
    };
    assert_eq!(in_team.len(), 3);
    let rules = serde_json::json!([{
        "apiGroups": [""], "resources": ["secrets"], "resourceNames": ["acme-kubeconfig"], "verbs": ["get"],
    }]);
    assert_eq!(named("Role", "berth-kubeconfigs")["rules"], rules);
    let api_group = "rbac.authorization.k8s.io";
    let subjects = serde_json::json!([
        {"apiGroup": api_group, "kind": "Group", "name": "team-a"},
        {"kind": "ServiceAccount", "name": "ci", "namespace": "ci"},
    ]);
    for (binding, kind, role) in [
        ("berth-cluster-editor", "ClusterRole", "berth-cluster-editor"),
        ("berth-kubeconfigs", "Role", "berth-kubeconfigs"),
    ] {
        let binding = named("RoleBinding", binding);
        assert_eq!(binding["roleRef"], serde_json::json!({"apiGroup": api_group, "kind": kind, "name": role}));
        assert_eq!(binding["subjects"], subjects);
    }
    assert!(render("berth", &[]).iter().all(|o| o["metadata"]["namespace"] != "team-a"));
}

#[test]
fn crds_survive_the_uninstallation() {
    for crd in render("berth-crds", &[]) {
        assert_eq!(crd["metadata"]["annotations"]["helm.sh/resource-policy"], "keep", "{}", crd["metadata"]["name"]);
    }
}

#[test]
fn the_operator_runs_restricted_with_images_of_the_charts_version() {
    let objects = render("berth", &["--set", "imageRegistry=registry.example.com/k8s"]);
    let deployment = objects.iter().find(|o| o["kind"] == "Deployment").expect("a Deployment");
    let pod = &deployment["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    assert_eq!(container["image"], "ghcr.io/berth-dev/operator:0.1.0");
    let args = container["args"].to_string();
    for arg in [
        "--agent-image=ghcr.io/berth-dev/agent:0.1.0",
        "--agent-delivery=Auto",
        "--image-registry=registry.example.com/k8s",
        "--leaf-lifetime-minutes=129600",
    ] {
        assert!(args.contains(arg), "{arg}: {args}");
    }
    assert_eq!(container["securityContext"]["readOnlyRootFilesystem"], true);
    assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
}

/// With the annotations that `make release` adds to Chart.yaml.
#[test]
fn a_released_chart_pins_its_images_unless_somebody_sets_others() {
    let dir = tempfile::tempdir().unwrap();
    let charts = berth_testkit::fixtures::package().join("../charts");
    let mut copy = std::process::Command::new("cp");
    assert!(copy.current_dir(charts).args(["-r", "berth"]).arg(dir.path()).status().unwrap().success());
    let chart = dir.path().join("berth");
    let digest = |letter: &str| format!("sha256:{}", letter.repeat(64));
    let about = std::fs::read_to_string(chart.join("Chart.yaml")).unwrap();
    let annotations = format!(
        "annotations:\n  berth.dev/operator-digest: \"{}\"\n  berth.dev/agent-digest: \"{}\"\n",
        digest("a"),
        digest("b")
    );
    std::fs::write(chart.join("Chart.yaml"), about + &annotations).unwrap();
    let images = |values: &[&str]| {
        let set: Vec<&str> = values.iter().flat_map(|v| ["--set", v]).collect();
        let objects = render(chart.to_str().unwrap(), &set);
        let deployment = objects.iter().find(|o| o["kind"] == "Deployment").expect("a Deployment");
        let container = &deployment["spec"]["template"]["spec"]["containers"][0];
        let mut args = container["args"].as_array().expect("arguments").iter().filter_map(|a| a.as_str());
        let agent = args.find_map(|a| a.strip_prefix("--agent-image=")).expect("an agent").to_owned();
        [container["image"].as_str().expect("an image").to_owned(), agent]
    };
    let (a, b, c) = (digest("a"), digest("b"), digest("c"));
    let released = [format!("ghcr.io/berth-dev/operator:0.1.0@{a}"), format!("ghcr.io/berth-dev/agent:0.1.0@{b}")];
    assert_eq!(images(&[]), released);
    // The digest is the same wherever the image is mirrored.
    assert_eq!(images(&["operator.image.repository=reg:5000/o"])[0], format!("reg:5000/o:0.1.0@{a}"));
    let own = images(&["operator.image.tag=mine", &format!("agent.image.digest={c}")]);
    assert_eq!(own, ["ghcr.io/berth-dev/operator:mine".to_owned(), format!("ghcr.io/berth-dev/agent:0.1.0@{c}")]);
}

#[test]
fn annotations_of_services_are_those_that_writers_may_ask_for() {
    let lists = r#"writers.service.annotations=["example.com/lb*", "a.example/b=internal", "a.example/c=x*"]"#;
    let objects = render("berth", &["--set-json", lists, "--set", "admissionPolicies.annotations={w.example/added}"]);
    let named = |o: &&Value| o["metadata"]["name"] == "berth-operator-services" && o["spec"]["validations"].is_array();
    let policy = objects.iter().find(named).expect("the policy");
    let all: Vec<&str> =
        policy["spec"]["validations"].as_array().unwrap().iter().filter_map(|v| v["expression"].as_str()).collect();
    let expression = all.last().unwrap();
    for part in [
        r#"|| (key.startsWith("example.com/lb"))"#,
        r#"|| (key == "a.example/b" && object.metadata.annotations[key] == "internal")"#,
        r#"|| (key == "a.example/c" && object.metadata.annotations[key].startsWith("x"))"#,
        "|| key in ['w.example/added']",
    ] {
        assert!(expression.contains(part), "{part}: {expression}");
    }
}

#[test]
fn a_teams_quota_counts_objects_of_berths_kinds() {
    let team = r#"teams=[{"namespace": "team-a", "subjects": [{"kind": "Group", "name": "team-a"}],
        "quota": {"clusters": 3, "etcdbackups": 500}}]"#;
    let objects = render("berth", &["--set-json", team]);
    let quota = objects.iter().find(|o| o["kind"] == "ResourceQuota").expect("a ResourceQuota");
    assert_eq!(quota["metadata"]["namespace"], "team-a");
    let hard = serde_json::json!({"count/clusters.berth.dev": "3", "count/etcdbackups.berth.dev": "500"});
    assert_eq!(quota["spec"]["hard"], hard);
    assert!(render("berth", &[]).iter().all(|o| o["kind"] != "ResourceQuota"));
}
