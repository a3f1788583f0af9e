//! A tenant while this gateway runs: its API servers, and the connections to them.

use berth_contract::gateway::{ClusterName, Hibernates};
use berth_contract::vpc::Cidr;
use berth_edge::rate::quota;
use governor::{DefaultDirectRateLimiter, RateLimiter};
use parking_lot::Mutex;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::choose::{Candidate, choose};
use crate::counts::Traffic;
use crate::ended::Ended;
use crate::facts::Endpoint;
use crate::idle::Uses;
use crate::limits::Limits;
use crate::table::Route;

/// How long one that answers is taken as ready without being listed so: probes come each second, and lists after them.
const EARLY: Duration = Duration::from_secs(10);

/// One of them.
#[derive(Debug)]
pub(crate) struct Tenant {
    pub(crate) cluster: ClusterName,
    /// It has rows of its own among the metrics.
    pub(crate) has_row: bool,
    pub(crate) traffic: Traffic,
    /// What all tenants are counted in that have no row, or are gone.
    others: Arc<Traffic>,
    /// From where clients may come. None: from everywhere.
    ranges: watch::Sender<Option<Vec<Cidr>>>,
    rate: OnceLock<DefaultDirectRateLimiter>,
    state: Mutex<State>,
    /// Who uses it.
    pub(crate) uses: Arc<Uses>,
    /// It is told whenever something about it may have changed.
    changes: watch::Sender<()>,
    /// Held by who looks for an API server of it that answers before it is listed as ready.
    pub(crate) looks: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct State {
    max_connections: Option<u32>,
    hibernation: Option<Hibernates>,
    servers: Vec<Arc<Server>>,
    turn: usize,
}

/// An API server.
#[derive(Debug)]
struct Server {
    address: SocketAddr,
    pod: String,
    is_ready: AtomicBool,
    /// It starts, and may answer before it is listed as ready. False for ever once it was, or is to end.
    starts: AtomicBool,
    /// It starts and was seen to answer, so that until then it is taken as ready.
    answers_until: Mutex<Option<Instant>>,
    open: AtomicUsize,
    /// Until then it is not tried, since it did not take a connection. None: it did.
    rests: Mutex<Option<Instant>>,
    gone: CancellationToken,
}

impl Tenant {
    pub(crate) fn new(cluster: ClusterName, has_row: bool, others: Arc<Traffic>) -> Self {
        let (ranges, changes) = (watch::Sender::new(None), watch::Sender::new(()));
        let (traffic, rate) = (Traffic::default(), OnceLock::new());
        let (state, uses, looks) = (Mutex::default(), Arc::default(), tokio::sync::Mutex::default());
        Self { cluster, has_row, traffic, others, ranges, rate, state, uses, changes, looks }
    }

    /// What is so from now on. Connections that are open stay as they are, but for those to API servers that are gone, and those from where none
    /// may come any more.
    pub(crate) fn update(&self, route: &Route) {
        let mut state = self.state.lock();
        self.ranges.send_if_modified(|ranges| {
            let is_other = *ranges != route.source_ranges;
            ranges.clone_from(&route.source_ranges);
            is_other
        });
        state.max_connections = route.max_connections;
        state.hibernation.clone_from(&route.hibernation);
        let mut before = std::mem::take(&mut state.servers);
        for endpoint in &route.endpoints {
            let known = before.iter().position(|server| server.is(endpoint)).map(|at| before.swap_remove(at));
            state.servers.push(Server::of(endpoint, known));
        }
        drop(state);
        self.changes.send_replace(());
        for server in &before {
            server.gone.cancel();
        }
    }

    /// It is gone, and so is all that is open to it.
    pub(crate) fn end(&self) {
        let State { servers, .. } = std::mem::take(&mut *self.state.lock());
        self.changes.send_replace(());
        for server in &servers {
            server.gone.cancel();
        }
    }

    /// Whether a connection from there wakes it.
    pub(crate) fn wakes_for(&self, client: IpAddr) -> bool {
        let state = self.state.lock();
        state.hibernation.as_ref().is_some_and(|of| of.wakes && is_from(of.from.as_ref(), client))
    }

    /// API servers that start.
    pub(crate) fn starting(&self) -> Vec<SocketAddr> {
        let state = self.state.lock();
        let starts = state.servers.iter().filter(|server| server.starts.load(Relaxed));
        starts.map(|server| server.address).collect()
    }

    /// One that starts answers, and is taken as ready for a moment, in which it gets listed so.
    pub(crate) fn answers_early(&self, address: SocketAddr) {
        let state = self.state.lock();
        if let Some(server) = state.servers.iter().find(|server| server.address == address) {
            *server.answers_until.lock() = Some(Instant::now() + EARLY);
        }
        drop(state);
        self.changes.send_replace(());
    }

    /// Changes whenever something about it may have.
    pub(crate) fn changes(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }

    /// Lets a client in, unless it may not come. A tenant has at most what the gateway allows each.
    pub(crate) fn admit(self: &Arc<Self>, client: IpAddr, limits: &Limits) -> Result<Admitted, Ended> {
        if !is_from(self.ranges.borrow().as_ref(), client) {
            return Err(Ended::SourceRefused);
        }
        let state = self.state.lock();
        let most = state.max_connections.unwrap_or(u32::MAX).min(limits.connections);
        // Both are under the lock: no two take the last place.
        if self.traffic.open.load(Relaxed) >= u64::from(most) {
            return Err(Ended::TooMany);
        }
        let rate = self.rate.get_or_init(|| RateLimiter::direct(quota(limits.rate)));
        rate.check().map_err(|_| Ended::TooFast)?;
        self.traffic.open.fetch_add(1, Relaxed);
        self.traffic.opened.fetch_add(1, Relaxed);
        Ok(Admitted { tenant: self.clone(), client })
    }

    /// The API server for the next connection, counted as one of its own until the lease ends. One that did not take the last connection is tried
    /// by this one alone for as long as its patience lasts.
    pub(crate) fn pick(&self, tried: &[SocketAddr], now: Instant, patience: Duration) -> Result<Lease, Ended> {
        let mut state = self.state.lock();
        if state.hibernation.as_ref().is_some_and(|of| of.closed) {
            return Err(Ended::NoApiServer);
        }
        let candidate = |server: &Arc<Server>| Candidate {
            is_fit: server.is_fit(now)
                && !tried.contains(&server.address)
                && server.rests.lock().is_none_or(|until| until <= now),
            open: server.open.load(Relaxed),
        };
        let candidates: Vec<_> = state.servers.iter().map(candidate).collect();
        let Some(at) = choose(&candidates, state.turn) else {
            let some_are_ready = state.servers.iter().any(|server| server.is_fit(now));
            return Err(if some_are_ready { Ended::Unreachable } else { Ended::NoApiServer });
        };
        state.turn = at + 1;
        let server = &state.servers[at];
        if let Some(until) = server.rests.lock().as_mut() {
            *until = now + patience;
        }
        Ok(Lease::of(server))
    }
}

impl Drop for Tenant {
    fn drop(&mut self) {
        self.others.add(&self.traffic);
    }
}

impl Server {
    fn is(&self, endpoint: &Endpoint) -> bool {
        (self.address, &self.pod) == (endpoint.address, &endpoint.pod)
    }

    fn is_fit(&self, now: Instant) -> bool {
        self.is_ready.load(Relaxed) || self.answers_until.lock().is_some_and(|until| now < until)
    }

    /// As it is listed now; its connections are those of the one that was known.
    fn of(endpoint: &Endpoint, known: Option<Arc<Self>>) -> Arc<Self> {
        let new = || Self {
            address: endpoint.address,
            pod: endpoint.pod.clone(),
            is_ready: AtomicBool::default(),
            starts: AtomicBool::new(true),
            answers_until: Mutex::default(),
            open: AtomicUsize::default(),
            rests: Mutex::default(),
            gone: CancellationToken::new(),
        };
        let server = known.unwrap_or_else(|| Arc::new(new()));
        server.is_ready.store(endpoint.is_ready, Relaxed);
        if endpoint.is_ready || endpoint.ends {
            server.starts.store(false, Relaxed);
            *server.answers_until.lock() = None;
        }
        server
    }
}

/// None: from everywhere.
fn is_from(ranges: Option<&Vec<Cidr>>, client: IpAddr) -> bool {
    ranges.is_none_or(|ranges| ranges.iter().any(|range| range.contains(client)))
}

/// A connection that counts as the tenant's until this is dropped.
#[derive(Debug)]
pub(crate) struct Admitted {
    tenant: Arc<Tenant>,
    client: IpAddr,
}

impl Admitted {
    /// Until the client is from where none may come any more.
    pub(crate) async fn refused(&self) {
        let mut ranges = self.tenant.ranges.subscribe();
        // The sender is the tenant's, and so there.
        let _ = ranges.wait_for(|ranges| !is_from(ranges.as_ref(), self.client)).await;
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        self.tenant.traffic.open.fetch_sub(1, Relaxed);
    }
}

/// A connection to an API server, until this is dropped.
#[derive(Debug)]
pub(crate) struct Lease(Arc<Server>);

impl Lease {
    fn of(server: &Arc<Server>) -> Self {
        server.open.fetch_add(1, Relaxed);
        Self(server.clone())
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.0.address
    }

    /// The API server takes connections.
    pub(crate) fn answers(&self) {
        *self.0.rests.lock() = None;
    }

    /// It does not, and is not tried until then.
    pub(crate) fn rests(&self, until: Instant) {
        *self.0.rests.lock() = Some(until);
    }

    /// Until the API server is no longer one of the tenant's.
    pub(crate) async fn gone(&self) {
        self.0.gone.cancelled().await;
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::tests::limits;
    use futures::FutureExt as _;

    pub(crate) const PATIENCE: Duration = Duration::from_secs(3);
    const FROM: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 1, 2, 3));

    /// Where each is listed: address, pod, and whether it is ready.
    pub(crate) fn route(name: &str, endpoints: &[(&str, &str, bool)]) -> Route {
        let at = |(address, pod, is_ready): &(&str, &str, bool)| Endpoint {
            address: address.parse().unwrap(),
            pod: (*pod).to_owned(),
            is_ready: *is_ready,
            ends: false,
        };
        Route {
            cluster: ClusterName { namespace: "team-a".to_owned(), name: name.to_owned() },
            names: vec![format!("{name}.example.com")],
            source_ranges: None,
            max_connections: None,
            hibernation: None,
            endpoints: endpoints.iter().map(at).collect(),
        }
    }

    fn tenant(route: &Route) -> Arc<Tenant> {
        let tenant = Tenant::new(route.cluster.clone(), true, Arc::default());
        tenant.update(route);
        Arc::new(tenant)
    }

    fn is_gone(lease: &Lease) -> bool {
        lease.gone().now_or_never().is_some()
    }

    #[test]
    fn connections_are_spread_and_come_back_when_they_end() {
        let tenant = tenant(&route("acme", &[("10.0.0.1:1", "a", true), ("10.0.0.2:1", "b", true)]));
        let mut leases: Vec<_> = (0..4).map(|_| tenant.pick(&[], Instant::now(), PATIENCE).unwrap()).collect();
        let to = |leases: &[Lease]| leases.iter().map(|lease| lease.address().ip().to_string()).collect::<Vec<_>>();
        assert_eq!(to(&leases), ["10.0.0.1", "10.0.0.2", "10.0.0.1", "10.0.0.2"]);
        leases.retain(|lease| lease.address().ip().to_string() == "10.0.0.2");
        let next: Vec<_> = (0..2).map(|_| tenant.pick(&[], Instant::now(), PATIENCE).unwrap()).collect();
        assert_eq!(to(&next), ["10.0.0.1", "10.0.0.1"]);
        let other = tenant.pick(&[next[0].address()], Instant::now(), PATIENCE).unwrap();
        assert_eq!(to(&[other]), ["10.0.0.2"], "the other was tried");
        let both = ["10.0.0.1:1".parse().unwrap(), "10.0.0.2:1".parse().unwrap()];
        assert_eq!(tenant.pick(&both, Instant::now(), PATIENCE).unwrap_err(), Ended::Unreachable);
    }

    #[test]
    fn one_that_gets_unready_keeps_what_it_has_and_one_that_is_gone_does_not() {
        let tenant = tenant(&route("acme", &[("10.0.0.1:1", "a", true), ("10.0.0.2:1", "b", true)]));
        let (first, second) =
            (tenant.pick(&[], Instant::now(), PATIENCE).unwrap(), tenant.pick(&[], Instant::now(), PATIENCE).unwrap());
        tenant.update(&route("acme", &[("10.0.0.2:1", "b", true), ("10.0.0.1:1", "a", false)]));
        assert!(!is_gone(&first) && !is_gone(&second));
        let third = tenant.pick(&[], Instant::now(), PATIENCE).unwrap();
        assert_eq!(third.address(), second.address(), "although it has more");
        tenant.update(&route("acme", &[("10.0.0.1:1", "a", true)]));
        assert!(!is_gone(&first) && is_gone(&second) && is_gone(&third));
        // Another pod has its address.
        tenant.update(&route("acme", &[("10.0.0.1:1", "c", true)]));
        assert!(is_gone(&first));
        let next = tenant.pick(&[], Instant::now(), PATIENCE).unwrap();
        assert!(!is_gone(&next) && next.address() == first.address());
        tenant.end();
        assert!(is_gone(&next) && tenant.pick(&[], Instant::now(), PATIENCE).is_err());
    }

    #[test]
    fn who_may_come_and_how_many() {
        let mut route = route("acme", &[]);
        let tenant = tenant(&route);
        let limits = Limits { connections: 3, ..limits() };
        route.max_connections = Some(2);
        tenant.update(&route);
        let (one, two) = (tenant.admit(FROM, &limits).unwrap(), tenant.admit(FROM, &limits).unwrap());
        assert_eq!(tenant.admit(FROM, &limits).unwrap_err(), Ended::TooMany, "its own limit");
        drop(one);
        let _again = tenant.admit(FROM, &limits).unwrap();
        route.max_connections = Some(9);
        route.source_ranges = Some(vec!["10.1.0.0/16".parse().unwrap(), "2001:db8::/32".parse().unwrap()]);
        tenant.update(&route);
        let third = tenant.admit("2001:db8::1".parse().unwrap(), &limits).unwrap();
        assert_eq!(tenant.admit(FROM, &limits).unwrap_err(), Ended::TooMany, "the gateway's limit");
        for other in ["10.2.0.1", "2001:db9::1", "::ffff:10.1.0.1"] {
            assert_eq!(tenant.admit(other.parse().unwrap(), &limits).unwrap_err(), Ended::SourceRefused, "{other}");
        }
        let is_refused = |admitted: &Admitted| admitted.refused().now_or_never().is_some();
        assert!(!is_refused(&two) && !is_refused(&third));
        route.source_ranges = Some(vec!["2001:db8::/32".parse().unwrap()]);
        tenant.update(&route);
        assert!(is_refused(&two) && !is_refused(&third), "who is in has to go");
        route.source_ranges = Some(vec![]);
        tenant.update(&route);
        assert_eq!(tenant.admit(FROM, &limits).unwrap_err(), Ended::SourceRefused, "nobody");
        let sum = tenant.traffic.sum();
        assert_eq!((sum.open, sum.opened), (3, 4));
    }

    #[test]
    fn more_at_once_than_may_come_are_refused() {
        let tenant = tenant(&route("acme", &[]));
        let limits = Limits { rate: 2.try_into().unwrap(), ..limits() };
        for _ in 0..4 {
            drop(tenant.admit(FROM, &limits).unwrap());
        }
        assert_eq!(tenant.admit(FROM, &limits).unwrap_err(), Ended::TooFast);
    }

    #[test]
    fn one_that_does_not_answer_is_tried_by_one_alone_after_a_while() {
        let tenant = tenant(&route("acme", &[("10.0.0.1:1", "a", true)]));
        let now = Instant::now();
        let after = |millis| now + Duration::from_millis(millis);
        let lease = tenant.pick(&[], now, PATIENCE).unwrap();
        let _at_once = tenant.pick(&[], now, PATIENCE).expect("nothing is known yet");
        lease.rests(after(1000));
        assert_eq!(tenant.pick(&[], after(999), PATIENCE).unwrap_err(), Ended::Unreachable);
        let trial = tenant.pick(&[], after(1000), PATIENCE).unwrap();
        assert_eq!(tenant.pick(&[], after(3999), PATIENCE).unwrap_err(), Ended::Unreachable, "one is trying");
        trial.answers();
        assert!(tenant.pick(&[], after(1001), PATIENCE).is_ok());
        tenant.update(&route("acme", &[("10.0.0.1:1", "a", false)]));
        assert_eq!(tenant.pick(&[], after(1001), PATIENCE).unwrap_err(), Ended::NoApiServer);
    }
}
