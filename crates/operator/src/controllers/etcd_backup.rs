//! The `EtcdBackup` controller.

use super::driver::{Controller, Observation, Observed, Request};
use super::report::LASTING;
use super::watches::Watches;
use crate::context::Context;
use berth_api::backup::EtcdBackup;
use berth_api::{labels, names};
use berth_kubeio::observe_backup;
use berth_plan::MetaCluster;
use berth_plan_backup::backup::BackupPlanner;
use berth_render::{Kind, ObjectKey};
use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;
use kube::api::ObjectMeta;
use kube::runtime::reflector::ObjectRef;
use std::sync::Arc;

impl Controller for EtcdBackup {
    const NAME: &'static str = "etcdbackup";
    const KIND: Kind = Kind::EtcdBackup;
    const MANAGER: &'static str = labels::MANAGER_BACKUP;
    const CHILDREN: &'static str = labels::ETCD_BACKUP;
    type Planner = BackupPlanner;
    type IdleCheck = ();

    fn watches(watches: Watches<Self>) -> Watches<Self> {
        // A Job tells of its pods' ends.
        watches.metadata::<Job>()
    }

    /// By labels, in a control-plane namespace or in its own.
    fn owner(child: &ObjectMeta) -> Option<Request<Self>> {
        let all = child.labels.as_ref()?;
        let (name, namespace) = (all.get(labels::ETCD_BACKUP)?, all.get(labels::ETCD_BACKUP_NAMESPACE)?);
        let jobs = [names::backup(name), names::backup_deletion(name)];
        jobs.contains(child.name.as_ref()?).then(|| ObjectRef::new(name).within(namespace))
    }

    async fn observe(ctx: &Context, backup: &Self, meta: &Arc<MetaCluster>, now: Timestamp) -> Observed<()> {
        let is_stuck = |key: &ObjectKey| ctx.backoff.failures(key) >= LASTING;
        let snapshot = observe_backup(&ctx.io, backup, &ctx.settings, meta, now, is_stuck).await?;
        Ok(Observation { snapshot, tenant: None, etcd: None, idle_check: None })
    }
}
