//! The meta cluster's own addresses: as configured, and where nothing is, as the meta cluster says.

use crate::context::Context;
use berth_kubeio::meta_ranges;
use berth_plan::meta::MetaRanges;
use ipnet::IpNet;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How often they are looked at: nodes come and go.
const EVERY: Duration = Duration::from_mins(5);
/// After a look that failed.
const AGAIN: Duration = Duration::from_secs(5);

/// Keeps the settings up to date until `stop`. `known`: what the last look found.
pub async fn follow(ctx: Arc<Context>, given: MetaRanges, mut known: bool, stop: CancellationToken) {
    loop {
        let pause = if known { EVERY } else { AGAIN };
        tokio::select! { () = tokio::time::sleep(pause) => (), () = stop.cancelled() => return }
        known = look(&ctx, &given).await;
    }
}

/// One look. False: what was known before, if anything, stays.
pub async fn look(ctx: &Context, given: &MetaRanges) -> bool {
    let answer = meta_ranges(&ctx.io, given.clone()).await.map_err(|e| e.to_string());
    let before = ctx.settings().isolation.meta.clone();
    match (&before, answer) {
        (Ok(old), Ok(new)) if *old == new => true,
        (_, Ok(new)) => {
            let of = |nets: &[IpNet]| nets.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
            tracing::info!(
                pods = of(&new.pods),
                services = of(&new.services),
                nodes = of(&new.nodes),
                api_servers = of(&new.api_servers),
                "addresses of the meta cluster, which API servers of tenants do not reach"
            );
            if new.pods.is_empty() {
                tracing::warn!(
                    "no node says which addresses its pods have: set meta.podCIDRs in the chart's values, or API servers of tenants reach pods of the meta cluster"
                );
            }
            ctx.configure(|s| s.isolation.meta = Ok(new));
            true
        }
        (Ok(_), Err(why)) => {
            tracing::warn!(why, "addresses of the meta cluster; those known before stay");
            false
        }
        (Err(old), Err(why)) => {
            if *old != why {
                tracing::warn!(why, "addresses of the meta cluster; no tenant is made without them");
                ctx.configure(|s| s.isolation.meta = Err(why));
            }
            false
        }
    }
}
