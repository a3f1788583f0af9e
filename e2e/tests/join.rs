//! A machine becomes a node of a tenant by `kubeadm join`, as docs/nodes.md says, and runs a pod.

use std::{
    process::Command,
    time::{Instant, SystemTime},
};

use anyhow::{Context as _, Result, ensure};
use berth_devcluster::binaries;
use berth_e2e::{Kube, Tenant, World, core, paths, run::run, until};
use serde_json::json;

#[test]
#[ignore = "make test-all: a machine beside the cluster, with a kubelet of its own"]
fn a_machine_joins_and_runs_a_pod() {
    run("join", |world| {
        let worker = world.cluster.worker(1, &[])?;
        let result = joins(world, &worker);
        if result.is_err() {
            let log = std::fs::read_to_string(worker.kubelet_log()).unwrap_or_default();
            let lines: Vec<_> = log.lines().rev().take(40).collect();
            println!("kubelet's log, the newest first:\n{}", lines.join("\n"));
        }
        result.and(worker.remove())
    });
}

fn joins(world: &World, worker: &berth_devcluster::Worker) -> Result<()> {
    let tenant = Tenant::ready(world, "joined", &json!({}))?;
    let mut command = Command::new(paths::program("kubectl-berth")?);
    command.args(["join-command", &tenant.name, "-n", &tenant.namespace, "--ttl", "1h"]);
    let output = command.env("KUBECONFIG", world.cluster.kubeconfig()).output()?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let arguments = said.trim().strip_prefix("kubeadm join ").context("it prints a command")?;
    let arguments: Vec<String> = arguments.split(' ').map(str::to_owned).collect();

    let token = arguments.iter().skip_while(|word| *word != "--token").nth(1).context("a token")?;
    let published = tenant.kubeconfig()?;
    let config = core("kube-system", "configmaps") + "/kubeadm-config";
    let with_token = Kube::with_token(&published, token)?;
    with_token.get(&config)?;
    ensure!(with_token.get(&core("kube-system", "secrets")).is_err(), "a token for joins reads Secrets");
    ensure!(Kube::with_token(&published, "abcdef.0123456789abcdef")?.get(&config).is_err(), "any token will do");
    world.stop_operator()?;
    let joined = Instant::now();
    worker.join(&arguments)?;
    worker.configure_pods()?;

    let dir = tempfile::tempdir()?;
    let file = dir.path().join("kubeconfig");
    std::fs::write(&file, published)?;
    let kubectl = |arguments: &[&str]| -> Result<String> {
        let output = Command::new(binaries::kubectl()?).arg("--kubeconfig").arg(&file).args(arguments).output()?;
        ensure!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8(output.stdout)?)
    };
    let node = worker.name();
    let ready = "{.status.conditions[?(@.type==\"Ready\")].status}";
    until("the node to be ready", || {
        let said = kubectl(&["get", "node", &node, "-o", &format!("jsonpath={ready}")])?;
        ensure!(said == "True", "Ready is {said}");
        Ok(())
    })?;
    let image = format!("--image=registry.k8s.io/pause:{}", berth_devcluster::versions::PAUSE);
    kubectl(&["run", "first", &image, "--image-pull-policy=Never"])?;
    until("the pod to run", || {
        let said = kubectl(&["get", "pod", "first", "-o", "jsonpath={.status.phase} {.spec.nodeName}"])?;
        ensure!(said == format!("Running {node}"), "{said}");
        Ok(())
    })?;

    // Nobody but berth-approve approves serving certificates.
    until("its log", || kubectl(&["logs", "first"]).map(drop))?;
    let took = joined.elapsed();
    println!("    the first log {:.1} s after the join", took.as_secs_f64());
    world.start_operator()?;

    // Counted within a quarter of an hour; an event of the Cluster has it done at once.
    until("the node to be counted", || {
        let look = json!({"metadata": {"annotations": {"looked-at": format!("{:?}", SystemTime::now())}}});
        world.kube.merge(&tenant.path(), &look)?;
        let counted = &tenant.cluster()?["status"]["nodes"];
        let kubelet = berth_devcluster::versions::KUBERNETES.trim_start_matches('v');
        ensure!(*counted == json!({"total": 1, "ready": 1, "oldestKubelet": kubelet}), "{counted}");
        Ok(())
    })?;
    Ok(())
}
