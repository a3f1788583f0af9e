//! What a call takes longer through a gateway: the same call on two connections, in turns.

use anyhow::{Context as _, Result};
use berth_testkit::hello::hello;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::client::{Caller, Connection, Way};
use super::program::Program;
use super::samples::Samples;
use super::standin::{Does, StandIn};
use super::world::{World, host, name, way};
use crate::Figure;

const RUNS: usize = 5;
const CALLS: usize = 3000;
const FIRST_CALLS: usize = 200;
const ECHOES: usize = 10_000;
/// A tenant whose API server is a stand-in.
const ECHO: &str = "echo";
/// A small call.
pub(crate) const PATH: &str = "/api/v1/namespaces/default";

/// The same, without a gateway and with one.
#[derive(Default)]
pub(crate) struct Pair {
    pub(crate) direct: Samples,
    pub(crate) through: Samples,
}

impl Pair {
    /// Milliseconds that are added to what that share of calls does not exceed.
    pub(crate) fn added(&self, share: f64) -> f64 {
        self.through.quantile(share) - self.direct.quantile(share)
    }

    pub(crate) fn ratio(&self, share: f64) -> f64 {
        self.through.quantile(share) / self.direct.quantile(share)
    }

    /// Either is the first one as often.
    pub(crate) async fn calls(count: usize, direct: &mut Connection, through: &mut Connection) -> Result<Self> {
        let mut pair = Self::default();
        for call in 0..count {
            if call % 2 == 0 {
                pair.direct.time(direct.get(PATH)).await?;
            }
            pair.through.time(through.get(PATH)).await?;
            if call % 2 != 0 {
                pair.direct.time(direct.get(PATH)).await?;
            }
        }
        Ok(pair)
    }
}

/// `name`: a median and a 99th percentile that is added, and their ratios, of each pair.
pub(crate) fn figures(name: &str, pairs: &[Pair]) -> Vec<Figure> {
    let all = |value: &dyn Fn(&Pair) -> f64| pairs.iter().map(value).collect();
    vec![
        Figure::new(format!("{name}.direct_p50"), "ms", all(&|pair| pair.direct.quantile(0.5))),
        Figure::new(format!("{name}.direct_p99"), "ms", all(&|pair| pair.direct.quantile(0.99))),
        Figure::new(format!("{name}.added_p50"), "ms", all(&|pair| pair.added(0.5))),
        Figure::new(format!("{name}.added_p99"), "ms", all(&|pair| pair.added(0.99))),
        Figure::new(format!("{name}.ratio_p50"), "x", all(&|pair| pair.ratio(0.5))),
        Figure::new(format!("{name}.ratio_p99"), "x", all(&|pair| pair.ratio(0.99))),
    ]
}

pub(crate) async fn run(world: &World) -> Result<Vec<Figure>> {
    let echo = StandIn::start(world.ip, Does::Echo)?;
    world.tenant(ECHO, &[echo.address]).await?;
    let gateway = Program::gateway(world, &[]).await?;
    let caller = Caller::admin(&world.servers[1])?;
    let (direct, through) = (world.direct(world.server_of(1)), way(0, gateway.address));
    let (mut calls, mut first, mut echoes) = (vec![], vec![], vec![]);
    for _ in 0..RUNS {
        let open = async |way| caller.open(way, &host(&name(1))).await;
        calls.push(Pair::calls(CALLS, &mut open(direct).await?, &mut open(through).await?).await?);
        let mut pair = Pair::default();
        for _ in 0..FIRST_CALLS {
            pair.direct.time(async { open(direct).await?.get(PATH).await }).await?;
            pair.through.time(async { open(through).await?.get(PATH).await }).await?;
            // One address opens at most 200 a second.
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        first.push(pair);
        let mut pair = Pair::default();
        let (mut one, mut other) = (said(world.direct(echo.address)).await?, said(through).await?);
        for _ in 0..ECHOES {
            pair.direct.time(ping(&mut one)).await?;
            pair.through.time(ping(&mut other)).await?;
        }
        echoes.push(pair);
    }
    let all = [("gateway.call", calls), ("gateway.first_call", first), ("gateway.echo", echoes)];
    Ok(all.iter().flat_map(|(name, pairs)| figures(name, pairs)).collect())
}

/// A connection on which the name of the stand-in was said.
async fn said(way: Way) -> Result<TcpStream> {
    let mut stream = way.connect().await?;
    stream.write_all(&hello(Some(&host(ECHO)))?).await?;
    stream.read_exact(&mut [0]).await.context("nobody answers")?;
    Ok(stream)
}

async fn ping(stream: &mut TcpStream) -> Result<()> {
    stream.write_all(&[1]).await?;
    stream.read_exact(&mut [0]).await?;
    Ok(())
}
