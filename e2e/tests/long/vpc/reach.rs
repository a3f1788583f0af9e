//! What an API server's pod reaches: dialled in its network, as the API server's own user.

use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use berth_devcluster::{Vpc, Worker};
use berth_e2e::{Tenant, World, network::processes_of, tenant::name_of};
use serde_json::Value;

use super::ADDRESSES;

/// A pod's network.
struct Inside {
    process: i32,
    user: i64,
}

impl Inside {
    fn of(pod: &Value, container: &str) -> Result<Self> {
        let all = processes_of(pod, container)?;
        let process = *all.first().with_context(|| format!("{} has no process", name_of(pod)))?;
        let user = pod.pointer("/spec/securityContext/runAsUser").and_then(Value::as_i64).context("a user")?;
        Ok(Self { process, user })
    }

    fn command(&self) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/proc/{}/ns/net", self.process)).arg("--");
        command
    }

    /// What the kernel says to a connection. `from`: the address that it is bound to.
    fn dials(&self, to: &str, from: Option<&str>) -> Result<(), String> {
        let bind = from.map(|from| format!(",bind={from}")).unwrap_or_default();
        let user = self.user.to_string();
        let mut command = self.command();
        command.args([
            "setpriv",
            "--reuid",
            &user,
            "--regid",
            &user,
            "--clear-groups",
            "socat",
            "-u",
            "OPEN:/dev/null",
        ]);
        let output = command.arg(format!("TCP:{to},connect-timeout=3{bind}")).output().map_err(|e| e.to_string())?;
        if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
    }
}

/// Of the meta cluster its own etcd, and of the VPC everything; nothing of either goes through its pod.
pub(crate) fn only_what_is_open(
    world: &World,
    (tenant, other): (&Tenant<'_>, &Tenant<'_>),
    vpc: &Vpc,
    worker: &Worker,
) -> Result<()> {
    let pods = tenant.pods(Some("kube-apiserver"))?;
    let pod = pods.iter().find(|pod| name_of(pod) == "kube-apiserver-0-0").context("the first API server")?;
    let server = Inside::of(pod, "kube-apiserver")?;
    // A pod of the same namespace without rules.
    let pods = tenant.pods(Some("kube-scheduler"))?;
    let free = Inside::of(pods.first().context("a scheduler")?, "kube-scheduler")?;

    let service = |namespace: &str, name: &str| world.service_address(namespace, name);
    let own = format!("{}:2379", service(&tenant.cp_namespace, "etcd-0")?);
    let kubelet = format!("{}:10250", worker.address());
    for (to, what) in [(&own, "its own etcd"), (&kubelet, "a kubelet in the VPC")] {
        server.dials(to, None).map_err(|why| anyhow::anyhow!("{what} at {to}: {why}"))?;
    }
    let meta_api = format!("{}:443", service("default", "kubernetes")?);
    let node = format!("{}:10250", world.cluster.node_address(1));
    let etcd = format!("{}:2379", service(&other.cp_namespace, "etcd-0")?);
    for (to, what) in [(&meta_api, "the meta API"), (&node, "a node's kubelet"), (&etcd, "another tenant's etcd")] {
        free.dials(to, None).map_err(|why| anyhow::anyhow!("{what} at {to}, from a pod without rules: {why}"))?;
        for from in [None, Some(ADDRESSES[0])] {
            let said =
                server.dials(to, from).err().with_context(|| format!("{what} at {to} is reached from {from:?}"))?;
            // At once, and not because nobody answers.
            ensure!(said.contains("Permission denied") || said.contains("No route"), "{what} at {to}: {said}");
        }
    }
    let said = server.dials("169.254.169.254:80", None).err().context("metadata is reached")?;
    ensure!(said.contains("Permission denied"), "metadata: {said}");

    // A machine in the VPC that takes the pod for a router, and a node that lets pods forward.
    let on = server.command().args(["sysctl", "-q", "-w", "net.ipv4.ip_forward=1"]).status()?;
    ensure!(on.success(), "forwarding cannot be turned on");
    let address = meta_api.split(':').next().unwrap_or_default();
    let route = |verb: &str| vpc.command("ip").args(["route", verb, address, "via", ADDRESSES[0]]).status();
    ensure!(route("replace")?.success(), "the route cannot be laid");
    let output =
        vpc.command("socat").args(["-u", "OPEN:/dev/null", &format!("TCP:{meta_api},connect-timeout=3")]).output();
    let removed = route("del")?;
    ensure!(!output?.status.success(), "the meta API is reached through an API server's pod");
    ensure!(removed.success(), "the route stays");
    Ok(())
}
