//! One connection to a replica of `berth-gateway`: what it says is taken in as it comes.

use crate::heard::{Heard, Stream};
use crate::link::Lines;
use berth_api::calls::{BEAT, Told};
use berth_plan::fleet::TenantId;
use futures::StreamExt as _;
use jiff::Timestamp;
use std::time::Duration;
use tokio::time::timeout;

/// One that says nothing for so long is gone.
const SILENT: Duration = Duration::from_secs(3 * BEAT);

/// Until the replica is gone. Says why. `rouse`: is handed who is to be looked at.
pub(super) async fn listen(
    heard: &Heard,
    (replica, mut lines): (&str, Lines),
    now: impl Fn() -> Timestamp + Send + Sync,
    rouse: impl Fn(Vec<TenantId>) + Send + Sync,
) -> String {
    let open = Open { heard, stream: heard.opens(replica), now };
    loop {
        let line = match timeout(SILENT, lines.next()).await {
            Err(_) => return format!("it says nothing for {SILENT:?}"),
            Ok(None) => return "it was closed".to_owned(),
            Ok(Some(Err(error))) => return error.to_string(),
            Ok(Some(Ok(line))) => line,
        };
        match serde_json::from_str::<Told>(&line) {
            Ok(told) => rouse(heard.hears(&open.stream, told, (open.now)())),
            Err(error) => return format!("a line that cannot be read: {error}"),
        }
    }
}

/// However it ends, what it told last is over.
struct Open<'a, N: Fn() -> Timestamp> {
    heard: &'a Heard,
    stream: Stream,
    now: N,
}

impl<N: Fn() -> Timestamp> Drop for Open<'_, N> {
    fn drop(&mut self) {
        self.heard.lost(&self.stream, (self.now)());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calls::NAMES;
    use crate::link::{Program, Replica, connect};
    use berth_api::calls::{GATEWAY, OPERATOR, Use, Used};
    use berth_api::gateway::ClusterName;
    use berth_edge::link::Identity;
    use berth_plan::heard::Uses;
    use futures::SinkExt as _;
    use std::sync::Arc;
    use tokio::net::{TcpListener, TcpStream};
    use tokio::sync::mpsc;
    use tokio_rustls::TlsAcceptor;
    use tokio_rustls::server::TlsStream;
    use tokio_util::codec::{Framed, LinesCodec};

    type Gateway = Framed<TlsStream<TcpStream>, LinesCodec>;

    /// A replica that takes that operator's connection, and that end of it.
    async fn connected(operator: &Identity, replica: &str) -> (Gateway, Lines) {
        let identity = Identity::new(GATEWAY).unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(identity.server(operator.pem()).unwrap()));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let certificate = identity.pem().to_owned();
        let program = Program { names: NAMES, name: GATEWAY, namespace: "berth-gateway".to_owned() };
        let replica = Replica { name: replica.to_owned(), address, certificate };
        let accept = async { acceptor.accept(listener.accept().await.unwrap().0).await.unwrap() };
        let (stream, lines) = tokio::join!(accept, connect(&program, operator, &replica));
        (Framed::new(stream, LinesCodec::new()), lines.unwrap())
    }

    async fn says(gateway: &mut Gateway, told: &Told) {
        gateway.send(serde_json::to_string(told).unwrap()).await.unwrap();
    }

    #[tokio::test]
    async fn who_calls_is_heard_at_once_and_who_uses_tenants_until_the_replica_is_gone() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let operator = Identity::new(OPERATOR).unwrap();
        let (mut gateway, lines) = connected(&operator, "a").await;
        let (heard, now): (_, Timestamp) = (Arc::new(Heard::new(1)), "2026-11-29T20:00:00Z".parse().unwrap());
        heard.begins(now - jiff::SignedDuration::from_hours(1));
        heard.pods(now, [("a".to_owned(), false)].into());
        let (told, mut roused) = mpsc::unbounded_channel();
        let listening = heard.clone();
        let listens = tokio::spawn(async move {
            let rouse = move |all: Vec<TenantId>| all.into_iter().for_each(|id| drop(told.send(id)));
            listen(&listening, ("a", lines), || now, rouse).await
        });
        let cluster = ClusterName { namespace: "team-a".to_owned(), name: "acme".to_owned() };
        let id = TenantId { namespace: "team-a".to_owned(), name: "acme".to_owned() };
        // What a newer gateway says ends nothing.
        says(&mut gateway, &Told::Other(serde_json::json!({"later": 1}))).await;
        says(&mut gateway, &Told::Called(cluster.clone())).await;
        assert_eq!(roused.recv().await.as_ref(), Some(&id));
        assert!(heard.of(&id, now).call.is_some_and(|call| call.turn));
        let tenants = vec![Use { cluster, now: true, ago: 0 }];
        says(&mut gateway, &Told::Used(Used { counts_for: 60, tenants, more: false })).await;
        let is_used = || matches!(heard.of(&id, now).uses, Uses::Known { now: true, .. });
        while !is_used() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        drop(gateway);
        let why = listens.await.unwrap();
        assert!(!is_used() && matches!(heard.of(&id, now).uses, Uses::Unknown(_)), "{why}");
    }

    #[tokio::test]
    async fn one_that_says_nothing_or_what_nobody_reads_is_left() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let operator = Identity::new(OPERATOR).unwrap();
        let heard = Heard::new(1);
        let (mut gateway, lines) = connected(&operator, "a").await;
        gateway.send("no JSON").await.unwrap();
        let why = listen(&heard, ("a", lines), || Timestamp::UNIX_EPOCH, drop).await;
        assert!(why.starts_with("a line that cannot be read"), "{why}");
        let (_gateway, lines) = connected(&operator, "a").await;
        tokio::time::pause();
        let why = listen(&heard, ("a", lines), || Timestamp::UNIX_EPOCH, drop).await;
        assert_eq!(why, "it says nothing for 15s");
    }
}
