//! What cannot be read from a cluster and is tried instead, in a namespace of its own: whether images are pulled, whether Pod
//! Security is enforced, whether NetworkPolicies are, and what a tenant's API server reaches in spite of its own.

use anyhow::{Context as _, bail};
use berth_api::{labels, names};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

use super::{
    Demo,
    findings::{self, Finding, Reference},
    given::made,
    preflight::why,
};
use crate::shell::{Result, input, output};

/// The namespace, which is gone again afterwards.
pub(super) const NAMESPACE: &str = "berth-preflight";

/// Pulling an image may take that long.
const TIMEOUT: Duration = Duration::from_mins(3);

const LISTENER: &str = "listener";

/// Makes the namespace, tries everything and removes it.
pub(super) fn run(demo: &Demo, operator: &Reference, agent: &Reference) -> Vec<Finding> {
    let tried = make_namespace(demo).and_then(|()| try_all(demo, operator, agent));
    let removed = remove(demo);
    let mut findings = tried.unwrap_or_else(|error| vec![Finding::missing("a try with pods", why(&error))]);
    if let Err(error) = removed {
        findings
            .push(Finding::warning("a try with pods", format!("its namespace {NAMESPACE} is left: {}", why(&error))));
    }
    findings
}

/// Removes the namespace, also that of a run that was cut off. One that somebody else made stays.
pub(super) fn remove(demo: &Demo) -> Result<()> {
    if demo.is_made(&["namespace", NAMESPACE])? {
        output(demo.kubectl().args(["delete", "namespace", NAMESPACE, "--timeout=3m"]))?;
    }
    Ok(())
}

fn make_namespace(demo: &Demo) -> Result<()> {
    remove(demo)?;
    let mut namespace = made(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}));
    namespace["metadata"]["labels"] = json!({"pod-security.kubernetes.io/enforce": "restricted"});
    create(demo, &namespace)
}

fn try_all(demo: &Demo, operator: &Reference, agent: &Reference) -> Result<Vec<Finding>> {
    let mut found = vec![];
    let security = json!({"hostNetwork": true, "containers": [{"name": "c", "image": agent.to_string()}]});
    let refused = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "refused"}, "spec": security});
    found.push(match create_with(demo, &refused, &["--dry-run=server"]) {
        Err(error) if format!("{error:#}").contains("PodSecurity") => Finding::fine("Pod Security", "enforced"),
        _ => Finding::warning(
            "Pod Security",
            "not enforced: a pod on the node's network was taken where `restricted` is demanded. What holds tenants' pods\n\
             to it is their own spec alone",
        ),
    });
    let pods =
        [pod("images", operator, &["/berth-operator", "--version"]), pod(LISTENER, agent, &["/berth-agent", "listen"])];
    for pod in &pods {
        create_when_possible(demo, pod)?;
    }
    let pulled = ended(demo, "images").and_then(|phase| match phase.as_str() {
        "Succeeded" => Ok(()),
        other => bail!("{operator} does not run: the pod ended as {other}"),
    });
    let address = pulled.and_then(|()| address(demo));
    let address = match address {
        Ok(address) => address,
        Err(error) => {
            found.push(Finding::missing("images", why(&error)));
            return Ok(found);
        }
    };
    found.push(Finding::fine("images", format!("{operator} and {agent} run")));
    let to = format!("--address={address}:8080");
    let dial = |name, expect| -> Result<String> {
        create(demo, &pod(name, agent, &["/berth-agent", "dial", &to, expect, "--within-seconds=30"]))?;
        ended(demo, name)
    };
    if dial("before", "--expect=open")? != "Succeeded" {
        found.push(Finding::missing("pod network", "a pod does not reach another one, although nothing forbids it"));
        return Ok(found);
    }
    let policy = json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "nobody"},
        "spec": {"podSelector": {"matchLabels": {"probe": LISTENER}}, "policyTypes": ["Ingress"]},
    });
    create(demo, &policy)?;
    found.push(findings::network_policies(dial("after", "--expect=closed")? == "Succeeded"));
    Ok(found)
}

/// Whom a pod dials under the policy of a tenant's API server, and from which node.
struct Dialled {
    node: String,
    targets: Vec<(&'static str, String)>,
}

/// Tries what a tenant's API server reaches: a pod on its node, in a namespace of its own, under a copy of its policy.
pub(super) fn reach(demo: &Demo, agent: &Reference, cp_namespace: &str) -> Vec<Finding> {
    let tried = dialled(demo, cp_namespace).and_then(|dialled| {
        make_namespace(demo)?;
        let policy = get(demo, &["-n", cp_namespace, "get", "networkpolicy", names::APISERVER, "-o", "json"])?;
        reach_all(demo, agent, &dialled, &policy["spec"]["egress"])
    });
    let removed = remove(demo);
    let failed = |error| vec![Finding::warning("isolation", format!("not tried: {}", why(&error)))];
    tried.and_then(|found| removed.map(|()| found)).unwrap_or_else(failed)
}

fn reach_all(demo: &Demo, agent: &Reference, dialled: &Dialled, egress: &Value) -> Result<Vec<Finding>> {
    let policy = json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "as-an-api-server"},
        "spec": {"podSelector": {}, "policyTypes": ["Egress"], "egress": egress},
    });
    create(demo, &policy)?;
    let mut found = vec![];
    for (number, (what, address)) in dialled.targets.iter().enumerate() {
        let name = format!("reach-{number}");
        let to = format!("--address={address}");
        let command = ["/berth-agent", "dial", &to, "--expect=closed", "--within-seconds=20"];
        let mut pod = pod(&name, agent, &command);
        pod["spec"]["nodeName"] = dialled.node.clone().into();
        create_when_possible(demo, &pod)?;
        found.push(findings::reach(what, address, ended(demo, &name)? == "Succeeded"));
    }
    Ok(found)
}

/// Its own node, another one, the meta cluster's API, and cloud metadata.
fn dialled(demo: &Demo, cp_namespace: &str) -> Result<Dialled> {
    let component = format!("{}={}", labels::COMPONENT, names::APISERVER);
    let pods = get(demo, &["-n", cp_namespace, "get", "pods", "-l", &component, "-o", "json"])?;
    let node = pods["items"][0]["spec"]["nodeName"].as_str().context("no pod of kube-apiserver has a node")?.to_owned();
    let nodes = get(demo, &["get", "nodes", "-o", "json"])?;
    let api = get(demo, &["get", "service", "kubernetes", "-n", "default", "-o", "json"])?;
    Ok(Dialled { targets: findings::targets(&node, &nodes, &api), node })
}

fn get(demo: &Demo, arguments: &[&str]) -> Result<Value> {
    serde_json::from_str(&output(demo.kubectl().args(arguments))?).context("kubectl printed no JSON")
}

fn pod(name: &str, image: &Reference, command: &[&str]) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"probe": name}},
        "spec": {
            "restartPolicy": "Never",
            "automountServiceAccountToken": false,
            "terminationGracePeriodSeconds": 1,
            "securityContext": {
                "runAsNonRoot": true, "runAsUser": 65532, "runAsGroup": 65532,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [{
                "name": name, "image": image.to_string(), "command": command,
                "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}, "limits": {"memory": "64Mi"}},
                "securityContext": {
                    "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
                    "capabilities": {"drop": ["ALL"]},
                },
            }],
        },
    })
}

fn create(demo: &Demo, object: &Value) -> Result<()> {
    create_with(demo, object, &[])
}

fn create_with(demo: &Demo, object: &Value, more: &[&str]) -> Result<()> {
    let namespaced: &[&str] = if object["kind"] == "Namespace" { &[] } else { &["-n", NAMESPACE] };
    let mut command = demo.kubectl();
    command.args(namespaced).args(["create", "-f", "-"]).args(more);
    input(&mut command, &object.to_string()).map(|_| ())
}

/// A namespace has its service account a moment later, and no pod before.
fn create_when_possible(demo: &Demo, pod: &Value) -> Result<()> {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        match create(demo, pod) {
            Err(error) if format!("{error:#}").contains("serviceaccount") && Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(500));
            }
            other => return other,
        }
    }
}

/// How a pod ended. An error says why it does not start.
fn ended(demo: &Demo, name: &str) -> Result<String> {
    wait(demo, name, |pod| {
        let phase = pod["status"]["phase"].as_str().unwrap_or_default();
        ["Succeeded", "Failed"].contains(&phase).then(|| phase.to_owned())
    })
}

fn address(demo: &Demo) -> Result<String> {
    let ip = wait(demo, LISTENER, |pod| {
        let running = pod["status"]["containerStatuses"][0]["state"]["running"].is_object();
        pod["status"]["podIP"].as_str().filter(|_| running).map(ToOwned::to_owned)
    })?;
    Ok(if ip.contains(':') { format!("[{ip}]") } else { ip })
}

fn wait(demo: &Demo, name: &str, done: impl Fn(&Value) -> Option<String>) -> Result<String> {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let pod = output(demo.kubectl().args(["-n", NAMESPACE, "get", "pod", name, "-o", "json"]))?;
        let pod: Value = serde_json::from_str(&pod).context("kubectl printed no JSON")?;
        if let Some(found) = done(&pod) {
            return Ok(found);
        }
        let waiting = &pod["status"]["containerStatuses"][0]["state"]["waiting"];
        let reason = waiting["reason"].as_str().unwrap_or_default();
        let pull = ["ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"].contains(&reason);
        if pull || reason.starts_with("Create") || Instant::now() > deadline {
            let image = pod["spec"]["containers"][0]["image"].as_str().unwrap_or_default();
            let scheduled = pod["status"]["conditions"].as_array().into_iter().flatten();
            let mut unscheduled = scheduled.filter(|c| c["type"] == "PodScheduled" && c["status"] == "False");
            let why = unscheduled.find_map(|c| c["message"].as_str());
            let why = why.or_else(|| waiting["message"].as_str()).unwrap_or("it does not say why");
            bail!("a pod with {image} does not start: {reason} {why}");
        }
        std::thread::sleep(Duration::from_millis(500));
    }
}
