//! What the demo has beyond the tenant where it made the meta cluster itself: a network of the tenant's own, machines in it that join,
//! and pods on them.

use std::process::Stdio;
use std::time::Instant;

use super::{Demo, TEAM, TENANT};
use crate::images::devcluster;
use crate::root;
use crate::shell::{Result, input, output, run, say};

/// The tenant's network: `examples/acme-vpc.yaml` names its NetworkAttachmentDefinition, `vpc-a`.
pub(super) const VPC: &str = "a";

const MACHINES: [&str; 2] = ["worker-1", "worker-2"];

/// Asked of a pod of `hello`: what the Service of that name answers, six times.
const HELLO: &str = "/api/v1/namespaces/default/services/hello/proxy/dial\
                     ?host=hello.default.svc.cluster.local&port=80&request=hostname&tries=6";

impl Demo {
    /// A network for the tenant, and what pods are attached to it by.
    pub(super) fn network(&self) -> Result<()> {
        say(&format!("network `{VPC}` of the tenant"));
        let up = ["up", "--timeout", "300", "--name", &self.cluster, "--vpc", VPC];
        run(devcluster().args(up).stdout(Stdio::null()))?;
        self.team()?;
        let definition = output(devcluster().args(["vpc", VPC, "--name", &self.cluster, "--namespace", TEAM]))?;
        input(self.kubectl().args(["apply", "-f", "-"]), &definition).map(|said| println!("{}", said.trim_end()))
    }

    /// Machines in that network join the tenant.
    pub(super) fn machines(&self) -> Result<()> {
        say("machines in that network join the tenant with `kubeadm join`");
        for machine in MACHINES {
            let started = Instant::now();
            let mut add = devcluster();
            add.args(["worker", "add", machine, "--name", &self.cluster, "--vpc", VPC]);
            if self.tenant_has(&["node", machine]) {
                // It runs, unless this machine was started anew.
                run(&mut add)?;
                continue;
            }
            let mut command = self.plugin();
            command.args(["join-command", TENANT, "-n", TEAM, "--ttl", "15m"]);
            let join = output(&mut command)?;
            run(add.arg("--").args(join.split_whitespace()))?;
            self.wait_tenant(
                "the node to be ready",
                &["wait", "node", machine, "--for=condition=Ready", "--timeout=2s"],
            )?;
            println!("{machine} is Ready after {:.1} s", started.elapsed().as_secs_f32());
        }
        println!("{}", output(self.tenant_kubectl().args(["get", "nodes", "-o", "wide"]))?.trim_end());
        Ok(())
    }

    /// Pods on these machines, found by the name of their Service.
    pub(super) fn hello(&self) -> Result<()> {
        say("three pods behind a Service, by its DNS name");
        let example = root().join("examples/hello.yaml");
        self.wait_tenant("pods can be created", &["apply", "-f", &example.to_string_lossy()])?;
        let rollout = ["-n", "default", "rollout", "status", "deployment/hello", "--timeout=2s"];
        self.wait_tenant("the pods to be ready", &rollout)?;
        // kube-proxy on each machine takes a moment to learn of ready pods.
        let answers = |said: &str| said.contains("hello-");
        let said = self.wait_tenant_until("the Service to answer", &["get", "--raw", HELLO], answers)?;
        println!("$ kubectl get --raw '{HELLO}'\n{}", said.trim_end());
        Ok(())
    }

    fn tenant_has(&self, what: &[&str]) -> bool {
        output(self.tenant_kubectl().arg("get").args(what)).is_ok()
    }

    /// Runs `kubectl` in the tenant until it succeeds.
    fn wait_tenant(&self, what: &str, arguments: &[&str]) -> Result<String> {
        self.wait_tenant_until(what, arguments, |_| true)
    }

    /// Runs `kubectl` in the tenant until what it prints is good.
    fn wait_tenant_until(&self, what: &str, arguments: &[&str], good: impl Fn(&str) -> bool) -> Result<String> {
        self.wait_until(what, || output(self.tenant_kubectl().args(arguments)), good)
    }
}
