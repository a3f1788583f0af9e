//! What every reconcile needs.

use crate::backoff::Backoff;
use crate::denied::Denied;
use crate::events::Events;
use crate::fleet::Fleet;
use crate::heard::Heard;
use crate::looks::Looks;
use crate::memory::Memory;
use crate::metrics::Metrics;
use crate::sizes::asked::{SizeMemory, Sizes};
use crate::users::Users;
use crate::volumes::Volumes;
use berth_etcdio::EtcdTarget;
use berth_fence::FencedClient;
use berth_kubeio::{Calls, Connect, Io, IoError};
use berth_plan::admission::Admission;
use berth_plan::fleet::TenantId;
use berth_plan::leads::Leads;
use berth_plan::observed::EtcdProbe;
use berth_plan::{EtcdAnswer, EtcdCall, MetaCluster, Settings};
use berth_render::ObjectKey;
use futures::future::BoxFuture;
use futures::{Stream, stream};
use jiff::{SignedDuration, Timestamp};
use parking_lot::RwLock;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// Asks an etcd; tests put another in its place.
pub type AskEtcd = Arc<dyn Fn(EtcdTarget) -> BoxFuture<'static, EtcdProbe> + Send + Sync>;

/// Calls an etcd, through the member of that name; tests put another in its place.
pub type CallEtcd =
    Arc<dyn Fn(EtcdTarget, String, EtcdCall) -> BoxFuture<'static, Result<EtcdAnswer, String>> + Send + Sync>;

/// What the API server's clock said, and when. None: it was not asked yet.
type Clock = Arc<RwLock<Option<(Instant, Timestamp)>>>;

fn time(clock: &Clock) -> Timestamp {
    let told = *clock.read();
    told.and_then(|(at, time)| time.checked_add(at.elapsed()).ok()).unwrap_or_else(crate::clock::wall)
}

/// Shared by all reconciles; clones share it, too.
#[derive(Clone)]
pub struct Context {
    /// The meta cluster.
    pub io: Io,
    /// What it is configured with.
    pub settings: Arc<Settings>,
    meta: Arc<RwLock<Arc<MetaCluster>>>,
    addresses_changed: watch::Sender<()>,
    denied: Arc<Denied>,
    clock: Clock,
    /// Connects to tenants.
    pub connect: Connect,
    /// Connects to etcds.
    pub ask_etcd: AskEtcd,
    /// Calls etcds. Who uses it asks the fence first.
    pub call_etcd: CallEtcd,
    /// Calls into tenants.
    pub tenant_calls: Arc<Calls>,
    /// Metrics.
    pub metrics: Metrics,
    /// Failures by (controller, namespace, name).
    pub backoff: Arc<Backoff<ObjectKey>>,
    /// Events.
    pub events: Arc<Events>,
    /// The order in which tenants change their version.
    pub fleet: Arc<Fleet>,
    /// Who uses tenants, and calls those that sleep.
    pub heard: Arc<Heard>,
    /// What was found in tenants that matters to their next minor.
    pub looks: Arc<Looks>,
    /// Who leads in tenants.
    pub leads: Arc<Memory<Leads>>,
    /// What keeps writes in tenants from going through.
    pub admission: Arc<Memory<Admission>>,
    /// Where volumes are of etcds that ask for more than what runs.
    pub(crate) volumes: Arc<Memory<Volumes>>,
    /// Sizes that are asked for, and what is told of them.
    pub sizes: Arc<Sizes>,
    /// What usage was, for sizes.
    pub(crate) size_memory: Arc<SizeMemory>,
    /// Who may do what in tenants.
    pub users: Arc<Users>,
    /// What the platform team alone was told, by object.
    pub told: Arc<Memory<Vec<String>>>,
    /// Objects worked on at once, for each controller.
    pub concurrency: u16,
}

impl std::fmt::Debug for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context").field("settings", &self.settings).finish_non_exhaustive()
    }
}

/// How long a call to the meta cluster may take.
const DEADLINE: Duration = Duration::from_secs(10);

/// An API server's clock that is off by more since it was read last was set.
const CLOCK_SET: SignedDuration = SignedDuration::from_mins(2);

impl Context {
    /// The real thing: tenants and etcds are reached over the network.
    pub fn new(client: &FencedClient, settings: Settings, identity: &str) -> Self {
        let metrics = Metrics::default();
        let heard = Arc::new(Heard::new(settings.hibernation.max_waking));
        let clock = Clock::default();
        let (asked, by) = (heard.clone(), clock.clone());
        metrics.wakes.waiting_from(move || asked.waiting(time(&by)));
        // Until they are read: nobody's policies are made without them.
        let meta = MetaCluster::new(Err("they have not been read yet".into()), &settings);
        Self {
            io: Io::new(client.clone(), metrics.meta_calls.clone(), DEADLINE),
            settings: Arc::new(settings),
            meta: Arc::new(RwLock::new(Arc::new(meta))),
            addresses_changed: watch::Sender::default(),
            denied: Arc::default(),
            clock,
            connect: berth_kubeio::connect(client.fence().clone()),
            ask_etcd: Arc::new(|target| {
                Box::pin(async move { berth_etcdio::probe(&target, berth_etcdio::DEADLINE).await })
            }),
            call_etcd: Arc::new(|target, via, call| {
                Box::pin(async move { berth_etcdio::call(&target, &via, &call).await.map_err(|e| e.to_string()) })
            }),
            tenant_calls: metrics.tenant_calls.clone(),
            events: Arc::new(Events::new(client, identity)),
            metrics,
            backoff: Arc::default(),
            fleet: Arc::default(),
            heard,
            looks: Arc::default(),
            leads: Arc::default(),
            admission: Arc::default(),
            volumes: Arc::default(),
            sizes: Arc::default(),
            size_memory: Arc::default(),
            users: Arc::default(),
            told: Arc::default(),
            concurrency: 32,
        }
    }

    /// What is known of the meta cluster as a whole; a reconcile takes it once.
    pub fn meta(&self) -> Arc<MetaCluster> {
        let mut meta = self.meta.read().clone();
        let denied = self.denied.lasting(Instant::now());
        if !denied.is_empty() {
            Arc::make_mut(&mut meta).denied = Some(berth_kubeio::lacks(&denied));
        }
        meta
    }

    /// Something else is known of it, from the next reconcile on.
    pub fn update_meta(&self, change: impl FnOnce(&mut MetaCluster)) {
        let mut meta = self.meta.write();
        let before = (meta.addresses.clone(), meta.pull_secrets.clone());
        change(Arc::make_mut(&mut meta));
        if (&meta.addresses, &meta.pull_secrets) != (&before.0, &before.1) {
            self.addresses_changed.send_replace(());
        }
    }

    /// An item for each change of the meta cluster's addresses, or of the platform's pull Secrets; one for several that nobody has seen.
    pub(crate) fn address_changes(&self) -> impl Stream<Item = ()> + Send + use<> {
        stream::unfold(self.addresses_changed.subscribe(), async |mut changes| {
            changes.changed().await.ok()?;
            Some(((), changes))
        })
    }

    /// The time that reconciles go by: the API server's, carried on by a clock that nobody sets; this process' own until that is known.
    /// Ages are counted from what the API server wrote down, and of a node whose clock is set a certificate must know nothing.
    pub fn now(&self) -> Timestamp {
        time(&self.clock)
    }

    /// The API server said this time just now. One that its clock was set to is no age of anything.
    pub(crate) fn set_time(&self, time: Timestamp) {
        let is_known = self.clock.read().is_some();
        if is_known && time.duration_since(self.now()).abs() > CLOCK_SET {
            self.update_meta(|meta| meta.clock_set = Some(time));
        }
        *self.clock.write() = Some((Instant::now(), time));
    }

    /// Reconciles these, of which somebody outside of the meta cluster has told something.
    pub(crate) fn rouse(&self, all: Vec<TenantId>) {
        for id in all {
            // Before controllers run nobody listens: their first reconcile sees all.
            let _ = self.fleet.changes.send(id);
        }
    }

    /// A watch, or a read of the meta cluster, failed so; if for lack of a right, statuses will say it.
    pub(crate) fn failed(&self, error: &IoError) {
        if let Some(refusal) = error.denial() {
            self.denied.heard(refusal.to_owned(), Instant::now());
        }
    }
}
