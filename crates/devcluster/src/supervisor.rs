//! The process that a cluster keeps beside its components: it restarts what ends, gives Services of type LoadBalancer
//! their addresses, and wipes and offers again the volumes that were released.

mod load_balancers;
mod processes;
mod volumes;

use std::{path::PathBuf, time::Duration};

use anyhow::{Context, Result, bail};
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{PersistentVolume, Service};
use kube::{Api, Resource, runtime::watcher};
use tokio::time::sleep;

use crate::{
    api,
    layout::{Layout, RunDir},
    node::FIRST,
    process::Spec,
    state::State,
};

/// The component's name, for its log and record.
pub(crate) const NAME: &str = "supervisor";

/// The command line: this very program, or the `devcluster` beside the test that uses the library.
pub(crate) fn spec(cluster: &str) -> Result<Spec> {
    let program = program()?.to_string_lossy().into_owned();
    Ok(Spec {
        name: NAME.to_owned(),
        node: FIRST,
        argv: vec![program, "supervise".to_owned(), "--name".to_owned(), cluster.to_owned()],
    })
}

pub(crate) fn program() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os("BERTH_DEVCLUSTER_BIN") {
        return Ok(PathBuf::from(path));
    }
    let current = std::env::current_exe().context("cannot find this program's own path")?;
    if current.file_name().is_some_and(|name| name == "devcluster") {
        return Ok(current);
    }
    // Tests lie in target/<profile>/deps, one below.
    for directory in current.ancestors().skip(1).take(3) {
        let candidate = directory.join("devcluster");
        if candidate.is_file() {
            return Ok(candidate);
        }
    }
    bail!(
        "no `devcluster` beside {}: run `cargo build -p berth-devcluster`, or set BERTH_DEVCLUSTER_BIN",
        current.display()
    )
}

/// Runs until it is killed.
pub fn run(cluster: &str) -> Result<()> {
    let layout = Layout::new(cluster)?;
    let Some(state) = State::read(&layout)? else { bail!("there is no cluster `{cluster}`") };
    let run = RunDir::new(state.slot);
    api::block_on(async {
        let client = api::client(&layout.kubeconfig(NAME)).await?;
        tokio::join!(
            processes::keep(&layout, &run, &state),
            on_change("load balancers", Api::<Service>::all(client.clone()), || {
                load_balancers::reconcile(&client, state.slot)
            }),
            on_change("volumes", Api::<PersistentVolume>::all(client.clone()), || {
                volumes::reconcile(&client, &layout, &state)
            }),
        );
        Ok(())
    })
}

/// What a reconcile says about the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// Nothing to do until something changes.
    OnChange,
    /// Something outside of the API is awaited.
    Soon,
}

/// Runs a reconcile at the start, and whenever an object of a kind changes. A reconcile reads what there is; nothing is remembered
/// from the one before, so it does not matter where the last supervisor was killed.
async fn on_change<K, F, Fut>(what: &str, api: Api<K>, mut reconcile: F)
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + serde::de::DeserializeOwned + Send + 'static,
    F: FnMut() -> Fut,
    Fut: Future<Output = Result<Next>>,
{
    let events = watcher(api, watcher::Config::default()).map_ok(drop);
    let mut events = Box::pin(events);
    loop {
        let pause = match reconcile().await {
            Ok(Next::OnChange) => Duration::from_mins(5),
            Ok(Next::Soon) => Duration::from_millis(500),
            Err(e) => {
                eprintln!("{what}: {e:#}");
                Duration::from_secs(1)
            }
        };
        tokio::select! {
            event = events.next() => if let Some(Err(e)) = event {
                eprintln!("{what}: {e}");
                sleep(Duration::from_millis(500)).await;
            },
            () = sleep(pause) => {}
        }
        // Changes come in bursts: one reconcile answers all that is there.
        let _ =
            tokio::time::timeout(Duration::from_millis(20), async { while let Some(Ok(())) = events.next().await {} })
                .await;
    }
}
