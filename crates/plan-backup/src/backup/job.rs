//! The Job: a container with etcd's image, which has etcd's programs of the members' version, and `berth-backup` on a volume in it, as
//! the agent is in the members (ADR 13). It has no token, and nothing of it is pinned: it is over before the next operator comes.

use super::Owner;
use super::input::BackupInput;
use super::outcome::CONTAINER;
use super::place::{self, Place};
use super::store::Kept;
use berth_api::backup::{Delete, GIVE_UP, TASK, Take, Task};
use berth_api::common::AgentDelivery;
use berth_api::{EtcdCluster, labels};
use berth_plan::backup_jobs::{DEADLINE, Pool};
use berth_render::{Object, ObjectKey};
use serde_json::{Value, json};

/// A snapshot of 10 GiB at most, and what is restored of it: a store of a team fills no node.
const SCRATCH: &str = "21Gi";
/// User of the processes.
const USER: i64 = 65532;

/// The Job that takes a backup.
pub(super) fn take(input: BackupInput<'_>, place: &Place, key: &ObjectKey) -> Result<Object, String> {
    let status = place.etcd.status.clone().unwrap_or_default();
    let of = place.subject.clone();
    let parts = [&*place.store.prefix, &of.namespace, &of.name, &of.identity];
    let prefix: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    let members = place::members(input.object, &status).unwrap_or_default();
    let task = Task::Take(Take {
        store: place.store.store.clone(),
        prefix: prefix.join("/"),
        members: members.iter().map(|e| e.url.clone()).collect(),
        of,
        without_quorum: input.object.spec.without_quorum,
        all: place::names_members(input.object),
        earlier: super::earlier::asked(input),
    });
    let aliases: Vec<Value> = members.iter().map(|e| json!({"ip": e.address, "hostnames": [e.host]})).collect();
    let mut object = job(&input.owner(), &task, &place.store, key, &place.image, Some(&place.etcd))?;
    let pod = &mut object["spec"]["template"]["spec"];
    pod["hostAliases"] = aliases.into();
    add(pod, "etcd", "/etc/berth/etcd", json!({"secret": {"secretName": place.client, "defaultMode": 0o440}}));
    if Pool::of(&input.object.spec) == Pool::Teams {
        object["metadata"]["labels"][labels::BACKUP_POOL] = labels::BACKUP_POOL_TEAMS.into();
    }
    // It has no ttlSecondsAfterFinished: the Secret beside it is found by it, and goes first.
    Object::new(own(input, object))
}

/// With the UID of the `EtcdBackup`, since another one may have its name later.
fn own(input: BackupInput<'_>, mut job: Value) -> Value {
    job["metadata"]["labels"][labels::ETCD_BACKUP_UID] = input.uid().into();
    job
}

/// The Job that deletes a backup in the store.
pub(super) fn delete(
    input: BackupInput<'_>,
    store: &Kept,
    (snapshot, image): (&str, &str),
    etcd: Option<&EtcdCluster>,
    key: &ObjectKey,
) -> Result<Object, String> {
    let task = Task::Delete(Delete { store: store.store.clone(), key: snapshot.to_owned() });
    let mut object = job(&input.owner(), &task, store, key, image, etcd)?;
    // With the finalizer of its EtcdBackup nobody is left to delete it.
    object["spec"]["ttlSecondsAfterFinished"] = 600.into();
    Object::new(own(input, object))
}

/// The task of a Job that is there.
pub(crate) fn task_of(job: &Value) -> Option<Task> {
    let containers = job.pointer("/spec/template/spec/containers")?.as_array()?;
    let env = containers.first()?["env"].as_array()?;
    let task = env.iter().find(|e| e["name"] == TASK)?;
    serde_json::from_str(task["value"].as_str()?).ok()
}

/// Mounts a volume.
pub(crate) fn add(pod: &mut Value, name: &str, path: &str, source: Value) {
    let mut volume = source;
    volume["name"] = name.into();
    let mount = json!({"name": name, "mountPath": path});
    if let Some(volumes) = pod["volumes"].as_array_mut() {
        volumes.push(volume);
    }
    if let Some(mounts) = pod["containers"][0]["volumeMounts"].as_array_mut() {
        mounts.push(mount);
    }
}

pub(crate) fn job(
    input: &Owner<'_>,
    task: &Task,
    store: &Kept,
    key: &ObjectKey,
    image: &str,
    etcd: Option<&EtcdCluster>,
) -> Result<Value, String> {
    let only_reads = matches!(task, Task::Check(_) | Task::Restore(_));
    let task = serde_json::to_string(task).map_err(|e| e.to_string())?;
    let restricted = json!({
        "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": {"drop": ["ALL"]},
    });
    let mut pod = json!({
        "restartPolicy": "Never",
        "automountServiceAccountToken": false,
        "enableServiceLinks": false,
        "terminationGracePeriodSeconds": 5,
        "securityContext": {
            "runAsNonRoot": true, "runAsUser": USER, "runAsGroup": USER, "fsGroup": USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [{
            "name": CONTAINER,
            "image": image,
            "command": ["/berth/berth-backup", "run"],
            "args": ["--etcd-pki=/etc/berth/etcd", "--credentials=/etc/berth/store", "--scratch=/scratch"],
            "env": [{"name": TASK, "value": task}],
            // A restored etcd loads all keys into memory.
            "resources": {"requests": {"cpu": "50m", "memory": "128Mi"}, "limits": {"memory": "4Gi"}},
            "volumeMounts": [],
            "securityContext": restricted,
        }],
        "volumes": [],
    });
    add(&mut pod, "scratch", "/scratch", json!({"emptyDir": {"sizeLimit": SCRATCH}}));
    if store.secret.is_some() {
        add(&mut pod, "store", "/etc/berth/store", json!({"secret": {"secretName": key.name, "defaultMode": 0o440}}));
    } else {
        mount(&mut pod, store, only_reads);
    }
    deliver(&mut pod, input, &restricted);
    if let Some(etcd) = etcd {
        let placement = &etcd.spec.placement;
        let fields = [
            ("nodeSelector", json!(placement.node_selector)),
            ("tolerations", json!(placement.tolerations)),
            ("imagePullSecrets", etcd.spec.images.pull_secrets.iter().map(|name| json!({"name": name})).collect()),
        ];
        for (field, value) in fields {
            let empty =
                value.as_array().is_some_and(Vec::is_empty) || value.as_object().is_some_and(serde_json::Map::is_empty);
            if !empty {
                pod[field] = value;
            }
        }
    }
    let labels = json!(input.labels);
    Ok(json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": key.name, "namespace": key.namespace, "labels": labels},
        "spec": {
            "backoffLimit": 2,
            "activeDeadlineSeconds": DEADLINE,
            "podFailurePolicy": {"rules": [{
                "action": "FailJob",
                "onExitCodes": {"containerName": CONTAINER, "operator": "In", "values": [GIVE_UP]},
            }]},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }))
}

/// Mounts the claim of a store that is a volume.
fn mount(pod: &mut Value, store: &Kept, only_reads: bool) {
    add(pod, "store", &store.store.directory, json!({"persistentVolumeClaim": {"claimName": store.store.bucket}}));
    let mounts = pod["containers"][0]["volumeMounts"].as_array_mut();
    if let Some(mount) = mounts.and_then(|all| all.last_mut()).filter(|_| only_reads) {
        mount["readOnly"] = true.into();
    }
    // Else each Job changes the group of each file on it.
    pod["securityContext"]["fsGroupChangePolicy"] = "OnRootMismatch".into();
}

/// Brings the program into the container, as the agent comes into the members' pods.
fn deliver(pod: &mut Value, input: &Owner<'_>, restricted: &Value) {
    let image = &input.settings.backups.image;
    match input.settings.agent_delivery {
        AgentDelivery::ImageVolume => {
            add(pod, "berth", "/berth", json!({"image": {"reference": image, "pullPolicy": "IfNotPresent"}}));
        }
        AgentDelivery::InitContainer => {
            add(pod, "berth", "/berth", json!({"emptyDir": {}}));
            pod["initContainers"] = json!([{
                "name": "install",
                "image": image,
                "command": ["/berth-backup", "install", "--to=/berth"],
                "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}, "limits": {"memory": "64Mi"}},
                "volumeMounts": [{"name": "berth", "mountPath": "/berth"}],
                "securityContext": restricted,
            }]);
        }
    }
}
