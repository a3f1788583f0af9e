//! What the cluster's own controllers and kubelets would do, as plain tasks over a client.
//!
//! It follows the real ones where Berth's code can tell the difference, and is quick: nothing runs in its pods.
//!
//! | part | does | does not |
//! |---|---|---|
//! | namespaces | empties and finalizes terminating ones, all kinds that discovery knows | set conditions |
//! | garbage collection | background, foreground, orphan, within a namespace | touch cluster-scoped dependents |
//! | Deployments | pods named `<deploy>-<hash>-<n>`, surge and unavailability, `Recreate`, revision annotation, status | make `ReplicaSets` |
//! | `StatefulSets` | claims, ordered or parallel, rolling update, status | partition it, or keep old templates |
//! | kubelet | pods become Ready (or what [`World::fate`] says), terminating pods go | run anything |
//! | claims | Bound at once, capacity follows requests, the protection finalizer | make `PersistentVolumes` |
//! | load balancers | an address from 192.0.2.0/24 | |
//!
//! What workloads and kubelets do is [`berth_sim`]'s, which `kubectl berth plan` foresees with; here it is written into an API server.
//!
//! Roles are not aggregated: bind `cluster-admin`, not `admin`, in tests.

mod context;
mod garbage;
mod namespaces;
mod pods;
mod storage;
mod store;
mod workloads;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Result;
pub use berth_sim::Fate;
use kube::Client;
use serde_json::Value;
use tokio::task::JoinSet;

use context::Context;
use store::Store;

type Judge = Arc<dyn Fn(&Value) -> Fate + Send + Sync>;
type Scope = Arc<dyn Fn(&str) -> bool + Send + Sync>;

/// What a test may change while the world runs.
struct Knobs {
    fate: Judge,
    load_balancers: bool,
}

/// How a world begins; see [`World::builder`].
#[must_use]
pub struct Builder {
    client: Client,
    scope: Scope,
    knobs: Knobs,
}

impl std::fmt::Debug for Builder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Builder").finish_non_exhaustive()
    }
}

impl Builder {
    /// Only these namespaces: on a shared server, those of one test. Names need not exist yet.
    pub fn namespaces(mut self, scope: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        self.scope = Arc::new(scope);
        self
    }

    /// Like [`World::fate`], from the beginning.
    pub fn fate(mut self, fate: impl Fn(&Value) -> Fate + Send + Sync + 'static) -> Self {
        self.knobs.fate = Arc::new(fate);
        self
    }

    /// Starts the tasks. CRDs have to be installed before, or their objects are no part of garbage collection.
    pub async fn start(self) -> Result<World> {
        let Self { client, scope, knobs } = self;
        let knobs = Arc::new(Mutex::new(knobs));
        let mut tasks = JoinSet::new();
        let store = Store::start(&client, &mut tasks).await?;
        let context = Context::new(client, store.clone(), scope, knobs.clone());
        tasks.spawn(run(context));
        Ok(World { knobs, store, _tasks: tasks })
    }
}

/// A running world; it stops when dropped.
pub struct World {
    knobs: Arc<Mutex<Knobs>>,
    store: Arc<Store>,
    /// Aborted on drop.
    _tasks: JoinSet<()>,
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("World").finish_non_exhaustive()
    }
}

impl World {
    /// A world over `client` (of the admin, not through a fault plan).
    pub fn builder(client: Client) -> Builder {
        let knobs = Knobs { fate: Arc::new(|_| Fate::Ready), load_balancers: true };
        Builder { client, scope: Arc::new(|_| true), knobs }
    }

    /// Decides about every pod, those that run included, by its manifest as JSON.
    pub fn fate(&self, fate: impl Fn(&Value) -> Fate + Send + Sync + 'static) {
        self.change(|k| k.fate = Arc::new(fate));
    }

    /// No pod that is not ready yet becomes ready, until [`World::release`].
    pub fn hold(&self) {
        self.fate(|pod| {
            let ready = pod["status"]["conditions"].as_array().into_iter().flatten();
            let ready = ready.into_iter().any(|c| c["type"] == "Ready" && c["status"] == "True");
            if ready { Fate::Ready } else { Fate::Pending }
        });
    }

    /// All pods become ready again.
    pub fn release(&self) {
        self.fate(|_| Fate::Ready);
    }

    /// Whether load balancers that have no address get one.
    pub fn load_balancers(&self, assign: bool) {
        self.change(|k| k.load_balancers = assign);
    }

    fn change(&self, change: impl FnOnce(&mut Knobs)) {
        change(&mut self.knobs.lock().unwrap_or_else(PoisonError::into_inner));
        self.store.wake();
    }
}

/// One reconcile over everything after each change; more often while something is in progress.
async fn run(context: Context) {
    let mut revisions = BTreeMap::new();
    loop {
        let mut busy = namespaces::reconcile(&context).await;
        busy |= workloads::reconcile(&context, &mut revisions).await;
        busy |= pods::reconcile(&context).await;
        busy |= storage::reconcile(&context).await;
        busy |= garbage::reconcile(&context).await;
        let pause = if busy { Duration::from_millis(30) } else { Duration::from_secs(2) };
        let _ = tokio::time::timeout(pause, context.store.changed()).await;
        // Changes come in groups.
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
