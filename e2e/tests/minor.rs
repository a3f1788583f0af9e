//! A minor in two steps, with a client that opens a new connection each 100 ms: the new binaries emulate the old minor, go back, come again,
//! and then serve the new one, from where there is no way back.

use anyhow::{Context, Result, ensure};
use berth_e2e::{Caller, Kube, NEWEST, Tenant, core, tenant::condition, until};
use serde_json::{Value, json};

const OLD: &str = "1.35.4";

/// What is created before and read again after each step.
const KEPT: [(&str, &str); 4] = [
    ("/api/v1/namespaces/default/configmaps", r#"{"kind":"ConfigMap","data":{"a":"b"}}"#),
    ("/api/v1/namespaces/default/secrets", r#"{"kind":"Secret","stringData":{"a":"b"}}"#),
    (
        "/apis/networking.k8s.io/v1/namespaces/default/ingresses",
        r#"{"kind":"Ingress","spec":{"defaultBackend":{"service":{"name":"a","port":{"number":80}}}}}"#,
    ),
    (
        "/apis/apps/v1/namespaces/default/statefulsets",
        r#"{"kind":"StatefulSet","spec":{"replicas":0,"serviceName":"a","selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"registry.k8s.io/pause:3.10.1"}]}}}}"#,
    ),
];

#[test]
#[ignore = "make test-all: the binaries of the minor between take minutes to build, and six rollouts of two API servers minutes to run"]
fn a_minor_changes_in_two_steps_and_clients_are_served() {
    berth_e2e::run("minor", |world| {
        let spec = json!({
            "version": OLD,
            "apiServer": {"replicas": 2},
            "upgrade": {"finalizeAfter": "168h"},
        });
        let tenant = Tenant::ready(world, "minor", &spec)?;
        serves(&tenant, OLD, "35")?;
        let kept = keep(&tenant.api()?)?;
        let caller = Caller::start(&tenant.kubeconfig()?);

        tenant.change(&json!({"version": NEWEST}))?;
        emulates(&tenant, &kept)?;
        println!("    back");
        tenant.change(&json!({"version": OLD}))?;
        ready(&tenant, "AsExpected")?;
        serves(&tenant, OLD, "35")?;
        same(&tenant.api()?, &kept)?;
        println!("    and again");
        tenant.change(&json!({"version": NEWEST}))?;
        emulates(&tenant, &kept)?;

        println!("    the second step");
        tenant.change(&json!({"upgrade": {"finalizeAfter": "0s"}}))?;
        ready(&tenant, "AsExpected")?;
        serves(&tenant, NEWEST, "36")?;
        same(&tenant.api()?, &kept)?;
        tenant.scheduler_works()?;
        caller.end()?.none_failed()?;

        let before = tenant.pod_identities()?;
        tenant.change(&json!({"version": OLD}))?;
        let message = tenant.wait_condition("Ready", "False", "DowngradeUnsafe")?;
        ensure!(message.contains("Set a patch version of 1.36"), "{message}");
        ensure!(condition(&tenant.cluster()?, "Available")?["status"] == "True", "it serves on");
        ensure!(tenant.pod_identities()? == before, "no pod was touched");
        tenant.nothing_restarted()?;
        tenant.let_go()
    });
}

fn ready(tenant: &Tenant<'_>, reason: &str) -> Result<String> {
    until(&format!("Ready, {reason}"), || {
        let cluster = tenant.wait_ready()?;
        let found = condition(&cluster, "Ready")?;
        ensure!(found["reason"] == reason, "{found}");
        Ok(found["message"].as_str().unwrap_or_default().to_owned())
    })
}

/// The first step is through: the tenant is ready, and says until when there is a way back.
fn emulates(tenant: &Tenant<'_>, kept: &[(String, Value)]) -> Result<()> {
    let message = ready(tenant, "Emulating")?;
    ensure!(message.contains("set spec.version to 1.35.4"), "{message}");
    serves(tenant, NEWEST, "35")?;
    let cluster = tenant.cluster()?;
    ensure!(cluster["status"]["emulatedVersion"] == "1.35", "{}", cluster["status"]);
    ensure!(cluster["status"]["version"] == NEWEST, "{}", cluster["status"]);
    let config = tenant.api()?.get(&format!("{}/kubeadm-config", core("kube-system", "configmaps")))?;
    let config = config["data"]["ClusterConfiguration"].as_str().context("kubeadm's configuration")?;
    ensure!(
        config.contains(&format!("kubernetesVersion: \"v{OLD}\"")),
        "nodes are not newer than what is served: {config}"
    );
    same(&tenant.api()?, kept)
}

/// Every API server, as often as connections lead to each of them, runs that version and serves that minor.
fn serves(tenant: &Tenant<'_>, version: &str, minor: &str) -> Result<()> {
    for _ in 0..10 {
        let told = tenant.api()?.get("/version")?;
        ensure!(told["gitVersion"] == format!("v{version}") && told["emulationMinor"] == minor, "{told}");
    }
    for component in ["kube-apiserver", "kube-controller-manager", "kube-scheduler"] {
        let live = tenant.deployment(component)?;
        let image = live["spec"]["template"]["spec"]["containers"][0]["image"].as_str().unwrap_or_default();
        ensure!(image.ends_with(&format!(":v{version}")), "{component} runs {image}");
    }
    Ok(())
}

fn keep(api: &Kube) -> Result<Vec<(String, Value)>> {
    KEPT.iter()
        .map(|(collection, text)| {
            let mut object: Value = serde_json::from_str(text)?;
            let version = collection.split("/namespaces").next().unwrap_or_default();
            let version = version.trim_start_matches("/apis/").trim_start_matches("/api/");
            object["apiVersion"] = version.into();
            object["metadata"] = json!({"name": "kept"});
            api.create(collection, &object)?;
            let path = format!("{collection}/kept");
            // Controllers write what they have to before it is compared.
            let read = until(&format!("{path} to be observed"), || {
                let read = api.get(&path)?;
                let wants = read["metadata"]["generation"]
                    .as_i64()
                    .filter(|_| read["status"]["observedGeneration"].is_i64() || read["kind"] == "StatefulSet");
                ensure!(wants.is_none_or(|g| read["status"]["observedGeneration"] == g), "{read}");
                Ok(read)
            })?;
            Ok((path, read))
        })
        .collect()
}

fn same(api: &Kube, kept: &[(String, Value)]) -> Result<()> {
    for (path, before) in kept {
        let now = api.get(path)?;
        ensure!(now == *before, "{path} was {before}, and is {now}");
    }
    Ok(())
}
