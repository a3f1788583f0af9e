//! The `App` controller.

use super::driver::{Controller, Observation, Observed, Request};
use super::watches::Watches;
use crate::context::Context;
use berth_api::app::{App, AppInstallation};
use berth_api::{Cluster, labels};
use berth_kubeio::{ValuesSeen, observe_app};
use berth_plan::MetaCluster;
use berth_plan_apps::AppPlanner;
use berth_render::Kind;
use jiff::Timestamp;
use kube::api::ObjectMeta;
use kube::runtime::reflector::ObjectRef;
use std::sync::Arc;

impl Controller for App {
    const NAME: &'static str = "app";
    const KIND: Kind = Kind::App;
    const MANAGER: &'static str = labels::MANAGER_APP;
    const CHILDREN: &'static str = labels::APP;
    type Planner = AppPlanner;
    type IdleCheck = ValuesSeen;

    fn watches(watches: Watches<Self>) -> Watches<Self> {
        let operator = watches.settings.apps.namespace.clone();
        // Of a Cluster its labels count, and that it is there.
        let means = move |app: &ObjectMeta, cluster: &ObjectMeta| {
            app.namespace == cluster.namespace || app.namespace.as_deref() == Some(&*operator)
        };
        // One may come after another.
        let is_beside =
            |app: &ObjectMeta, other: &ObjectMeta| app.namespace == other.namespace && app.name != other.name;
        watches.metadata::<AppInstallation>().on::<Cluster>(means).on::<Self>(is_beside)
    }

    /// By labels: what is no child of an `App` costs it a look.
    fn owner(child: &ObjectMeta) -> Option<Request<Self>> {
        let all = child.labels.as_ref()?;
        Some(ObjectRef::new(all.get(labels::APP)?).within(all.get(labels::APP_NAMESPACE)?))
    }

    async fn observe(ctx: &Context, object: &Self, meta: &Arc<MetaCluster>, _: Timestamp) -> Observed<ValuesSeen> {
        let snapshot = observe_app(&ctx.io, object, &ctx.settings.apps.namespace, meta).await?;
        let idle_check = ValuesSeen::of(object, &snapshot);
        Ok(Observation { snapshot, tenant: None, etcd: None, idle_check })
    }

    async fn is_unchanged(seen: &ValuesSeen, ctx: &Context, _: Timestamp) -> bool {
        seen.is_unchanged(&ctx.io).await
    }
}
