//! The etcd that is backed up or restored.

use crate::objects::require;
use berth_api::backup::BackupRef;
use berth_api::{Cluster, EtcdBackup, EtcdBackupSchedule, EtcdCluster, EtcdRestore, labels, names};
use berth_plan::Observed;
use berth_plan::model::State;
use berth_plan::object_meta::{deleting, label};
use berth_render::{Kind, ObjectKey};
use kube_core::ResourceExt;

/// The etcd that an `EtcdBackup`, its schedule or an `EtcdRestore` names, and where it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Where its Jobs run: where etcd does.
    pub namespace: String,
    /// The `Cluster`, if it is a tenant's.
    pub cluster: Option<ObjectKey>,
    /// The etcd.
    pub etcd: ObjectKey,
}

impl From<&EtcdBackup> for Target {
    fn from(backup: &EtcdBackup) -> Self {
        let (home, spec) = (backup.namespace().unwrap_or_default(), &backup.spec);
        Self::new(&home, spec.cluster_ref.as_ref(), spec.etcd_cluster_ref.as_ref())
    }
}

impl From<&EtcdRestore> for Target {
    fn from(restore: &EtcdRestore) -> Self {
        let (home, spec) = (restore.namespace().unwrap_or_default(), &restore.spec);
        Self::new(&home, spec.cluster_ref.as_ref(), spec.etcd_cluster_ref.as_ref())
    }
}

impl From<&EtcdBackupSchedule> for Target {
    fn from(schedule: &EtcdBackupSchedule) -> Self {
        let (home, spec) = (schedule.namespace().unwrap_or_default(), &schedule.spec);
        Self::new(&home, spec.cluster_ref.as_ref(), spec.etcd_cluster_ref.as_ref())
    }
}

impl Target {
    /// `home`: namespace of the object that names it.
    fn new(home: &str, cluster: Option<&BackupRef>, etcd: Option<&BackupRef>) -> Self {
        let namespace = cluster.map_or_else(|| home.to_owned(), |c| names::control_plane_namespace(home, &c.name));
        let etcd = etcd.filter(|_| cluster.is_none()).map_or(names::ETCD, |etcd| &etcd.name);
        Self {
            etcd: ObjectKey::namespaced(Kind::EtcdCluster, &*namespace, etcd),
            cluster: cluster.map(|c| ObjectKey::namespaced(Kind::Cluster, home, &*c.name)),
            namespace,
        }
    }

    /// What starts the members.
    pub(crate) fn stateful_set(&self) -> ObjectKey {
        ObjectKey { kind: Kind::StatefulSet, ..self.etcd.clone() }
    }

    /// A Job beside it.
    pub(crate) fn job(&self, name: String) -> ObjectKey {
        ObjectKey::namespaced(Kind::Job, &*self.namespace, name)
    }

    /// Claim of the volume of its first member, which is the one that is restored.
    pub fn claim(&self) -> ObjectKey {
        ObjectKey::namespaced(Kind::PersistentVolumeClaim, &*self.namespace, names::etcd::claim(&self.etcd.name, 0))
    }

    /// SHA-256 of the key that a tenant's Secrets are encrypted with.
    pub(crate) fn encryption_key(&self, observed: &Observed) -> Option<String> {
        self.cluster.as_ref()?;
        let key = ObjectKey::namespaced(Kind::Secret, &*self.namespace, names::APISERVER_ENCRYPTION);
        observed.secrets.get(&key)?.digests.get("encryption.yaml").cloned()
    }

    /// Whether the control-plane namespace is there, and the one of that `Cluster`.
    pub(crate) fn is_home(&self, observed: &Observed) -> bool {
        let Some(cluster) = &self.cluster else { return true };
        let namespace = observed.get(&ObjectKey::cluster(Kind::Namespace, &*self.namespace));
        namespace.is_some_and(|n| {
            !deleting(n)
                && label(n, labels::MANAGED_BY) == Some(labels::MANAGED_BY_VALUE)
                && label(n, labels::CLUSTER_NAME) == Some(&cluster.name)
                && label(n, labels::CLUSTER_NAMESPACE) == cluster.namespace.as_deref()
        })
    }

    /// The `Cluster` and the etcd, which stay. Err: what is awaited.
    pub(crate) fn find(&self, observed: &Observed) -> Result<(Option<Cluster>, EtcdCluster), State> {
        let cluster = self.cluster.as_ref().map(|key| require(observed, key)).transpose()?;
        if !self.is_home(observed) {
            return Err(State::waiting(format!("namespace {} of the control plane", self.namespace)));
        }
        let etcd: EtcdCluster = require(observed, &self.etcd)?;
        if etcd.metadata.deletion_timestamp.is_some() {
            return Err(State::waiting(format!("{}, which is being deleted", self.etcd)));
        }
        Ok((cluster, etcd))
    }
}
