//! What the operator is told of who uses tenants, over a real stream.

use super::*;
use crate::link::speak;
use berth_contract::calls::{GATEWAY, OPERATOR, Told, Used};
use berth_edge::link::Identity;
use futures::StreamExt as _;
use tokio_util::codec::{Framed, LinesCodec};

type Operator = Framed<TlsStream<TcpStream>, LinesCodec>;

/// An operator that listens to it.
async fn operator(world: &World) -> Operator {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let [operator, own] = [OPERATOR, GATEWAY].map(|name| Identity::new(name).unwrap());
    let acceptor = TlsAcceptor::from(Arc::new(own.server(operator.pem()).unwrap()));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let gateway = world.gateway.clone();
    tokio::spawn(async move {
        let stream = acceptor.accept(listener.accept().await.unwrap().0).await.unwrap();
        let lines = Framed::new(stream, LinesCodec::new());
        gateway.operators.track_future(speak(&gateway, lines)).await
    });
    let connector = TlsConnector::from(Arc::new(operator.client(own.pem()).unwrap()));
    Framed::new(connector.connect(ServerName::try_from(GATEWAY).unwrap(), stream).await.unwrap(), LinesCodec::new())
}

/// The next line. None: it has said its last.
async fn line(operator: &mut Operator) -> Option<Told> {
    let line = tokio::time::timeout(SOON, operator.next()).await.unwrap()?;
    Some(serde_json::from_str(&line.unwrap()).unwrap())
}

/// Until it says something of a tenant: whether that is used now.
async fn used(operator: &mut Operator) -> bool {
    loop {
        if let Some(Told::Used(Used { tenants, .. })) = line(operator).await
            && let Some(of) = tenants.first()
        {
            return of.now;
        }
    }
}

#[tokio::test]
async fn a_gateway_that_ends_says_who_used_tenants_until_then_and_that_this_is_all() {
    let world = World::start(limits());
    let acme = Server::start("acme").await;
    // Whether it may sleep makes no difference: it may later on.
    world.has(&[("acme", &[(acme.address, true)])]);
    let mut operator = operator(&world).await;
    let mut tls = acme.through(&world, "acme").await;
    works(&mut tls).await;
    assert!(used(&mut operator).await);
    world.gateway.stop.cancel();
    let (left, ()) = tokio::join!(world.gateway.drained(), async { drop(tls) });
    assert!(left);
    world.gateway.last_words().await;
    let mut told = vec![];
    while let Some(line) = line(&mut operator).await {
        told.push(line);
    }
    assert_eq!(told.last(), Some(&Told::Over), "{told:?}");
    let last = told.iter().rev().find_map(|line| match line {
        Told::Used(Used { tenants, .. }) => tenants.first().map(|of| of.now),
        _ => None,
    });
    assert_eq!(last, Some(false), "{told:?}");
}
