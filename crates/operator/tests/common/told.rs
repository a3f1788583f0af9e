//! What Berth said of a team's `Cluster`s when its test failed.

use super::Team;
use anyhow::Result;
use berth_api::{Cluster, EtcdCluster};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::ListParams;
use kube::{Api, ResourceExt};
use std::fmt::Write;
use std::time::Duration;

impl Drop for Team {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.tell();
        }
    }
}

impl Team {
    /// From a thread of its own: the test's cannot wait any more. Where the test's runtime has no other thread, nobody answers.
    fn tell(&self) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let (client, ns, inside) = (self.client.clone(), self.ns.clone(), self.cp_namespace.clone());
        let (send, told) = std::sync::mpsc::channel();
        std::thread::spawn(move || send.send(runtime.block_on(conditions(client, &ns, &inside))));
        match told.recv_timeout(Duration::from_secs(20)) {
            Ok(Ok(text)) => eprintln!("{text}"),
            Ok(Err(e)) => eprintln!("{}: {e:#}", self.ns),
            Err(_) => eprintln!("{}: nobody answers", self.ns),
        }
    }
}

async fn conditions(client: kube::Client, ns: &str, inside: &str) -> Result<String> {
    let all = ListParams::default();
    let mut text = format!("what Berth said in {ns}:\n");
    for cluster in Api::<Cluster>::namespaced(client.clone(), ns).list(&all).await? {
        let status = cluster.status.clone().unwrap_or_default();
        writeln!(text, "Cluster {}: {}", cluster.name_any(), serde_json::to_string(&cluster.spec)?)?;
        write_all(&mut text, &status.conditions)?;
        writeln!(text, "  rollout: {}", serde_json::to_string(&status.rollout)?)?;
    }
    for etcd in Api::<EtcdCluster>::namespaced(client.clone(), inside).list(&all).await? {
        writeln!(text, "EtcdCluster {}", etcd.name_any())?;
        write_all(&mut text, &etcd.status.unwrap_or_default().conditions)?;
    }
    for pod in Api::<Pod>::namespaced(client, inside).list(&all).await? {
        let ends = pod.metadata.deletion_timestamp.as_ref().map(|_| ", ends").unwrap_or_default();
        let phase = pod.status.as_ref().and_then(|s| s.phase.clone()).unwrap_or_default();
        writeln!(text, "Pod {}: {phase}{ends}", pod.name_any())?;
    }
    Ok(text)
}

fn write_all(text: &mut String, conditions: &[Condition]) -> Result<()> {
    for c in conditions {
        writeln!(text, "  {} {} {}: {}", c.type_, c.status, c.reason, c.message)?;
    }
    Ok(())
}
