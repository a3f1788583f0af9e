//! Asks the tenant's API.

use super::look;
use crate::context::Context;
use berth_api::cluster::{Cluster, NodesStatus};
use berth_kubeio::{Io, Snapshot, TenantTarget, fingerprint, probe_tenant, tenant_target};
use berth_plan::observed::ApiProbe;
use berth_plan_cluster::{Input, Turn, Wanted, probe_request};
use jiff::Timestamp;

/// Asks it if its Service has a pod to send the request to, and puts the answer into the snapshot. Returns the connection, and what a
/// look asks.
pub(super) async fn tenant(
    ctx: &Context,
    cluster: &Cluster,
    snapshot: &mut Snapshot,
    now: Timestamp,
) -> Option<(Io, Option<IdleCheck>)> {
    snapshot.observed.look = ctx.looks.get(cluster);
    let observed = &snapshot.observed;
    let clocks = observed.meta.clocks(now);
    let asked = probe_request(Input { object: cluster, observed, settings: &ctx.settings, now })?;
    let mut target = match tenant_target(snapshot, &asked, clocks) {
        Some(Ok(target)) => target,
        Some(Err(why)) => {
            snapshot.observed.api = ApiProbe::Failed(why.into());
            return None;
        }
        None => {
            snapshot.observed.api = ApiProbe::Unable(format!("{} does not exist", asked.ca));
            return None;
        }
    };
    let calls = ctx.tenant_calls.clone();
    let ask = |target| probe_tenant(&ctx.connect, target, asked.questions.clone(), calls.clone());
    let (mut probe, mut tenant) = ask(target.clone()).await;
    if let (ApiProbe::Refused(why), Some(inside)) = (&probe, &asked.inside) {
        snapshot.observed.refused_host = Some(why.clone());
        target = target.at(inside.clone());
        (probe, tenant) = ask(target.clone()).await;
    }
    snapshot.observed.api = probe;
    if let Some(tenant) = &tenant {
        look::look(ctx, cluster, snapshot, (&target, tenant), now).await;
    }
    let idle_check = asked.ca.namespace.zip(asked.wanted).map(|(cp_namespace, wanted)| {
        let fingerprint = snapshot.fingerprint(&cp_namespace);
        let counted = match &snapshot.observed.api {
            ApiProbe::Answered { read, .. } => read.nodes.as_ref().map(|nodes| nodes.count.clone()),
            _ => None,
        };
        let nodes = counted.or_else(|| cluster.status.as_ref()?.nodes.clone());
        IdleCheck { cp_namespace, fingerprint, api: target, wanted, nodes }
    });
    Some((tenant?, idle_check))
}

/// What is asked about an idle tenant.
pub(in crate::controllers) struct IdleCheck {
    cp_namespace: String,
    fingerprint: u64,
    api: TenantTarget,
    wanted: Wanted,
    nodes: Option<NodesStatus>,
}

impl IdleCheck {
    /// Whether all is as it was.
    pub(super) async fn is_unchanged(&self, ctx: &Context, now: Timestamp) -> bool {
        let turn = Turn::at(now);
        let asked = probe_tenant(&ctx.connect, self.api.clone(), turn.into(), ctx.tenant_calls.clone());
        let (found, (answer, _)) = futures::join!(fingerprint(&ctx.io, &self.cp_namespace), asked);
        let kept = match (&answer, turn) {
            (ApiProbe::Answered { read, .. }, Turn::Listing(listing)) => self.wanted.is_in_sync(listing, read),
            (ApiProbe::Answered { read, .. }, Turn::Nodes) => {
                let counted = read.nodes.as_ref().map(|nodes| &nodes.count);
                counted.is_some() && counted == self.nodes.as_ref()
            }
            _ => false,
        };
        kept && found.is_ok_and(|f| f == self.fingerprint)
    }
}
