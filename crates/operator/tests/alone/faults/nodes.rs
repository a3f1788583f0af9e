//! A node that joins the meta cluster: API servers are kept from it, and from its pods, at once.

use crate::common::{Running, SOON, Team, alone_at_a_server, me};
use berth_api::names;
use berth_operator::meta;
use berth_plan::meta_cluster::addresses::MetaRanges;
use berth_testkit::{FaultPlan, fixtures::eventually};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

#[tokio::test]
async fn api_servers_are_kept_from_a_node_as_soon_as_it_joins() {
    let (_turn, server) = alone_at_a_server().await;
    let (plan, stop) = (FaultPlan::new(), CancellationToken::new());
    // As of a cluster that tells its Services and API servers; what it has of nodes is asked.
    let net = |text: &str| vec![text.parse().unwrap()];
    let given = MetaRanges { services: net("10.96.0.0/16"), api_servers: net("192.0.2.7/32"), ..MetaRanges::default() };
    let _running = Running::start_changed(server, me(server), &plan, |context| {
        let context = Arc::new(context.clone());
        let (given, stop) = (given.clone(), stop.clone());
        tokio::spawn(async move {
            let known = meta::refresh(&context, &given).await;
            meta::follow(context, given, known, stop).await;
        });
    });
    let team = Team::with_cluster(server).await;
    team.ready().await.expect("ready");
    let except = async || -> Vec<String> {
        let policy = team.inside::<NetworkPolicy>().get(names::APISERVER).await.expect("the policy");
        let policy: Value = serde_json::to_value(policy).unwrap();
        let peers = policy["spec"]["egress"].as_array().unwrap().iter().flat_map(|r| r["to"].as_array().unwrap());
        let blocks = peers.filter_map(|peer| peer["ipBlock"]["except"].as_array());
        blocks.flatten().map(|net| net.as_str().unwrap().to_owned()).collect()
    };
    // Public addresses: private ones are closed in any case.
    let (address, pods) = ("198.51.100.9/32", "203.0.113.0/24");
    assert!(!except().await.iter().any(|net| net == address || net == pods));

    let nodes: Api<Node> = Api::all(server.client());
    let name = server.unique("joins");
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": {"podCIDR": pods, "podCIDRs": [pods]}});
    nodes.create(&PostParams::default(), &serde_json::from_value(node).unwrap()).await.expect("node");
    // A kubelet says its address after the node is there.
    let status = json!({"status": {"addresses": [{"type": "InternalIP", "address": "198.51.100.9"}]}});
    nodes.patch_status(&name, &PatchParams::default(), &Patch::Merge(&status)).await.expect("status");
    let closed = async || {
        let except = except().await;
        anyhow::ensure!([address, pods].iter().all(|net| except.iter().any(|e| e == net)), "{except:?}");
        Ok(())
    };
    eventually(SOON, "the policy excludes the node and its pods", closed).await.expect("closed");
    nodes.delete(&name, &DeleteParams::default()).await.expect("deleted");
    stop.cancel();
    team.wipe().await;
}
