//! What stands in the way of the next minor, and is found in a tenant: each check is red once, alone, and when what it found is gone the
//! upgrade goes on by itself, without another touch of the `Cluster`.

use std::{
    net::{Ipv4Addr, TcpListener},
    process::Command,
    thread,
};

use anyhow::{Context, Result, ensure};
use berth_e2e::{
    Kube, Tenant, World, core,
    minors::{COMPONENTS, ready, serves},
    network,
    operator::SYSTEM,
    tenant::{condition, name_of},
    until,
};
use serde_json::{Value, json};

const OLD: &str = "1.34.4";
/// The last minor that takes an API away which the one before can serve.
const NEW: &str = "1.35.4";

/// An API that 1.34 has and 1.35 has not. It is alpha, which is in the way of any minor (`Flags`).
const GOES: &str = "storage.k8s.io/v1alpha1";

/// Four minors older than [`NEW`].
const KUBELET: &str = "1.31.9";

const CHECKS: [&str; 7] = ["APIServers", "RemovedAPIs", "APIServices", "Admission", "Kubelets", "Etcd", "Flags"];

/// Conditions that name what stands in the way: always, and of an upgrade that somebody asked for.
const ALWAYS: &[&str] = &["UpgradeReady"];
const ASKED: &[&str] = &["UpgradeReady", "Ready"];

const ROLES: &str = "nobody-makes-roles";
const ADMISSION: &str = "/apis/admissionregistration.k8s.io/v1";
const SERVICES: &str = "/apis/apiregistration.k8s.io/v1/apiservices";
const DOWN: &str = "v1.down.example.com";

#[test]
#[ignore = "make test-all: Berth looks once a minute, and that seven times; then a minor changes"]
fn each_check_is_red_once_alone_and_the_upgrade_goes_on_by_itself() {
    berth_e2e::run("preflight", |world| {
        let spec = json!({
            "version": OLD,
            "apiServer": {"extraArgs": [{"name": "runtime-config", "value": format!("{GOES}=true")}]},
            "etcd": {"replicas": 3},
            "upgrade": {"soak": "0s"},
        });
        let tenant = Tenant::ready(world, "preflight", &spec)?;
        let api = tenant.api()?;
        println!("    before anybody asks: a flag, and then a kubelet");
        red(&tenant, ALWAYS, &[("Flags", GOES)])?;
        api.create(&core("", "nodes"), &node())?;
        tenant.change(&json!({"upgrade": {"skipChecks": ["Flags"]}}))?;
        red(&tenant, ALWAYS, &[("Kubelets", KUBELET)])?;

        println!("    somebody asks for {NEW}, and a client uses an API that it does not have");
        api.list(&format!("/apis/{GOES}/volumeattributesclasses"))?;
        tenant.change(&json!({"version": NEW}))?;
        let (cluster, running) = (tenant.cluster()?["metadata"]["generation"].clone(), templates(&tenant)?);
        // Nodes are counted each time, and the rest is looked at once a minute: what is gone is gone before what comes is seen.
        red(&tenant, ASKED, &[("RemovedAPIs", GOES), ("Kubelets", KUBELET)])?;
        api.delete(&format!("{}/old", core("", "nodes")))?;
        red(&tenant, ASKED, &[("RemovedAPIs", GOES)])?;

        println!("    an aggregated API that nobody serves; the client is gone, and the API server forgot it");
        api.create(SERVICES, &service())?;
        restart_api_server(world, &tenant)?;
        red(&tenant, ASKED, &[("APIServices", DOWN)])?;

        println!("    a webhook that hangs");
        api.create(&format!("{ADMISSION}/validatingwebhookconfigurations"), &hangs(world.cluster.host_address())?)?;
        api.delete(&format!("{SERVICES}/{DOWN}"))?;
        red(&tenant, ASKED, &[("Admission", "no answer within")])?;
        println!("    a policy that refuses");
        refuse(&api)?;
        api.delete(&format!("{ADMISSION}/validatingwebhookconfigurations/{ROLES}"))?;
        red(&tenant, ASKED, &[("Admission", ROLES)])?;

        println!("    an API server that does not answer at its own address");
        let server = tenant.pods(Some(COMPONENTS[0]))?.pop().context("an API server")?;
        let address = server["status"]["podIP"].as_str().context("its address")?;
        reaches(world, "add", address)?;
        api.delete(&format!("{ADMISSION}/validatingadmissionpolicybindings/{ROLES}"))?;
        red(&tenant, ASKED, &[("APIServers", &name_of(&server))])?;

        println!("    a member of etcd that finds no node");
        let node = world.cluster.node();
        world.kubectl(&["cordon", &node])?;
        let found = without_a_member(world, &tenant, address);
        let before = templates(&tenant);
        world.kubectl(&["uncordon", &node])?;
        found?;
        ensure!(before? == running, "nothing of it was changed");

        println!("    nothing stands in the way");
        let message = ready(&tenant, "Emulating")?;
        ensure!(message.contains(OLD), "{message}");
        serves(&tenant, 1, NEW, "34")?;
        ensure!(tenant.cluster()?["metadata"]["generation"] == cluster, "nobody touched the Cluster");
        tenant.let_go()
    });
}

/// Waits until these checks, in the order of [`CHECKS`], stand in the way and no other, with what is said of each.
fn red(tenant: &Tenant<'_>, conditions: &[&str], checks: &[(&str, &str)]) -> Result<()> {
    let names: Vec<&str> = checks.iter().map(|(check, _)| *check).collect();
    until(&format!("{} to be in the way, alone", names.join(" and ")), || {
        let cluster = tenant.cluster()?;
        for type_ in conditions {
            let found = condition(&cluster, type_)?;
            let message = found["message"].as_str().unwrap_or_default();
            let said = CHECKS.into_iter().filter(|check| message.contains(&format!("{check}: ")));
            ensure!(found["status"] == "False" && found["reason"] == "UpgradeBlocked", "{found}");
            ensure!(said.eq(names.iter().copied()), "{found}");
            ensure!(checks.iter().all(|(_, what)| message.contains(what)), "{found}");
        }
        Ok(())
    })
}

/// What the Deployments run.
fn templates(tenant: &Tenant<'_>) -> Result<Vec<Value>> {
    COMPONENTS.iter().map(|name| Ok(tenant.deployment(name)?["spec"]["template"].clone())).collect()
}

/// One that has not been heard of, with an old kubelet.
fn node() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": "old"},
        "status": {"nodeInfo": {"kubeletVersion": format!("v{KUBELET}")}},
    })
}

/// An aggregated API of a Service that does not exist.
fn service() -> Value {
    json!({
        "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": DOWN},
        "spec": {
            "group": "down.example.com", "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 10,
            "insecureSkipTLSVerify": true, "service": {"namespace": "default", "name": "nobody"},
        },
    })
}

/// Another one takes its place.
fn restart_api_server(world: &World, tenant: &Tenant<'_>) -> Result<()> {
    let server = tenant.pods(Some(COMPONENTS[0]))?.pop().context("an API server")?;
    world.kube.delete(&format!("{}/{}", core(&tenant.cp_namespace, "pods"), name_of(&server)))
}

fn new_roles() -> Value {
    let (groups, versions) = (["rbac.authorization.k8s.io"], ["v1"]);
    json!([{"apiGroups": groups, "apiVersions": versions, "operations": ["CREATE"], "resources": ["clusterroles"]}])
}

/// It takes connections as long as this process lives, and never answers.
fn hangs(address: Ipv4Addr) -> Result<Value> {
    let listener = TcpListener::bind((address, 0)).context("a port for the webhook")?;
    let url = format!("https://{}/", listener.local_addr()?);
    thread::spawn(move || listener.incoming().take(1000).collect::<Vec<_>>());
    Ok(json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration", "metadata": {"name": ROLES},
        "webhooks": [{
            "name": "hangs.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None", "timeoutSeconds": 30,
            "clientConfig": {"url": url}, "rules": new_roles(),
        }],
    }))
}

/// A policy by which no ClusterRole is created.
fn refuse(api: &Kube) -> Result<()> {
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": ROLES},
        "spec": {"matchConstraints": {"resourceRules": new_roles()}, "validations": [{"expression": "false"}]},
    });
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": ROLES},
        "spec": {"policyName": ROLES, "validationActions": ["Deny"]},
    });
    api.create(&format!("{ADMISSION}/validatingadmissionpolicies"), &policy)?;
    api.create(&format!("{ADMISSION}/validatingadmissionpolicybindings"), &binding).map(drop)
}

/// Takes the operator's way to an address, by `add`, and gives it back, by `del`. Services lead elsewhere.
fn reaches(world: &World, verb: &str, address: &str) -> Result<()> {
    let pods = world.kube.list(&format!("{}?labelSelector=app.kubernetes.io/name%3Dberth", core(SYSTEM, "pods")))?;
    let process = network::processes_of(pods.first().context("the operator's pod")?, "operator")?;
    let process = process.first().context("the operator's process")?;
    let mut command = Command::new("nsenter");
    command.arg(format!("--net=/proc/{process}/ns/net")).args(["ip", "route", verb, "unreachable", address]);
    let output = command.output()?;
    ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

/// One of three members is away, since its node takes no pods; the API server answers at `address` again.
fn without_a_member(world: &World, tenant: &Tenant<'_>, address: &str) -> Result<()> {
    world.kube.delete(&format!("{}/etcd-2", core(&tenant.cp_namespace, "pods")))?;
    red(tenant, ALWAYS, &[("APIServers", "could not be asked"), ("Etcd", "etcd-2")])?;
    reaches(world, "del", address)?;
    red(tenant, ALWAYS, &[("Etcd", "etcd-2")])
}
