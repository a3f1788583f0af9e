//! The alerts and the dashboard of the chart, judged by a real Prometheus that scrapes a gateway whose clients come: each fires and clears.

use super::*;
use crate::hello::tests::hello;
use crate::table::Ignored;
use berth_contract::gateway::Hibernates;
use berth_testkit::fixtures::{package, until};
use berth_testkit::ports::port;
use berth_testkit::prometheus::{Prometheus, impatient};
use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;

const LONG: Duration = Duration::from_mins(1);
/// Connections that the gateway may have.
const MOST: usize = 100;

fn file(name: &str) -> PathBuf {
    package().join("../../charts/berth/files").join(name)
}

/// A client comes to `acme`, and is gone.
async fn comes(world: &World) {
    let Ok(mut stream) = TcpStream::connect(world.address).await else { return };
    let _ = stream.write_all(&hello("acme.example.com", 0)).await;
    let _ = tokio::time::timeout(Duration::from_millis(50), stream.read(&mut [0; 1])).await;
}

/// Until these fire and no other, with a client that comes again and again.
async fn fires(world: &World, prometheus: &Prometheus, names: &[&str]) {
    until(LONG, &format!("{names:?} to fire"), async || {
        comes(world).await;
        prometheus.firing().is_ok_and(|firing| firing == names)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_alert_fires_and_clears() {
    let held = MostHeld { how_long: Duration::from_millis(20), ..limits().held };
    let limits = Limits { hello_within: 5 * LONG, in_all: MOST, held, ..limits() };
    let world = World::start(limits);
    let (acme, dir) = (Server::start("acme").await, tempfile::tempdir().unwrap());
    let address = format!("127.0.0.1:{}", port());
    // Of its own, so that it ends with all its connections.
    let endpoint = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (at, told) = (address.parse().unwrap(), world.gateway.clone());
    endpoint.spawn(async move { berth_edge::http::serve(socket::listen(at).unwrap(), told).await });
    let prometheus =
        Prometheus::start(&address, &impatient(&file("alerts-gateway.yaml"), dir.path()).unwrap()).unwrap();
    let serves = [leads("acme", &[(acme.address, true)])];
    let well = || {
        world.has_routes(serves.to_vec());
        world.gateway.is_known.store(true, Relaxed);
        world.gateway.is_stale[0].store(false, Relaxed);
    };
    let fires = async |names: &[&str]| fires(&world, &prometheus, names).await;

    fires(&["BerthGatewayAbsent"]).await;
    well();
    fires(&[]).await;
    let limited = Route { max_connections: Some(0), ..serves[0].clone() };
    let ignored = Table { routes: serves.to_vec(), ignored: [(Ignored::Foreign, 1)].into() };
    let unready = leads("acme", &[(acme.address, false)]);
    // Nobody listens there any more.
    let dead = leads("acme", &[(TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap(), true)]);
    let asleep = Route { hibernation: Some(Hibernates { wakes: true, from: None, closed: false }), ..unready.clone() };
    let cases: [(&[&str], &dyn Fn()); 7] = [
        (&["BerthGatewayTenantUnreachable"], &|| world.has_routes(vec![unready.clone()])),
        (&["BerthGatewayTenantUnreachable"], &|| world.has_routes(vec![dead.clone()])),
        (&["BerthGatewayTenantLimited"], &|| world.has_routes(vec![limited.clone()])),
        (&["BerthGatewayHeldFull"], &|| world.gateway.ends.add(Ended::TooManyHeld)),
        // That it sleeps the operator would say, which is not there.
        (&["BerthGatewayCallsInVain", "BerthGatewayTenantUnreachable"], &|| world.has_routes(vec![asleep.clone()])),
        (&["BerthGatewayWatchFails"], &|| world.gateway.is_stale[0].store(true, Relaxed)),
        (&["BerthGatewayServiceIgnored"], &|| world.gateway.live.update(ignored.clone())),
    ];
    for (names, broken) in cases {
        broken();
        fires(names).await;
        well();
        fires(&[]).await;
    }

    // Whoever says nothing has a place, too.
    let mut idle = vec![];
    for (open, names) in
        [(MOST - 10, &["BerthGatewayNearlyFull"][..]), (MOST, &["BerthGatewayFull", "BerthGatewayNearlyFull"])]
    {
        while idle.len() < open {
            idle.push(TcpStream::connect(world.address).await.unwrap());
        }
        fires(names).await;
    }
    drop(idle);
    fires(&[]).await;

    prometheus.answers(&file("dashboard-gateway.json")).unwrap();
    endpoint.shutdown_background();
    fires(&["BerthGatewayAbsent"]).await;
}
