//! Worlds in memory: one in which a tenant is made, and one that begins with what was found. Placeholders stand for what the meta cluster
//! would choose.

use anyhow::{anyhow, bail};
use berth_api::Cluster;
use berth_api::cluster::AUDIT_SECRET;
use berth_plan::asked::Look;
use berth_plan::observed::{ApiProbe, InsideTenant, Observed, Published};
use berth_plan::{MetaCluster, Plan, Planner as _, SecretFacts, Settings, State};
use berth_plan_cluster::{ClusterPlanner, Input, audit_secrets};
use berth_plan_etcd::EtcdPlanner;
use berth_render::{Kind, STAMPS};
use berth_sim::{Choices, UNKNOWN, World};
use jiff::{SignedDuration, Timestamp};
use std::sync::Arc;

/// Stands for the address of the Service of the API. From the networks of RFC 5737, which are for documentation.
pub(crate) const API_ADDRESS: &str = "192.0.2.1";
/// What those of etcd's members begin with.
pub(crate) const MEMBER_ADDRESS: &str = "192.0.2.1";
/// Stands for the address of the load balancer.
pub(crate) const LOAD_BALANCER: &str = "198.51.100.1";
/// Stands for every UID.
pub(crate) const UID: &str = "00000000-0000-0000-0000-000000000000";

/// Rounds until nothing is left to make. A tenant takes six.
const ROUNDS: usize = 20;

/// The time in which a tenant is made: any would do, and always the same makes the same bytes.
pub(crate) fn now() -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_hours(24 * 365 * 50)
}

fn cluster_ip(_: u64, name: &str) -> String {
    let member = name.rsplit_once('-').and_then(|(_, n)| n.parse::<u8>().ok());
    member.map_or_else(|| API_ADDRESS.to_owned(), |n| format!("{MEMBER_ADDRESS}{n}"))
}

fn world(observed: Observed, now: Timestamp) -> World {
    let choices = Choices { uid: |_| UID.to_owned(), cluster_ip, load_balancer: Some(LOAD_BALANCER) };
    World::new(observed, choices, now)
}

/// The API answers, and has nothing of Berth's yet.
fn answers() -> ApiProbe {
    ApiProbe::Answered { version: None, read: InsideTenant::listed(STAMPS, []) }
}

/// As it was found: by the controller of the `Cluster`, and by that of its etcd. From here on all goes well. What is inside of
/// a tenant that runs counts as it should be.
pub(crate) fn found(mut seen: Observed, etcd: Option<Observed>) -> World {
    seen.api = if seen.objects.keys().any(|k| k.kind == Kind::Deployment) {
        ApiProbe::Answered { version: None, read: InsideTenant::default() }
    } else {
        answers()
    };
    let etcd = etcd.unwrap_or_default();
    seen.objects.extend(etcd.objects);
    seen.secrets.extend(etcd.secrets);
    let mut world = world(seen, now());
    world.etcd_templates = etcd.pinned;
    world
}

/// A new tenant, made by both controllers in turns until neither has anything to write. Pods never run.
pub(crate) fn settle(cluster: &Cluster, settings: &Settings, meta: MetaCluster) -> anyhow::Result<World> {
    let api = answers();
    let mut observed = Observed {
        meta: Arc::new(meta),
        published: Published::Absent,
        api,
        look: Look::Elsewhere,
        ..Observed::default()
    };
    // A file has no Secret: what it would say counts as right.
    for key in audit_secrets(cluster, &observed, "") {
        let audit_webhook = Some(Ok(UNKNOWN.to_owned()));
        let facts = SecretFacts { type_: AUDIT_SECRET.to_owned(), audit_webhook, ..SecretFacts::default() };
        observed.secrets.insert(key, facts.into());
    }
    let mut world = world(observed, now());
    for _ in 0..ROUNDS {
        if round(&mut world, cluster, settings, |_, kind, plan| refuse(plan, kind))? {
            return Ok(world);
        }
    }
    bail!("the plans for this Cluster never end; this is a bug in Berth")
}

/// One round of both planners, each after the other's actions. What it plans is shown to `look` before it is applied. True: nothing is left to
/// do.
pub(crate) fn round(
    world: &mut World,
    cluster: &Cluster,
    settings: &Settings,
    mut look: impl FnMut(&World, Kind, &Plan) -> anyhow::Result<()>,
) -> anyhow::Result<bool> {
    let plan =
        ClusterPlanner::plan(Input { object: cluster, observed: &world.observed, settings, now: world.now }).plan;
    look(world, Kind::Cluster, &plan)?;
    apply(world, &plan)?;
    let etcd = world.plan_etcd::<EtcdPlanner>(settings).map_err(anyhow::Error::msg)?;
    let Some((etcd, status_changed)) = etcd else { return Ok(plan.is_empty()) };
    look(world, Kind::EtcdCluster, &etcd.plan)?;
    apply(world, &etcd.plan)?;
    Ok(plan.is_empty() && etcd.plan.is_empty() && !status_changed)
}

fn apply(world: &mut World, plan: &Plan) -> anyhow::Result<()> {
    let mut actions = plan.actions();
    actions.try_for_each(|a| world.apply_action(a)).map_err(|e| anyhow!("{e}; this is a bug in Berth"))
}

/// What a person must correct.
fn refuse(plan: &Plan, kind: Kind) -> anyhow::Result<()> {
    let Some(stage) = plan.stages.iter().find(|s| matches!(s.state, State::Blocked { .. })) else { return Ok(()) };
    let (reason, text) = stage.sentence().map(|(r, t)| (r.as_str(), t)).unwrap_or_default();
    bail!("{kind}: {reason}: {text}")
}
