//! The meta cluster's own addresses: as configured, and where nothing is, as the meta cluster says.

use crate::config::Meta;
use crate::context::Context;
use berth_kubeio::{Io, IoError};
use berth_plan::meta::{MetaRanges, network};
use ipnet::IpNet;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How often they are looked at: nodes come and go.
const EVERY: Duration = Duration::from_mins(5);
/// After a look that failed.
const AGAIN: Duration = Duration::from_secs(5);
/// Objects in one answer: a node's object has tens of KiB.
const PAGE: u32 = 50;

/// Keeps the settings up to date until `stop`.
pub async fn follow(ctx: Arc<Context>, given: Meta, stop: CancellationToken) {
    loop {
        let known = look(&ctx, &given).await;
        let pause = if known { EVERY } else { AGAIN };
        tokio::select! { () = tokio::time::sleep(pause) => (), () = stop.cancelled() => return }
    }
}

/// One look. False: what was known before, if anything, stays.
pub async fn look(ctx: &Context, given: &Meta) -> bool {
    let answer = match given.given() {
        Ok(given) => ranges(&ctx.io, given).await.map_err(|e| e.to_string()),
        Err(error) => Err(format!("{error:#}")),
    };
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

/// What is given, and the rest from the meta cluster.
async fn ranges(io: &Io, given: MetaRanges) -> Result<MetaRanges, IoError> {
    let mut all = given;
    if all.services.is_empty() {
        let found = items(io, "/apis/networking.k8s.io/v1/servicecidrs").await?;
        all.services = nets(found.iter().flat_map(|o| strings(&o["spec"]["cidrs"])));
    }
    if all.api_servers.is_empty() {
        let url = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes";
        let slice = io.raw(url).await?;
        let endpoints = slice["endpoints"].as_array().cloned().unwrap_or_default();
        all.api_servers = nets(endpoints.iter().flat_map(|e| strings(&e["addresses"])));
    }
    if all.pods.is_empty() || all.nodes.is_empty() {
        let nodes = items(io, "/api/v1/nodes").await?;
        if all.pods.is_empty() {
            all.pods = nets(nodes.iter().flat_map(|n| strings(&n["spec"]["podCIDRs"])));
        }
        if all.nodes.is_empty() {
            let addresses = nodes.iter().flat_map(|n| n["status"]["addresses"].as_array().into_iter().flatten());
            let of_ip = addresses.filter(|a| matches!(a["type"].as_str(), Some("InternalIP" | "ExternalIP")));
            all.nodes = nets(of_ip.filter_map(|a| a["address"].as_str()));
        }
    }
    Ok(all)
}

/// Merged and sorted, so that the same nodes in another order are no news.
fn nets<'a>(all: impl Iterator<Item = &'a str>) -> Vec<IpNet> {
    let mut merged = IpNet::aggregate(&all.filter_map(network).collect());
    merged.sort_unstable();
    merged
}

fn strings(list: &Value) -> impl Iterator<Item = &str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str)
}

/// All objects of a collection, in pages.
pub(crate) async fn items(io: &Io, url: &str) -> Result<Vec<Value>, IoError> {
    let mut all = vec![];
    let mut next = String::new();
    loop {
        let mut page = io.raw(&format!("{url}?limit={PAGE}&continue={next}")).await?;
        if let Value::Array(items) = page["items"].take() {
            all.extend(items.into_iter().map(slim));
        }
        match page["metadata"]["continue"].as_str().filter(|c| !c.is_empty()) {
            Some(token) => token.clone_into(&mut next),
            None => return Ok(all),
        }
    }
}

/// Without what a thousand nodes would fill memory with.
fn slim(mut object: Value) -> Value {
    if let Some(status) = object.get_mut("status").and_then(Value::as_object_mut) {
        status.retain(|k, _| k == "addresses");
    }
    object["metadata"].take();
    object
}
