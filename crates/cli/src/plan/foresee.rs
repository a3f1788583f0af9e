//! What follows once the present round of changes is done: the rounds after it, in a world in memory where all goes well.

use super::report::{Change, Restart, change, restart};
use crate::world::round;
use berth_api::Cluster;
use berth_plan::{Plan, Settings};
use berth_render::Kind;
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
        // What the first round plans for the Cluster is no future.
        let done = round(world, cluster, settings, |world, kind, plan| {
            if n > 0 || kind == Kind::EtcdCluster {
                future.take(plan, world, kind);
            }
            Ok(())
        })?;
        if done {
            return Ok(future);
        }
        world.run_controllers();
    }
    future.more = true;
    Ok(future)
}

impl Future {
    fn take(&mut self, plan: &Plan, world: &World, kind: Kind) {
        for part in &plan.stages {
            for action in &part.actions {
                let stage = if kind == Kind::EtcdCluster { "etcd" } else { part.id.name() }.to_owned();
                self.then.push(Later { stage, change: change(action, &world.observed) });
                self.restarts.extend(restart(action, &world.observed));
            }
        }
        let leftovers =
            plan.prune.iter().map(|a| Later { stage: "leftovers".into(), change: change(a, &world.observed) });
        self.then.extend(leftovers);
    }
}
