//! The meta cluster's own addresses: as configured, and where nothing is, as the meta cluster says.

use crate::context::Context;
use crate::controllers::Backoff;
use berth_kubeio::{ErrorKind, IoError, RangesError, meta_ranges, node_room};
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
/// After a failure.
const AGAIN: Duration = Duration::from_secs(5);

/// Keeps them up to date until `stop`. `known`: what the last read found.
pub async fn follow(ctx: Arc<Context>, given: MetaRanges, mut known: bool, stop: CancellationToken) {
    // Where both are given, nodes are not asked.
    let watched = given.pods.is_empty() || given.nodes.is_empty();
    let mut joins = if watched { joining_nodes(ctx.clone()).boxed() } else { stream::pending().boxed() };
    loop {
        let pause = if known { EVERY } else { AGAIN };
        tokio::select! {
            () = tokio::time::sleep(pause) => (),
            Some(()) = joins.next() => tokio::time::sleep(DEBOUNCE).await,
            () = stop.cancelled() => return,
        }
        known = refresh(&ctx, &given).await;
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
    let (answer, room) = tokio::join!(meta_ranges(&ctx.io, given.clone()), node_room(&ctx.io));
    let room = match room {
        Ok(nodes) => Some(Arc::new(nodes)),
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
