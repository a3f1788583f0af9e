//! Ending: what was started is killed, and nothing of it stays.

use std::{
    collections::BTreeSet,
    fs,
    net::IpAddr,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use anyhow::Result;

use crate::{
    cgroups, files,
    layout::{Layout, RunDir},
    mounts, network,
    node::Node,
    process::{self, Process},
    slot::{self, Slot},
    state::{Phase, State},
    worker,
};

/// Stops the cluster and removes all of it. Safe to repeat, and on any half-made cluster.
pub(super) fn remove(layout: &Layout) -> Result<()> {
    let slot = held_slot(layout)?;
    if let Ok(Some(mut state)) = State::read(layout) {
        // From here on there is no way back: an `up` after a killed `down` must not start what is half removed.
        state.phase = Phase::Creating;
        state.write(layout)?;
    }
    halt(layout, slot)?;
    files::remove(&layout.dir)?;
    if let Some(slot) = slot {
        slot::release(slot, &layout.dir)?;
    }
    Ok(())
}

/// Stops the cluster's processes and keeps its data.
pub(super) fn stop(layout: &Layout) -> Result<()> {
    if let Some(mut state) = State::read(layout)? {
        state.phase = Phase::Stopped;
        state.write(layout)?;
        halt(layout, Some(state.slot))?;
    }
    Ok(())
}

/// Kills every process and removes what a reboot would remove: mounts, cgroups, the network namespace, sockets.
pub(super) fn halt(layout: &Layout, slot: Option<Slot>) -> Result<()> {
    let run = slot.map(RunDir::new);
    process::kill_until_gone(&layout.name, || processes(layout, run.as_ref()))?;
    let mut directories = vec![layout.dir.as_path()];
    directories.extend(run.as_ref().map(|run| run.0.as_path()));
    mounts::unmount_below(&directories)?;
    for node in layout.possible_nodes().iter().filter(|node| node.is_further()) {
        network::nodes::remove(layout, node)?;
    }
    for scope in worker::scopes(layout) {
        network::nodes::remove_machine(&scope)?;
        remove_results(&scope)?;
    }
    network::vpc::remove_all(layout)?;
    network::remove(layout, slot)?;
    remove_cgroups(&layout.scope())?;
    if let Some(run) = &run {
        files::remove(&run.0)?;
    }
    layout.possible_nodes().iter().try_for_each(forget_pods)
}

/// The same for one node beside the first, whose neighbours hear nothing of it: its link goes before its processes, since
/// the kernel would say goodbye to whoever they are connected with.
pub(super) fn halt_node(layout: &Layout, run: &RunDir, node: &Node) -> Result<()> {
    network::nodes::disconnect(layout, node)?;
    process::kill_until_gone(&node.name(), || processes_of_node(run, node))?;
    mounts::unmount_below(&[&node.dir(), &run.node(node.number)])?;
    network::nodes::remove(layout, node)?;
    remove_cgroups(&node.cgroup())?;
    files::remove(&run.node(node.number))?;
    // Without records, nobody takes them for components that have died.
    node.components().iter().try_for_each(|component| files::remove(&run.process(component)))?;
    forget_pods(node)
}

/// Removes what a node's pods leave in files that outlive them.
fn forget_pods(node: &Node) -> Result<()> {
    free_pod_addresses(node)?;
    remove_traces_elsewhere(node)
}

/// No pod runs any more, so no address is taken. Which one was given last is kept: after a start pods get addresses that
/// nobody had, and what still holds old endpoints reaches nobody rather than somebody else.
fn free_pod_addresses(node: &Node) -> Result<()> {
    for lease in entries(&node.address_leases().join(node.scope())) {
        let is_address = lease.file_name().is_some_and(|name| name.to_string_lossy().parse::<IpAddr>().is_ok());
        if is_address {
            files::remove(&lease)?;
        }
    }
    Ok(())
}

/// Everything that the cluster runs: recorded components, whatever carries its marker, and the containers.
fn processes(layout: &Layout, run: Option<&RunDir>) -> BTreeSet<Process> {
    let mut all = process::marked(layout.marker());
    all.extend(cgroups::processes(&layout.scope()));
    all.extend(run.map(process::recorded_all).unwrap_or_default().into_iter().map(|(_, process)| process));
    all
}

fn processes_of_node(run: &RunDir, node: &Node) -> BTreeSet<Process> {
    let mut all = node.marker().map(process::marked).unwrap_or_default();
    all.extend(cgroups::processes(&node.cgroup()));
    all.extend(node.components().iter().filter_map(|component| process::recorded(run, component)));
    all
}

/// The slot in the state, or the leased one if the state was never written.
fn held_slot(layout: &Layout) -> Result<Option<Slot>> {
    // A state that cannot be read must not keep `down` from clearing it.
    if let Ok(Some(state)) = State::read(layout) {
        return Ok(Some(state.slot));
    }
    Ok(slot::holders()?.into_iter().find(|(_, owner)| *owner == layout.dir).map(|(slot, _)| slot))
}

/// A cgroup is busy until the last killed process has been reaped.
fn remove_cgroups(group: &str) -> Result<()> {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        match cgroups::remove(group) {
            Err(e) if Instant::now() > deadline => return Err(e),
            Err(_) => thread::sleep(Duration::from_millis(20)),
            Ok(()) => return Ok(()),
        }
    }
}

/// Two things lie at fixed places outside of the cluster's directories: kubelet's links to the logs of containers, and
/// libcni's results of calls that were never undone.
fn remove_traces_elsewhere(node: &Node) -> Result<()> {
    let pod_logs = node.pod_logs();
    for link in entries(Path::new("/var/log/containers")) {
        if fs::read_link(&link).is_ok_and(|target| target.starts_with(&pod_logs)) {
            files::remove(&link)?;
        }
    }
    remove_results(&node.meta_network())?;
    remove_results(&node.scope())
}

/// libcni's results in a network.
fn remove_results(network: &str) -> Result<()> {
    let network = format!("{network}-");
    for result in entries(Path::new("/var/lib/cni/results")) {
        // The rest of the name is a container's ID of 64 digits and an interface; `demo` must not take `demo-2`'s.
        let name = result.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let id = name.strip_prefix(&network).and_then(|rest| rest.split('-').next());
        if id.is_some_and(|id| id.len() == 64) {
            files::remove(&result)?;
        }
    }
    Ok(())
}

fn entries(directory: &Path) -> Vec<std::path::PathBuf> {
    fs::read_dir(directory).map(|all| all.flatten().map(|entry| entry.path()).collect()).unwrap_or_default()
}
