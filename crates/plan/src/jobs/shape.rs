//! The Job: one pod without a token and without privileges, of which nothing is pinned: it is over before the next operator comes.

use super::{JobKind, JobOwner};
use berth_api::jobs::GIVE_UP;
use berth_render::{Object, ObjectKey};
use serde_json::{Map, Value, json};

/// User of the processes.
const USER: i64 = 65532;

/// A Job as it is to be.
#[derive(Clone, Debug)]
pub struct JobShape<'a> {
    /// Its name and place.
    pub key: ObjectKey,
    /// Labels of the Job, beside those of everything that is made for its owner.
    pub labels: Vec<(&'static str, &'a str)>,
    /// Its container, but for its name, its volumes and its security.
    pub container: Value,
    /// Volumes of its container.
    pub volumes: Vec<Volume<'a>>,
    /// Other fields of the pod's spec, and those that are to be otherwise.
    pub pod: Map<String, Value>,
    /// How often it is tried again.
    pub retries: i64,
    /// Seconds after which Kubernetes deletes it once it has ended. None: its owner does, after the Secret beside it, which is found by it.
    pub ttl: Option<i64>,
}

impl JobShape<'_> {
    pub(super) fn object(self, owner: &JobOwner<'_>, kind: JobKind) -> Result<Object, String> {
        let Self { key, labels: more, mut container, volumes, pod: fields, retries, ttl } = self;
        container["name"] = kind.container.into();
        container["volumeMounts"] = volumes.iter().map(Volume::mount).collect();
        container["securityContext"] = restricted();
        let mut pod = json!({
            "restartPolicy": "Never",
            "automountServiceAccountToken": false,
            "enableServiceLinks": false,
            "terminationGracePeriodSeconds": 5,
            "securityContext": pod_security(),
            "containers": [container],
            "volumes": volumes.iter().map(Volume::volume).collect::<Vec<_>>(),
        });
        for (name, value) in fields {
            pod[name] = value;
        }
        let mut labels = owner.labels.clone();
        let template = json!({"metadata": {"labels": labels}, "spec": pod});
        labels.extend(more);
        let mut job = json!({
            "apiVersion": "batch/v1", "kind": "Job",
            "metadata": {"name": key.name, "namespace": key.namespace, "labels": labels},
            "spec": {
                "backoffLimit": retries,
                "activeDeadlineSeconds": kind.deadline,
                "podFailurePolicy": {"rules": [{
                    "action": "FailJob",
                    "onExitCodes": {"containerName": kind.container, "operator": "In", "values": [GIVE_UP]},
                }]},
                "template": template,
            },
        });
        if let Some(ttl) = ttl {
            job["spec"]["ttlSecondsAfterFinished"] = ttl.into();
        }
        Object::new(job)
    }
}

/// A volume of the pod, and where its container has it.
#[derive(Clone, Debug)]
pub struct Volume<'a> {
    name: &'a str,
    path: &'a str,
    source: Value,
    read_only: bool,
}

impl<'a> Volume<'a> {
    /// One that can be written to, as far as its source can.
    pub fn new(name: &'a str, path: &'a str, source: Value) -> Self {
        Self { name, path, source, read_only: false }
    }

    /// The same, and nothing is written to it if `read_only`.
    #[must_use]
    pub fn read_only(self, read_only: bool) -> Self {
        Self { read_only, ..self }
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

/// A variable of the container of a Job that is there.
pub fn env_of<'a>(job: &'a Value, name: &str) -> Option<&'a str> {
    let env = job.pointer("/spec/template/spec/containers/0/env")?.as_array()?;
    env.iter().find(|e| e["name"] == name)?["value"].as_str()
}

/// Whose processes are in a pod.
pub fn pod_security() -> Value {
    json!({
        "runAsNonRoot": true, "runAsUser": USER, "runAsGroup": USER, "fsGroup": USER,
        "seccompProfile": {"type": "RuntimeDefault"},
    })
}

/// What Pod Security `restricted` asks of a container.
pub fn restricted() -> Value {
    json!({"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": {"drop": ["ALL"]}})
}
