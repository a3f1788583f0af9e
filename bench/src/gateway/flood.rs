//! What others' calls take while one tenant is flooded: to the API server itself, and through the gateway, in turns. What both share, such as the
//! machine that floods, has no part in their ratio.

use anyhow::{Context as _, Result, anyhow};
use berth_testkit::hello::hello;
use berth_testkit::ports::port;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::calls::{PATH, Pair};
use super::client::{Caller, Way};
use super::program::{Program, UNLIMITED};
use super::rest::{WATCHES, watches};
use super::samples::Samples;
use super::standin::{Does, StandIn};
use super::world::{World, host, name, way};
use crate::Figure;

/// How long each is looked at.
const LOOK: Duration = Duration::from_secs(10);
/// Between two pairs of calls.
const PAUSE: Duration = Duration::from_millis(4);
/// New connections in a second, and how many are held.
const RATE: usize = 2000;
const HELD: usize = 20_000;
/// Clients that take large answers.
const TAKERS: usize = 16;
/// From these addresses it comes, and no call of others.
const SOURCES: Range<usize> = 10..15;
/// What is over has ended by then.
const SETTLE: Duration = Duration::from_secs(10);

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flood {
    /// Clients without a server name.
    Nameless,
    /// Connections to an API server that takes them and says nothing.
    Held,
    /// Connections to one that takes none.
    Hanging,
    /// Large answers.
    Bytes,
}

impl Flood {
    const ALL: [Self; 4] = [Self::Nameless, Self::Held, Self::Hanging, Self::Bytes];

    /// In names of figures, and of the tenant that is flooded.
    fn name(self) -> &'static str {
        match self {
            Self::Nameless => "nameless",
            Self::Held => "held",
            Self::Hanging => "hanging",
            Self::Bytes => "bytes",
        }
    }
}

pub(crate) async fn run(world: &World, room: usize) -> Result<Vec<Figure>> {
    let (holds, pours) = (StandIn::start(world.ip, Does::Hang)?, StandIn::start(world.ip, Does::Pour(usize::MAX))?);
    // Nobody accepts, and there is no room to wait for that.
    let full = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None)?;
    full.bind(&SocketAddr::from((world.ip, port())).into())?;
    full.listen(0)?;
    let full = full.local_addr()?.as_socket().context("an address")?;
    for (flood, server) in [(Flood::Held, holds.address), (Flood::Hanging, full), (Flood::Bytes, pours.address)] {
        world.tenant(flood.name(), &[server]).await?;
    }
    let mut figures = vec![];
    for (limits, args) in [("limited", &[][..]), ("unlimited", UNLIMITED)] {
        let gateway = Program::gateway(world, args).await?;
        let watches = watches(world, &gateway, WATCHES.min(room * 3 / 10)).await?;
        tokio::time::sleep(SETTLE).await;
        let quiet = look(world, &gateway).await?;
        let ms = |of: &Pair| vec![of.through.quantile(0.99)];
        figures.push(Figure::new(format!("flood.{limits}.nothing.call_p99"), "ms", ms(&quiet.calls)));
        figures.push(Figure::new(format!("flood.{limits}.nothing.first_p99"), "ms", ms(&quiet.first)));
        for flood in Flood::ALL {
            let stop = CancellationToken::new();
            let flooding = begin(&gateway, flood, HELD.min(room * 6 / 10), stop.clone())?;
            tokio::time::sleep(Duration::from_secs(2)).await;
            let looked = look(world, &gateway).await;
            stop.cancel();
            let done = flooding.join().map_err(|_| anyhow!("the flood panicked"))?;
            println!("{limits}, {}: {done} connections, {} are open", flood.name(), gateway.open().await?);
            figures.extend(looked?.figures(&format!("flood.{limits}.{}", flood.name()), &quiet));
            tokio::time::sleep(SETTLE).await;
        }
        drop(watches);
    }
    Ok(figures)
}

/// Calls of another tenant on open connections, its first calls on new ones, and those that failed.
#[derive(Default)]
struct Looked {
    calls: Pair,
    first: Pair,
    failed: u32,
}

impl Looked {
    /// `quiet`: without a flood.
    fn figures(&self, name: &str, quiet: &Self) -> Vec<Figure> {
        let slower = |now: &Samples, before: &Samples| vec![now.quantile(0.99) / before.quantile(0.99)];
        vec![
            Figure::new(format!("{name}.call"), "x", slower(&self.calls.through, &quiet.calls.through)),
            Figure::new(format!("{name}.call_direct"), "x", slower(&self.calls.direct, &quiet.calls.direct)),
            Figure::new(format!("{name}.first"), "x", slower(&self.first.through, &quiet.first.through)),
            Figure::new(format!("{name}.first_direct"), "x", slower(&self.first.direct, &quiet.first.direct)),
            Figure::new(format!("{name}.failed"), "calls", vec![f64::from(self.failed)]),
        ]
    }
}

async fn look(world: &World, gateway: &Program) -> Result<Looked> {
    let caller = Caller::admin(&world.servers[1])?;
    let name = host(&name(1));
    let (direct, through) = (world.direct(world.server_of(1)), way(0, gateway.address));
    let (mut one, mut other) = (caller.open(direct, &name).await?, caller.open(through, &name).await?);
    let mut looked = Looked::default();
    let begin = Instant::now();
    while begin.elapsed() < LOOK {
        for _ in 0..4 {
            looked.calls.direct.time(one.get(PATH)).await?;
            if looked.calls.through.time(other.get(PATH)).await.is_err() {
                looked.failed += 1;
                other = caller.open(through, &name).await?;
            }
            tokio::time::sleep(PAUSE).await;
        }
        looked.first.direct.time(async { caller.open(direct, &name).await?.get(PATH).await }).await?;
        let first = looked.first.through.time(async { caller.open(through, &name).await?.get(PATH).await });
        looked.failed += u32::from(first.await.is_err());
        tokio::time::sleep(PAUSE).await;
    }
    Ok(looked)
}

/// By a thread of its own, until it is told to stop; it says how many connections it made.
fn begin(gateway: &Program, flood: Flood, held: usize, stop: CancellationToken) -> Result<JoinHandle<usize>> {
    let named = (flood != Flood::Nameless).then(|| host(flood.name()));
    let hello: Arc<[u8]> = hello(named.as_deref())?.into();
    let ways: Vec<_> = SOURCES.map(|number| way(number, gateway.address)).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    Ok(std::thread::spawn(move || runtime.block_on(pour_in(flood, held, &hello, &ways, stop))))
}

async fn pour_in(flood: Flood, held: usize, hello: &Arc<[u8]>, ways: &[Way], stop: CancellationToken) -> usize {
    let (most, at_once) = if flood == Flood::Bytes { (TAKERS, TAKERS) } else { (held, RATE / 100) };
    let (mut clients, mut made) = (JoinSet::new(), 0);
    let mut tick = tokio::time::interval(Duration::from_millis(10));
    loop {
        tokio::select! { () = stop.cancelled() => return made, _ = tick.tick() => () }
        while clients.try_join_next().is_some() {}
        for _ in 0..at_once.min(most - clients.len()) {
            clients.spawn(one(ways[made % ways.len()], hello.clone()));
            made += 1;
        }
    }
}

/// Until it is told to go.
async fn one(way: Way, hello: Arc<[u8]>) -> Result<()> {
    let mut stream = way.connect().await?;
    stream.write_all(&hello).await?;
    let mut buffer = vec![];
    loop {
        stream.readable().await?;
        buffer.reserve(64 * 1024);
        if stream.read_buf(&mut buffer).await? == 0 {
            return Ok(());
        }
        // Whoever waits needs no room.
        buffer = vec![];
    }
}
