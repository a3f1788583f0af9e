//! The `EtcdBackupSchedule` controller.

use super::driver::{Controller, Observation, Outcome, PlanInput, Request};
use super::watches::Watches;
use crate::context::Context;
use berth_api::backup_schedule::{EtcdBackupSchedule, EtcdBackupScheduleStatus};
use berth_api::{EtcdBackup, labels};
use berth_kubeio::{IoError, observe_schedule};
use berth_plan::schedule::{Input, SchedulePlan, plan, status::status};
use berth_plan::{Failure, MetaCluster};
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
    const USES_ADDRESSES: bool = false;
    type Planned = SchedulePlan;
    type IdleCheck = ();

    fn watches(watches: Watches<Self>) -> Watches<Self> {
        watches.metadata::<EtcdBackup>()
    }

    fn owner(child: &ObjectMeta) -> Option<Request<Self>> {
        let name = child.labels.as_ref()?.get(labels::ETCD_BACKUP_SCHEDULE)?;
        Some(ObjectRef::new(name).within(child.namespace.as_deref()?))
    }

    async fn observe(
        ctx: &Context,
        schedule: &Self,
        meta: &Arc<MetaCluster>,
        _: Timestamp,
    ) -> Result<Observation<()>, IoError> {
        let snapshot = observe_schedule(&ctx.io, schedule, meta).await?;
        Ok(Observation { snapshot, tenant: None, idle_check: None })
    }

    fn plan(input: PlanInput<'_, Self>) -> SchedulePlan {
        plan(input.into())
    }

    fn outcome(planned: &SchedulePlan) -> Outcome<'_> {
        Outcome { plan: &planned.plan, requeue_after: planned.requeue_after, due: None }
    }

    fn new_status(
        input: PlanInput<'_, Self>,
        planned: &SchedulePlan,
        failure: Option<&Failure>,
    ) -> EtcdBackupScheduleStatus {
        status(input.into(), planned, failure)
    }

    async fn is_unchanged((): &(), _: &Context, _: Timestamp) -> bool {
        false
    }
}

impl<'a> From<PlanInput<'a, EtcdBackupSchedule>> for Input<'a> {
    fn from(input: PlanInput<'a, EtcdBackupSchedule>) -> Self {
        Self { schedule: input.object, observed: input.observed, now: input.now }
    }
}
