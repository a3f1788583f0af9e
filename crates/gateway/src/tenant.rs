//! A tenant while this gateway runs: its API servers, and the connections to them.

use berth_contract::gateway::ClusterName;
use berth_contract::vpc::Cidr;
use parking_lot::Mutex;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use tokio_util::sync::CancellationToken;

use crate::choose::{Candidate, choose};
use crate::counts::Traffic;
use crate::ended::Ended;
use crate::facts::Endpoint;
use crate::table::Route;

/// One of them.
#[derive(Debug)]
pub(crate) struct Tenant {
    pub(crate) cluster: ClusterName,
    /// It has rows of its own among the metrics.
    pub(crate) has_row: bool,
    pub(crate) traffic: Traffic,
    /// What all tenants are counted in that have no row, or are gone.
    others: Arc<Traffic>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    source_ranges: Option<Vec<Cidr>>,
    max_connections: Option<u32>,
    servers: Vec<Arc<Server>>,
    turn: usize,
}

/// An API server.
#[derive(Debug)]
struct Server {
    address: SocketAddr,
    pod: String,
    is_ready: AtomicBool,
    open: AtomicUsize,
    gone: CancellationToken,
}

impl Tenant {
    pub(crate) fn new(cluster: ClusterName, has_row: bool, others: Arc<Traffic>) -> Self {
        Self { cluster, has_row, traffic: Traffic::default(), others, state: Mutex::default() }
    }

    /// What is so from now on. Connections that are open stay as they are, but for those to API servers that are gone.
    pub(crate) fn update(&self, route: &Route) {
        let mut state = self.state.lock();
        state.source_ranges.clone_from(&route.source_ranges);
        state.max_connections = route.max_connections;
        let mut before = std::mem::take(&mut state.servers);
        for endpoint in &route.endpoints {
            let known = before.iter().position(|server| server.is(endpoint)).map(|at| before.swap_remove(at));
            state.servers.push(Server::of(endpoint, known));
        }
        drop(state);
        for server in &before {
            server.gone.cancel();
        }
    }

    /// It is gone, and so is all that is open to it.
    pub(crate) fn end(&self) {
        let servers = std::mem::take(&mut self.state.lock().servers);
        for server in &servers {
            server.gone.cancel();
        }
    }

    /// Lets a client in, unless it may not come. `most`: connections where the tenant itself does not say how many.
    pub(crate) fn admit(self: &Arc<Self>, client: IpAddr, most: u32) -> Result<Admitted, Ended> {
        let state = self.state.lock();
        let is_from = |ranges: &Vec<Cidr>| ranges.iter().any(|range| range.contains(client));
        if !state.source_ranges.as_ref().is_none_or(is_from) {
            return Err(Ended::SourceRefused);
        }
        // Both are under the lock: no two take the last place.
        if self.traffic.open.load(Relaxed) >= u64::from(state.max_connections.unwrap_or(most)) {
            return Err(Ended::TooMany);
        }
        self.traffic.open.fetch_add(1, Relaxed);
        self.traffic.opened.fetch_add(1, Relaxed);
        Ok(Admitted(self.clone()))
    }

    /// The API server for the next connection, counted as one of its own until the lease ends. None: none is ready but those that were tried.
    pub(crate) fn pick(&self, tried: &[SocketAddr]) -> Option<Lease> {
        let mut state = self.state.lock();
        let candidate = |server: &Arc<Server>| Candidate {
            is_fit: server.is_ready.load(Relaxed) && !tried.contains(&server.address),
            open: server.open.load(Relaxed),
        };
        let candidates: Vec<_> = state.servers.iter().map(candidate).collect();
        let at = choose(&candidates, state.turn)?;
        state.turn = at + 1;
        Some(Lease::of(&state.servers[at]))
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

    /// As it is listed now; its connections are those of the one that was known.
    fn of(endpoint: &Endpoint, known: Option<Arc<Self>>) -> Arc<Self> {
        let new = || Self {
            address: endpoint.address,
            pod: endpoint.pod.clone(),
            is_ready: AtomicBool::default(),
            open: AtomicUsize::default(),
            gone: CancellationToken::new(),
        };
        let server = known.unwrap_or_else(|| Arc::new(new()));
        server.is_ready.store(endpoint.is_ready, Relaxed);
        server
    }
}

/// A connection that counts as the tenant's until this is dropped.
#[derive(Debug)]
pub(crate) struct Admitted(Arc<Tenant>);

impl Drop for Admitted {
    fn drop(&mut self) {
        self.0.traffic.open.fetch_sub(1, Relaxed);
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
    use futures::FutureExt as _;

    const FROM: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 1, 2, 3));

    /// Where each is listed: address, pod, and whether it is ready.
    pub(crate) fn route(name: &str, endpoints: &[(&str, &str, bool)]) -> Route {
        let at = |(address, pod, is_ready): &(&str, &str, bool)| Endpoint {
            address: address.parse().unwrap(),
            pod: (*pod).to_owned(),
            is_ready: *is_ready,
        };
        Route {
            cluster: ClusterName { namespace: "team-a".to_owned(), name: name.to_owned() },
            names: vec![format!("{name}.example.com")],
            source_ranges: None,
            max_connections: None,
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
        let mut leases: Vec<_> = (0..4).map(|_| tenant.pick(&[]).unwrap()).collect();
        let to = |leases: &[Lease]| leases.iter().map(|lease| lease.address().ip().to_string()).collect::<Vec<_>>();
        assert_eq!(to(&leases), ["10.0.0.1", "10.0.0.2", "10.0.0.1", "10.0.0.2"]);
        leases.retain(|lease| lease.address().ip().to_string() == "10.0.0.2");
        let next: Vec<_> = (0..2).map(|_| tenant.pick(&[]).unwrap()).collect();
        assert_eq!(to(&next), ["10.0.0.1", "10.0.0.1"]);
        let other = tenant.pick(&[next[0].address()]).unwrap();
        assert_eq!(to(&[other]), ["10.0.0.2"], "the other was tried");
        assert!(tenant.pick(&["10.0.0.1:1".parse().unwrap(), "10.0.0.2:1".parse().unwrap()]).is_none());
    }

    #[test]
    fn one_that_gets_unready_keeps_what_it_has_and_one_that_is_gone_does_not() {
        let tenant = tenant(&route("acme", &[("10.0.0.1:1", "a", true), ("10.0.0.2:1", "b", true)]));
        let (first, second) = (tenant.pick(&[]).unwrap(), tenant.pick(&[]).unwrap());
        tenant.update(&route("acme", &[("10.0.0.2:1", "b", true), ("10.0.0.1:1", "a", false)]));
        assert!(!is_gone(&first) && !is_gone(&second));
        let third = tenant.pick(&[]).unwrap();
        assert_eq!(third.address(), second.address(), "although it has more");
        tenant.update(&route("acme", &[("10.0.0.1:1", "a", true)]));
        assert!(!is_gone(&first) && is_gone(&second) && is_gone(&third));
        // Another pod has its address.
        tenant.update(&route("acme", &[("10.0.0.1:1", "c", true)]));
        assert!(is_gone(&first));
        let next = tenant.pick(&[]).unwrap();
        assert!(!is_gone(&next) && next.address() == first.address());
        tenant.end();
        assert!(is_gone(&next) && tenant.pick(&[]).is_none());
    }

    #[test]
    fn who_may_come_and_how_many() {
        let mut route = route("acme", &[]);
        let tenant = tenant(&route);
        let (one, _two) = (tenant.admit(FROM, 2).unwrap(), tenant.admit(FROM, 2).unwrap());
        assert_eq!(tenant.admit(FROM, 2).unwrap_err(), Ended::TooMany);
        drop(one);
        let _again = tenant.admit(FROM, 2).unwrap();
        route.max_connections = Some(3);
        route.source_ranges = Some(vec!["10.1.0.0/16".parse().unwrap(), "2001:db8::/32".parse().unwrap()]);
        tenant.update(&route);
        let _third = tenant.admit("2001:db8::1".parse().unwrap(), 2).unwrap();
        assert_eq!(tenant.admit(FROM, 9).unwrap_err(), Ended::TooMany, "its own limit");
        for other in ["10.2.0.1", "2001:db9::1", "::ffff:10.1.0.1"] {
            assert_eq!(tenant.admit(other.parse().unwrap(), 9).unwrap_err(), Ended::SourceRefused, "{other}");
        }
        route.source_ranges = Some(vec![]);
        tenant.update(&route);
        assert_eq!(tenant.admit(FROM, 9).unwrap_err(), Ended::SourceRefused, "nobody");
        let sum = tenant.traffic.sum();
        assert_eq!((sum.open, sum.opened), (3, 4));
    }
}
