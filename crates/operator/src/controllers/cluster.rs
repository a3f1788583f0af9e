//! The `Cluster` controller.

mod look;
mod probe;
mod route;

use super::driver::{Controller, Observation, Observed, Request};
use super::watches::Watches;
use crate::context::Context;
use crate::memory;
use berth_api::cluster::{Cluster, ClusterStatus};
use berth_api::{App, AppInstallation, EtcdCluster, labels, names};
use berth_kubeio::{ResourceRef, observe_cluster, without_network};
use berth_plan::MetaCluster;
use berth_plan::fleet::TenantId;
use berth_plan::settings::Engine;
use berth_plan_cluster::{ClusterPlanner, Input, pods_without_network, sizes};
use berth_render::Kind;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{Pod, Service};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::ObjectMeta;
use kube::runtime::reflector::ObjectRef;
use probe::IdleCheck;
use route::TlsRoute;
use std::sync::Arc;

impl Controller for Cluster {
    const NAME: &'static str = "cluster";
    const KIND: Kind = Kind::Cluster;
    const MANAGER: &'static str = labels::MANAGER_CLUSTER;
    const CHILDREN: &'static str = labels::CLUSTER_NAME;
    const USES_ADDRESSES: bool = true;
    const TAKES_TURNS: bool = true;
    const IS_SIZED: bool = true;
    type Planner = ClusterPlanner;
    type IdleCheck = IdleCheck;

    fn watches(watches: Watches<Self>) -> Watches<Self> {
        let watches = watches.namespaces().metadata::<Service>().metadata::<EtcdCluster>();
        let watches = watches.metadata::<NetworkPolicy>().metadata::<PodDisruptionBudget>();
        let watches = if watches.settings.apps.are_enabled() { with_apps(watches) } else { watches };
        let routes = watches.settings.gateway.as_ref().is_some_and(|gateway| gateway.has(Engine::GatewayAPI));
        let watches = if routes { watches.optional::<TlsRoute>() } else { watches };
        watches.status::<Deployment>().status::<StatefulSet>().status::<Pod>()
    }

    /// By labels, since owner references do not cross namespaces; and only in the control-plane namespace, or that itself: anybody may put
    /// the labels on objects elsewhere. Beside the `Cluster` only an `AppInstallation` is one, which only Berth writes.
    fn owner(child: &ObjectMeta) -> Option<Request<Self>> {
        let all = child.labels.as_ref()?;
        let (name, namespace) = (all.get(labels::CLUSTER_NAME)?, all.get(labels::CLUSTER_NAMESPACE)?);
        let place = child.namespace.as_ref().or(child.name.as_ref())?;
        let is_app = place == namespace && all.contains_key(labels::APP);
        let is_inside = *place == names::control_plane_namespace(namespace, name);
        (is_inside || is_app).then(|| ObjectRef::new(name).within(namespace))
    }

    async fn observe(ctx: &Context, cluster: &Self, meta: &Arc<MetaCluster>, now: Timestamp) -> Observed<IdleCheck> {
        // Before its turn is read: what is being taken back meanwhile counts no more.
        let turns = ctx.fleet.turns(&id(cluster));
        let mut snapshot = observe_cluster(&ctx.io, cluster, &ctx.settings, meta).await?;
        snapshot.observed.turns = turns;
        snapshot.observed.heard = ctx.heard.of(&id(cluster), now);
        let asked = sizes(Input { object: cluster, observed: &snapshot.observed, settings: &ctx.settings, now });
        snapshot.observed.sizes = ctx.sizes.ask(memory::uid(cluster), asked, now);
        if cluster.spec.vpc.is_some() {
            let (namespace, pods) = pods_without_network(cluster, &snapshot.observed);
            snapshot.observed.refused = without_network(&ctx.io, &namespace, pods, now).await;
        }
        let answered = probe::tenant(ctx, cluster, &mut snapshot, now).await;
        ctx.users.met(cluster, &snapshot, answered.as_ref().map(|answered| answered.target.clone()));
        let (tenant, idle_check) = answered.map(|answered| (answered.tenant, answered.idle_check)).unzip();
        Ok(Observation { snapshot, tenant, etcd: None, idle_check: idle_check.flatten() })
    }

    fn said(ctx: &Context, cluster: &Self, status: &ClusterStatus) {
        let id = id(cluster);
        let old = cluster.status.clone().unwrap_or_default();
        ctx.metrics.rollouts.say(&id, (&old, status), ctx.now());
        let sleep = status.hibernation.as_ref();
        ctx.metrics.wakes.say(old.hibernation.as_ref(), sleep);
        ctx.rouse(ctx.heard.says(&id, sleep, ctx.now()));
        ctx.fleet.says(&id, status.turn.as_ref(), cluster.metadata.generation);
    }

    async fn is_unchanged(idle_check: &IdleCheck, ctx: &Context, now: Timestamp) -> bool {
        idle_check.is_unchanged(ctx, now).await
    }
}

/// A tenant says which Apps it lacks that it is required to have.
fn with_apps(watches: Watches<Cluster>) -> Watches<Cluster> {
    let operator = watches.settings.apps.namespace.clone();
    let means = move |cluster: &ObjectMeta, app: &ObjectMeta| {
        app.namespace == cluster.namespace || app.namespace.as_deref() == Some(&*operator)
    };
    watches.status::<AppInstallation>().on_status::<App>(means)
}

fn id(cluster: &Cluster) -> TenantId {
    TenantId::from(&ResourceRef::of(Kind::Cluster, cluster).key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_in_the_control_plane_namespace_is_a_child() {
        let home = names::control_plane_namespace("team-a", "acme");
        let labels = [(labels::CLUSTER_NAME, "acme"), (labels::CLUSTER_NAMESPACE, "team-a")];
        let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        let owner = |namespace: Option<&str>, name: &str| {
            let child = ObjectMeta {
                namespace: namespace.map(str::to_owned),
                name: Some(name.to_owned()),
                labels: Some(std::collections::BTreeMap::clone(&labels)),
                ..ObjectMeta::default()
            };
            Cluster::owner(&child).map(|of| (of.namespace.unwrap_or_default(), of.name))
        };
        let acme = Some(("team-a".to_owned(), "acme".to_owned()));
        assert_eq!(owner(Some(&home), "kube-apiserver"), acme);
        assert_eq!(owner(None, &home), acme, "the namespace itself");
        for (namespace, name) in [(Some("team-b"), "kube-apiserver"), (Some("team-b"), &*home), (None, "team-b")] {
            assert_eq!(owner(namespace, name), None, "{namespace:?} {name}");
        }
    }
}
