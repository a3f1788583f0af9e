//! The `EtcdBackupSchedule` controller.

use super::driver::{Controller, Observation, Observed, Request};
use super::watches::Watches;
use crate::context::Context;
use berth_api::backup_schedule::EtcdBackupSchedule;
use berth_api::{EtcdBackup, labels};
use berth_kubeio::observe_schedule;
use berth_plan::MetaCluster;
use berth_plan_backup::schedule::SchedulePlanner;
use berth_render::Kind;
use jiff::Timestamp;
use kube::api::ObjectMeta;
use kube::runtime::reflector::ObjectRef;
use std::sync::Arc;

impl Controller for EtcdBackupSchedule {
    const NAME: &'static str = "etcdbackupschedule";
    const KIND: Kind = Kind::EtcdBackupSchedule;
    const MANAGER: &'static str = labels::MANAGER_BACKUP;
    const CHILDREN: &'static str = labels::ETCD_BACKUP_SCHEDULE;
    type Planner = SchedulePlanner;
    type IdleCheck = ();

    fn watches(watches: Watches<Self>) -> Watches<Self> {
        watches.metadata::<EtcdBackup>()
    }

    fn owner(child: &ObjectMeta) -> Option<Request<Self>> {
        let name = child.labels.as_ref()?.get(labels::ETCD_BACKUP_SCHEDULE)?;
        Some(ObjectRef::new(name).within(child.namespace.as_deref()?))
    }

    async fn observe(ctx: &Context, schedule: &Self, meta: &Arc<MetaCluster>, _: Timestamp) -> Observed<()> {
        let snapshot = observe_schedule(&ctx.io, schedule, meta).await?;
        Ok(Observation { snapshot, tenant: None, etcd: None, idle_check: None })
    }
}
