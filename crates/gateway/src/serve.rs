//! Takes connections, and carries each to its tenant.

use berth_edge::log::Log;
use berth_edge::rate::quota;
use berth_edge::socket;
use governor::{DefaultDirectRateLimiter, RateLimiter};
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::copy::copy;
use crate::counts::Ends;
use crate::dial::{self, dial};
use crate::drain;
use crate::ended::{Ended, Farewell};
use crate::held::Held;
use crate::hold::{Caller, hold};
use crate::limits::Limits;
use crate::live::Live;
use crate::opening::{By, Opening, Step};
use crate::proxy::canonical;
use crate::sources::{self, Sources};
use crate::visit::Visit;

/// TLS' fatal alert `unrecognized_name` (RFC 6066), before any version is agreed on.
const UNRECOGNIZED_NAME: [u8; 7] = [21, 3, 3, 0, 2, 2, 112];
/// How long nobody is let in after a failure, such as too many open files, which is there again at once.
const AFTER_FAILURE: Duration = Duration::from_millis(100);
/// How long an operator may take to hear that this gateway ends.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// Read at once of what a client begins with: most fit.
const OPENING: usize = 4096;

/// All that connections share.
#[derive(Debug)]
pub(crate) struct Gateway {
    pub(crate) live: Live,
    pub(crate) limits: Limits,
    pub(crate) ends: Ends,
    pub(crate) log: Log,
    /// All tenants are known.
    pub(crate) is_known: AtomicBool,
    /// What is known of Services, and of EndpointSlices, gets old: their watch fails.
    pub(crate) is_stale: [AtomicBool; 2],
    /// Those that wait for a tenant to wake.
    pub(crate) held: Arc<Held>,
    /// Since when it counts who uses tenants.
    pub(crate) began: Instant,
    /// The operator does not know of it yet, and is to.
    pub(crate) is_unknown: AtomicBool,
    /// It ends: nobody is let in, and who is in leaves within the time for that.
    pub(crate) stop: CancellationToken,
    /// Connections, from the moment that they are accepted.
    pub(crate) connections: TaskTracker,
    /// It ends, who was in has left, and nobody comes any more.
    pub(crate) over: CancellationToken,
    /// Streams to operators.
    pub(crate) operators: TaskTracker,
    sources: Arc<Sources>,
    rate: Option<DefaultDirectRateLimiter>,
    next: AtomicU64,
}

impl Gateway {
    pub(crate) fn new(limits: Limits, log: Log) -> Arc<Self> {
        let sources = Sources::new(limits.source);
        let rate = limits.rate_in_all.map(|rate| RateLimiter::direct(quota(rate)));
        let held = Held::new(limits.held);
        Arc::new(Self {
            sources,
            rate,
            live: Live::default(),
            limits,
            ends: Ends::default(),
            log,
            is_known: AtomicBool::default(),
            is_stale: Default::default(),
            held,
            began: Instant::now(),
            is_unknown: AtomicBool::default(),
            stop: CancellationToken::new(),
            connections: TaskTracker::new(),
            over: CancellationToken::new(),
            operators: TaskTracker::new(),
            next: AtomicU64::default(),
        })
    }

    /// Until it is told to stop. `by`: where clients say there whom they want.
    pub(crate) async fn accept(self: Arc<Self>, listener: TcpListener, by: By) {
        loop {
            let accepted = tokio::select! {
                biased;
                () = self.stop.cancelled() => return,
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, peer)) => match self.refusal() {
                    None => drop(self.connections.spawn(self.clone().one(stream, canonical(peer), by))),
                    // Nothing is written of it: of these there are most.
                    Some(why) => {
                        socket::reset(&stream);
                        self.ends.add(why);
                    }
                },
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
                Err(error) => {
                    eprintln!("berth-gateway: cannot accept a connection: {error}");
                    tokio::time::sleep(AFTER_FAILURE).await;
                }
            }
        }
    }

    /// Why nobody is let in at all now, if so.
    fn refusal(&self) -> Option<Ended> {
        if self.connections.len() >= self.limits.in_all {
            return Some(Ended::TooManyInAll);
        }
        let is_too_fast = self.rate.as_ref().is_some_and(|rate| rate.check().is_err());
        is_too_fast.then_some(Ended::TooFastInAll)
    }

    /// Until who is in has left; at most a little longer than they may stay. Whether all have.
    pub(crate) async fn drained(&self) -> bool {
        self.connections.close();
        let patience = self.limits.drain + self.limits.hello_within + self.limits.dial_within * dial::TRIES;
        tokio::time::timeout(patience, self.connections.wait()).await.is_ok()
    }

    /// Tells operators that it has carried all that it will. Nobody may be let in any more, and all have left.
    pub(crate) async fn last_words(&self) {
        self.over.cancel();
        self.operators.close();
        let _ = tokio::time::timeout(LAST_WORDS, self.operators.wait()).await;
    }

    async fn one(self: Arc<Self>, stream: TcpStream, peer: SocketAddr, by: By) {
        let number = self.next.fetch_add(1, Relaxed);
        let begin = Instant::now();
        let mut visit = Visit::new(peer, by);
        let ended = self.carry(&stream, (number, begin), &mut visit).await;
        match ended.farewell() {
            Farewell::End => {}
            // Behind a header the ClientHello may still be on its way: what is written before it came would be lost.
            Farewell::Alert if by == By::Header => socket::reset(&stream),
            Farewell::Reset => socket::reset(&stream),
            Farewell::Alert => drop(stream.try_write(&UNRECOGNIZED_NAME)),
        }
        drop(stream);
        self.ends.add(ended);
        // A load balancer that looks whether somebody listens says nothing, or who it is and no more.
        if ended != Ended::Left || visit.has_spoken {
            let line = visit.line(begin, ended);
            self.log.say(&line, line.tenant.is_none());
        }
    }

    async fn carry(&self, stream: &TcpStream, (number, came): (u64, Instant), visit: &mut Visit) -> Ended {
        if socket::set_up(stream).is_err() {
            return Ended::Left;
        }
        let (begin, _held) = match self.open(stream, visit).await {
            Ok(opened) => opened,
            Err(ended) => return ended,
        };
        let Some(name) = &visit.name else { return Ended::NoName };
        let Some(tenant) = self.live.tenant(name) else { return Ended::UnknownName };
        visit.tenant = Some(format!("{}/{}", tenant.cluster.namespace, tenant.cluster.name));
        let led = async {
            let admitted = tenant.admit(visit.client.ip(), &self.limits)?;
            let led = match dial(&tenant, self.limits.dial_within).await {
                // For who comes by a header nobody wakes: it is a pod on a node.
                Err(Ended::NoApiServer) if visit.by == By::ServerName && tenant.wakes_for(visit.client.ip()) => {
                    let caller = Caller { stream, came, client: visit.client.ip() };
                    let begun = Instant::now();
                    let by = (&self.held, &self.limits, &self.stop);
                    let held = Box::pin(hold(&tenant, caller, by)).await;
                    visit.held = Some(begun.elapsed());
                    held?
                }
                led => led?,
            };
            Ok((admitted, led))
        };
        let (admitted, (server, lease)) = match led.await {
            Ok(led) => led,
            Err(ended) => {
                tenant.traffic.refused.add(ended);
                return ended;
            }
        };
        visit.gateway = server.local_addr().ok();
        visit.api_server = Some(lease.address());
        // What comes by a header is Berth's own proxy on nodes.
        let using = (visit.by == By::ServerName).then(|| tenant.uses.begin());
        let ended = tokio::select! {
            biased;
            () = lease.gone() => Ended::ApiServerGone,
            () = admitted.refused() => Ended::SourceRefused,
            () = self.leave(number) => Ended::Drained,
            ended = copy(stream, &server, begin, (&visit.carried, &tenant.traffic, using.as_ref()), self.limits.stays) => ended,
        };
        if ended.resets_api_server() {
            socket::reset(&server);
        }
        ended
    }

    /// All that is to be passed on of what came until it was known whom the client wants.
    async fn open(&self, stream: &TcpStream, visit: &mut Visit) -> Result<(Vec<u8>, sources::Held), Ended> {
        let peer = visit.client;
        let awaits_header = self.limits.proxy_from.iter().any(|range| range.contains(peer.ip()));
        let mut opening = Opening::new(peer, awaits_header, visit.by, self.limits.hello);
        let mut held = None;
        let read = async {
            loop {
                // A load balancer is nobody's place.
                if held.is_none() && !opening.awaits_header() {
                    held = Some(self.sources.hold(opening.client.ip())?);
                }
                let bytes = read(stream).await.map_err(|_| Ended::Left)?;
                if bytes.is_empty() {
                    return Err(Ended::Left);
                }
                match opening.take(&bytes) {
                    Step::More => {}
                    Step::Name(name) => {
                        let mut held = match held.take() {
                            Some(held) => held,
                            None => self.sources.hold(opening.client.ip())?,
                        };
                        held.is_open();
                        return Ok((name, held));
                    }
                    Step::Refuse(ended) => return Err(ended),
                }
            }
        };
        let name = tokio::time::timeout(self.limits.hello_within, read).await.unwrap_or(Err(Ended::SlowHello));
        visit.client = opening.client;
        visit.has_spoken = !opening.bytes.is_empty();
        let (name, held) = name?;
        visit.name = name;
        Ok((opening.bytes, held))
    }

    /// Until a connection of that number has to leave.
    async fn leave(&self, number: u64) {
        self.stop.cancelled().await;
        tokio::time::sleep(drain::after(number, self.limits.drain)).await;
    }
}

/// The next bytes. Empty: there are no more.
async fn read(stream: &TcpStream) -> io::Result<Vec<u8>> {
    loop {
        stream.readable().await?;
        let mut bytes = Vec::with_capacity(OPENING);
        match stream.try_read_buf(&mut bytes) {
            Ok(_) => return Ok(bytes),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::limits;

    /// Of ten thousand connections most have nothing to say.
    #[tokio::test]
    async fn a_connection_at_rest_takes_little() {
        let gateway = Gateway::new(limits(), Log::captured().0);
        let listener = socket::listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let size = size_of_val(&gateway.one(stream, "192.0.2.1:1".parse().unwrap(), By::ServerName));
        assert!(size <= 4096, "{size} bytes");
    }
}
