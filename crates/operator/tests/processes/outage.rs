//! The meta cluster's API server is away for longer than a lease is valid: the operator waits for it, says that it is not ready, and
//! goes on by itself.

use crate::common::{SOON, Team, crds, full};
use crate::{Operator, lease, system, taken_up};
use berth_testkit::oracle::{assert_keys_unchanged, secret_keys};
use berth_testkit::{ApiServer, World, fixtures::until};
use k8s_openapi::api::apps::v1::Deployment;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// How long it is away: past the lease's 15 s. `BERTH_SWEEP=full`: ten minutes.
fn away() -> Duration {
    if full() { Duration::from_mins(10) } else { Duration::from_secs(20) }
}

/// An address where nobody else listens.
pub(crate) fn free_address() -> String {
    format!("127.0.0.1:{}", berth_testkit::ports::port())
}

/// Status and text of what a path of the operator's own endpoint answers. None: nobody listens.
pub(crate) fn asked(address: &str, path: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: operator\r\nConnection: close\r\n\r\n").ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    let status = text.split_whitespace().nth(1)?.parse().ok()?;
    Some((status, text))
}

pub(crate) async fn is_ready(address: &str, wanted: bool) {
    let status = if wanted { 200 } else { 503 };
    until(SOON, &format!("/readyz says {status}"), async || {
        asked(address, "/readyz").is_some_and(|(s, _)| s == status)
    })
    .await;
}

#[tokio::test]
async fn an_api_server_that_is_away_is_waited_for() {
    let server: &'static ApiServer = Box::leak(Box::new(ApiServer::start().await.expect("server")));
    server.install_crds(&crds()).await.expect("CRDs");
    let _world = World::builder(server.client()).start().await.expect("world");
    system(server).await;
    let address = free_address();
    let listen = format!("--listen={address}");
    let start = || Operator::start_with(server, "solo", &[&listen], &[]);
    let mut operator = start();
    let team = Team::with_cluster(server).await;
    let made = async || team.inside::<Deployment>().get_opt("kube-scheduler").await.is_ok_and(|d| d.is_some());
    until(SOON, "a control plane", made).await;
    is_ready(&address, true).await;
    let keys = secret_keys(&team.client, &[&team.ns, &team.cp_namespace]).await.expect("keys");

    server.stop_apiserver();
    let gone = Instant::now();
    is_ready(&address, false).await;
    let mut ends = 0;
    while gone.elapsed() < away() {
        if operator.has_ended() {
            // As a kubelet would.
            ends += 1;
            operator = start();
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    is_ready(&address, false).await;
    assert_eq!(asked(&address, "/healthz").map(|(s, _)| s), Some(200), "what waits is healthy");
    let alive = !operator.has_ended();
    server.start_apiserver().await.expect("back");
    let back = Instant::now();
    let before = lease(server).await.and_then(|l| l.spec?.renew_time);
    until(SOON, "the lease is taken again", async || {
        let now = lease(server).await.and_then(|l| l.spec?.renew_time);
        now.is_some_and(|now| before.as_ref().is_none_or(|before| now.0 > before.0))
    })
    .await;
    let led = back.elapsed();
    let late = Team::with_cluster(server).await;
    taken_up(&late).await;
    println!(
        "away for {:.0?}: {ends} restart(s); back: the lease after {led:.1?}, the next tenant after {:.1?}",
        gone.elapsed(),
        back.elapsed()
    );
    is_ready(&address, true).await;
    // The one who had the lease ends, since its reconciles must not go on. Whoever comes next waits.
    assert!(alive && ends <= 1, "{ends} ends");
    assert_keys_unchanged(&keys, &secret_keys(&team.client, &[&team.ns, &team.cp_namespace]).await.expect("keys"));
}
