//! The `EtcdCluster` controller. It knows nothing of `Cluster`.

mod probe;

pub(super) use probe::IdleCheck;

use super::driver::{Controller, Observation, Observed, Request};
use super::watches::Watches;
use crate::context::Context;
use crate::memory;
use crate::volumes;
use berth_api::etcd_cluster::EtcdCluster;
use berth_api::labels;
use berth_kubeio::{observe_etcd, observe_recoveries, observe_schedules};
use berth_plan::MetaCluster;
use berth_plan::etcd_home::is_tenants;
use berth_plan_etcd::{EtcdPlanner, Input, recovers, sizes};
use berth_render::Kind;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, Service};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::ObjectMeta;
use kube::runtime::reflector::ObjectRef;
use std::sync::Arc;

impl Controller for EtcdCluster {
    const NAME: &'static str = "etcdcluster";
    const KIND: Kind = Kind::EtcdCluster;
    const MANAGER: &'static str = labels::MANAGER_ETCD;
    const CHILDREN: &'static str = labels::ETCD_CLUSTER;
    const IS_SIZED: bool = true;
    type Planner = EtcdPlanner;
    type IdleCheck = IdleCheck;

    fn watches(watches: Watches<Self>) -> Watches<Self> {
        watches
            .metadata::<Service>()
            .metadata::<PersistentVolumeClaim>()
            .metadata::<PodDisruptionBudget>()
            .status::<StatefulSet>()
            .status::<Pod>()
    }

    fn owner(child: &ObjectMeta) -> Option<Request<Self>> {
        let name = child.labels.as_ref()?.get(labels::ETCD_CLUSTER)?;
        Some(ObjectRef::new(name).within(child.namespace.as_deref()?))
    }

    async fn observe(ctx: &Context, etcd: &Self, meta: &Arc<MetaCluster>, now: Timestamp) -> Observed<IdleCheck> {
        let mut snapshot = observe_etcd(&ctx.io, etcd, meta).await?;
        snapshot.observed.volumes = volumes::read(&ctx.io, &ctx.volumes, etcd, &snapshot.observed, now).await;
        let asked = sizes(Input { object: etcd, observed: &snapshot.observed, settings: &ctx.settings, now });
        snapshot.observed.sizes = ctx.sizes.ask(memory::uid(etcd), asked, now);
        let namespace = etcd.metadata.namespace.as_deref().unwrap_or_default();
        // Those of a tenant's etcd are about its `Cluster`, and elsewhere.
        if ctx.settings.backups.are_enabled() && !is_tenants(etcd) {
            observe_schedules(&ctx.io, namespace, &mut snapshot).await?;
        }
        if let Some(home) = recovers(etcd, &snapshot.observed) {
            observe_recoveries(&ctx.io, &home, &mut snapshot).await?;
        }
        let idle_check = probe::members(ctx, etcd, &mut snapshot, meta.clocks(now)).await;
        probe::missing_pods(ctx, etcd, &mut snapshot, now).await;
        let etcd = idle_check.as_ref().map(|check| check.calls(ctx));
        Ok(Observation { snapshot, tenant: None, etcd, idle_check })
    }

    async fn is_unchanged(idle_check: &IdleCheck, ctx: &Context, _: Timestamp) -> bool {
        idle_check.is_unchanged(ctx).await
    }
}
