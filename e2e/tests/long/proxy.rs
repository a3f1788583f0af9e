//! A proxy in pods: one of the spec keeps nothing of the tenant's from the rest, and one that admission injects is named.

use anyhow::{Result, ensure};
use berth_e2e::world::World;
use berth_e2e::{Tenant, core, tenant::condition, tenant::name_of, until};
use serde_json::{Value, json};

/// Nobody is there.
const PROXY: &str = "http://192.0.2.3:3128";
const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies";
const BINDINGS: &str = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings";
const NAME: &str = "inject-proxy";
/// A namespace in which it is looked whether the policy is in force.
const PROBE: &str = "proxy-probe";

#[test]
#[ignore = "make test-all: what is told is tested in memory, and what kube-apiserver asks of a proxy in a process; here both are in pods"]
fn a_proxy_of_the_spec_harms_nothing_and_one_that_admission_injects_is_named() {
    berth_e2e::run("proxy", |world| {
        println!("    one of the spec, where nobody is");
        let tenant = Tenant::ready(world, "proxy", &json!({"proxy": {"http": PROXY, "https": PROXY}}))?;
        tenant.scheduler_works()?;
        ensure!(variables(&tenant)?.iter().any(|name| name == "NO_PROXY"), "{:?}", variables(&tenant)?);
        tenant.change(&json!({"proxy": null}))?;
        until("the API server to be without", || {
            let left = variables(&tenant)?;
            ensure!(left.iter().all(|name| !name.ends_with("_PROXY")), "{left:?}");
            Ok(())
        })?;
        tenant.wait_ready()?;
        tenant.let_go()?;

        println!("    one that a policy puts into each pod of a control plane");
        install(world, &Tenant::named(world, "proxied").cp_namespace)?;
        let tenant = Tenant::create(world, "proxied", &json!({}))?;
        let message = until("the proxy to be named", || {
            let cluster = tenant.cluster()?;
            let ready = condition(&cluster, "Ready")?;
            let message = ready["message"].as_str().unwrap_or_default().to_owned();
            ensure!(ready["status"] == "False" && message.contains("NO_PROXY lacks .svc,"), "{ready}");
            Ok(message)
        })?;
        println!("    {message}");
        ensure!(!message.contains("192.0.2.3"), "it may have a password: {message}");
        uninstall(world)?;
        let pods = core(&tenant.cp_namespace, "pods");
        for pod in tenant.pods(None)? {
            world.kube.delete(&format!("{pods}/{}", name_of(&pod)))?;
        }
        tenant.wait_ready()?;
        tenant.scheduler_works()?;
        tenant.let_go()
    });
}

/// Names of the variables of the running API server.
fn variables(tenant: &Tenant<'_>) -> Result<Vec<String>> {
    let live = tenant.deployment("kube-apiserver")?;
    let all = live["spec"]["template"]["spec"]["containers"][0]["env"].as_array().cloned().unwrap_or_default();
    Ok(all.iter().filter_map(|variable| variable["name"].as_str()).map(str::to_owned).collect())
}

/// In force for pods that are made in that namespace from then on.
fn install(world: &World, namespace: &str) -> Result<()> {
    let env = format!("[Object.spec.containers.env{{name: 'HTTPS_PROXY', value: '{PROXY}'}}]");
    let containers = format!("object.spec.containers.map(c, Object.spec.containers{{name: c.name, env: {env}}})");
    let expression = format!("Object{{spec: Object.spec{{containers: {containers}}}}}");
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicy", "metadata": {"name": NAME},
        "spec": {
            "reinvocationPolicy": "Never", "failurePolicy": "Fail",
            "matchConstraints": {
                "namespaceSelector": {"matchExpressions": [
                    {"key": "kubernetes.io/metadata.name", "operator": "In", "values": [namespace, PROBE]},
                ]},
                "resourceRules": [
                    {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]},
                ],
            },
            "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}],
        },
    });
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicyBinding",
        "metadata": {"name": NAME}, "spec": {"policyName": NAME},
    });
    world.kube.create(POLICIES, &policy)?;
    world.kube.create(BINDINGS, &binding)?;
    let probe: Value = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": PROBE}});
    world.kube.ensure(&core("", "namespaces"), &probe)?;
    until("the policy to be in force", || in_force(world, true))
}

/// It is in force no more.
fn uninstall(world: &World) -> Result<()> {
    world.kube.delete(&format!("{BINDINGS}/{NAME}"))?;
    world.kube.delete(&format!("{POLICIES}/{NAME}"))?;
    until("the policy to be out of force", || in_force(world, false))?;
    world.kube.delete(&format!("{}/{PROBE}", core("", "namespaces")))
}

/// The API server takes a while for it, either way.
fn in_force(world: &World, is: bool) -> Result<()> {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "probe"},
        "spec": {"containers": [{"name": "probe", "image": "probe:none"}]},
    });
    let made = world.kube.create(&format!("{}?dryRun=All", core(PROBE, "pods")), &pod)?;
    ensure!((made["spec"]["containers"][0]["env"][0]["name"] == "HTTPS_PROXY") == is, "{}", made["spec"]);
    Ok(())
}
