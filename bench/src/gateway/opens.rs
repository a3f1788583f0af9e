//! New connections, each of which brings one byte, beside HAProxy's.

use anyhow::{Result, ensure};
use berth_testkit::hello::hello;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use std::time::Instant;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::client::Way;
use super::program::{Program, UNLIMITED};
use super::standin::{Does, StandIn};
use super::world::{World, host, way};
use crate::Figure;

const RUNS: usize = 3;
const CONNECTIONS: usize = 20_000;
const AT_ONCE: usize = 64;
/// Stand-ins that share them.
const SERVERS: usize = 8;

pub(crate) async fn run(world: &World) -> Result<Vec<Figure>> {
    let servers: Vec<_> = (0..SERVERS).map(|_| StandIn::start(world.ip, Does::Greet(1))).collect::<Result<_>>()?;
    let mut names = vec![];
    for (number, server) in servers.iter().enumerate() {
        let name = format!("greets{number}");
        world.tenant(&name, &[server.address]).await?;
        names.push((name, server.address));
    }
    let hellos: Vec<_> = names.iter().map(|(name, _)| hello(Some(&host(name)))).collect::<Result<_>>()?;
    let programs =
        [("gateway", Program::gateway(world, UNLIMITED).await?), ("haproxy", Program::haproxy(&names).await?)];
    let mut figures = vec![];
    let mut measured = [const { vec![] }; 2];
    for _ in 0..RUNS {
        for ((_, program), measured) in programs.iter().zip(&mut measured) {
            measured.push(round(program, &hellos).await?);
        }
    }
    for ((name, _), measured) in programs.iter().zip(&measured) {
        let all = |value: &dyn Fn(&Round) -> f64| measured.iter().map(value).collect();
        figures.push(Figure::new(format!("{name}.open_cpu"), "ms", all(&|round| round.cpu)));
        figures.push(Figure::new(format!("{name}.open_rate"), "1/s", all(&|round| round.rate)));
    }
    Ok(figures)
}

/// CPU of one connection in milliseconds, and how many there were in a second.
struct Round {
    cpu: f64,
    rate: f64,
}

#[expect(clippy::cast_precision_loss, reason = "small numbers")]
async fn round(program: &Program, hellos: &[Vec<u8>]) -> Result<Round> {
    let (before, begin) = (program.usage()?, Instant::now());
    let one = |number: usize| ask(way(number, program.address), &hellos[number % hellos.len()]);
    stream::iter(0..CONNECTIONS).map(one).buffer_unordered(AT_ONCE).try_collect::<Vec<u8>>().await?;
    let (seconds, after) = (begin.elapsed().as_secs_f64(), program.usage()?);
    let count = CONNECTIONS as f64;
    Ok(Round { cpu: (after.cpu - before.cpu) * 1000.0 / count, rate: count / seconds })
}

/// What a [`Does::Greet`] there says.
pub(crate) async fn ask(way: Way, hello: &[u8]) -> Result<u8> {
    let mut stream = way.connect().await?;
    stream.write_all(hello).await?;
    let mut said = [0; 2];
    let read = stream.read(&mut said).await?;
    ensure!(read == 1, "{read} bytes came back: {said:?}");
    stream.shutdown().await?;
    ensure!(stream.read(&mut [0]).await? == 0, "more came back");
    Ok(said[0])
}
