//! One node's power: off without a word to anybody, and on again.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use super::{down, ready};
use crate::{
    cgroups, components, files,
    layout::{Layout, RunDir},
    network,
    node::{FIRST, Node},
    process::{self, Process},
    state::{Phase, State},
    vpc::Vpc,
};

/// How long containerd may take to answer.
const TIMEOUT: Duration = Duration::from_mins(1);

/// Ends a node beside the first, until [`on`]. Safe to repeat.
pub(super) fn off(layout: &Layout, number: u8) -> Result<()> {
    let (state, node) = find(layout, number)?;
    let run = RunDir::new(state.slot);
    let _held = hold(&run)?;
    // Before anything ends, or the supervisor would start it again should this be cut off.
    files::write(&run.killed(number), "")?;
    down::halt_node(layout, &run, &node)
}

/// Starts a node that is off; one that is on is left alone.
pub(super) fn on(layout: &Layout, number: u8) -> Result<()> {
    let (state, node) = find(layout, number)?;
    let run = RunDir::new(state.slot);
    let _held = hold(&run)?;
    if !run.is_killed(number) {
        return Ok(());
    }
    // There may be what a call left that was cut off.
    down::halt_node(layout, &run, &node)?;
    files::create_dir(&run.node(number))?;
    network::nodes::connect(layout, state.slot, state.nodes, &node)?;
    state.vpcs.iter().try_for_each(|vpc| network::vpc::connect(&Vpc::new(layout, vpc), &node))?;
    cgroups::ensure(&node.cgroup())?;
    process::ensure(layout, &run, &components::containerd(&node)?)?;
    ready::wait_for_socket(layout, &run, &run.containerd_socket(number), Instant::now() + TIMEOUT)?;
    for agent in components::agents(layout, &state, &node)? {
        process::ensure(layout, &run, &agent)?;
    }
    files::remove(&run.killed(number))
}

/// The components that should run, with their processes: what a node left that is off is not among them, even if the call
/// that ended it was cut off.
pub(super) fn recorded(layout: &Layout, run: &RunDir, nodes: u8) -> Vec<(String, Process)> {
    let off: Vec<String> = killed(layout, run, nodes).iter().flat_map(Node::components).collect();
    process::recorded_all(run).into_iter().filter(|(name, _)| !off.contains(name)).collect()
}

/// The nodes that are off.
pub(super) fn killed(layout: &Layout, run: &RunDir, nodes: u8) -> Vec<Node> {
    layout.nodes(nodes).into_iter().filter(|node| run.is_killed(node.number)).collect()
}

fn hold(run: &RunDir) -> Result<files::Lock> {
    files::Lock::acquire(&run.power_lock(), "a node")
}

/// The cluster's state and one of its nodes, if its power can be cut alone.
fn find(layout: &Layout, number: u8) -> Result<(State, Node)> {
    let Some(state) = State::read(layout)? else { bail!("there is no cluster `{}`", layout.name) };
    if state.phase != Phase::Running || !state.is_of_this_boot()? {
        bail!("the cluster `{}` does not run: `devcluster start` starts it, with all of its nodes", layout.name);
    }
    check(number, state.nodes)?;
    Ok((state, layout.node(number)))
}

fn check(number: u8, nodes: u8) -> Result<()> {
    if number == FIRST && nodes > 0 {
        bail!("node 1 is where the control plane runs: `devcluster stop` cuts the power of both");
    }
    if number == 0 || number > nodes {
        bail!("there is no node {number}: the cluster has {nodes}, counted from 1");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_nodes_without_a_control_plane_can_be_off() {
        let allowed = |nodes| (0..=5).filter(|number| check(*number, nodes).is_ok()).collect::<Vec<_>>();
        assert_eq!(allowed(0), [0; 0]);
        assert_eq!(allowed(1), [0; 0]);
        assert_eq!(allowed(3), [2, 3]);
    }
}
