//! Ten thousand watches of twenty tenants that have nothing to tell.

use anyhow::{Result, ensure};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use hyper::body::Incoming;
use std::time::Duration;

use super::client::{Caller, Connection};
use super::program::Program;
use super::world::{TENANTS, World, host, name, way};
use crate::Figure;

pub(crate) const WATCHES: usize = 10_000;
/// That are opened at once.
const AT_ONCE: usize = 64;
/// Until everything has settled, and how long it is looked at.
const SETTLE: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_mins(1);
/// An API server ends a watch after half an hour to an hour unless it is asked for another time.
const WATCH: &str = "/api/v1/namespaces/default/configmaps?watch=1&timeoutSeconds=86400";

/// A watch, each with a connection of its own. It ends with this.
pub(crate) struct Watch {
    _connection: Connection,
    _events: Incoming,
}

/// So many, of all tenants in turns.
pub(crate) async fn watches(world: &World, gateway: &Program, count: usize) -> Result<Vec<Watch>> {
    let callers = [Caller::admin(&world.servers[0])?, Caller::admin(&world.servers[1])?];
    let open = |number: usize| {
        let (caller, way) = (callers[number % TENANTS % 2].clone(), way(number, gateway.address));
        async move {
            let mut connection = caller.open(way, &host(&name(number % TENANTS))).await?;
            let events = connection.begin(WATCH).await?;
            anyhow::Ok(Watch { _connection: connection, _events: events })
        }
    };
    stream::iter(0..count).map(open).buffer_unordered(AT_ONCE).try_collect().await
}

pub(crate) async fn run(world: &World, room: usize) -> Result<Vec<Figure>> {
    let gateway = Program::gateway(world, &[]).await?;
    let empty = gateway.usage()?;
    let watches = watches(world, &gateway, WATCHES.min(room)).await?;
    let opened = gateway.usage()?;
    tokio::time::sleep(SETTLE).await;
    let before = gateway.usage()?;
    tokio::time::sleep(LOOK).await;
    let after = gateway.usage()?;
    let open = gateway.open().await?;
    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    let count = watches.len() as f64;
    ensure!(open >= count, "of {count} watches {open} are open; ended: {}", gateway.ends().await?);
    Ok(vec![
        Figure::new("gateway.rest_watches", "", vec![count]),
        Figure::new("gateway.empty_rss", "MiB", vec![empty.rss]),
        Figure::new("gateway.rest_rss", "MiB", vec![after.rss]),
        Figure::new("gateway.rest_each", "KiB", vec![(after.rss - empty.rss) * 1024.0 / count]),
        Figure::new("gateway.rest_opened_cpu", "s", vec![opened.cpu - empty.cpu]),
        Figure::new("gateway.rest_cpu", "ms/s", vec![(after.cpu - before.cpu) * 1000.0 / LOOK.as_secs_f64()]),
    ])
}
