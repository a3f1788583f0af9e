//! A backup of every tenant, all due at once: never more Jobs than may be, and what that costs the operator.

use crate::operator::SYSTEM;
use crate::outside::Operator;
use crate::tenant::TEAM;
use anyhow::ensure;
use berth_api::backup::{Manifest, Outcome, TASK, Task};
use berth_api::{EtcdBackup, labels};
use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The store that the chart is installed with, and its Secret.
const STORE: &str = "main";
const SECRET: &str = "backups";
/// Writes of a person at once.
const WRITERS: usize = 16;
const TIMEOUT: Duration = Duration::from_mins(30);
/// How long a pretended Job takes.
const TAKES: Duration = Duration::from_secs(2);

/// What was seen.
pub(crate) struct Taken {
    pub(crate) seconds: f64,
    /// Jobs that were there at once, and not at their end.
    pub(crate) most: usize,
    /// The operator's memory at most. MiB.
    pub(crate) rss: f64,
}

/// Until the backups of all these tenants are verified.
pub(crate) async fn all(client: &Client, names: &[String], operator: &Operator) -> anyhow::Result<Taken> {
    clear(client).await?;
    let secrets: Api<Secret> = Api::namespaced(client.clone(), SYSTEM);
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": SECRET},
        "stringData": {"accessKeyID": "A", "secretAccessKey": "B"},
    });
    secrets.patch(SECRET, &PatchParams::apply("bench").force(), &Patch::Apply(secret)).await?;
    let api: Api<EtcdBackup> = Api::namespaced(client.clone(), TEAM);
    let started = Instant::now();
    futures::stream::iter(names)
        .map(Ok::<_, anyhow::Error>)
        .try_for_each_concurrent(WRITERS, |name| {
            let api = &api;
            async move {
                let spec = json!({"clusterRef": {"name": name}, "store": STORE, "deletionPolicy": "Retain"});
                let backup = json!({"metadata": {"name": name}, "spec": spec});
                api.create(&PostParams::default(), &serde_json::from_value(backup)?).await?;
                Ok(())
            }
        })
        .await?;
    let (mut most, mut rss) = (0, 0.0_f64);
    loop {
        let jobs = Api::<Job>::all(client.clone()).list(&ListParams::default()).await?.items;
        most = most.max(jobs.iter().filter(|job| runs(job)).count());
        rss = rss.max(operator.usage()?.rss);
        let backups = api.list(&ListParams::default()).await?.items;
        let phase = |b: &EtcdBackup| b.status.as_ref().and_then(|s| s.phase.clone()).unwrap_or_default();
        if let Some(failed) = backups.iter().find(|b| phase(b) == "Failed") {
            anyhow::bail!("a backup failed: {}", json!(failed.status));
        }
        let open = backups.iter().find(|b| phase(b) != "Verified");
        let Some(open) = open else { break };
        ensure!(
            started.elapsed() < TIMEOUT,
            "{} is not verified after {TIMEOUT:?}: {}",
            open.name_any(),
            json!(open.status)
        );
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let seconds = started.elapsed().as_secs_f64();
    println!("{} backups after {seconds:.0} s, at most {most} Jobs at once", names.len());
    clear(client).await?;
    Ok(Taken { seconds, most, rss })
}

fn runs(job: &Job) -> bool {
    let ended = |condition: &str| condition == "Complete" || condition == "Failed";
    let conditions = job.status.iter().flat_map(|s| s.conditions.iter().flatten());
    !conditions.into_iter().any(|c| ended(&c.type_) && c.status == "True")
}

async fn clear(client: &Client) -> anyhow::Result<()> {
    let api: Api<EtcdBackup> = Api::namespaced(client.clone(), TEAM);
    api.delete_collection(&DeleteParams::default(), &ListParams::default()).await?;
    let started = Instant::now();
    while !api.list(&ListParams::default()).await?.items.is_empty() {
        ensure!(started.elapsed() < TIMEOUT, "backups are left");
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    Ok(())
}

/// The end of a backup's pod, as `berth-backup` would tell it. None: the pod is of none.
pub(crate) async fn end(pod: &Pod) -> Option<Value> {
    let labels: &BTreeMap<String, String> = pod.metadata.labels.as_ref()?;
    labels.get(labels::JOB_NAME)?;
    let container = pod.spec.as_ref()?.containers.first()?;
    let task = container.env.iter().flatten().find(|e| e.name == TASK)?.value.as_ref()?;
    let Ok(Task::Take(take)) = serde_json::from_str(task) else { return None };
    tokio::time::sleep(TAKES).await;
    let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let manifest = Manifest {
        key: format!("{}/{now}-7.db", take.prefix),
        sha256: "ab".into(),
        size: 9,
        revision: 7,
        keys: 3,
        hash: 1,
        cluster_id: "c1".into(),
        etcd_version: "3.6.16".into(),
        taken_at: now.clone(),
        verified_at: now.clone(),
        of: take.of,
    };
    let message = serde_json::to_string(&Outcome::from(manifest)).ok()?;
    let ended = json!({"exitCode": 0, "reason": "Completed", "message": message, "startedAt": now, "finishedAt": now});
    let status = json!({
        "name": container.name, "image": "i", "imageID": "i", "ready": false, "restartCount": 0,
        "state": {"terminated": ended},
    });
    Some(json!({"phase": "Succeeded", "containerStatuses": [status]}))
}
