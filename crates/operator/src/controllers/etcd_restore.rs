//! The `EtcdRestore` controller.

use super::driver::{Controller, Observation, Observed, Request};
use super::watches::Watches;
use crate::context::Context;
use berth_api::restore::EtcdRestore;
use berth_api::{labels, names};
use berth_kubeio::observe_restore;
use berth_plan::MetaCluster;
use berth_plan_backup::restore::RestorePlanner;
use berth_render::Kind;
use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;
use kube::api::ObjectMeta;
use kube::runtime::reflector::ObjectRef;
use std::sync::Arc;

impl Controller for EtcdRestore {
    const NAME: &'static str = "etcdrestore";
    const KIND: Kind = Kind::EtcdRestore;
    const MANAGER: &'static str = labels::MANAGER_RESTORE;
    const CHILDREN: &'static str = labels::ETCD_RESTORE;
    type Planner = RestorePlanner;
    type IdleCheck = ();

    fn watches(watches: Watches<Self>) -> Watches<Self> {
        // A Job tells of its pods' ends.
        watches.metadata::<Job>()
    }

    /// By labels, in a control-plane namespace or in its own.
    fn owner(child: &ObjectMeta) -> Option<Request<Self>> {
        let all = child.labels.as_ref()?;
        let (name, namespace) = (all.get(labels::ETCD_RESTORE)?, all.get(labels::ETCD_RESTORE_NAMESPACE)?);
        let jobs = [names::restore_check(name), names::restore(name)];
        jobs.contains(child.name.as_ref()?).then(|| ObjectRef::new(name).within(namespace))
    }

    async fn observe(ctx: &Context, restore: &Self, meta: &Arc<MetaCluster>, now: Timestamp) -> Observed<()> {
        let snapshot = observe_restore(&ctx.io, restore, &ctx.settings, meta, now).await?;
        Ok(Observation { snapshot, tenant: None, etcd: None, idle_check: None })
    }
}
