//! What the charts render, without a cluster.

use super::{helm, render};
use serde_json::Value;

#[test]
fn values_that_make_no_sense_are_refused() {
    for (value, why) in [
        ("operator.replicas=99", "replicas"),
        ("operator.image.tag=latest", "tag"),
        ("operator.imge=x", "imge"),
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
