//! Jobs that have nobody left: whoever may change an `EtcdBackup`, an `EtcdRestore` or an `AppInstallation` may take its finalizer off, and delete
//! it while its Job runs.

use crate::calls::{Io, collection, encode};
use crate::error::{ErrorKind, IoError};
use berth_plan::backup_jobs::{BESIDE, OWNERS, is_beside, made_for, owner_labels};
use berth_plan::jobs::secret_beside;
use berth_plan::object_meta::{deleting, label, uid};
use berth_render::{Kind, ObjectKey};
use serde_json::{Map, Value, json};

/// Jobs in one answer.
const PAGE: usize = 50;

/// Deletes each Job of an object that is gone, and before it the Secret with keys beside it, by which nothing else finds that. Returns the Jobs. Err: the first failure; it goes on with others.
pub async fn sweep(io: &Io) -> Result<Vec<ObjectKey>, IoError> {
    let mut jobs = vec![];
    for [label, _] in OWNERS.map(owner_labels) {
        let url = format!("{}?limit={PAGE}&labelSelector={}", collection(Kind::Job, None), encode(label));
        let found = |page: &[Value]| jobs.extend(page.iter().filter(|job| !deleting(job)).filter_map(child));
        io.list_in_pages(Kind::Job, &url, found).await?;
    }
    let (mut swept, mut failure) = (vec![], None);
    for (owner, job) in jobs {
        match sweep_one(io, &owner, &job).await {
            Ok(true) => swept.push(ObjectKey::of(Kind::Job, &job)),
            Ok(false) => {}
            Err(error) => failure = failure.or(Some(error)),
        }
    }
    failure.map_or(Ok(swept), Err)
}

/// Whose it is, and what is kept of it until that is known.
fn child(job: &Value) -> Option<(ObjectKey, Value)> {
    let owner = made_for(job)?;
    let of = |name: &str| job["metadata"][name].clone();
    // Others are of any size, and anybody may make a Job that looks like one of these.
    let labels = BESIDE.iter().filter_map(|name| Some(((*name).to_owned(), label(job, name)?.into())));
    let labels: Map<String, Value> = labels.collect();
    let metadata = json!({"name": of("name"), "namespace": of("namespace"), "uid": of("uid"), "labels": labels});
    Some((owner, json!({"metadata": metadata})))
}

/// True: it had nobody left.
async fn sweep_one(io: &Io, owner: &ObjectKey, job: &Value) -> Result<bool, IoError> {
    if io.get(owner).await?.is_some() {
        return Ok(false);
    }
    let key = ObjectKey::of(Kind::Job, job);
    let beside = secret_beside(&key);
    match io.get(&beside).await {
        Ok(Some(secret)) if is_beside(&secret, job) => io.delete(&beside, uid(&secret), None).await?,
        Ok(_) => {}
        // Not one of Berth's places: nothing there is its own.
        Err(e) if e.kind == ErrorKind::Forbidden => return Ok(false),
        Err(e) => return Err(e),
    }
    io.delete(&key, uid(job), None).await?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calls::WRITE_DEADLINE;
    use berth_api::labels;
    use berth_fence::{Fence, FencedClient};
    use http::{Request, Response};
    use http_body_util::BodyExt;
    use kube::Client;
    use kube::client::Body;
    use std::sync::{Arc, Mutex};
    use tower::BoxError;

    fn object(name: &str, namespace: &str, of: &str) -> Value {
        let labels = json!({
            labels::MANAGED_BY: labels::MANAGED_BY_VALUE, labels::ETCD_BACKUP: of, labels::ETCD_BACKUP_NAMESPACE: "team-a",
        });
        json!({"metadata": {"name": name, "namespace": namespace, "uid": format!("uid-{name}"), "labels": labels}})
    }

    /// An API server with these Jobs, an `EtcdBackup` `there`, and a Secret beside each Job; none may be read in `team-a`. Notes what it deletes.
    fn server(jobs: Vec<Value>, deleted: Arc<Mutex<Vec<String>>>) -> Io {
        let service = tower::service_fn(move |request: Request<Body>| {
            let (jobs, deleted) = (jobs.clone(), deleted.clone());
            async move {
                let (method, uri) = (request.method().to_string(), request.uri().clone());
                let sent: Value =
                    serde_json::from_slice(&request.into_body().collect().await?.to_bytes()).unwrap_or_default();
                let (path, query) = (uri.path(), uri.query().unwrap_or_default());
                let parts: Vec<&str> = path.split('/').collect();
                let (resource, name) = (parts[parts.len() - 2], parts[parts.len() - 1]);
                let (code, answer) = match (&*method, resource, name) {
                    ("DELETE", ..) => {
                        let uid = sent["preconditions"]["uid"].as_str().unwrap_or_default();
                        deleted.lock().unwrap().push(format!("{resource} {name} {uid}"));
                        (200, json!({}))
                    }
                    (_, _, "jobs") if query.contains("etcd-backup") => (200, json!({"items": jobs})),
                    (_, _, "jobs") => (200, json!({"items": []})),
                    (_, "etcdbackups", "there") => (200, json!({"metadata": {"name": name}})),
                    (_, "secrets", _) if parts.contains(&"team-a") => {
                        let message = format!(
                            "secrets \"{name}\" is forbidden: User \"berth\" cannot get resource \"secrets\" in API group \"\""
                        );
                        (403, json!({"status": "Failure", "reason": "Forbidden", "message": message, "code": 403}))
                    }
                    (_, "secrets", name) => (200, object(name, parts[4], "gone")),
                    _ => (404, json!({"status": "Failure", "reason": "NotFound", "message": "no", "code": 404})),
                };
                Ok::<_, BoxError>(Response::builder().status(code).body(Body::from(answer.to_string().into_bytes()))?)
            }
        });
        let client = FencedClient::new(Client::new(service, "default"), Fence::open());
        Io::new(client, Arc::default(), WRITE_DEADLINE)
    }

    #[tokio::test]
    async fn a_job_that_nobody_names_goes_by_its_uid_after_the_keys_beside_it() {
        let home = berth_api::names::control_plane_namespace("team-a", "acme");
        let deleted = Arc::default();
        let mut ends = object("backup-gone-delete", &home, "gone");
        ends["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        let jobs = vec![
            object("backup-gone", &home, "gone"),
            object("backup-there", &home, "there"),
            // Of no place of Berth's: whoever made it may keep it.
            object("backup-gone", "team-a", "gone"),
            object("backup-gone", "team-b", "gone"),
            ends,
        ];
        let swept = sweep(&server(jobs, Arc::clone(&deleted))).await.unwrap();
        assert_eq!(swept, [ObjectKey::namespaced(Kind::Job, &home, "backup-gone")]);
        let both = ["secrets", "jobs"].map(|resource| format!("{resource} backup-gone uid-backup-gone"));
        assert_eq!(*deleted.lock().unwrap(), both);
    }
}
