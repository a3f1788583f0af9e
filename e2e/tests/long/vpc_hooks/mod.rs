//! An API server in a VPC calls what runs on the tenant's nodes, a webhook and an aggregated API, by routes; by none of its ways it reaches
//! the meta cluster. Meanwhile the node's certificates expire within minutes, and are renewed.

mod closed;
mod renewed;

use anyhow::{Context as _, Result, ensure};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use berth_devcluster::{Vpc, Worker, images};
use berth_e2e::{Kubectl, NEWEST, Tenant, World, certs, machines, network::define, run::run, until};
use serde_json::{Value, json};

const TEAM: &str = "team-e2e";
const ADDRESS: &str = "172.20.0.2";
const AGNHOST: &str = "registry.k8s.io/e2e-test-images/agnhost:2.63.0";

#[test]
#[ignore = "make test-all: a machine in a VPC, with a kubelet of its own"]
fn an_api_server_calls_pods_and_nothing_of_the_meta_cluster() {
    run("vpc_hooks", |world| {
        let vpc = world.cluster.vpc("a")?;
        machines::with(world, &["hooks"], Some("a"), &images::of_nodes()?, |workers| {
            work(world, &vpc, workers.first().context("a machine")?)
        })
    });
}

fn work(world: &World, vpc: &Vpc, worker: &Worker) -> Result<()> {
    define(world, &vpc.definition(TEAM))?;
    let spec = json!({
        "version": NEWEST,
        "vpc": {
            "attachment": {"name": vpc.master()}, "addresses": [format!("{ADDRESS}/24")],
            "routes": [{"dst": "10.160.0.0/16", "via": vpc.router()}],
        },
        "addons": {"coreDNS": {"enabled": false}, "kubeProxy": {"mode": "nftables", "config": {"conntrack": {"maxPerCore": 0, "min": 0}}}},
    });
    let tenant = Tenant::ready(world, "hooked", &spec)?;
    renewed::certificates_are_short_lived(world, &tenant)?;
    machines::join(&tenant, worker)?;
    let before = renewed::Certificates::of(vpc, worker)?;
    let kubectl = Kubectl::of(&tenant)?;
    a_webhook_on_the_node(&kubectl)?;
    an_aggregated_api_on_the_node(&kubectl)?;
    closed::the_meta_cluster_is_not_reached(world, &tenant, &kubectl)?;
    before.are_renewed((vpc, worker), &kubectl)?;
    world.start_operator()?;
    tenant.wait_ready()?;
    tenant.delete()
}

/// A pod behind a Service, with a certificate for the Service's name.
fn serves(kubectl: &Kubectl, name: &str, container: &Value) -> Result<String> {
    let (certificate, key) = certs::self_signed_for(&format!("DNS:{name}.default.svc"))?;
    let mut container = container.clone();
    container["name"] = json!(name);
    container["image"] = json!(AGNHOST);
    container["volumeMounts"] = json!([{"name": "tls", "mountPath": "/tls"}]);
    let labels = json!({"app": name});
    kubectl.apply(&[
        json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": "default"}, "type": "kubernetes.io/tls",
            "stringData": {"tls.crt": certificate, "tls.key": key},
        }),
        json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default", "labels": labels},
            "spec": {"containers": [container], "volumes": [{"name": "tls", "secret": {"secretName": name}}]},
        }),
        json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": "default"},
            "spec": {"selector": labels, "ports": [{"port": 443, "targetPort": 8443}]},
        }),
    ])?;
    kubectl.until("the pod to be ready", &["wait", "pod", name, "--for=condition=Ready", "--timeout=2s"])?;
    Ok(STANDARD.encode(certificate))
}

/// A configuration that asks about ConfigMaps in `default`, and fails where nobody answers.
fn asked_about_config_maps(name: &str, client: &Value) -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration", "metadata": {"name": name},
        "webhooks": [{
            "name": format!("{name}.example.com"), "admissionReviewVersions": ["v1"], "sideEffects": "None", "timeoutSeconds": 5,
            "failurePolicy": "Fail", "clientConfig": client,
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}],
        }],
    })
}

/// It lets one ConfigMap pass, and refuses another one.
fn a_webhook_on_the_node(kubectl: &Kubectl) -> Result<()> {
    let args = ["webhook", "--port=8443", "--tls-cert-file=/tls/tls.crt", "--tls-private-key-file=/tls/tls.key"];
    let ca = serves(kubectl, "hook", &json!({"args": args}))?;
    let service = json!({"name": "hook", "namespace": "default", "path": "/configmaps", "port": 443});
    kubectl.apply(&[asked_about_config_maps("hook", &json!({"service": service, "caBundle": ca}))])?;
    let create = |name: &str, value: &str| {
        kubectl.run(&["create", "configmap", name, &format!("--from-literal=webhook-e2e-test={value}")])
    };
    until("the webhook to refuse a ConfigMap", || {
        let said = create("bad", "webhook-disallow").err().context("it was created")?.to_string();
        ensure!(said.contains("the configmap contains unwanted key and value"), "{said}");
        Ok(())
    })?;
    create("good", "anything")?;
    kubectl.run(&["delete", "validatingwebhookconfiguration", "hook"]).map(drop)
}

fn an_aggregated_api_on_the_node(kubectl: &Kubectl) -> Result<()> {
    let list =
        json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "hello.example.com/v1", "resources": []});
    let env = json!([
        {"name": "SERVE_TLS_PORT_8443", "value": list.to_string()},
        {"name": "CERT_FILE", "value": "/tls/tls.crt"}, {"name": "KEY_FILE", "value": "/tls/tls.key"},
    ]);
    let ca = serves(kubectl, "aggregated", &json!({"args": ["porter"], "env": env}))?;
    kubectl.apply(&[json!({
        "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": "v1.hello.example.com"},
        "spec": {
            "group": "hello.example.com", "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 10, "caBundle": ca,
            "service": {"name": "aggregated", "namespace": "default", "port": 443},
        },
    })])?;
    let said = kubectl.until("the aggregated API to answer", &["get", "--raw", "/apis/hello.example.com/v1"])?;
    let said: Value = serde_json::from_str(&said)?;
    ensure!(said == list, "{said}");
    kubectl.until(
        "the APIService to be available",
        &["wait", "apiservice", "v1.hello.example.com", "--for=condition=Available", "--timeout=2s"],
    )?;
    kubectl.run(&["delete", "apiservice", "v1.hello.example.com"]).map(drop)
}
