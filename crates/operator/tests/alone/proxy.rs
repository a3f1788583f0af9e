//! What a real kube-apiserver reaches by a proxy, and what it does not with what Berth adds to `NO_PROXY`.

use anyhow::ensure;
use berth_api::proxy::{ALWAYS, Proxy};
use berth_plan::meta_cluster::addresses::PRIVATE;
use berth_testkit::ApiServer;
use berth_testkit::apiserver::Options;
use berth_testkit::fixtures::eventually;
use berth_testkit::forward::{Forward, ForwardProxy};
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;
use std::time::Duration;

/// A node at that address is there, and its kubelet is asked for its pods.
async fn ask_kubelet(server: &ApiServer, name: &str, address: &str) {
    let nodes: Api<Node> = Api::all(server.client());
    let node = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
    nodes.create(&PostParams::default(), &node).await.unwrap();
    let status = json!({"status": {
        "addresses": [{"type": "InternalIP", "address": address}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
    }});
    nodes.patch_status(name, &PatchParams::default(), &Patch::Merge(&status)).await.unwrap();
    let request = http::Request::get(format!("/api/v1/nodes/{name}/proxy/pods")).body(Vec::new()).unwrap();
    // Nobody is there, and it takes as long as the network takes to say so.
    let _ = tokio::time::timeout(Duration::from_secs(3), server.client().request_text(request)).await;
}

#[tokio::test]
async fn an_issuer_is_reached_by_the_proxy_and_nodes_in_private_networks_are_not() {
    let forward = ForwardProxy::start(Forward::Refuses("403 Forbidden"));
    let own: Vec<String> = ALWAYS.into_iter().chain(PRIVATE).map(str::to_owned).collect();
    let proxy = Proxy { https: Some(forward.url()), ..Proxy::default() };
    let server = ApiServer::start_with(Options {
        apiserver_args: vec!["--oidc-issuer-url=https://issuer.example.com".into(), "--oidc-client-id=x".into()],
        environment: proxy.variables(&own).into_iter().map(|(name, value)| format!("{name}={value}")).collect(),
        ..Options::default()
    })
    .await
    .unwrap();
    ask_kubelet(&server, "private", "10.255.255.1").await;
    ask_kubelet(&server, "public", "203.0.113.1").await;
    let asked = eventually(Duration::from_mins(1), "the proxy to be asked", async || {
        let asked = forward.asked();
        for wanted in ["CONNECT issuer.example.com:443", "CONNECT 203.0.113.1:10250"] {
            ensure!(asked.iter().any(|line| line == wanted), "{wanted} is not among {asked:?}");
        }
        Ok(asked)
    })
    .await
    .unwrap();
    let others: Vec<_> =
        asked.iter().filter(|line| !line.contains("issuer") && !line.contains("203.0.113.1")).collect();
    assert!(others.is_empty(), "neither etcd nor the other node: {others:?}");
}
