//! Where an API is: it moves to an address of the other family, which its slice inside cannot be changed to; and two ask for one port of nodes.

use crate::common::{SOON, Team, shared_operator};
use berth_api::conditions::ConditionType;
use berth_testkit::fixtures::eventually;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Api;
use kube::api::ListParams;
use serde_json::json;

/// Types and addresses of all slices that have one of these addresses.
async fn slices(team: &Team, addresses: &[&str]) -> Vec<(String, String)> {
    let all = Api::<EndpointSlice>::all(team.client.clone()).list(&ListParams::default()).await.expect("list");
    let mut found = vec![];
    for slice in all {
        let has = slice.endpoints.iter().flat_map(|e| &e.addresses);
        found.extend(has.filter(|a| addresses.contains(&a.as_str())).map(|a| (slice.address_type.clone(), a.clone())));
    }
    found
}

#[tokio::test]
async fn an_address_of_the_other_family_is_told_inside() {
    let team = Team::new(shared_operator().await).await;
    let (four, six) = ("192.0.2.46", "2001:db8::46");
    // Of an address that does not fit Services, the IPv4 one is taken: the Service's own is no better.
    let network = json!({"serviceCIDRs": ["fd00:113::/112"], "podCIDRs": ["fd00:161::/56"]});
    let spec = json!({"endpoint": {"type": "NodePort", "host": four}, "network": network});
    team.create(spec).await.expect("Cluster");
    for (address, family) in [(four, "IPv4"), (six, "IPv6"), (four, "IPv4")] {
        team.spec(json!({"endpoint": {"host": address}})).await.expect("patch");
        team.ready().await.unwrap_or_else(|e| panic!("{e:#}"));
        let wanted = [(family.to_owned(), address.to_owned())];
        let told = async || {
            let found = slices(&team, &[four, six]).await;
            anyhow::ensure!(found == wanted, "{found:?}");
            Ok(())
        };
        eventually(SOON, address, told).await.unwrap_or_else(|e| panic!("{e:#}"));
    }
}

#[tokio::test]
async fn of_two_that_ask_for_one_port_of_nodes_the_second_is_told_and_serves_at_another() {
    let server = shared_operator().await;
    let (first, second) = (Team::new(server).await, Team::new(server).await);
    let endpoint = |port: i32| json!({"endpoint": {"type": "NodePort", "host": "192.0.2.47", "nodePort": port}});
    let port = async |team: &Team| team.cluster().await.status.and_then(|s| s.endpoints.first().map(|e| e.port));
    first.create(endpoint(31900)).await.expect("Cluster");
    first.ready().await.unwrap_or_else(|e| panic!("{e:#}"));
    assert_eq!(port(&first).await, Some(31900));
    second.create(endpoint(31900)).await.expect("Cluster");
    let why =
        "spec.endpoint.nodePort: Service kube-apiserver cannot have 31900: provided port is already allocated; it has";
    second.says_of(ConditionType::Ready, "InvalidSpec", why).await;
    assert_ne!(port(&second).await, Some(31900));
    second.spec(endpoint(31901)).await.expect("patch");
    second.ready().await.unwrap_or_else(|e| panic!("{e:#}"));
    assert_eq!(port(&second).await, Some(31901));
    assert_eq!(port(&first).await, Some(31900));
}
