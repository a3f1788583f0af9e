//! One `Cluster` and what belongs to it.

use std::{collections::BTreeMap, process::Command};

use anyhow::{Context, Result, anyhow, bail, ensure};
use base64::{Engine, engine::general_purpose::STANDARD};
use berth_api::names;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::{Kube, NEWEST, World, apps, berth, core, kube_client::status_of, paths, rest, until};

/// UID and restarts of every container, by pod.
pub type Pods = BTreeMap<String, (String, i64)>;

/// A tenant of a test.
#[derive(Clone, Debug)]
pub struct Tenant<'w> {
    pub(crate) world: &'w World,
    /// Namespace of the `Cluster`.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its control-plane namespace.
    pub cp_namespace: String,
}

impl<'w> Tenant<'w> {
    /// A handle, whether or not the `Cluster` exists.
    pub fn named(world: &'w World, name: &str) -> Self {
        let namespace = "team-e2e".to_owned();
        let cp_namespace = names::control_plane_namespace(&namespace, name);
        Self { world, namespace, name: name.to_owned(), cp_namespace }
    }

    /// Creates a `Cluster` of the newest version, with what `spec` says beside; it may be deleted.
    pub fn create(world: &'w World, name: &str, spec: &Value) -> Result<Self> {
        let tenant = Self::named(world, name);
        let team = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": tenant.namespace}});
        world.kube.ensure(&core("", "namespaces"), &team)?;
        let mut whole = json!({"version": NEWEST, "deletion": {"protected": false}});
        if let (Some(whole), Some(more)) = (whole.as_object_mut(), spec.as_object()) {
            whole.extend(more.clone());
        }
        let cluster = json!({
            "apiVersion": "berth.dev/v1alpha1", "kind": "Cluster", "metadata": {"name": name}, "spec": whole,
        });
        // One of that name may be on its way out, from another run.
        until(&format!("{name} to be created"), || match world.kube.create(&tenant.collection(), &cluster) {
            Err(e) if status_of(&e) == Some(409) => Err(e),
            made => Ok(made),
        })??;
        Ok(tenant)
    }

    /// [`Tenant::create`], then [`Tenant::wait_ready`]. If it is at rest then, its plan is held against that.
    pub fn ready(world: &'w World, name: &str, spec: &Value) -> Result<Self> {
        let tenant = Self::create(world, name, spec)?;
        rest::if_at_rest(world, &tenant.wait_ready()?)?;
        Ok(tenant)
    }

    /// Path of the `Cluster`.
    pub fn path(&self) -> String {
        format!("{}/{}", self.collection(), self.name)
    }

    fn collection(&self) -> String {
        berth(&self.namespace, "clusters")
    }

    /// The `Cluster`.
    pub fn cluster(&self) -> Result<Value> {
        self.world.kube.get(&self.path())
    }

    /// The tenant's `EtcdCluster`.
    pub fn etcd(&self) -> Result<Value> {
        self.world.kube.get(&format!("{}/{}", berth(&self.cp_namespace, "etcdclusters"), names::ETCD))
    }

    /// Changes the `Cluster`'s spec.
    pub fn change(&self, spec: &Value) -> Result<()> {
        self.world.kube.merge(&self.path(), &json!({"spec": spec})).map(|_| ())
    }

    /// Waits until `Ready` is true for the spec as it is now, and no change waits for its turn.
    pub fn wait_ready(&self) -> Result<Value> {
        until(&format!("{} to be Ready", self.name), || {
            let cluster = self.cluster()?;
            let current = cluster["status"]["observedGeneration"] == cluster["metadata"]["generation"];
            let ready = condition(&cluster, "Ready")?;
            let waits = ready["reason"] == "WaitingForTurn";
            ensure!(current && ready["status"] == "True" && !waits, "{}: {}", ready["reason"], ready["message"]);
            Ok(cluster)
        })
    }

    /// Waits until a condition has that status and reason; its message.
    pub fn wait_condition(&self, type_: &str, status: &str, reason: &str) -> Result<String> {
        until(&format!("{}: {type_} {status} {reason}", self.name), || {
            let cluster = self.cluster()?;
            let found = condition(&cluster, type_)?;
            ensure!(found["status"] == status && found["reason"] == reason, "it is {found}");
            Ok(found["message"].as_str().unwrap_or_default().to_owned())
        })
    }

    /// The path of the ConfigMap with what a component's pods read as its configuration: its name has a digest of the content.
    pub fn configuration(&self, component: &str) -> Result<String> {
        let deployment = self.world.kube.get(&format!("{}/{component}", apps(&self.cp_namespace, "deployments")))?;
        let volumes = deployment["spec"]["template"]["spec"]["volumes"].as_array().cloned().unwrap_or_default();
        let prefix = format!("{component}-config-");
        let name =
            volumes.iter().filter_map(|v| v["configMap"]["name"].as_str()).find(|name| name.starts_with(&prefix));
        let name = name.with_context(|| format!("{component} mounts no ConfigMap {prefix}…"))?;
        Ok(format!("{}/{name}", core(&self.cp_namespace, "configmaps")))
    }

    /// The kubeconfig that the tenant's people get.
    pub fn kubeconfig(&self) -> Result<String> {
        let secret = format!("{}/{}", core(&self.namespace, "secrets"), names::kubeconfig(&self.name));
        let secret = self.world.kube.get(&secret)?;
        Ok(String::from_utf8(decoded(&secret, "value")?)?)
    }

    /// The tenant's API, with the kubeconfig as it is now.
    pub fn api(&self) -> Result<Kube> {
        Kube::new(&self.kubeconfig()?)
    }

    /// What `kubectl berth join-command` prints, without `kubeadm join`: what is typed on a machine.
    pub fn join_arguments(&self) -> Result<Vec<String>> {
        let mut command = Command::new(paths::program("kubectl-berth")?);
        command.args(["join-command", &self.name, "-n", &self.namespace, "--ttl", "1h"]);
        let output = command.env("KUBECONFIG", self.world.cluster.kubeconfig()).output()?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let arguments = said.trim().strip_prefix("kubeadm join ").context("it prints a command")?;
        Ok(arguments.split(' ').map(str::to_owned).collect())
    }

    /// The scheduler looks for a node, of which there is none.
    pub fn scheduler_works(&self) -> Result<()> {
        let (api, pods) = (self.api()?, core("default", "pods"));
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "waits"},
            "spec": {"containers": [{"name": "c", "image": "registry.k8s.io/pause:3.10.1"}]},
        });
        api.create(&pods, &pod)?;
        until("the scheduler to find no node for a pod", || {
            let pod = api.get(&format!("{pods}/waits"))?;
            ensure!(condition(&pod, "PodScheduled")?["reason"] == "Unschedulable");
            Ok(())
        })
    }

    /// A Secret's value in the control-plane namespace.
    pub fn secret(&self, name: &str, key: &str) -> Result<Vec<u8>> {
        decoded(&self.world.kube.get(&format!("{}/{name}", core(&self.cp_namespace, "secrets")))?, key)
    }

    /// Digests of all Secrets in the control-plane namespace, by name.
    pub fn secrets(&self) -> Result<BTreeMap<String, String>> {
        let all = self.world.kube.list(&core(&self.cp_namespace, "secrets"))?;
        let digest =
            |s: &Value| Sha256::digest(s["data"].to_string()).iter().fold(String::new(), |d, b| format!("{d}{b:02x}"));
        Ok(all.iter().map(|s| (name_of(s), digest(s))).collect())
    }

    /// Pods of a component, or all.
    pub fn pods(&self, component: Option<&str>) -> Result<Vec<Value>> {
        let mut all = self.world.kube.list(&core(&self.cp_namespace, "pods"))?;
        all.retain(|p| component.is_none_or(|c| p["metadata"]["labels"]["app.kubernetes.io/component"] == c));
        Ok(all)
    }

    /// UID and restarts of every pod: what must not change when nothing is to be restarted.
    pub fn pod_identities(&self) -> Result<Pods> {
        let one = |pod: &Value| {
            let of = |list: &str| pod["status"][list].as_array().cloned().unwrap_or_default();
            let statuses = [of("containerStatuses"), of("initContainerStatuses")].concat();
            let restarts = statuses.iter().filter_map(|c| c["restartCount"].as_i64()).sum();
            (name_of(pod), (pod["metadata"]["uid"].as_str().unwrap_or_default().to_owned(), restarts))
        };
        Ok(self.pods(None)?.iter().map(one).collect())
    }

    /// No container of the tenant was ever restarted.
    pub fn nothing_restarted(&self) -> Result<()> {
        for (name, (_, restarts)) in self.pod_identities()? {
            ensure!(restarts == 0, "pod {name} was restarted {restarts} times");
        }
        Ok(())
    }

    /// Takes the statuses of its `Cluster`, `EtcdCluster` and revisions away, as a restore of the meta cluster's objects does. The operator
    /// must not run.
    pub fn forget_statuses(&self) -> Result<()> {
        let etcd = format!("{}/{}", berth(&self.cp_namespace, "etcdclusters"), names::ETCD);
        let mut paths = vec![format!("{}/status", self.path()), format!("{etcd}/status")];
        // Theirs is no subresource.
        let revisions = berth(&self.cp_namespace, "clusterrevisions");
        paths.extend(self.world.kube.list(&revisions)?.iter().map(|found| format!("{revisions}/{}", name_of(found))));
        // The API server sets it where nothing was observed.
        let new = json!({"observedGeneration": -1});
        for path in paths {
            let left = self.world.kube.merge(&path, &json!({"status": null}))?;
            ensure!(left["status"].is_null() || left["status"] == new, "{path} has a status: {}", left["status"]);
        }
        Ok(())
    }

    /// A Deployment in the control-plane namespace.
    pub fn deployment(&self, name: &str) -> Result<Value> {
        self.world.kube.get(&format!("{}/{name}", apps(&self.cp_namespace, "deployments")))
    }

    /// Deletes the `Cluster`. If it is at rest, its plan is held against that before.
    pub fn let_go(&self) -> Result<()> {
        if let Some(cluster) = self.world.kube.find(&self.path())? {
            rest::if_at_rest(self.world, &cluster)?;
        }
        self.world.kube.delete(&self.path())
    }

    /// Deletes the `Cluster` and waits until it is gone, with its namespace.
    pub fn delete(&self) -> Result<()> {
        self.let_go()?;
        until(&format!("{} to be gone", self.name), || {
            ensure!(self.world.kube.find(&self.path())?.is_none(), "the Cluster is there");
            let cp_namespace = format!("{}/{}", core("", "namespaces"), self.cp_namespace);
            ensure!(self.world.kube.find(&cp_namespace)?.is_none(), "the control-plane namespace is there");
            Ok(())
        })
    }

    /// The directory on this machine behind an etcd member's volume.
    pub fn volume_dir(&self, member: &str) -> Result<std::path::PathBuf> {
        let claim = format!("{}/data-{member}", core(&self.cp_namespace, "persistentvolumeclaims"));
        let claim = self.world.kube.get(&claim)?;
        let volume = claim["spec"]["volumeName"].as_str().context("the claim is not bound")?;
        Ok(self.world.cluster.volume_dir(volume))
    }
}

/// A condition of an object.
pub fn condition<'v>(object: &'v Value, type_: &str) -> Result<&'v Value> {
    let all = object["status"]["conditions"].as_array();
    let found = all.and_then(|all| all.iter().find(|c| c["type"] == type_));
    found.ok_or_else(|| anyhow!("{} has no condition {type_}", name_of(object)))
}

/// `metadata.name`.
pub fn name_of(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap_or_default().to_owned()
}

fn decoded(secret: &Value, key: &str) -> Result<Vec<u8>> {
    let Some(text) = secret["data"][key].as_str() else { bail!("Secret {} has no {key}", name_of(secret)) };
    Ok(STANDARD.decode(text)?)
}
