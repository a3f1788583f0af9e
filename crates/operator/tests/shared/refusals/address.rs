//! An API that moves to an address of the other family: inside, its slice cannot be changed to that.

use crate::common::{SOON, Team, shared_operator};
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
    team.create(json!({"endpoint": {"type": "NodePort", "host": four}})).await.expect("Cluster");
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
