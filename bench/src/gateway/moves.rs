//! How long after the API says that an address has changed new connections go where it leads now.

use anyhow::{Result, ensure};
use berth_testkit::hello::hello;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

use super::opens::ask;
use super::program::{Program, UNLIMITED};
use super::standin::{Does, StandIn};
use super::world::{World, host, way};
use crate::Figure;

const RUNS: usize = 20;
const LONG: Duration = Duration::from_secs(30);
/// Between two connections.
const LOOK: Duration = Duration::from_millis(2);
/// Of two API servers each would have had many by then.
const QUIET: Duration = Duration::from_millis(500);
const MOVES: &str = "moves";
const LEAVES: &str = "leaves";

pub(crate) async fn run(world: &World) -> Result<Vec<Figure>> {
    let servers: Vec<_> =
        [1, 2].map(|byte| StandIn::start(world.ip, Does::Greet(byte))).into_iter().collect::<Result<_>>()?;
    world.tenant(MOVES, &[servers[0].address]).await?;
    world.tenant(LEAVES, &[servers[0].address, servers[1].address]).await?;
    let gateway = Program::gateway(world, UNLIMITED).await?;
    let (mut moved, mut left) = (vec![], vec![]);
    let (way, moves, leaves) = (way(0, gateway.address), hello(Some(&host(MOVES)))?, hello(Some(&host(LEAVES)))?);
    for run in 0..RUNS {
        let at = (run + 1) % 2;
        let port = json!({"ports": [{"name": "https", "port": servers[at].address.port(), "protocol": "TCP"}]});
        let begin = Instant::now();
        world.change(MOVES, 0, &port).await?;
        // Who is there is another one than before. A connection to that one, which is gone, is reset.
        while ask(way, &moves).await.map_or(0, usize::from) != at + 1 {
            ensure!(begin.elapsed() < LONG, "the new address is not used");
            tokio::time::sleep(LOOK).await;
        }
        moved.push(begin.elapsed().as_secs_f64());

        let begin = Instant::now();
        world.change(LEAVES, 0, &ready(world, false)).await?;
        let mut last = begin;
        while last.elapsed() < QUIET {
            let at = Instant::now();
            if ask(way, &leaves).await? == 1 {
                last = at;
            }
            ensure!(begin.elapsed() < LONG, "connections still go to one that is not ready");
            tokio::time::sleep(LOOK).await;
        }
        left.push((last - begin).as_secs_f64());
        world.change(LEAVES, 0, &ready(world, true)).await?;
        tokio::time::sleep(QUIET).await;
    }
    Ok(vec![Figure::new("gateway.moved", "s", moved), Figure::new("gateway.unready", "s", left)])
}

fn ready(world: &World, is_ready: bool) -> Value {
    json!({"endpoints": [{"addresses": [world.ip], "conditions": {"ready": is_ready}}]})
}
