//! Signs for `berth-access`, which is one login for all tenants: finds its replicas by their Leases, connects to each, and answers what they ask.
//! Nothing but the Leases of these two is written, and tenants that were let in go on without the operator for hours.

mod leases;
mod speak;

use crate::context::Context;
use berth_api::access::OPERATOR;
use berth_edge::link::Identity;
use futures::StreamExt as _;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, watcher};
use leases::{Replica, Replicas};
use std::collections::HashMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

/// Between two tries to connect to a replica: at first, and at most.
const SOON: Duration = Duration::from_millis(200);
const AT_MOST: Duration = Duration::from_secs(15);

/// For as long as this process leads. Without `access` in the configuration it has nothing to do.
pub(crate) async fn run(ctx: &Context, stop: &CancellationToken) {
    let Some(access) = &ctx.settings.access else { return };
    let identity = match Identity::new(OPERATOR) {
        Ok(identity) => Arc::new(identity),
        Err(error) => return tracing::error!(error = format!("{error:#}"), "cannot make a key towards berth-access"),
    };
    tokio::select! {
        () = follow(ctx, &access.namespace, &identity) => (),
        () = stop.cancelled() => (),
    }
}

async fn follow(ctx: &Context, namespace: &str, identity: &Arc<Identity>) {
    let leases = leases::api(&ctx.io, namespace);
    let mut replicas = Replicas::default();
    let mut open: HashMap<Replica, AbortOnDropHandle<()>> = HashMap::new();
    let mut events = pin!(watcher(leases, leases::watched()).backoff(watcher::DefaultBackoff::default()));
    while let Some(event) = events.next().await {
        match event {
            Ok(event) => replicas.see(event),
            Err(error) => {
                let error = berth_kubeio::IoError::from_watch(&error);
                ctx.failed(&error);
                tracing::warn!(%error, namespace, "cannot watch the Leases of berth-access");
            }
        }
        let all = replicas.all();
        open.retain(|replica, _| all.contains(replica));
        for replica in all {
            open.entry(replica).or_insert_with_key(|replica| {
                let (ctx, identity, namespace, replica) =
                    (ctx.clone(), identity.clone(), namespace.to_owned(), replica.clone());
                AbortOnDropHandle::new(tokio::spawn(async move { stay(&ctx, &namespace, &identity, &replica).await }))
            });
        }
    }
}

/// Keeps a connection to that replica, for ever.
async fn stay(ctx: &Context, namespace: &str, identity: &Identity, replica: &Replica) {
    let (mut pause, mut said) = (SOON, String::new());
    loop {
        let connected = async {
            // Each time: it may be gone, or another operator's.
            leases::publish(&ctx.io, namespace, identity.pem()).await?;
            speak::connect(identity, replica).await
        };
        match connected.await {
            Ok(lines) => {
                tracing::info!(replica = replica.name, address = %replica.address, "signs for berth-access");
                (pause, said) = (SOON, String::new());
                let why = speak::speak(ctx, lines).await;
                tracing::info!(replica = replica.name, why, "the connection to berth-access has ended");
            }
            Err(error) => {
                let text = format!("{error:#}");
                if said != text {
                    tracing::warn!(replica = replica.name, address = %replica.address, error = text, "cannot connect to berth-access");
                    said = text;
                }
            }
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(AT_MOST);
    }
}
