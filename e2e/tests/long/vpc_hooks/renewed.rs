//! A node's certificates: signed for minutes, so that kubelet renews both within a test.

use std::path::Path;

use anyhow::{Result, ensure};
use berth_devcluster::{Vpc, Worker};
use berth_e2e::{Kubectl, Tenant, World, apps, certs, until};
use serde_json::{Value, json};

/// The controller-manager signs for three minutes, beside the five that its clock allows for. The operator is stopped, since it would set
/// the flag back.
pub(crate) fn certificates_are_short_lived(world: &World, tenant: &Tenant<'_>) -> Result<()> {
    world.stop_operator()?;
    let path = format!("{}/kube-controller-manager", apps(&tenant.cp_namespace, "deployments"));
    let mut live = world.kube.get(&path)?;
    let containers = live.pointer_mut("/spec/template/spec/containers").and_then(Value::as_array_mut);
    let mut set = 0;
    for word in containers.into_iter().flatten().flat_map(|c| {
        let all = c
            .as_object_mut()
            .into_iter()
            .flat_map(|c| c.iter_mut().filter(|(key, _)| ["args", "command"].contains(&key.as_str())));
        all.filter_map(|(_, words)| words.as_array_mut()).flatten().collect::<Vec<_>>()
    }) {
        if word.as_str().is_some_and(|word| word.starts_with("--cluster-signing-duration=")) {
            *word = json!("--cluster-signing-duration=3m");
            set += 1;
        }
    }
    ensure!(set == 1, "the flag is there {set} times");
    world.kube.merge(&path, &json!({"spec": {"template": live["spec"]["template"]}}))?;
    until("the controller-manager with that flag", || {
        let live = world.kube.get(&path)?;
        let status = &live["status"];
        ensure!(status["observedGeneration"] == live["metadata"]["generation"], "{status}");
        ensure!(
            status["updatedReplicas"] == 1 && status["availableReplicas"] == 1 && status["replicas"] == 1,
            "{status}"
        );
        Ok(())
    })
}

/// Serial numbers.
#[derive(Debug)]
pub(crate) struct Certificates {
    client: String,
    serving: String,
}

impl Certificates {
    pub(crate) fn of(vpc: &Vpc, worker: &Worker) -> Result<Self> {
        until("the node to have a serving certificate", || {
            // A link that only the machine itself can follow.
            let client =
                worker.command(Path::new("cat"))?.arg("/var/lib/kubelet/pki/kubelet-client-current.pem").output()?;
            let client = certs::facts(&client.stdout, &["-serial"])?;
            let serving = certs::served_to(
                vpc.command("openssl"),
                &format!("{}:10250", worker.address()),
                &["-serial", "-issuer"],
            )?;
            ensure!(serving.contains("kubernetes-ca"), "{serving}");
            Ok(Self { client, serving })
        })
    }

    /// Both, and what uses them works: the node is ready, and the API server reads a log.
    pub(crate) fn are_renewed(&self, (vpc, worker): (&Vpc, &Worker), kubectl: &Kubectl) -> Result<()> {
        until("both certificates to be renewed", || {
            let now = Self::of(vpc, worker)?;
            ensure!(now.client != self.client, "the client certificate is the same");
            ensure!(now.serving != self.serving, "the serving certificate is the same");
            Ok(())
        })?;
        let node = worker.name();
        kubectl.until("the node to be ready", &["wait", "node", &node, "--for=condition=Ready", "--timeout=2s"])?;
        kubectl.until("a log", &["logs", "hook", "--tail=1"])?;
        Ok(())
    }
}
