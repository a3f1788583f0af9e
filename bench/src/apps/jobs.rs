//! What becomes of the Jobs of apps where no pod runs: they run as processes of this machine, or are pretended.

use anyhow::{Context as _, Result};
use berth_api::apps::{Checked, Deployed, Outcome, TASK, Task, files};
use berth_api::{labels, names};
use berth_devcluster::binaries;
use k8s_openapi::api::core::v1::Pod;
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::charts::VERSION;
use super::mount::mount;
use super::servers::Servers;
use crate::kubelet::{Runs, is_well, set_status};

/// How long a pretended one takes.
const TAKES: Duration = Duration::from_secs(1);

/// Jobs as processes.
struct Jobs {
    client: Client,
    servers: Arc<Servers>,
    program: PathBuf,
    helm: PathBuf,
    /// UIDs of pods that were begun.
    begun: Mutex<BTreeSet<String>>,
    dir: tempfile::TempDir,
}

fn component(pod: &Pod) -> &str {
    pod.labels().get(labels::COMPONENT).map_or("", String::as_str)
}

/// API servers of tenants and Jobs of apps run; all else is pretended. `program`: `berth-apps`.
pub(super) fn run(client: &Client, servers: &Arc<Servers>, program: &Path) -> Result<Runs> {
    let jobs = Arc::new(Jobs {
        client: client.clone(),
        servers: servers.clone(),
        program: program.to_owned(),
        helm: binaries::helm4()?,
        begun: Mutex::default(),
        dir: tempfile::tempdir()?,
    });
    let runs: Runs = Arc::new(move |pod: &Pod| {
        let (jobs, of, goes) = (jobs.clone(), component(pod), pod.metadata.deletion_timestamp.is_some());
        let pod = pod.clone();
        match of {
            names::APISERVER if goes => Some(Box::pin(async move { jobs.servers.end(&pod) })),
            names::APISERVER => Some(Box::pin(jobs.servers.clone().serve(pod))),
            names::APPS if !goes => Some(Box::pin(async move { jobs.work(&pod).await })),
            _ => None,
        }
    });
    Ok(runs)
}

impl Jobs {
    /// Once for each pod.
    async fn work(&self, pod: &Pod) {
        let uid = pod.uid().unwrap_or_default();
        let is_new = self.begun.lock().unwrap_or_else(PoisonError::into_inner).insert(uid.clone());
        if !is_new {
            return;
        }
        is_well(&self.client, pod).await;
        let root = self.dir.path().join(uid);
        let (code, message) = self.ends(pod, &root).await.unwrap_or_else(|error| {
            println!("a Job in {}: {error:#}", pod.namespace().unwrap_or_default());
            (1, String::new())
        });
        set_status(&self.client, pod, &ended(pod, code, &message)).await;
        let _ = std::fs::remove_dir_all(root);
    }

    /// With which code, and which message.
    async fn ends(&self, pod: &Pod, root: &Path) -> Result<(i32, String)> {
        mount(&self.client, pod, root).await?;
        let home = pod.namespace().context("a pod without a namespace")?;
        let port = self.servers.port_of(&home).context("its tenant has no API server")?;
        let container =
            pod.spec.as_ref().and_then(|spec| spec.containers.first()).context("a pod without a container")?;
        for mounted in container.volume_mounts.iter().flatten() {
            let file = root.join(mounted.mount_path.trim_start_matches('/')).join(files::KUBECONFIG);
            if let Ok(text) = std::fs::read_to_string(&file) {
                std::fs::write(&file, local(&text, &home, port))?;
            }
        }
        let said = root.join("said");
        let mut command = tokio::process::Command::new(&self.program);
        // Of the pod alone.
        command.env_clear();
        for variable in container.env.iter().flatten() {
            command.env(&variable.name, variable.value.as_deref().unwrap_or_default());
        }
        let below = format!("={}/", root.display());
        command.args(container.args.iter().flatten().map(|argument| argument.replacen("=/", &below, 1)));
        command.arg(format!("--helm={}", self.helm.display())).arg(format!("--termination-log={}", said.display()));
        let output = command.kill_on_drop(true).output().await.with_context(|| self.program.display().to_string())?;
        if !output.status.success() {
            println!("a Job in {home}: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        // Whom a signal ended has no code.
        Ok((output.status.code().unwrap_or(137), std::fs::read_to_string(said).unwrap_or_default()))
    }
}

/// A kubeconfig that leads to that port of this machine, in place of the tenant's Service.
fn local(kubeconfig: &str, home: &str, port: u16) -> String {
    let service = format!("https://{}.{home}.svc:", names::APISERVER);
    match kubeconfig.split_once(&service) {
        Some((before, after)) => {
            let after = after.trim_start_matches(|c: char| c.is_ascii_digit());
            format!("{before}https://127.0.0.1:{port}{after}")
        }
        None => kubeconfig.to_owned(),
    }
}

/// Jobs of apps end well, and nothing runs.
pub(super) fn pretend(client: &Client) -> Runs {
    let client = client.clone();
    Arc::new(move |pod: &Pod| {
        let (client, pod) = (client.clone(), pod.clone());
        let over = pod.status.as_ref().is_some_and(|status| status.phase.as_deref() == Some("Succeeded"));
        if component(&pod) != names::APPS || over || pod.metadata.deletion_timestamp.is_some() {
            return None;
        }
        let message = serde_json::to_string(&outcome(&task(&pod)?)).ok()?;
        Some(Box::pin(async move {
            tokio::time::sleep(TAKES).await;
            set_status(&client, &pod, &ended(&pod, 0, &message)).await;
        }))
    })
}

fn task(pod: &Pod) -> Option<Task> {
    let container = pod.spec.as_ref()?.containers.first()?;
    let task = container.env.iter().flatten().find(|variable| variable.name == TASK)?;
    serde_json::from_str(task.value.as_ref()?).ok()
}

/// What `berth-apps` would say.
fn outcome(task: &Task) -> Outcome {
    match task {
        Task::Deploy(_) => Outcome::Deployed(Deployed {
            revision: 1,
            chart: "web".into(),
            version: VERSION.into(),
            chart_digest: "ab".repeat(32),
            values_digest: "cd".repeat(32),
            ..Deployed::default()
        }),
        Task::Uninstall(_) => Outcome::Uninstalled,
        Task::Check(_) => Outcome::Checked(Checked::default()),
    }
}

/// The status of a pod that has ended.
fn ended(pod: &Pod, code: i32, message: &str) -> Value {
    let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let phase = if code == 0 { "Succeeded" } else { "Failed" };
    let container = pod.spec.as_ref().and_then(|spec| spec.containers.first());
    let status = json!({
        "name": container.map(|container| &container.name), "image": "i", "imageID": "i", "ready": false, "restartCount": 0,
        "state": {"terminated": {"exitCode": code, "message": message, "startedAt": now, "finishedAt": now}},
    });
    json!({"phase": phase, "containerStatuses": [status]})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kubeconfig_leads_to_this_machine() {
        let there = "clusters: [{cluster: {server: \"https://kube-apiserver.acme-1.svc:6443\"}}]";
        assert_eq!(local(there, "acme-1", 7), "clusters: [{cluster: {server: \"https://127.0.0.1:7\"}}]");
    }
}
