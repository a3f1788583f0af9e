//! A gateway with a thousand tenants.

use anyhow::Result;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use std::time::{Duration, Instant};

use super::program::Program;
use super::world::{World, tenant};
use crate::Figure;

const RUNS: usize = 3;
const TENANTS: usize = 1000;
const AT_ONCE: usize = 32;
const REST: Duration = Duration::from_secs(30);

pub(crate) async fn run(world: &World) -> Result<Vec<Figure>> {
    let client = world.meta.client();
    let make = |number: usize| {
        let (client, server) = (client.clone(), world.server_of(number));
        async move { tenant(&client, &format!("many-{number}"), &[server]).await }
    };
    stream::iter(0..TENANTS).map(make).buffer_unordered(AT_ONCE).try_collect::<Vec<()>>().await?;
    let (mut ready, mut cpu, mut rss, mut rest) = (vec![], vec![], vec![], vec![]);
    for _ in 0..RUNS {
        let begin = Instant::now();
        let gateway = Program::begin_gateway(world, &[])?;
        gateway.is_ready().await?;
        ready.push(begin.elapsed().as_secs_f64());
        let started = gateway.usage()?;
        cpu.push(started.cpu);
        tokio::time::sleep(REST).await;
        let after = gateway.usage()?;
        rss.push(after.rss);
        rest.push((after.cpu - started.cpu) * 1000.0 / REST.as_secs_f64());
    }
    Ok(vec![
        Figure::new("gateway.many_ready", "s", ready),
        Figure::new("gateway.many_started_cpu", "s", cpu),
        Figure::new("gateway.many_rss", "MiB", rss),
        Figure::new("gateway.many_rest_cpu", "ms/s", rest),
    ])
}
