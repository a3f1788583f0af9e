//! Requests of running pods follow what these use ([ADR 77](../../../../docs/adr/0077-requests-follow-usage.md)): once a minute, while somebody
//! asks for it, one list of usage and one of pods for all tenants, and a resize for each pod whose size is another.

pub mod asked;

use crate::context::Context;
use crate::fleet_tasks::FleetTask;
use asked::Memories;
use berth_kubeio::{IoError, Resized, read_sized_pods, read_usage, resize};
use berth_plan::sizes::{Asked, Known, Metrics, Part, SizedPod, say, step};
use berth_plan_cluster::window;
use jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// Who asks anew waits so long for others.
const GATHER: Duration = Duration::from_secs(5);

/// Follows usage.
#[derive(Debug)]
pub(crate) struct FollowUsage;

impl FleetTask for FollowUsage {
    const AGAIN: Duration = Duration::from_mins(1);

    async fn news(ctx: &Context) {
        ctx.sizes.news.notified().await;
        // Where many ask at once, as after a start, one pass is for all of them.
        tokio::time::sleep(GATHER.min(ctx.sizes.every)).await;
    }

    async fn pass(ctx: &Context) -> Result<Option<Duration>, IoError> {
        let asked = ctx.sizes.asked(ctx.now());
        let mut memory = ctx.size_memory.take();
        let parts = |(uid, asked): &'_ (String, Arc<Asked>)| {
            asked.parts.iter().map(|part| (uid.clone(), part.container.clone())).collect::<Vec<_>>()
        };
        let all: BTreeSet<_> = asked.iter().flat_map(parts).collect();
        memory.retain(|part, _| all.contains(part));
        let passed = if asked.is_empty() {
            // What was summed last is not so any more.
            ctx.metrics.fleet_sizes.see(&[], &Metrics::Missing);
            Ok(None)
        } else {
            follow(ctx, &asked, &mut memory).await
        };
        ctx.size_memory.put(memory);
        passed
    }

    fn failed(error: &IoError, is_new: bool) {
        if is_new {
            tracing::warn!(%error, "requests of tenants' pods do not follow usage (autoscaling)");
        }
    }
}

async fn follow(
    ctx: &Context,
    asked: &[(String, Arc<Asked>)],
    memory: &mut Memories,
) -> Result<Option<Duration>, IoError> {
    let (metrics, failure) = read_usage(&ctx.io, None).await;
    let pods = read_sized_pods(&ctx.io, None).await?;
    ctx.metrics.fleet_sizes.see(&pods, &metrics);
    let mut by_namespace: BTreeMap<&str, Vec<&SizedPod>> = BTreeMap::new();
    for pod in &pods {
        by_namespace.entry(&pod.namespace).or_default().push(pod);
    }
    let mut lost = None;
    for (uid, asked) in asked {
        let mut told = vec![];
        for part in &asked.parts {
            let its = part.pods(by_namespace.get(&*asked.namespace).map_or(&[], Vec::as_slice));
            let known = memory.entry((uid.clone(), part.container.clone())).or_default();
            lost = lost.or(resize_all(ctx, part, &its, &metrics, known).await.err());
            told.extend(say(part, &its, &metrics, known, ctx.now()));
        }
        ctx.sizes.tell(uid, told);
    }
    // Statuses say it of each tenant; the log once.
    failure.or(lost).map_or(Ok(Some(ctx.sizes.every)), Err)
}

async fn resize_all(
    ctx: &Context,
    part: &Part,
    pods: &[&SizedPod],
    metrics: &Metrics,
    known: &mut Known,
) -> Result<(), IoError> {
    let now = ctx.now();
    for one in step(part, pods, metrics.usage(), known, (now, may_shrink(part, now))) {
        match resize(&ctx.io, &one).await? {
            Resized::Taken => {
                let (namespace, pod) = (&one.namespace, &one.pod);
                tracing::info!(namespace, pod, container = one.container, size = %one.size, "requests follow usage");
                known.taken(&one, now);
            }
            Resized::Refused(why) => known.refused(&one, why, now),
            Resized::Gone => {}
        }
    }
    Ok(())
}

/// Where the window cannot be read, conditions say it.
fn may_shrink(part: &Part, now: Timestamp) -> bool {
    let window = part.down_in.as_ref();
    window.is_none_or(|window| matches!(window::at(window, now), Ok(window::At::Open(_))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_api::cluster::Window;
    use berth_plan::sizes::{Bounds, Size};

    #[test]
    fn of_etcd_requests_become_less_within_a_window_only() {
        let zone = |zone: &str| {
            Some(Window { days: vec![], start: "22:00".into(), duration: "2h".into(), time_zone: zone.into() })
        };
        let may = |down_in: Option<Window>, now: &str| {
            let bounds = Bounds { min: Size::default(), max: Size::default() };
            let (field, container) = ("spec.autoscaling".to_owned(), "etcd".to_owned());
            let label = ("a".to_owned(), "b".to_owned());
            may_shrink(&Part { field, container, label, bounds, down_in }, now.parse().unwrap())
        };
        assert!(may(None, "2026-01-01T12:00:00Z"), "without one at any time");
        assert!(may(zone("UTC"), "2026-01-01T22:30:00Z"));
        assert!(!may(zone("UTC"), "2026-01-01T12:00:00Z"));
        assert!(!may(zone("Mars/Base"), "2026-01-01T22:30:00Z"), "one that cannot be read is never open");
    }
}
