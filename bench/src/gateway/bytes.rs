//! Large answers: without anything between, by a gateway and by HAProxy, in turns.

use anyhow::{Context as _, Result, ensure};
use berth_testkit::hello::hello;
use serde_json::json;
use std::time::Instant;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::client::{Caller, Way};
use super::program::Program;
use super::standin::{Does, StandIn};
use super::world::{World, create, host, name, way};
use crate::Figure;

const RUNS: usize = 7;
/// What is listed: ConfigMaps of almost one MiB.
const OBJECTS: usize = 48;
const OBJECT: usize = 900 * 1024;
const NAMESPACE: &str = "large";
const LIST: &str = "/api/v1/namespaces/large/configmaps";
/// What a stand-in writes, without TLS and as quickly as the kernel takes it.
const POURED: usize = 1 << 30;
const POURS: &str = "pours";

pub(crate) async fn run(world: &World) -> Result<Vec<Figure>> {
    let pours = StandIn::start(world.ip, Does::Pour(POURED))?;
    world.tenant(POURS, &[pours.address]).await?;
    let client = world.servers[1].client();
    create(&client, "v1", "Namespace", "", json!({"metadata": {"name": NAMESPACE}})).await?;
    for number in 0..OBJECTS {
        let object = json!({"metadata": {"name": format!("c{number}")}, "data": {"text": "x".repeat(OBJECT)}});
        create(&client, "v1", "ConfigMap", NAMESPACE, object).await?;
    }
    let gateway = Program::gateway(world, &[]).await?;
    let names = [(name(1), world.server_of(1)), (POURS.to_owned(), pours.address)];
    let haproxy = Program::haproxy(&names).await?;
    let caller = Caller::admin(&world.servers[1])?;
    let list = async |way: Way| {
        let mut connection = caller.open(way, &host(&name(1))).await?;
        // The first bytes of a connection are slow.
        connection.get(super::calls::PATH).await?;
        let begin = Instant::now();
        let bytes = connection.get(LIST).await?;
        ensure!(bytes > OBJECTS * OBJECT, "{bytes} bytes were listed");
        anyhow::Ok(begin.elapsed().as_secs_f64())
    };
    let pour = async |way: Way| {
        let mut stream = way.connect().await?;
        stream.write_all(&hello(Some(&host(POURS)))?).await?;
        let (begin, mut read, mut buffer) = (Instant::now(), 0, vec![0; 256 * 1024]);
        while read < POURED {
            let some = stream.read(&mut buffer).await?;
            ensure!(some > 0, "{read} bytes were poured");
            read += some;
        }
        anyhow::Ok(begin.elapsed().as_secs_f64())
    };
    let direct = (world.direct(world.server_of(1)), world.direct(pours.address));
    let programs = [("gateway", &gateway), ("haproxy", &haproxy)];
    // Of each program: how many times as long it takes, and its CPU.
    let mut listed = [const { vec![] }; 2];
    let (mut poured, mut cpu, mut alone) = ([const { vec![] }; 2], [const { vec![] }; 2], vec![]);
    for run in 0..RUNS {
        let alone_list = list(direct.0).await.context("list")?;
        let alone_pour = pour(direct.1).await.context("pour")?;
        alone.push(gib_per_second(alone_pour));
        for (at, (_, program)) in programs.iter().enumerate() {
            let way = way(run, program.address);
            listed[at].push(list(way).await? / alone_list);
            let before = program.usage()?.cpu;
            poured[at].push(pour(way).await? / alone_pour);
            // The last of it is counted a moment later.
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            cpu[at].push(program.usage()?.cpu - before);
        }
    }
    let mut figures = vec![Figure::new("direct.poured", "GiB/s", alone)];
    for (at, (name, _)) in programs.iter().enumerate() {
        figures.extend([
            Figure::new(format!("{name}.list_time"), "x", listed[at].clone()),
            Figure::new(format!("{name}.pour_time"), "x", poured[at].clone()),
            Figure::new(format!("{name}.pour_cpu"), "s/GiB", cpu[at].clone()),
        ]);
    }
    Ok(figures)
}

#[expect(clippy::cast_precision_loss, reason = "GiB")]
fn gib_per_second(seconds: f64) -> f64 {
    POURED as f64 / f64::from(1 << 30) / seconds
}
