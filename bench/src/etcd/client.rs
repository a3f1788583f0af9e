//! A client of the tenant that writes all the time, as one would that makes a call again.

use futures::{TryStreamExt as _, stream};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::PostParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use serde_json::json;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;

/// Deadline of a call.
const DEADLINE: Duration = Duration::from_secs(5);
/// Until the second attempt.
const AGAIN: Duration = Duration::from_secs(1);
/// Bytes of one ConfigMap that fills etcd.
const BLOCK: usize = 950 << 10;

/// What a client saw.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Seen {
    /// Seconds that each call took that was answered at its first attempt.
    pub(super) times: Vec<f64>,
    /// Answered at the second attempt.
    pub(super) retried: usize,
    /// Failed twice.
    pub(super) failed: usize,
    /// The longest time between two answers, in seconds.
    pub(super) gap: f64,
}

impl Seen {
    /// The time that 99 of 100 calls did not exceed, in seconds.
    pub(super) fn p99(&self) -> f64 {
        let mut sorted = self.times.clone();
        sorted.sort_by(f64::total_cmp);
        sorted.get(sorted.len() * 99 / 100).copied().unwrap_or(f64::NAN)
    }
}

/// Clients that write until they are asked to end.
pub(super) struct Writer {
    ends: Arc<AtomicBool>,
    gap: Arc<Mutex<Gap>>,
    tasks: Vec<JoinHandle<Seen>>,
}

/// The longest time in which no client was answered.
struct Gap {
    last: Instant,
    longest: Duration,
}

impl Gap {
    fn is_over(gap: &Mutex<Self>) {
        let mut gap = gap.lock().unwrap_or_else(PoisonError::into_inner);
        gap.longest = gap.longest.max(gap.last.elapsed());
        gap.last = Instant::now();
    }
}

impl Writer {
    /// Each of so many clients creates a ConfigMap, waits for `pace`, creates the next. A call that fails is made once more, a second later.
    pub(super) fn start(kubeconfig: &str, pace: Duration, clients: usize) -> Self {
        let ends = Arc::new(AtomicBool::new(false));
        let gap = Arc::new(Mutex::new(Gap { last: Instant::now(), longest: Duration::ZERO }));
        let client = |_| {
            let (kubeconfig, end, gap) = (kubeconfig.to_owned(), ends.clone(), gap.clone());
            tokio::spawn(async move {
                let mut seen = Seen::default();
                while !end.load(Ordering::Relaxed) {
                    let began = Instant::now();
                    let answered = if call(&kubeconfig).await {
                        seen.times.push(began.elapsed().as_secs_f64());
                        true
                    } else {
                        tokio::time::sleep(AGAIN).await;
                        let second = call(&kubeconfig).await;
                        *(if second { &mut seen.retried } else { &mut seen.failed }) += 1;
                        second
                    };
                    if answered {
                        Gap::is_over(&gap);
                    }
                    tokio::time::sleep(pace).await;
                }
                seen
            })
        };
        Self { tasks: (0..clients).map(client).collect(), ends, gap }
    }

    /// Ends them; what they saw.
    pub(super) async fn end(self) -> anyhow::Result<Seen> {
        self.ends.store(true, Ordering::Relaxed);
        let mut all = Seen::default();
        for task in self.tasks {
            let Seen { times, retried, failed, .. } = task.await?;
            all.times.extend(times);
            all.retried += retried;
            all.failed += failed;
        }
        Gap::is_over(&self.gap);
        all.gap = self.gap.lock().unwrap_or_else(PoisonError::into_inner).longest.as_secs_f64();
        Ok(all)
    }
}

/// One write over a new connection, within the deadline.
async fn call(kubeconfig: &str) -> bool {
    let write = async {
        let object = serde_json::from_value(json!({"metadata": {"generateName": "call-"}, "data": {"a": "b"}}))?;
        create(&connect(kubeconfig).await?, &object).await
    };
    tokio::time::timeout(DEADLINE, write).await.is_ok_and(|written| written.is_ok())
}

/// Writes so many MiB, in ConfigMaps of nearly one each.
pub(super) async fn fill(kubeconfig: &str, mib: usize) -> anyhow::Result<()> {
    let client = connect(kubeconfig).await?;
    let text = "x".repeat(BLOCK);
    let block = |n| serde_json::from_value(json!({"metadata": {"name": format!("block-{n}")}, "data": {"a": text}}));
    let (client, block) = (&client, &block);
    let all = (0..(mib << 20).div_ceil(BLOCK)).map(|n| anyhow::Ok(async move { create(client, &block(n)?).await }));
    stream::iter(all).try_buffer_unordered(4).try_collect::<Vec<()>>().await.map(drop)
}

async fn create(client: &Client, object: &ConfigMap) -> anyhow::Result<()> {
    Api::namespaced(client.clone(), "default").create(&PostParams::default(), object).await?;
    Ok(())
}

async fn connect(kubeconfig: &str) -> anyhow::Result<Client> {
    let kubeconfig = Kubeconfig::from_yaml(kubeconfig)?;
    Ok(Client::try_from(Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::float_cmp, reason = "one of the given numbers")]
    fn one_call_of_a_hundred_may_take_longer() {
        let seen = |times: Vec<f64>| Seen { times, ..Seen::default() }.p99();
        assert_eq!(seen((1..=200).map(f64::from).collect()), 199.0);
        assert_eq!(seen(vec![1.0, 7.0]), 7.0);
        assert!(seen(vec![]).is_nan());
    }
}
