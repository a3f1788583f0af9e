//! The tenant that an `AppInstallation` is in, and where its Job runs.

use crate::objects::find;
use berth_api::conditions::{self, ConditionType, Reason};
use berth_api::{AppInstallation, Cluster, EtcdCluster, labels, names};
use berth_plan::Observed;
use berth_plan::model::State;
use berth_plan::object_meta::{deleting, label};
use berth_render::{Kind, ObjectKey};

/// Names of what belongs to an installation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The control-plane namespace, where its Job runs.
    pub home: String,
    /// The `Cluster`.
    pub cluster: ObjectKey,
    /// The `App`.
    pub app: ObjectKey,
    /// The Job.
    pub job: ObjectKey,
}

impl From<&AppInstallation> for Target {
    fn from(object: &AppInstallation) -> Self {
        let namespace = object.metadata.namespace.as_deref().unwrap_or_default();
        let (app, cluster) = (&object.spec.app, &*object.spec.cluster.name);
        let home = names::control_plane_namespace(namespace, cluster);
        let job = names::app_job(object.metadata.name.as_deref().unwrap_or_default());
        Self {
            cluster: ObjectKey::namespaced(Kind::Cluster, namespace, cluster),
            app: ObjectKey::namespaced(Kind::App, &*app.namespace, &*app.name),
            job: ObjectKey::namespaced(Kind::Job, &*home, job),
            home,
        }
    }
}

/// Whether there is still a tenant to ask.
#[derive(Clone, Debug)]
pub(super) enum Tenant {
    /// It is gone, is going, or is another one of that name.
    Gone,
    /// It is there.
    There {
        /// Epoch of its etcd: another one after each restore. None: not known.
        epoch: Option<i64>,
        /// Why it cannot be asked.
        waits: Option<State>,
    },
}

impl Target {
    pub(crate) fn secret(&self, name: impl Into<String>) -> ObjectKey {
        ObjectKey::namespaced(Kind::Secret, &*self.home, name)
    }

    /// The CA of the tenant.
    pub fn ca(&self) -> ObjectKey {
        self.secret(names::ca(&self.cluster.name))
    }

    /// Its etcd.
    pub fn etcd(&self) -> ObjectKey {
        ObjectKey::namespaced(Kind::EtcdCluster, &*self.home, names::ETCD)
    }

    /// What lets its Jobs out.
    pub fn policy(&self) -> ObjectKey {
        ObjectKey::namespaced(Kind::NetworkPolicy, &*self.home, names::APPS)
    }

    /// The control-plane namespace.
    pub fn namespace(&self) -> ObjectKey {
        ObjectKey::cluster(Kind::Namespace, &*self.home)
    }

    /// A Secret that the spec names.
    pub fn source(&self, name: &str) -> ObjectKey {
        ObjectKey::namespaced(Kind::Secret, self.app.namespace.as_deref().unwrap_or_default(), name)
    }

    /// Whether the control-plane namespace is there, and the one of that `Cluster`.
    fn is_home(&self, observed: &Observed) -> bool {
        observed.get(&self.namespace()).is_some_and(|n| {
            !deleting(n)
                && label(n, labels::MANAGED_BY) == Some(labels::MANAGED_BY_VALUE)
                && label(n, labels::CLUSTER_NAME) == Some(&self.cluster.name)
                && label(n, labels::CLUSTER_NAMESPACE) == self.cluster.namespace.as_deref()
        })
    }

    /// How the tenant is. `uid`: that of the `Cluster` that is meant.
    pub(super) fn tenant(&self, observed: &Observed, uid: &str) -> Tenant {
        let Some(cluster) = find::<Cluster>(observed, &self.cluster) else {
            // One that is there and cannot be read is no reason to leave something in it.
            return match observed.get(&self.cluster) {
                Some(live) if live["metadata"]["uid"] == uid && !deleting(live) => {
                    let waits = State::waiting(format!("{}, which cannot be read", self.cluster));
                    Tenant::There { epoch: None, waits: Some(waits) }
                }
                _ => Tenant::Gone,
            };
        };
        if cluster.metadata.uid.as_deref() != Some(uid) || cluster.metadata.deletion_timestamp.is_some() {
            return Tenant::Gone;
        }
        let etcd: Option<EtcdCluster> = find(observed, &self.etcd()).filter(|_| self.is_home(observed));
        let epoch = etcd.and_then(|etcd| etcd.status?.epoch);
        Tenant::There { epoch, waits: self.waits(observed, cluster, epoch) }
    }

    /// Why the tenant cannot be asked.
    fn waits(&self, observed: &Observed, cluster: Cluster, epoch: Option<i64>) -> Option<State> {
        let waits = |on: String| Some(State::waiting(on));
        if cluster.spec.paused {
            return waits(format!("{}, whose spec.paused is true: set it to false to continue", self.cluster));
        }
        if !self.is_home(observed) {
            return waits(format!("namespace {} of the control plane", self.home));
        }
        let status = cluster.status.unwrap_or_default();
        let available = conditions::find(&status.conditions, ConditionType::Available);
        if available.is_none_or(|c| c.status != "True") {
            let reason = available.and_then(|c| c.reason.parse().ok()).unwrap_or(Reason::Waiting);
            let why = available.map_or("nothing is known of it yet", |c| &c.message);
            return Some(State::Waiting { reason, on: format!("{} to be available: {why}", self.cluster) });
        }
        if epoch.is_none() { waits(format!("the status of {}", self.etcd())) } else { None }
    }
}
