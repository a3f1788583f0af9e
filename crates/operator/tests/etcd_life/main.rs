//! The life of an etcd whose members are real processes: the whole operator grows, shrinks and mends it while a client writes, and while
//! members, operators and answers get lost. What the operator wrote for pods is what runs, guard included: see [`kubelet`].
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking with a message")]

#[path = "../common/mod.rs"]
mod common;
mod kubelet;
mod life;
mod writer;

use life::Life;
use writer::Writer;

/// It grows under a writer, and nothing is lost.
#[tokio::test(flavor = "multi_thread")]
async fn an_etcd_grows_under_a_writer() {
    let life = Life::new(1).await;
    let writer = Writer::start(life.client.clone());
    life.asks_for(3).await;
    life.at_rest(3).await;
    println!("{}", life.story());
    println!("{} writes", writer.nothing_was_lost(&life.client));
    life.end().await;
}
