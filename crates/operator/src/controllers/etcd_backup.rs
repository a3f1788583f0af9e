//! The `EtcdBackup` controller.

use super::driver::{Controller, Observation, Outcome, PlanInput, Request};
use super::report::LASTING;
use super::watches::Watches;
use crate::context::Context;
use berth_api::backup::{EtcdBackup, EtcdBackupStatus};
use berth_api::{labels, names};
use berth_kubeio::{IoError, observe_backup};
use berth_plan::backup::{BackupPlan, Input, plan, status::status};
use berth_plan::{Failure, MetaCluster};
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
    const USES_ADDRESSES: bool = false;
    type Planned = BackupPlan;
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

    async fn observe(
        ctx: &Context,
        backup: &Self,
        meta: &Arc<MetaCluster>,
        now: Timestamp,
    ) -> Result<Observation<()>, IoError> {
        let is_stuck = |key: &ObjectKey| {
            let key = (Self::NAME, key.namespace.clone().unwrap_or_default(), key.name.clone());
            ctx.backoff.failures(&key) >= LASTING
        };
        let snapshot = observe_backup(&ctx.io, backup, &ctx.settings, meta, now, is_stuck).await?;
        Ok(Observation { snapshot, tenant: None, etcd: None, idle_check: None })
    }

    fn plan(input: PlanInput<'_, Self>) -> BackupPlan {
        plan(input.into())
    }

    fn outcome(planned: &BackupPlan) -> Outcome<'_> {
        Outcome { plan: &planned.plan, requeue_after: planned.requeue_after, due: None }
    }

    fn new_status(input: PlanInput<'_, Self>, planned: &BackupPlan, failure: Option<&Failure>) -> EtcdBackupStatus {
        status(input.into(), planned, failure)
    }

    async fn is_unchanged((): &(), _: &Context, _: Timestamp) -> bool {
        false
    }
}

impl<'a> From<PlanInput<'a, EtcdBackup>> for Input<'a> {
    fn from(input: PlanInput<'a, EtcdBackup>) -> Self {
        Self { backup: input.object, observed: input.observed, settings: input.settings, now: input.now }
    }
}
