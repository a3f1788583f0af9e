//! The Job: a container with etcd's image, which has etcd's programs of the members' version, and `berth-backup` on a volume in it, as
//! the agent is in the members (ADR 13).

use super::JobOwner;
use crate::store::ResolvedStore;
use berth_api::EtcdCluster;
use berth_api::backup::{TASK, Task};
use berth_api::common::AgentDelivery;
use berth_api::labels;
use berth_plan::Settings;
use berth_plan::jobs::{JobShape, Volume, env_of, pod_security, restricted, variables};
use berth_plan::meta_cluster::pull_secrets::is_reserved_in;
use berth_plan::workload;
use berth_render::{ObjectKey, lay_over};
use serde_json::{Map, Value, json};

/// A snapshot of 10 GiB at most, and what is restored of it: a store of a team fills no node.
const SCRATCH: &str = "21Gi";

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

    pub(super) fn shape(&self, owner: &JobOwner<'_>, key: &ObjectKey) -> Result<JobShape<'_>, String> {
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
            env.extend(variables(owner.settings, owner.observed, &self.store.store.endpoint));
        }
        let mut container = json!({
            "image": self.image,
            "command": ["/berth/berth-backup", "run"],
            "args": args,
            "env": env,
            // A restored etcd loads all keys into memory.
            "resources": {"requests": {"cpu": "50m", "memory": "128Mi"}, "limits": {"memory": "4Gi"}},
        });
        let (defaults, helpers) = (&owner.settings.helpers, self.etcd.map(|etcd| &etcd.spec.helpers));
        for layer in &workload::job(defaults, helpers) {
            lay_over(&mut container, layer);
        }
        let mut pod = Map::new();
        if self.store.secret.is_none() {
            // Else each Job changes the group of each file on it.
            let mut security = pod_security();
            security["fsGroupChangePolicy"] = "OnRootMismatch".into();
            pod.insert("securityContext".into(), security);
        }
        if owner.settings.agent_delivery == AgentDelivery::InitContainer {
            let mut install = install(&owner.settings.backups.image);
            let asked = helpers.and_then(|helpers| helpers.resources.as_ref());
            for layer in &workload::helpers(defaults.resources.as_ref(), asked) {
                lay_over(&mut install, layer);
            }
            bound_by(&mut install, &container);
            pod.insert("initContainers".into(), json!([install]));
        }
        pod.extend(self.etcd.map(|etcd| placement(etcd, owner.settings)).unwrap_or_default());
        pod.extend(self.pod.clone());
        let (key, labels) = (key.clone(), self.labels.clone());
        Ok(JobShape { key, labels, container, volumes, pod, retries: 2, ttl: self.ttl })
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
        Volume::new("store", &store.directory, claim).read_only(read_only)
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
    serde_json::from_str(env_of(job, TASK)?).ok()
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
