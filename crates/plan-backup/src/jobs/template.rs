//! The Job: a container with etcd's image, which has etcd's programs of the members' version, and `berth-backup` on a volume in it, as
//! the agent is in the members (ADR 13). It has no token, and nothing of it is pinned: it is over before the next operator comes.

use super::JobOwner;
use super::proxy;
use super::status::CONTAINER;
use crate::store::ResolvedStore;
use berth_api::EtcdCluster;
use berth_api::backup::{GIVE_UP, TASK, Task};
use berth_api::common::AgentDelivery;
use berth_api::labels;
use berth_plan::Settings;
use berth_plan::backup_jobs::DEADLINE;
use berth_plan::meta_cluster::pull_secrets::is_reserved_in;
use berth_plan::workload;
use berth_render::{Object, ObjectKey, lay_over};
use serde_json::{Map, Value, json};

/// A snapshot of 10 GiB at most, and what is restored of it: a store of a team fills no node.
const SCRATCH: &str = "21Gi";
/// User of the processes.
const USER: i64 = 65532;

/// A task that runs as a Job.
#[derive(Clone, Debug)]
pub(crate) struct JobTemplate<'a> {
    /// What it does.
    pub(crate) task: Task,
    /// The store, whose credentials are in a Secret beside the Job.
    pub(crate) store: &'a ResolvedStore,
    /// Image of the container, with etcd's programs.
    pub(crate) image: &'a str,
    /// It runs where the members of this etcd may.
    pub(crate) etcd: Option<&'a EtcdCluster>,
    /// Labels of the Job, beside those of everything that is made for its owner.
    pub(crate) labels: Vec<(&'static str, &'a str)>,
    /// Further arguments.
    pub(crate) args: Vec<String>,
    /// Further volumes.
    pub(crate) volumes: Vec<Volume<'a>>,
    /// Other fields of the pod's spec.
    pub(crate) pod: Map<String, Value>,
    /// Seconds after which Kubernetes deletes it once it has ended. None: its owner does, after the Secret beside it, which is found by it.
    pub(crate) ttl: Option<i64>,
}

impl<'a> JobTemplate<'a> {
    /// One with nothing but what each has.
    pub(crate) fn new(task: Task, store: &'a ResolvedStore, image: &'a str, etcd: Option<&'a EtcdCluster>) -> Self {
        let (labels, args, volumes) = (vec![], vec![], vec![]);
        Self { task, store, image, etcd, labels, args, volumes, pod: Map::new(), ttl: None }
    }

    pub(super) fn object(&self, owner: &JobOwner<'_>, key: &ObjectKey) -> Result<Object, String> {
        let mut labels = owner.labels.clone();
        let template = json!({"metadata": {"labels": labels}, "spec": self.pod(owner, key)?});
        labels.extend(self.labels.iter().copied());
        let mut job = json!({
            "apiVersion": "batch/v1", "kind": "Job",
            "metadata": {"name": key.name, "namespace": key.namespace, "labels": labels},
            "spec": {
                "backoffLimit": 2,
                "activeDeadlineSeconds": DEADLINE,
                "podFailurePolicy": {"rules": [{
                    "action": "FailJob",
                    "onExitCodes": {"containerName": CONTAINER, "operator": "In", "values": [GIVE_UP]},
                }]},
                "template": template,
            },
        });
        if let Some(ttl) = self.ttl {
            job["spec"]["ttlSecondsAfterFinished"] = ttl.into();
        }
        Object::new(job)
    }

    fn pod(&self, owner: &JobOwner<'_>, key: &ObjectKey) -> Result<Value, String> {
        let task = serde_json::to_string(&self.task).map_err(|e| e.to_string())?;
        let fixed = ["--etcd-pki=/etc/berth/etcd", "--credentials=/etc/berth/store", "--scratch=/scratch"];
        let args: Vec<&str> = fixed.into_iter().chain(self.args.iter().map(String::as_str)).collect();
        let mut volumes = vec![
            Volume::new("scratch", "/scratch", json!({"emptyDir": {"sizeLimit": SCRATCH}})),
            self.store_volume(key),
            program_volume(owner),
        ];
        volumes.extend(self.volumes.iter().cloned());
        let mut env = vec![json!({"name": TASK, "value": task})];
        if self.store.store.directory.is_empty() {
            env.extend(proxy::variables(owner.settings, owner.observed, &self.store.store.endpoint));
        }
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
                "image": self.image,
                "command": ["/berth/berth-backup", "run"],
                "args": args,
                "env": env,
                // A restored etcd loads all keys into memory.
                "resources": {"requests": {"cpu": "50m", "memory": "128Mi"}, "limits": {"memory": "4Gi"}},
                "volumeMounts": volumes.iter().map(Volume::mount).collect::<Vec<_>>(),
                "securityContext": restricted(),
            }],
            "volumes": volumes.iter().map(Volume::volume).collect::<Vec<_>>(),
        });
        let (defaults, helpers) = (&owner.settings.helpers, self.etcd.map(|etcd| &etcd.spec.helpers));
        for layer in &workload::job(defaults, helpers) {
            lay_over(&mut pod["containers"][0], layer);
        }
        if self.store.secret.is_none() {
            // Else each Job changes the group of each file on it.
            pod["securityContext"]["fsGroupChangePolicy"] = "OnRootMismatch".into();
        }
        if owner.settings.agent_delivery == AgentDelivery::InitContainer {
            let mut install = install(&owner.settings.backups.image);
            let asked = helpers.and_then(|helpers| helpers.resources.as_ref());
            for layer in &workload::helpers(defaults.resources.as_ref(), asked) {
                lay_over(&mut install, layer);
            }
            bound_by(&mut install, &pod["containers"][0]);
            pod["initContainers"] = json!([install]);
        }
        if let Some(fields) = pod.as_object_mut() {
            fields.extend(self.etcd.map(|etcd| placement(etcd, owner.settings)).unwrap_or_default());
            fields.extend(self.pod.clone());
        }
        Ok(pod)
    }

    /// The store's credentials, or, of one that is a volume, its claim.
    fn store_volume(&self, key: &ObjectKey) -> Volume<'_> {
        let store = &self.store.store;
        if self.store.secret.is_some() {
            let secret = json!({"secret": {"secretName": key.name, "defaultMode": 0o440}});
            return Volume::new("store", "/etc/berth/store", secret);
        }
        let claim = json!({"persistentVolumeClaim": {"claimName": store.bucket}});
        let read_only = matches!(self.task, Task::Check(_) | Task::Restore(_));
        Volume { read_only, ..Volume::new("store", &store.directory, claim) }
    }
}

/// A volume of the pod, and where its container has it.
#[derive(Clone, Debug)]
pub(crate) struct Volume<'a> {
    name: &'a str,
    path: &'a str,
    source: Value,
    read_only: bool,
}

impl<'a> Volume<'a> {
    /// One that can be written to, as far as its source can.
    pub(crate) fn new(name: &'a str, path: &'a str, source: Value) -> Self {
        Self { name, path, source, read_only: false }
    }

    fn volume(&self) -> Value {
        let mut volume = self.source.clone();
        volume["name"] = self.name.into();
        volume
    }

    fn mount(&self) -> Value {
        let mut mount = json!({"name": self.name, "mountPath": self.path});
        if self.read_only {
            mount["readOnly"] = true.into();
        }
        mount
    }
}

/// The program, which comes into the container as the agent comes into the members' pods.
fn program_volume<'a>(owner: &JobOwner<'_>) -> Volume<'a> {
    let source = match owner.settings.agent_delivery {
        AgentDelivery::ImageVolume => {
            json!({"image": {"reference": owner.settings.backups.image, "pullPolicy": "IfNotPresent"}})
        }
        AgentDelivery::InitContainer => json!({"emptyDir": {}}),
    };
    Volume::new("berth", "/berth", source)
}

fn install(image: &str) -> Value {
    json!({
        "name": "install",
        "image": image,
        "command": ["/berth-backup", "install", "--to=/berth"],
        "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}, "limits": {"memory": "64Mi"}},
        "volumeMounts": [{"name": "berth", "mountPath": "/berth"}],
        "securityContext": restricted(),
    })
}

/// Kubelet evicts a pod for the sum of those limits on ephemeral storage that there are: one of a helper alone would be that of the backup.
fn bound_by(install: &mut Value, container: &Value) {
    const STORAGE: &str = "ephemeral-storage";
    let limits = install["resources"]["limits"].as_object_mut();
    if let Some(limits) = limits.filter(|_| container["resources"]["limits"][STORAGE].is_null()) {
        limits.remove(STORAGE);
    }
}

/// The task of a Job that is there.
pub(crate) fn task_of(job: &Value) -> Option<Task> {
    let env = job.pointer("/spec/template/spec/containers/0/env")?.as_array()?;
    let task = env.iter().find(|e| e["name"] == TASK)?;
    serde_json::from_str(task["value"].as_str()?).ok()
}

fn restricted() -> Value {
    json!({"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": {"drop": ["ALL"]}})
}

/// Those of the etcd, and beside them the platform's, whose images a Job runs. Without any of its own, admission gives a pod the platform's.
fn pull_secrets<'a>(etcd: &'a EtcdCluster, settings: &'a Settings) -> Vec<&'a String> {
    let own = &etcd.spec.images.pull_secrets;
    let cluster = etcd.metadata.labels.as_ref().and_then(|all| all.get(labels::CLUSTER_NAME));
    let is_copied = |name: &&String| cluster.is_some_and(|cluster| !is_reserved_in(cluster, name));
    let platforms = settings.pull_secrets.iter().filter(is_copied);
    own.iter().chain(platforms.filter(|name| !own.is_empty() && !own.contains(name))).collect()
}

/// Where the members of an etcd run, and how their images are pulled.
fn placement(etcd: &EtcdCluster, settings: &Settings) -> Map<String, Value> {
    let placement = &etcd.spec.placement;
    let secrets: Vec<Value> = pull_secrets(etcd, settings).iter().map(|name| json!({"name": name})).collect();
    let fields = [
        ("nodeSelector", json!(placement.node_selector)),
        ("tolerations", json!(placement.tolerations)),
        ("imagePullSecrets", json!(secrets)),
    ];
    let is_set = |value: &Value| *value != json!([]) && *value != json!({});
    fields.into_iter().filter(|(_, value)| is_set(value)).map(|(name, value)| (name.to_owned(), value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenants_own_pull_secrets_take_no_place_of_the_platforms() {
        let settings =
            Settings { pull_secrets: ["reg", "own", "acme-ca"].map(Into::into).to_vec(), ..Settings::default() };
        let of = |own: &[&str], cluster: Option<&str>| {
            let etcd = json!({
                "apiVersion": "berth.dev/v1alpha1", "kind": "EtcdCluster",
                "metadata": {"name": "etcd", "labels": cluster.map(|name| json!({(labels::CLUSTER_NAME): name}))},
                "spec": {"version": "3.6.16", "images": {"pullSecrets": own}},
            });
            let etcd: EtcdCluster = serde_json::from_value(etcd).unwrap();
            placement(&etcd, &settings).get("imagePullSecrets").cloned()
        };
        let own = json!([{"name": "own"}]);
        assert_eq!(of(&["own"], Some("acme")), Some(json!([{"name": "own"}, {"name": "reg"}])));
        assert_eq!(of(&["own"], None), Some(own), "nothing is copied to where it is");
        assert_eq!(of(&[], Some("acme")), None, "admission has them");
    }
}
