//! The whole operator in this process, against a real kube-apiserver and etcd, with the testkit's world for everything
//! else: controllers, kubelets, load balancers. Tenants' APIs are the same server, each with names of its own.
#![allow(dead_code, reason = "every test binary uses a part of it")]
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "clients of others than the operator")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a harness fails by panicking with a message")]

pub(crate) mod canary;
pub(crate) mod etcd;
pub(crate) mod log;
pub(crate) mod roles;
pub(crate) mod state;
pub(crate) mod team;
pub(crate) mod tenant;
mod told;

use anyhow::Result;
use berth_api::backup::Store;
use berth_fence::{Fence, FencedClient};
use berth_operator::{Context, metrics::Metrics, run, run::wait_for_crds};
use berth_plan::Settings;
use berth_plan::meta_cluster::addresses::MetaRanges;
use berth_plan::settings::{AllowedAccess, BackupStore, Backups, Gateway, VpcSettings, Writers};
use berth_testkit::{ApiServer, FaultPlan, World, fixtures::until, world::Fate};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use std::sync::{Arc, LazyLock};
use std::time::Duration;
use tokio::sync::{Mutex, MutexGuard, OnceCell};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub(crate) use team::Team;

/// How long anything may take that is expected to happen: other builds may have the machine.
pub(crate) const SOON: Duration = Duration::from_mins(3);

/// Whether everything is wanted, and not the sample of `make test`.
pub(crate) fn full() -> bool {
    std::env::var("BERTH_SWEEP").as_deref() == Ok("full")
}

/// Where the Secret of [`backups`] is.
pub(crate) const SYSTEM: &str = "berth-system";

/// One store of the platform, `main`, which nobody dials: the test is the Jobs.
pub(crate) fn backups(prefix: &str) -> Backups {
    let store = Store {
        endpoint: "http://10.9.9.9:9000".into(),
        bucket: "b".into(),
        region: "r".into(),
        path_style: true,
        ..Store::default()
    };
    let store =
        BackupStore { name: "main".into(), store, prefix: prefix.into(), secret: "s3".into(), namespaces: vec![] };
    Backups { image: "backup:1".into(), namespace: SYSTEM.into(), stores: vec![store], ..Backups::default() }
}

/// Berth's CustomResourceDefinitions. Through JSON: versions of the two crates' types may differ in features.
pub(crate) fn crds() -> Vec<CustomResourceDefinition> {
    berth_api::crds::all()
}

/// The server of this program, with Berth's CRDs and a world that lasts as long as the program.
pub(crate) async fn server() -> &'static ApiServer {
    static READY: OnceCell<()> = OnceCell::const_new();
    let server = ApiServer::shared().await;
    READY
        .get_or_init(|| async {
            server.install_crds(&crds()).await.expect("CRDs");
            world(server).await;
        })
        .await;
    server
}

/// Runs a world for a server of the whole binary: on a thread of its own, since each test has a runtime of its own.
async fn world(server: &'static ApiServer) {
    let (ready, listed) = tokio::sync::oneshot::channel();
    background(async move {
        let world = World::builder(server.client()).fate(fate).start().await.expect("world");
        let _ = ready.send(());
        std::future::pending::<()>().await;
        drop(world);
    });
    listed.await.expect("the world started");
}

/// A pod labelled so has that fate; all others run well.
pub(crate) const FATE: &str = "test.berth.dev/fate";

/// A pod with this flag never comes up.
pub(crate) const CRASHES: &str = "test-crash";

/// Tenants with such names never come up with [`POISON`].
pub(crate) const POISONED: &str = "poisoned";

/// A version that some do not get along with.
pub(crate) const POISON: &str = "1.36.3";

fn fate(pod: &serde_json::Value) -> Fate {
    let labels = &pod["metadata"]["labels"];
    let poisoned = labels[berth_api::labels::CLUSTER_NAME].as_str().is_some_and(|name| name.starts_with(POISONED));
    if poisoned && labels[berth_api::labels::VERSION].as_str().is_some_and(|version| version == POISON) {
        return Fate::CrashLoop;
    }
    let containers = pod["spec"]["containers"].as_array();
    let mut args = containers.into_iter().flatten().filter_map(|c| c["args"].as_array()).flatten();
    if args.any(|arg| arg.as_str().is_some_and(|arg| arg.contains(CRASHES))) {
        return Fate::CrashLoop;
    }
    match pod["metadata"]["annotations"][FATE].as_str() {
        Some("pending") => Fate::Pending,
        Some("crash") => Fate::CrashLoop,
        Some("lost") => Fate::Lost,
        Some("image") => Fate::ImagePullBackOff,
        _ => Fate::Ready,
    }
}

/// Runs something for the rest of the test binary's life.
pub(crate) fn background(work: impl Future<Output = ()> + Send + 'static) {
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("runtime");
        runtime.block_on(work);
    });
}

/// An operator works on every `Cluster` that it sees: tests with operators of their own take turns.
pub(crate) async fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::const_new(());
    TURN.lock().await
}

/// Servers of [`alone_at_a_server`]: tests wait for most of their time.
const SERVERS: usize = 3;

/// A test's turn at a server. What a test that failed left there would fail those after it: they get another server.
pub(crate) struct Turn(MutexGuard<'static, Option<&'static ApiServer>>);

impl Drop for Turn {
    fn drop(&mut self) {
        if std::thread::panicking()
            && let Some(server) = self.0.take()
        {
            server.stop_apiserver();
        }
    }
}

/// Waits for a server at which no other test has an operator.
pub(crate) async fn alone_at_a_server() -> (Turn, &'static ApiServer) {
    static SERVER: [Mutex<Option<&'static ApiServer>>; SERVERS] = [const { Mutex::const_new(None) }; SERVERS];
    let mut turn = tokio::select! {
        biased;
        turn = SERVER[0].lock() => turn,
        turn = SERVER[1].lock() => turn,
        turn = SERVER[2].lock() => turn,
    };
    let server = match *turn {
        Some(server) => server,
        None => one_more().await,
    };
    *turn = Some(server);
    (Turn(turn), server)
}

async fn one_more() -> &'static ApiServer {
    let server: &'static ApiServer = Box::leak(Box::new(ApiServer::start().await.expect("server")));
    server.install_crds(&crds()).await.expect("CRDs");
    world(server).await;
    server
}

/// The domain of the platform's gateway.
pub(crate) const GATEWAY: &str = "gw.berth.example";

/// What the operator under test is configured with.
pub(crate) fn settings() -> Settings {
    let vpc = VpcSettings { pods_are_held: true, ..VpcSettings::default() };
    let account = ("berth-system".into(), "berth-operator".into());
    let (node_ports, hosts) = (vec!["31900-31909".to_owned()], vec!["*.acme.example".to_owned()]);
    let roles = ["Viewer", "Editor", "Admin", "auditor*"].map(str::to_owned).into();
    let access = vec![AllowedAccess { namespaces: vec!["*".to_owned()], roles }];
    let writers = Writers { node_ports, hosts, access, ..Writers::default() };
    let gateway = Some(Gateway { domain: GATEWAY.to_owned(), port: 8443, named_port: 8444, ..Gateway::default() });
    Settings { service_account: Some(account), vpc, gateway, writers, ..Settings::default() }
}

/// An operator's context whose calls to the meta cluster and into tenants all go through the plan.
pub(crate) fn context(server: &ApiServer, config: kube::Config, plan: &FaultPlan) -> Context {
    let client = plan.client(config);
    let mut context = Context::new(&FencedClient::new(client, Fence::open()), settings(), "test");
    context.update_meta(|m| m.addresses = Ok(MetaRanges::default()));
    context.connect = tenant::connect(server.client(), plan.client(me(server)));
    context.ask_etcd = Arc::new(|target| Box::pin(async move { etcd::ask(&target) }));
    context.call_etcd = Arc::new(|target, _, what| Box::pin(async move { etcd::call(&target, &what) }));
    context
}

/// One life of an operator, until it is dropped.
pub(crate) async fn operator(server: &ApiServer, plan: &FaultPlan) -> Result<()> {
    run(Arc::new(context(server, me(server), plan)), CancellationToken::new()).await;
    Ok(())
}

/// The operator's user name in the audit log.
pub(crate) const OPERATOR: &str = "berth-operator";

/// The operator with every right there is.
pub(crate) fn me(server: &ApiServer) -> kube::Config {
    server.config_as(OPERATOR, &["system:masters"])
}

/// An operator that runs beside the test until it is dropped.
#[derive(Debug)]
pub(crate) struct Running {
    /// `Cluster`s that it works on at once.
    pub(crate) concurrency: u16,
    metrics: Metrics,
    plan: FaultPlan,
    task: JoinHandle<Result<()>>,
}

impl Running {
    /// The next life of the plan: whatever ran before is dead.
    pub(crate) fn start(server: &'static ApiServer, plan: &FaultPlan) -> Self {
        Self::start_as(server, me(server), plan)
    }

    /// Likewise, as somebody else.
    pub(crate) fn start_as(server: &'static ApiServer, config: kube::Config, plan: &FaultPlan) -> Self {
        Self::start_changed(server, config, plan, |_| {})
    }

    /// Likewise, configured otherwise.
    pub(crate) fn start_with(server: &'static ApiServer, settings: Settings, plan: &FaultPlan) -> Self {
        Self::start_changed(server, me(server), plan, |context| {
            context.update_meta(|m| m.may_change = settings.may_change.clone().into());
            context.settings = settings.into();
        })
    }

    /// Likewise, with something changed in its context.
    pub(crate) fn start_changed(
        server: &'static ApiServer,
        config: kube::Config,
        plan: &FaultPlan,
        change: impl FnOnce(&mut Context),
    ) -> Self {
        plan.restart();
        let mut context = context(server, config, plan);
        change(&mut context);
        let (concurrency, metrics) = (context.concurrency, context.metrics.clone());
        let context = Arc::new(context);
        let work = async move {
            wait_for_crds(&context).await;
            run(context, CancellationToken::new()).await;
            Ok(())
        };
        Self { concurrency, metrics, plan: plan.clone(), task: tokio::spawn(work) }
    }

    /// What Prometheus would read.
    pub(crate) fn metrics(&self) -> String {
        self.metrics.text()
    }

    /// Waits until so many reconciles of `cluster` or `etcdcluster` have ended in this life, however they ended.
    pub(crate) async fn reconciled(&self, controller: &str, times: u64) {
        let of = format!("berth_reconcile_total{{controller=\"{controller}\",");
        let what = format!("{times} reconciles by {controller}");
        until(SOON, &what, async || {
            let text = self.metrics.text();
            let counts = text.lines().filter_map(|l| l.strip_prefix(&of)?.split_once("} ")?.1.parse::<u64>().ok());
            counts.sum::<u64>() >= times
        })
        .await;
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.plan.stop();
        self.task.abort();
    }
}

/// What [`shared_operator`] calls, for all tests.
pub(crate) static SHARED_CALLS: LazyLock<FaultPlan> = LazyLock::new(FaultPlan::new);

/// What [`shared_operator`] logs, for all tests.
pub(crate) static SHARED_LOG: LazyLock<log::Log> = LazyLock::new(log::Log::default);

/// One operator for all tests of a binary that get along with each other.
pub(crate) async fn shared_operator() -> &'static ApiServer {
    static READY: OnceCell<()> = OnceCell::const_new();
    let server = server().await;
    let start = async || {
        background(async move {
            let _guard = SHARED_LOG.listen_for_all();
            operator(server, &SHARED_CALLS).await.expect("the operator");
        });
    };
    READY.get_or_init(start).await;
    server
}

/// A server of one's own with these CRDs, and its world: for tests that must not meet others.
pub(crate) async fn operator_world(crds: &[CustomResourceDefinition]) -> (&'static ApiServer, World) {
    let server: &'static ApiServer = Box::leak(Box::new(ApiServer::start().await.expect("server")));
    server.install_crds(crds).await.expect("CRDs");
    let world = World::builder(server.client()).fate(fate).start().await.expect("world");
    (server, world)
}
