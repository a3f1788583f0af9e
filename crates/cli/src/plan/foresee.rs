//! What follows once the present round of changes is done: the rounds after it, in a world in memory where all goes well.

use super::report::{Change, Restart, change, restart};
use crate::world::{apply_plan, cluster_plan};
use berth_api::Cluster;
use berth_plan::{Plan, Settings};
use berth_plan_etcd::EtcdPlanner;
use berth_sim::World;
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

/// Rounds that are simulated. A new tenant takes six, three members of etcd one each.
const ROUNDS: i32 = 30;
/// Time between two rounds: longer than a certificate takes to reach a process that runs.
const STEP: SignedDuration = SignedDuration::from_mins(3);

/// One change that is made later.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Later {
    /// The stage that makes it.
    pub(super) stage: String,
    #[serde(flatten)]
    pub(super) change: Change,
}

/// What follows, in order.
#[derive(Debug, Default)]
pub(super) struct Future {
    pub(super) then: Vec<Later>,
    pub(super) restarts: Vec<Restart>,
    /// Not all of it could be foreseen.
    pub(super) more: bool,
}

/// The rounds after the first. The controllers of `Cluster` and `EtcdCluster` take turns.
pub(super) fn foresee(
    cluster: &Cluster,
    settings: &Settings,
    world: &mut World,
    now: Timestamp,
) -> anyhow::Result<Future> {
    let mut future = Future::default();
    for n in 0..ROUNDS {
        world.now = now + STEP * n;
        let plan = cluster_plan(world, cluster, settings).plan;
        if n > 0 {
            future.take(&plan, world, |c| c);
        }
        let mut done = plan.is_empty();
        apply_plan(world, &plan)?;
        if let Some((plan, status_changed)) = world.plan_etcd::<EtcdPlanner>(settings).map_err(anyhow::Error::msg)? {
            future.take(&plan.plan, world, |_| "etcd");
            done &= plan.plan.is_empty() && !status_changed;
            apply_plan(world, &plan.plan)?;
        }
        if done {
            return Ok(future);
        }
        world.run_controllers();
    }
    future.more = true;
    Ok(future)
}

impl Future {
    fn take<'a>(&mut self, plan: &'a Plan, world: &World, stage: impl Fn(&'a str) -> &'a str) {
        for part in &plan.stages {
            for action in &part.actions {
                let stage = stage(part.id.name()).to_owned();
                self.then.push(Later { stage, change: change(action, &world.observed) });
                self.restarts.extend(restart(action, &world.observed));
            }
        }
        let leftovers =
            plan.prune.iter().map(|a| Later { stage: "leftovers".into(), change: change(a, &world.observed) });
        self.then.extend(leftovers);
    }
}
