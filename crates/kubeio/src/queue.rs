//! Which `EtcdBackup`s wait or run, of all namespaces, and the Jobs of these. Each of those that wait asks every few seconds, and a platform has
//! many thousands that have ended: one list, in pages, is for all who ask, and what has ended is not kept.

use crate::calls::{Io, collection, encode};
use crate::error::IoError;
use berth_api::backup::phase;
use berth_api::conditions::Reason;
use berth_api::labels;
use berth_plan::backup_jobs::BackupJob;
use berth_render::{Kind, ObjectKey};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Mutex;

/// How old a list may be that somebody else asked for.
const FRESH: Duration = Duration::from_secs(3);

/// Objects in one answer.
const PAGE: usize = 250;
/// Jobs are larger.
const PAGE_OF_JOBS: usize = 50;

/// Key and what decides about its turn.
type Waiting = (ObjectKey, Value);

/// What was listed together.
#[derive(Debug, Default)]
pub(crate) struct Listed {
    /// `EtcdBackup`s that have not ended.
    pub(crate) backups: Vec<Waiting>,
    /// Jobs.
    pub(crate) jobs: Arc<Vec<BackupJob>>,
}

/// The last lists.
#[derive(Debug, Default)]
pub(crate) struct Queue(Mutex<Option<(Instant, Arc<Listed>)>>);

impl Queue {
    /// Those that have not ended, and Jobs. A list in which `own` is not is too old for it.
    pub(crate) async fn read(&self, io: &Io, own: &ObjectKey) -> Result<Arc<Listed>, IoError> {
        let mut last = self.0.lock().await;
        if let Some((at, list)) = &*last
            && at.elapsed() < FRESH
            && list.backups.iter().any(|(key, _)| key == own)
        {
            return Ok(list.clone());
        }
        let at = Instant::now();
        let mut backups = vec![];
        let url = format!("{}?limit={PAGE}", collection(Kind::EtcdBackup, None));
        io.list_in_pages(Kind::EtcdBackup, &url, |page| backups.extend(page.iter().filter_map(waiting))).await?;
        // Later than the objects: one that began meanwhile is in the first list as waiting, or in this one.
        let mut jobs = vec![];
        let made = labels::ETCD_BACKUP;
        let url = format!("{}?limit={PAGE_OF_JOBS}&labelSelector={}", collection(Kind::Job, None), encode(made));
        io.list_in_pages(Kind::Job, &url, |page| jobs.extend(page.iter().filter_map(BackupJob::read))).await?;
        let list = Arc::new(Listed { backups, jobs: Arc::new(jobs) });
        *last = Some((at, list.clone()));
        Ok(list)
    }
}

/// One that has not ended, without what does not decide about its turn.
fn waiting(backup: &Value) -> Option<Waiting> {
    let phase = &backup["status"]["phase"];
    if [phase::VERIFIED, phase::FAILED].iter().any(|ended| phase == ended) {
        return None;
    }
    let field = |name: &str| backup["metadata"][name].clone();
    let names = ["name", "namespace", "uid", "creationTimestamp", "deletionTimestamp"];
    let metadata: serde_json::Map<String, Value> =
        names.into_iter().map(|name| (name.to_owned(), field(name))).filter(|(_, value)| !value.is_null()).collect();
    let of = ["clusterRef", "secretRef", "claimRef"];
    let spec: serde_json::Map<String, Value> = of
        .into_iter()
        .map(|name| (name.to_owned(), backup["spec"][name].clone()))
        .filter(|(_, v)| !v.is_null())
        .collect();
    let mut object = json!({"metadata": metadata, "spec": spec, "status": {"phase": phase}});
    let mut conditions = backup["status"]["conditions"].as_array().into_iter().flatten();
    if let Some(ready) = conditions.find(|c| c["type"] == "Ready" && c["reason"] == Reason::Rejected.as_str()) {
        object["status"]["reason"] = ready["reason"].clone();
    }
    Some((ObjectKey::of(Kind::EtcdBackup, &object), object))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_ended_is_not_kept_and_of_the_rest_little_is() {
        let backup = |phase: Value| {
            json!({
                "metadata": {"name": "b", "namespace": "a", "uid": "u", "creationTimestamp": "t", "annotations": {"large": "x"}},
                "spec": {"store": "main", "clusterRef": {"name": "c"}}, "status": {"phase": phase, "conditions": []},
            })
        };
        assert_eq!(waiting(&backup("Verified".into())), None);
        assert_eq!(waiting(&backup("Failed".into())), None);
        let mut refused = backup("Queued".into());
        refused["status"]["conditions"] = json!([{"type": "Degraded", "reason": "Rejected"}]);
        assert_eq!(waiting(&refused).unwrap().1["status"], json!({"phase": "Queued"}));
        refused["status"]["conditions"] = json!([{"type": "Ready", "reason": "Rejected", "message": "long"}]);
        assert_eq!(waiting(&refused).unwrap().1["status"], json!({"phase": "Queued", "reason": "Rejected"}));
        for phase in [Value::Null, "Queued".into(), "Waiting".into(), "Running".into()] {
            let (key, kept) = waiting(&backup(phase.clone())).unwrap();
            assert_eq!(key, ObjectKey::namespaced(Kind::EtcdBackup, "a", "b"));
            let metadata = json!({"name": "b", "namespace": "a", "uid": "u", "creationTimestamp": "t"});
            let spec = json!({"clusterRef": {"name": "c"}});
            assert_eq!(kept, json!({"metadata": metadata, "spec": spec, "status": {"phase": phase}}));
        }
    }
}
