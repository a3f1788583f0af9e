//! Coming up: files, network, processes, and the wait until pods can run.

use std::{
    fs,
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow, bail};
use k8s_openapi::jiff::{SignedDuration, Timestamp};

use super::{Config, down, import::import, power, ready, vpcs};
use crate::{
    addons, api, cgroups, components, files,
    layout::{Layout, RunDir},
    network, node_config, pki, process, slot,
    state::{self, Phase, State},
    supervisor,
};

const INOTIFY_INSTANCES: u32 = 8192;

/// Makes, starts or leaves alone, by what is there.
pub(super) fn up(layout: &Layout, config: &Config) -> Result<State> {
    match State::read(layout)? {
        Some(state) if state.phase == Phase::Running && is_whole(layout, &state)? => {
            vpcs::add(layout, with_s3(layout, state, config)?, config)
        }
        Some(state) if state.phase != Phase::Creating => {
            down::halt(layout, Some(state.slot))?;
            let s3 = state.s3 || config.s3;
            bring_up(layout, vpcs::merged(State { s3, ..state }, config)?, config)
        }
        _ => {
            down::remove(layout)?;
            files::create_dir(&layout.dir)?;
            let slot = slot::lease(&layout.dir)?;
            let nodes = config.nodes;
            // A volume is on a node.
            let volumes = if nodes == 0 { 0 } else { config.volumes };
            let (vpcs, meta_plugin) = (Vec::new(), None);
            let (phase, s3, boot) = (Phase::Creating, config.s3, state::boot()?);
            let network_policies = config.network_policies;
            let state = State { phase, slot, volumes, nodes, vpcs, meta_plugin, s3, network_policies, boot };
            let state = vpcs::merged(state, config)?;
            state.write(layout)?;
            bring_up(layout, state, config)
        }
    }
}

/// Gives a cluster that runs an S3 server, if it has to have one.
fn with_s3(layout: &Layout, state: State, config: &Config) -> Result<State> {
    if !config.s3 || state.s3 {
        return Ok(state);
    }
    let state = State { s3: true, ..state };
    state.write(layout)?;
    start_all(layout, &RunDir::new(state.slot), &components::beside(layout, &state)?)?;
    Ok(state)
}

/// Starts a stopped cluster; one that runs is left alone.
pub(super) fn start(layout: &Layout, timeout: Duration) -> Result<()> {
    let Some(state) = State::read(layout)? else { bail!("there is no cluster `{}`", layout.name) };
    if state.phase == Phase::Creating {
        bail!("the cluster `{}` never came up: run `devcluster up`", layout.name);
    }
    up(layout, &Config { timeout, ..Config::named(&layout.name) }).map(drop)
}

/// Whether everything that was started still runs and the API answers: then there is nothing to do, but to start the
/// supervisor if that has ended.
fn is_whole(layout: &Layout, state: &State) -> Result<bool> {
    if !state.is_of_this_boot()? {
        return Ok(false);
    }
    let run = RunDir::new(state.slot);
    if process::ensure(layout, &run, &supervisor::spec(&layout.name)?).is_err() {
        return Ok(false);
    }
    // The supervisor restarts what ends, so a component may be between two lives: give it a moment.
    api::block_on(async {
        let client = api::client(&layout.kubeconfig(pki::ADMIN)).await?;
        let deadline = Instant::now() + Duration::from_secs(20);
        let whole = api::wait(deadline, || async {
            let dead = power::recorded(layout, &run, state.nodes).into_iter().find(|(_, process)| !process.is_alive());
            Ok(match dead {
                Some((name, _)) => Some(name),
                None if !api::is_ready(&client).await => Some("the API server".to_owned()),
                None => None,
            })
        });
        Ok(whole.await.is_ok())
    })
}

fn bring_up(layout: &Layout, mut state: State, config: &Config) -> Result<State> {
    let start = Instant::now();
    let deadline = start + config.timeout;
    // Times in objects are whole seconds.
    let since = Timestamp::now() - SignedDuration::from_secs(1);
    let slot = slot::lease(&layout.dir)?;
    if slot != state.slot {
        bail!(
            "the addresses {} of `{}` are taken by another cluster: end that one, or this one with `devcluster down`",
            state.slot.range(),
            layout.name
        );
    }
    let run = RunDir::new(slot);
    let progress = |what: &str| eprintln!("{}: {what} ({:.1} s)", layout.name, start.elapsed().as_secs_f32());
    files::create_dir(&run.0)?;
    files::create_dir(&layout.volumes())?;
    let nodes = layout.nodes(state.nodes);
    pki::ensure(layout, slot, state.nodes)?;
    node_config::write(layout, &run, slot, state.nodes)?;
    network::ensure(layout, slot)?;
    network::nodes::ensure(layout, slot, state.nodes)?;
    vpcs::ensure(layout, &state, config)?;
    raise_limits()?;
    nodes.iter().try_for_each(|node| cgroups::ensure(&node.cgroup()))?;
    start_all(layout, &run, &components::first(layout, slot, state.nodes)?)?;
    start_all(layout, &run, &components::beside(layout, &state)?)?;
    progress(&format!("addresses {}, processes started", slot.range()));

    thread::scope(|scope| {
        let (essential, imported) = mpsc::channel();
        let import = {
            let (run, nodes) = (&run, &nodes);
            scope.spawn(move || import(layout, run, nodes, config, deadline, &essential))
        };
        ready::wait_for_api(layout, &run, deadline)?;
        progress("the API answers");
        // An error says that the import has failed, and so will its thread's result below.
        let _ = imported.recv();
        if state.phase == Phase::Creating {
            api::block_on(async {
                let client = api::client(&layout.kubeconfig(pki::ADMIN)).await?;
                api::apply(&client, addons::nodes(layout, slot, state.nodes)).await
            })?;
        }
        start_all(layout, &run, &components::second(layout, &state)?)?;
        process::ensure(layout, &run, &supervisor::spec(&layout.name)?)?;
        progress("node started");
        api::block_on(async {
            let client = api::client(&layout.kubeconfig(pki::ADMIN)).await?;
            api::apply(&client, vpcs::objects(&state)).await?;
            api::apply(&client, addons::objects(slot)).await?;
            let waited = api::wait(deadline, || ready::is_usable(layout, &state, &client, since)).await;
            waited.with_context(|| ready::logs_hint(layout))
        })?;
        import.join().map_err(|_| anyhow!("the import of images panicked"))?
    })?;
    state.phase = Phase::Running;
    state.boot = state::boot()?;
    state.write(layout)?;
    progress("ready");
    Ok(state)
}

/// Every API server, kubelet and containerd watches files, and so do those of tenants. The kernel's default of 128 watchers
/// for each user ends with "too many open files" in whichever component starts last.
fn raise_limits() -> Result<()> {
    let path = "/proc/sys/fs/inotify/max_user_instances";
    let limit: u32 = fs::read_to_string(path).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(u32::MAX);
    if limit < INOTIFY_INSTANCES {
        eprintln!("raising {path} from {limit} to {INOTIFY_INSTANCES}, until the machine restarts");
        fs::write(path, INOTIFY_INSTANCES.to_string()).with_context(|| format!("cannot write {path}"))?;
    }
    Ok(())
}

fn start_all(layout: &Layout, run: &RunDir, specs: &[process::Spec]) -> Result<()> {
    for spec in specs {
        process::ensure(layout, run, spec)?;
    }
    Ok(())
}
