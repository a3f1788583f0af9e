//! Asks the tenant's API.

use super::look;
use crate::context::Context;
use crate::memory;
use berth_api::cluster::{AddonStatus, Cluster, NodesStatus};
use berth_kubeio::{Io, Snapshot, TenantTarget, fingerprint, probe_tenant, tenant_target};
use berth_plan::leads::Leads;
use berth_plan::observed::{ApiProbe, InsideTenant};
use berth_plan_cluster::{Input, Questions, Turn, Wanted, are_as_told, probe_request};
use berth_render::Listing;
use jiff::Timestamp;
use std::sync::Arc;

/// A tenant that answered.
pub(super) struct Answered {
    /// The connection.
    pub(super) tenant: Io,
    /// Where it was asked.
    pub(super) target: Arc<TenantTarget>,
    /// What an idle check asks.
    pub(super) idle_check: Option<IdleCheck>,
}

/// Asks it if its Service has a pod to send the request to, and puts the answer into the snapshot.
pub(super) async fn tenant(
    ctx: &Context,
    cluster: &Cluster,
    snapshot: &mut Snapshot,
    now: Timestamp,
) -> Option<Answered> {
    snapshot.observed.look = ctx.looks.get(cluster);
    snapshot.observed.leads = ctx.leads.get(memory::uid(cluster));
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
    if let ApiProbe::Answered { read, .. } = &snapshot.observed.api
        && let Some(leads) = take_in(ctx, memory::uid(cluster), &asked.leases, read, now)
    {
        snapshot.observed.leads = Some(leads);
    }
    if let Some(tenant) = &tenant {
        look::look_at_admission(ctx, cluster, snapshot, tenant, now).await;
        look::look_at_webhooks(ctx, cluster, snapshot, tenant, now).await;
        look::look(ctx, cluster, snapshot, (&target, tenant), now).await;
    }
    let target = Arc::new(target);
    // Whoever may stand still is looked at in full.
    let led = snapshot.observed.leads.as_ref().is_some_and(|leads| leads.are_renewed(&asked.leases));
    let idle_check = asked.ca.namespace.zip(asked.wanted).filter(|_| led || asked.leases.is_empty());
    let idle_check = idle_check.filter(|_| !asked.addons_in_doubt);
    let idle_check = idle_check.map(|(cp_namespace, wanted)| {
        let fingerprint = snapshot.fingerprint(&cp_namespace);
        let counted = match &snapshot.observed.api {
            ApiProbe::Answered { read, .. } => read.nodes.as_ref().map(|nodes| nodes.count.clone()),
            _ => None,
        };
        let nodes = counted.or_else(|| cluster.status.as_ref()?.nodes.clone());
        let (uid, leases, addons) = (memory::uid(cluster).to_owned(), asked.leases, asked.addons);
        let counted = asked.counted_at_rest;
        IdleCheck { uid, cp_namespace, fingerprint, api: target.clone(), wanted, nodes, leases, addons, counted }
    });
    Some(Answered { tenant: tenant?, target, idle_check })
}

/// Takes in one more look at who leads, if it was one.
fn take_in(ctx: &Context, uid: &str, names: &[String], read: &InsideTenant, now: Timestamp) -> Option<Arc<Leads>> {
    let leads = Arc::new(Leads::after(ctx.leads.get(uid).as_deref(), names, read.leases.as_ref()?, now));
    ctx.leads.put(uid, leads.clone(), now);
    Some(leads)
}

/// What is asked about an idle tenant.
pub(in crate::controllers) struct IdleCheck {
    uid: String,
    cp_namespace: String,
    fingerprint: u64,
    api: Arc<TenantTarget>,
    wanted: Wanted,
    nodes: Option<NodesStatus>,
    /// Of those that are to lead, by name.
    leases: Vec<String>,
    /// What is told of add-ons.
    addons: Vec<AddonStatus>,
    /// Where pods of add-ons are counted each time.
    counted: Vec<Listing>,
}

impl IdleCheck {
    /// Whether all is as it was.
    pub(super) async fn is_unchanged(&self, ctx: &Context, now: Timestamp) -> bool {
        let turn = Turn::at_rest(now, self.nodes.as_ref());
        let questions = Questions::at_rest(turn, &self.leases, &self.counted);
        let asked = probe_tenant(&ctx.connect, TenantTarget::clone(&self.api), questions, ctx.tenant_calls.clone());
        let (found, (answer, _)) = futures::join!(fingerprint(&ctx.io, &self.cp_namespace), asked);
        let kept = match (&answer, turn) {
            (ApiProbe::Answered { read, .. }, Turn::Listing(listing)) => self.wanted.is_in_sync(listing, read),
            (ApiProbe::Answered { read, .. }, Turn::Nodes) => {
                let counted = read.nodes.as_ref().map(|nodes| &nodes.count);
                counted.is_some() && counted == self.nodes.as_ref()
            }
            (ApiProbe::Answered { .. }, Turn::Leases) if self.leases.is_empty() => true,
            (ApiProbe::Answered { read, .. }, Turn::Leases) => {
                let leads = take_in(ctx, &self.uid, &self.leases, read, now);
                leads.is_some_and(|leads| leads.are_renewed(&self.leases))
            }
            _ => false,
        };
        let serve = matches!(&answer, ApiProbe::Answered { read, .. } if are_as_told(&self.addons, read));
        kept && serve && found.is_ok_and(|f| f == self.fingerprint)
    }
}
