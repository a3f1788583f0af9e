//! A service under kube's `Client` that numbers, records and breaks calls.
//!
//! **Where it sits.** kube ≥ 4 retries 429, 503 and 504 by itself (`RetryPolicy::server_retry`, up to 15 times, honouring
//! `Retry-After`) unless `Config::default_retry` is false. [`FaultPlan::client`] puts the fault service *below* that
//! policy: every attempt is a call with a number of its own, and an injected 429 is answered by kube exactly as one
//! from a real server would be. Faults that are transport errors are never retried by kube. With
//! `default_retry: false` the policy is left out here too. The connection below the fault service never retries.
//!
//! **Numbers.** Creates, updates, patches and deletes are numbered from 1 over all clients of a plan; reads, dry runs,
//! reviews and token requests are recorded without a number. What a [`Caller`] asks of others, such as an etcd, is numbered with them.
//!
//! **Lives.** A stop is the operator's crash: from then on nothing that any client of this life sends gets out, and
//! nothing comes back, open watches included. [`FaultPlan::stopped`] tells the test, which drops the operator, calls
//! [`FaultPlan::restart`] and makes a new client for the next life. Clients of an earlier life hang for ever, so that
//! a task that outlived the crash does no harm.

mod call;
mod outside;
mod service;
mod stale;
mod watch;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kube::client::retry::RetryPolicy;
use kube::{Client, Config};
use tokio::sync::watch as channel;
use tower::retry::RetryLayer;

pub use call::{Call, Verb};
pub use outside::Caller;
pub use service::FaultService;
pub use watch::WatchEvent;

/// What happens to one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A transport error; nothing was sent.
    FailBefore,
    /// The server answered (and committed); the client gets a transport error.
    LoseReply,
    /// The operator stops before the call is sent.
    StopBefore,
    /// The operator stops after the server has answered, without having seen the answer.
    StopAfter,
    /// The server answers with this status; nothing is stored.
    Status {
        /// HTTP status: 403, 409, 429, 500, 503, …
        code: u16,
        /// `Retry-After` in seconds.
        retry_after: Option<u32>,
    },
    /// The call is sent after this time.
    Delay(Duration),
    /// The client gets a transport error at once, and the call is sent after this time nevertheless.
    Late(Duration),
    /// The call is never answered nor sent; others are.
    Hang,
}

impl Fault {
    /// A status without `Retry-After`.
    pub fn status(code: u16) -> Self {
        Self::Status { code, retry_after: None }
    }
}

pub(crate) type Predicate<T> = Arc<dyn Fn(&T) -> bool + Send + Sync>;

struct Rule {
    matches: Predicate<Call>,
    fault: Fault,
    remaining: usize,
}

/// The shared handle: what shall happen, and what has happened. Clones are the same plan.
#[derive(Clone)]
pub struct FaultPlan {
    state: Arc<Mutex<State>>,
    /// How many lives have ended.
    ended: channel::Sender<usize>,
    /// Moves when open watches have to check their rules again.
    kick: channel::Sender<usize>,
}

struct State {
    life: usize,
    mutations: usize,
    calls: Vec<Call>,
    at: BTreeMap<usize, Fault>,
    rules: Vec<Rule>,
    watches: watch::Rules,
    travel: Option<stale::Travel>,
    /// Held by each call, watches apart, that the server has and has not answered.
    sent: Arc<()>,
}

impl Default for FaultPlan {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for FaultPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.lock();
        f.debug_struct("FaultPlan")
            .field("life", &state.life)
            .field("mutations", &state.mutations)
            .field("at", &state.at)
            .finish_non_exhaustive()
    }
}

impl FaultPlan {
    /// A plan that breaks nothing and records everything.
    pub fn new() -> Self {
        let state = State {
            life: 1,
            mutations: 0,
            calls: Vec::new(),
            at: BTreeMap::new(),
            rules: Vec::new(),
            watches: watch::Rules::default(),
            travel: None,
            sent: Arc::default(),
        };
        Self { state: Arc::new(Mutex::new(state)), ended: channel::Sender::new(0), kick: channel::Sender::new(0) }
    }

    /// A client of the present life. Call it within the runtime that uses it.
    ///
    /// # Panics
    /// If the configuration makes no client.
    pub fn client(&self, config: Config) -> Client {
        let (namespace, retry) = (config.default_namespace.clone(), config.default_retry);
        let service = self.service(config);
        if retry {
            let layer = RetryLayer::new(RetryPolicy::server_retry());
            Client::new(tower::Layer::layer(&layer, service), namespace)
        } else {
            Client::new(service, namespace)
        }
    }

    /// The service alone, for code that puts layers of its own (deadlines, retries, metrics) above it.
    ///
    /// # Panics
    /// If the configuration makes no client.
    pub fn service(&self, mut config: Config) -> FaultService {
        config.default_retry = false;
        let inner = Client::try_from(config);
        FaultService::new(inner.unwrap_or_else(|e| panic!("client under test: {e}")), self.clone())
    }

    /// Breaks the `k`th mutating call (from 1), once.
    pub fn at(&self, k: usize, fault: Fault) {
        self.lock().at.insert(k, fault);
    }

    /// Breaks every call that matches, reads included, until [`FaultPlan::clear`].
    pub fn when(&self, matches: impl Fn(&Call) -> bool + Send + Sync + 'static, fault: Fault) {
        self.when_times(usize::MAX, matches, fault);
    }

    /// Breaks the next `times` calls that match.
    pub fn when_times(&self, times: usize, matches: impl Fn(&Call) -> bool + Send + Sync + 'static, fault: Fault) {
        self.lock().rules.push(Rule { matches: Arc::new(matches), fault, remaining: times });
    }

    /// Forgets all faults that have not happened; held watches go on. The log and the numbers stay.
    pub fn clear(&self) {
        {
            let mut state = self.lock();
            state.at.clear();
            state.rules.clear();
            state.watches.clear();
            state.travel = None;
        }
        self.kick.send_modify(|n| *n += 1);
    }

    /// Stops the present life now, whatever it is doing.
    pub fn stop(&self) {
        let life = self.lock().life;
        self.end(life);
    }

    /// Waits until the present life is stopped.
    pub async fn stopped(&self) {
        let life = self.lock().life;
        // The sender lives as long as `self`.
        let _ = self.ended.subscribe().wait_for(|ended| *ended >= life).await;
    }

    /// Whether the present life is stopped.
    pub fn is_stopped(&self) -> bool {
        *self.ended.borrow() >= self.lock().life
    }

    /// Begins the next life: clients made from now on work, those of earlier lives hang.
    pub fn restart(&self) {
        self.stop();
        self.lock().life += 1;
    }

    /// All calls so far, in the order in which they were made.
    pub fn calls(&self) -> Vec<Call> {
        self.lock().calls.clone()
    }

    /// Those after so many: cheap where there were many before.
    pub fn calls_after(&self, mark: usize) -> Vec<Call> {
        self.lock().calls[mark..].to_vec()
    }

    /// How many mutating calls were made so far.
    pub fn mutations(&self) -> usize {
        self.lock().mutations
    }

    /// How many calls were made so far, reads included; `None` while one is delayed, or the server has one, watches apart,
    /// and has not answered it.
    pub fn at_rest(&self) -> Option<usize> {
        let state = self.lock();
        (Arc::strong_count(&state.sent) == 1).then_some(state.calls.len())
    }

    /// Numbers count from here again, and the log is empty. For a workload with preparations.
    pub fn reset_log(&self) {
        let mut state = self.lock();
        state.calls.clear();
        state.mutations = 0;
        state.watches.reset_events();
    }

    fn end(&self, life: usize) {
        self.ended.send_modify(|ended| *ended = life.max(*ended));
    }

    fn begin(&self, mut call: Call, life: usize) -> (Call, Option<Fault>) {
        let mut state = self.lock();
        call.seq = state.calls.len() + 1;
        call.life = life;
        if call.counts() {
            state.mutations += 1;
            call.mutation = Some(state.mutations);
        }
        let planned = call.mutation.and_then(|k| state.at.remove(&k));
        let fault = planned.or_else(|| {
            let rule = state.rules.iter_mut().find(|r| r.remaining > 0 && (r.matches)(&call))?;
            rule.remaining -= 1;
            Some(rule.fault.clone())
        });
        call.fault = fault.as_ref().map(|f| format!("{f:?}"));
        state.calls.push(call.clone());
        (call, fault)
    }

    fn sent(&self) -> Arc<()> {
        self.lock().sent.clone()
    }

    fn answered(&self, seq: usize, code: u16) {
        // The log may have been reset meanwhile.
        if let Some(call) = self.lock().calls.get_mut(seq - 1).filter(|c| c.seq == seq) {
            call.code = Some(code);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
