//! The meta cluster's own addresses: as configured, and where nothing is, as the meta cluster says.

use crate::context::Context;
use crate::controllers::Backoff;
use berth_kubeio::{ErrorKind, IoError, RangesError, meta_nodes, meta_ranges};
use berth_plan::meta_cluster::addresses::MetaRanges;
use futures::future::ready;
use futures::{Stream, StreamExt, stream};
use ipnet::IpNet;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{ObjectMeta, PartialObjectMeta};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, watcher};
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How often they are read without an event: ranges of Services and API servers change, too.
const EVERY: Duration = Duration::from_mins(5);
/// A node that joins changes several times within a moment.
const DEBOUNCE: Duration = Duration::from_secs(1);
/// As long as a name may take to be resolved.
const RESOLVE: Duration = Duration::from_secs(2);
/// After a failure; after each further one twice as long, up to [`SELDOM`]: each read lists all nodes.
const AGAIN: Duration = Duration::from_secs(5);
const SELDOM: Duration = Duration::from_secs(30);

/// Keeps them up to date until `stop`. `known`: what the last read found.
pub async fn follow(ctx: Arc<Context>, given: MetaRanges, known: bool, stop: CancellationToken) {
    // Where both are given, nodes are not asked.
    let watched = given.pods.is_empty() || given.nodes.is_empty();
    let mut joins = if watched { joining_nodes(ctx.clone()).boxed() } else { stream::pending().boxed() };
    let mut failures = u32::from(!known);
    loop {
        tokio::select! {
            () = tokio::time::sleep(pause(failures)) => (),
            Some(()) = joins.next() => tokio::time::sleep(DEBOUNCE).await,
            () = stop.cancelled() => return,
        }
        failures = if refresh(&ctx, &given).await { 0 } else { failures.saturating_add(1) };
    }
}

/// How long nothing is read after so many failures in a row.
fn pause(failures: u32) -> Duration {
    match failures.checked_sub(1) {
        None => EVERY,
        Some(more) => AGAIN.saturating_mul(1 << more.min(10)).min(SELDOM),
    }
}

/// An item whenever a node is new, or changes while it is: what it says of its addresses and its pods' comes one after the other.
fn joining_nodes(ctx: Arc<Context>) -> impl Stream<Item = ()> + Send {
    let nodes = Api::<PartialObjectMeta<Node>>::all((**ctx.io.client()).clone());
    let mut first_list = true;
    watcher(nodes, watcher::Config::default()).backoff(Backoff::for_watches()).filter_map(move |event| {
        let joins = match event {
            Ok(watcher::Event::Apply(node)) => is_new(&node.metadata, ctx.now()),
            // What a broken watch missed.
            Ok(watcher::Event::InitDone) => !std::mem::take(&mut first_list),
            Ok(_) => false,
            Err(error) => {
                ctx.failed(&IoError::from_watch(&error));
                false
            }
        };
        ready(joins.then_some(()))
    })
}

fn is_new(node: &ObjectMeta, now: Timestamp) -> bool {
    let made = node.creation_timestamp.as_ref();
    made.is_none_or(|made| now.duration_since(made.0) < SignedDuration::from_mins(5))
}

/// Reads once, and what nodes have for pods beside it. False: it failed, and what was known before stays, unless that was of a cluster without nodes.
pub async fn refresh(ctx: &Context, given: &MetaRanges) -> bool {
    let nodes = meta_nodes(&ctx.io).await;
    let answer = meta_ranges(&ctx.io, given.clone(), &nodes).await;
    let room = match nodes {
        Ok(nodes) => Some(Arc::new(nodes.room)),
        // Who gives all addresses may withhold the nodes: then nothing is judged by them.
        Err(error) if error.kind == ErrorKind::Forbidden => None,
        // What was refused by them begins only once they are known to have changed.
        Err(error) => {
            ctx.failed(&error);
            ctx.meta().room.clone()
        }
    };
    if ctx.meta().room != room {
        ctx.update_meta(|m| m.room = room);
    }
    if let Err(RangesError::Call(error)) = &answer {
        ctx.failed(error);
    }
    let answer = answer.map_err(|e| e.to_string());
    let before = ctx.meta().addresses.clone();
    match (&before, answer) {
        (Ok(old), Ok(new)) if *old == new => true,
        (_, Ok(new)) => {
            let of = |nets: &[IpNet]| nets.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
            tracing::info!(
                pods = of(&new.pods),
                services = of(&new.services),
                nodes = of(&new.nodes),
                api_servers = of(&new.api_servers),
                "read the addresses of the meta cluster, from which NetworkPolicies keep tenants"
            );
            if new.pods.is_empty() {
                tracing::warn!(
                    "there are no nodes yet, so the pods' addresses are not known: until a node joins, tenants' API servers can reach pods of the meta cluster in a network that is not private. Set meta.podCIDRs in the chart's values"
                );
            }
            warn_of_stores(ctx, &new).await;
            ctx.update_meta(|m| m.addresses = Ok(new));
            true
        }
        // Where nodes are new, and say nothing of their pods, what was known of none is worth nothing.
        (Ok(old), Err(why)) if !old.pods.is_empty() => {
            tracing::warn!(why, "cannot read the addresses of the meta cluster; the known ones stay in use");
            false
        }
        (before, Err(why)) => {
            if before.as_ref().err() != Some(&why) {
                tracing::warn!(why, "cannot read the addresses of the meta cluster; without them no tenant is created");
                ctx.update_meta(|m| m.addresses = Err(why));
            }
            false
        }
    }
}

/// Says which stores for backups no Job reaches. What a name resolves to here, it resolves to in the Jobs' pods.
async fn warn_of_stores(ctx: &Context, ranges: &MetaRanges) {
    let backups = &ctx.settings.backups;
    let mut known: HashMap<String, Vec<IpAddr>> = HashMap::new();
    for (_, host) in backups.hosts_anywhere() {
        let found = tokio::time::timeout(RESOLVE, tokio::net::lookup_host((host, 0))).await;
        let found = found.into_iter().flatten().flatten().map(|address| address.ip());
        known.entry(host.to_owned()).or_default().extend(found);
    }
    for why in backups.out_of_reach(ranges, |host| known.get(host).cloned().unwrap_or_default()) {
        tracing::warn!(why, "a store for backups is out of reach");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_fence::{Fence, FencedClient};
    use berth_plan::Settings;
    use berth_plan::settings::Config;
    use http::{Request, Response, StatusCode};
    use kube::Client;
    use kube::client::Body;
    use serde_json::{Value, json};
    use std::convert::Infallible;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// A meta cluster that says all of itself, or nothing.
    fn context(says: bool) -> Context {
        of_cluster(move |path| if says { of(path, &node()) } else { (StatusCode::FORBIDDEN, json!({})) })
    }

    /// A meta cluster that has these nodes.
    fn with_nodes(nodes: &Value) -> Context {
        let nodes = nodes.clone();
        of_cluster(move |path| of(path, &nodes))
    }

    fn of_cluster(answer: impl Fn(&str) -> (StatusCode, Value) + Send + Sync + 'static) -> Context {
        let service = tower::service_fn(move |request: Request<Body>| {
            let (status, answer) = answer(request.uri().path());
            let mut response = Response::new(Body::from(answer.to_string().into_bytes()));
            *response.status_mut() = status;
            async move { Ok::<_, Infallible>(response) }
        });
        let client = FencedClient::new(Client::new(service, "default"), Fence::closed());
        Context::new(&client, Settings::default(), "test")
    }

    fn node() -> Value {
        json!([{
            "spec": {"podCIDRs": ["10.244.0.0/24"]},
            "status": {"addresses": [{"type": "InternalIP", "address": "192.168.0.7"}]},
        }])
    }

    fn of(path: &str, nodes: &Value) -> (StatusCode, Value) {
        let answer = match path {
            "/apis/networking.k8s.io/v1/servicecidrs" => json!({"items": [{"spec": {"cidrs": ["10.96.0.0/12"]}}]}),
            "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes" => {
                json!({"endpoints": [{"addresses": ["192.168.9.9"]}]})
            }
            "/api/v1/nodes" => json!({"items": nodes}),
            _ => return (StatusCode::NOT_FOUND, json!({})),
        };
        (StatusCode::OK, answer)
    }

    /// What tenants are kept from, with this as the chart's value `meta`.
    async fn known(context: Context, meta: &Value) -> Result<MetaRanges, String> {
        context.update_meta(|m| m.addresses = Err("nobody has looked".into()));
        let given = Config::parse(&json!({"meta": meta}).to_string()).unwrap().given;
        assert_eq!(refresh(&context, &given).await, context.meta().addresses.is_ok());
        context.meta().addresses.clone()
    }

    #[tokio::test]
    async fn what_is_given_takes_the_place_of_what_is_read_and_nothing_else_does() {
        let nets = |text: &str| vec![text.parse::<IpNet>().unwrap()];
        let read = MetaRanges {
            pods: nets("10.244.0.0/24"),
            services: nets("10.96.0.0/12"),
            nodes: nets("192.168.0.7/32"),
            api_servers: nets("192.168.9.9/32"),
        };
        assert_eq!(known(context(true), &json!({})).await, Ok(read.clone()));
        let given = || nets("172.16.0.0/16");
        for (field, wanted) in [
            ("podCIDRs", MetaRanges { pods: given(), ..read.clone() }),
            ("serviceCIDRs", MetaRanges { services: given(), ..read.clone() }),
            ("nodeCIDRs", MetaRanges { nodes: given(), ..read.clone() }),
            ("apiServerIPs", MetaRanges { api_servers: given(), ..read.clone() }),
        ] {
            assert_eq!(known(context(true), &json!({field: ["172.16.0.0/16"]})).await, Ok(wanted), "{field}");
        }
    }

    #[tokio::test]
    async fn nodes_are_listed_once_for_addresses_and_room() {
        let lists = Arc::new(AtomicUsize::new(0));
        let count = lists.clone();
        let context = of_cluster(move |path| {
            count.fetch_add(usize::from(path == "/api/v1/nodes"), Ordering::Relaxed);
            of(path, &node())
        });
        assert!(known(context.clone(), &json!({})).await.is_ok());
        assert_eq!((lists.load(Ordering::Relaxed), context.meta().room.as_ref().unwrap().len()), (1, 1));
    }

    #[test]
    fn after_each_failure_it_waits_longer() {
        let seconds = [0, 1, 2, 3, 4, u32::MAX].map(|failures| pause(failures).as_secs());
        assert_eq!(seconds, [300, 5, 10, 20, 30, 30]);
    }

    #[tokio::test]
    async fn where_pods_are_is_given_if_no_node_says_it() {
        let mut silent = node();
        silent[0]["spec"] = json!({});
        let why = known(with_nodes(&silent), &json!({})).await.unwrap_err();
        assert_eq!(why, "no node has a spec.podCIDR; set meta.podCIDRs in the chart's values");
        let given = known(with_nodes(&silent), &json!({"podCIDRs": ["172.16.0.0/16"]})).await.unwrap();
        assert_eq!(given.pods, ["172.16.0.0/16".parse().unwrap()]);
        let without = known(with_nodes(&json!([])), &json!({})).await.unwrap();
        assert_eq!((without.pods, without.nodes), (vec![], vec![]), "no nodes, no pods");
    }

    #[tokio::test]
    async fn what_is_given_is_not_asked_for() {
        let all = json!({
            "podCIDRs": ["10.1.0.0/16"], "serviceCIDRs": ["10.2.0.0/16"], "nodeCIDRs": ["10.3.0.0/16"],
            "apiServerIPs": ["10.4.0.9"],
        });
        assert!(known(context(false), &all).await.is_ok());
        for field in ["podCIDRs", "serviceCIDRs", "nodeCIDRs", "apiServerIPs"] {
            let mut less = all.clone();
            less.as_object_mut().unwrap().remove(field);
            assert!(known(context(false), &less).await.is_err(), "{field}");
        }
    }
}
