//! Talking to the cluster's API server.

use std::{
    path::Path,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow, bail};
use kube::{
    Api, Client, Config,
    api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams},
    config::{KubeConfigOptions, Kubeconfig},
};

/// The field manager of everything that devcluster applies.
pub(crate) const MANAGER: &str = "devcluster";

/// Runs a future to its end on a thread and runtime of its own, so that callers may be synchronous or inside of tokio.
pub(crate) fn block_on<T: Send>(future: impl Future<Output = Result<T>> + Send) -> Result<T> {
    thread::scope(|scope| {
        let work = || tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(future);
        scope.spawn(work).join().map_err(|_| anyhow!("the thread that talks to the API server panicked"))?
    })
}

/// A client with the credentials of a kubeconfig.
pub(crate) async fn client(kubeconfig: &Path) -> Result<Client> {
    let file = Kubeconfig::read_from(kubeconfig).with_context(|| format!("cannot read {}", kubeconfig.display()))?;
    let mut config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default())
        .await
        .with_context(|| format!("cannot use {}", kubeconfig.display()))?;
    config.connect_timeout = Some(Duration::from_secs(3));
    // An environment with a proxy for the world outside must not send us there.
    config.proxy_url = None;
    Client::try_from(config).context("cannot make a client for the API server")
}

/// Whether the API server says that it is ready.
pub(crate) async fn is_ready(client: &Client) -> bool {
    let Ok(request) = http::Request::get("/readyz").body(Vec::new()) else { return false };
    matches!(tokio::time::timeout(Duration::from_secs(2), client.request_text(request)).await, Ok(Ok(_)))
}

/// Applies objects server-side, as they are.
pub(crate) async fn apply(client: &Client, objects: Vec<serde_json::Value>) -> Result<()> {
    for object in objects {
        let object: DynamicObject = serde_json::from_value(object)?;
        let types = object.types.clone().ok_or_else(|| anyhow!("an object without kind"))?;
        let name = object.metadata.name.clone().unwrap_or_default();
        let resource = ApiResource::from_gvk(&GroupVersionKind::try_from(&types)?);
        let api: Api<DynamicObject> = match &object.metadata.namespace {
            Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
            None => Api::all_with(client.clone(), &resource),
        };
        api.patch(&name, &PatchParams::apply(MANAGER).force(), &Patch::Apply(&object))
            .await
            .with_context(|| format!("cannot apply {} {name}", types.kind))?;
    }
    Ok(())
}

/// Asks again and again until the answer is yes; `check` returns what it still waits for.
pub(crate) async fn wait<F, Fut>(deadline: Instant, mut check: F) -> Result<()>
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Result<Option<String>>>,
{
    loop {
        let waiting_for = match check().await {
            Ok(None) => return Ok(()),
            Ok(Some(waiting_for)) => waiting_for,
            Err(e) => format!("an answer ({e:#})"),
        };
        if Instant::now() > deadline {
            bail!("timed out waiting for {waiting_for}");
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
