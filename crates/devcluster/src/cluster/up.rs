//! Coming up: files, network, processes, and the wait until pods can run.

use std::{
    fs,
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow, bail};
use k8s_openapi::{
    api::core::v1::{Node, PersistentVolume, ServiceAccount},
    jiff::{SignedDuration, Timestamp},
};
use kube::{Api, Client, api::ListParams};

use super::{Config, down};
use crate::{
    addons, api, cgroups, components, dns, files, images,
    layout::{Layout, RunDir},
    network, node_config, pki,
    process::{self, Process},
    slot::{self, Slot},
    state::{self, Phase, State},
    supervisor, versions,
};

const INOTIFY_INSTANCES: u32 = 8192;

/// Makes, starts or leaves alone, by what is there.
pub(super) fn up(layout: &Layout, config: &Config) -> Result<Slot> {
    let state = match State::read(layout)? {
        Some(state) if state.phase == Phase::Running && is_whole(layout, &state)? => return Ok(state.slot),
        Some(state) if state.phase != Phase::Creating => {
            down::halt(layout, Some(state.slot))?;
            bring_up(layout, state, config)?
        }
        _ => {
            down::remove(layout)?;
            files::create_dir(&layout.dir)?;
            let slot = slot::lease(&layout.dir)?;
            let state = State { phase: Phase::Creating, slot, volumes: config.volumes, boot: state::boot()? };
            state.write(layout)?;
            bring_up(layout, state, config)?
        }
    };
    Ok(state.slot)
}

/// Starts a stopped cluster; one that runs is left alone.
pub(super) fn start(layout: &Layout, timeout: Duration) -> Result<()> {
    let Some(state) = State::read(layout)? else { bail!("there is no cluster `{}`", layout.name) };
    if state.phase == Phase::Creating {
        bail!("the cluster `{}` never came up: run `devcluster up`", layout.name);
    }
    up(layout, &Config { volumes: state.volumes, timeout, ..Config::named(&layout.name) }).map(drop)
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
            let dead = process::recorded_all(&run).into_iter().find(|(_, process)| !process.is_alive());
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
    pki::ensure(layout, slot)?;
    node_config::write(layout, &run, slot)?;
    network::ensure(layout, slot)?;
    raise_limits()?;
    cgroups::ensure(layout)?;
    start_all(layout, &run, &components::first(layout, slot)?)?;
    progress(&format!("addresses {}, processes started", slot.range()));

    thread::scope(|scope| {
        let import = scope.spawn(|| import_missing(layout, &run, config, deadline));
        wait_for_api(layout, &run, deadline)?;
        progress("the API answers");
        import.join().map_err(|_| anyhow!("the import of images panicked"))??;
        start_all(layout, &run, &components::second(layout, slot)?)?;
        process::ensure(layout, &run, &supervisor::spec(&layout.name)?)?;
        progress("images imported, node started");
        api::block_on(async {
            let client = api::client(&layout.kubeconfig(pki::ADMIN)).await?;
            api::apply(&client, addons::objects(slot)).await?;
            let waited = api::wait(deadline, || is_usable(layout, &state, &client, since)).await;
            waited.with_context(|| logs_hint(layout))
        })?;
        anyhow::Ok(())
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

fn wait_for_api(layout: &Layout, run: &RunDir, deadline: Instant) -> Result<()> {
    api::block_on(async {
        let client = api::client(&layout.kubeconfig(pki::ADMIN)).await?;
        loop {
            if api::is_ready(&client).await {
                return Ok(());
            }
            fail_if_dead(layout, run)?;
            if Instant::now() > deadline {
                bail!("the API server did not become ready in time; {}", logs_hint(layout));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
}

/// Imports the images that containerd does not have.
fn import_missing(layout: &Layout, run: &RunDir, config: &Config, deadline: Instant) -> Result<()> {
    let socket = run.containerd_socket();
    while UnixStream::connect(&socket).is_err() {
        fail_if_dead(layout, run)?;
        if Instant::now() > deadline {
            bail!("containerd did not answer in time; {}", logs_hint(layout));
        }
        thread::sleep(Duration::from_millis(50));
    }
    let mut wanted: Vec<PathBuf> = images::essential()?;
    wanted.extend(images::control_plane(versions::KUBERNETES)?);
    wanted.push(images::etcd(versions::ETCD)?);
    wanted.extend(config.images.iter().cloned());
    // Kept with containerd's own data: what was imported once survives stop and start.
    let record = layout.dir.join("imported");
    let imported = files::read_optional(&record)?.unwrap_or_default();
    wanted.retain(|archive| !imported.lines().any(|line| Path::new(line) == archive));
    images::import(&socket, &wanted)?;
    let now: Vec<_> = wanted.iter().map(|archive| archive.to_string_lossy()).collect();
    files::write(&record, imported + &now.join("\n") + "\n")
}

/// What is still missing before pods can run, if anything.
async fn is_usable(layout: &Layout, state: &State, client: &Client, since: Timestamp) -> Result<Option<String>> {
    let slot = state.slot;
    let node = Api::<Node>::all(client.clone()).get_opt(&layout.node()).await?;
    if !node.is_some_and(|node| addons::node_is_ready(&node, since)) {
        return Ok(Some(format!("node {}", layout.node())));
    }
    if Api::<ServiceAccount>::default_namespaced(client.clone()).get_opt("default").await?.is_none() {
        return Ok(Some("the service account of the namespace default".to_owned()));
    }
    let offered = Api::<PersistentVolume>::all(client.clone()).list_metadata(&ListParams::default()).await?;
    if offered.items.len() < usize::from(state.volumes) {
        return Ok(Some("the local volumes".to_owned()));
    }
    if !dns::resolves(slot.dns_service(), "kubernetes.default.svc.cluster.local") {
        return Ok(Some("cluster DNS (deployment coredns in kube-system)".to_owned()));
    }
    Ok(None)
}

/// Fails with the end of its log if a component has ended before the supervisor watches it.
fn fail_if_dead(layout: &Layout, run: &RunDir) -> Result<()> {
    if process::recorded(run, supervisor::NAME).is_some_and(Process::is_alive) {
        return Ok(());
    }
    for (name, process) in process::recorded_all(run) {
        if !process.is_alive() {
            let log = layout.log(&name);
            let text = fs::read_to_string(&log).unwrap_or_default();
            let lines: Vec<_> = text.lines().collect();
            let tail = lines[lines.len().saturating_sub(8)..].join("\n");
            bail!("{name} ended; the end of {}:\n{tail}", log.display());
        }
    }
    Ok(())
}

fn logs_hint(layout: &Layout) -> String {
    format!("see `devcluster logs COMPONENT --name {}`, files in {}", layout.name, layout.dir.join("log").display())
}
