//! The `AppInstallation` controller.

use super::driver::{Controller, Observation, Observed, Request};
use super::watches::Watches;
use crate::context::Context;
use berth_api::app::{App, AppInstallation};
use berth_api::{Cluster, labels, names};
use berth_kubeio::observe_installation;
use berth_plan::MetaCluster;
use berth_plan_apps::InstallationPlanner;
use berth_render::Kind;
use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;
use kube::api::ObjectMeta;
use kube::runtime::reflector::ObjectRef;
use std::sync::Arc;

impl Controller for AppInstallation {
    const NAME: &'static str = "appinstallation";
    const KIND: Kind = Kind::AppInstallation;
    const MANAGER: &'static str = labels::MANAGER_APP_INSTALLATION;
    const CHILDREN: &'static str = labels::APP_INSTALLATION;
    type Planner = InstallationPlanner;
    type IdleCheck = ();

    fn watches(watches: Watches<Self>) -> Watches<Self> {
        // Values may say what people set in the Cluster.
        let means = |own: &ObjectMeta, cluster: &ObjectMeta| {
            let name = own.labels.as_ref().and_then(|all| all.get(labels::CLUSTER_NAME));
            own.namespace == cluster.namespace && name == cluster.name.as_ref()
        };
        // Its annotation asks for a look for drift.
        let is_of = |own: &ObjectMeta, app: &ObjectMeta| {
            let label = |name: &str| own.labels.as_ref().and_then(|all| all.get(name));
            label(labels::APP) == app.name.as_ref() && label(labels::APP_NAMESPACE) == app.namespace.as_ref()
        };
        // A Job tells of its pods' ends.
        watches.metadata::<Job>().on::<Cluster>(means).on::<App>(is_of)
    }

    /// By labels, in a control-plane namespace.
    fn owner(child: &ObjectMeta) -> Option<Request<Self>> {
        let all = child.labels.as_ref()?;
        let (name, namespace) = (all.get(labels::APP_INSTALLATION)?, all.get(labels::APP_INSTALLATION_NAMESPACE)?);
        (*child.name.as_ref()? == names::app_job(name)).then(|| ObjectRef::new(name).within(namespace))
    }

    async fn observe(ctx: &Context, object: &Self, meta: &Arc<MetaCluster>, now: Timestamp) -> Observed<()> {
        let snapshot = observe_installation(&ctx.io, object, meta, now).await?;
        Ok(Observation { snapshot, tenant: None, etcd: None, idle_check: None })
    }
}
