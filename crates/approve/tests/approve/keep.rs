//! The endpoints of the `kubernetes` Service come back, whoever takes them away.

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use berth_api::names;
use berth_testkit::ApiServer;
use k8s_openapi::api::core::v1::{ConfigMap, Endpoints};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;

use crate::cluster::*;

/// What people are promised.
const BACK: Duration = Duration::from_secs(15);

#[tokio::test]
async fn endpoints_of_the_api_come_back_within_seconds_and_follow_the_operator() {
    let server = ApiServer::start().await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    grant(&server).await.unwrap();
    endpoints(&server, "192.0.2.7").await.unwrap();
    credential(&server, names::APPROVER_USER, dir.path()).unwrap();
    let client = server.client();
    let slices: Api<EndpointSlice> = Api::namespaced(client.clone(), "default");
    let former: Api<Endpoints> = Api::namespaced(client.clone(), "default");
    let leads_to = async |address: &str| {
        let slice = slices.get("kubernetes").await?;
        ensure!(slice.endpoints.first().context("no endpoint")?.addresses == [address], "{slice:?}");
        let former = former.get("kubernetes").await?;
        let subsets = former.subsets.clone().unwrap_or_default();
        let addresses = subsets.first().and_then(|subset| subset.addresses.clone()).unwrap_or_default();
        ensure!(addresses.first().context("no address")?.ip == address, "{former:?}");
        Ok(())
    };
    // Gone before it starts.
    let delete = async || {
        slices.delete("kubernetes", &DeleteParams::default()).await.unwrap();
        former.delete("kubernetes", &DeleteParams::default()).await.unwrap();
    };
    delete().await;
    // Two of them, as beside two controller-managers.
    let second = tempfile::tempdir().unwrap();
    credential(&server, names::APPROVER_USER, second.path()).unwrap();
    let _both = [approver(&server, dir.path()).unwrap(), approver(&server, second.path()).unwrap()];
    until("both", LONG, async || leads_to("192.0.2.7").await).await;
    for round in 0..2 {
        let start = Instant::now();
        delete().await;
        until("both", BACK, async || leads_to("192.0.2.7").await).await;
        println!("{round}: back after {:?}", start.elapsed());
    }
    // Somebody else's address.
    let other = Patch::Merge(json!({"endpoints": [{"addresses": ["198.51.100.1"]}]}));
    slices.patch("kubernetes", &PatchParams::default(), &other).await.unwrap();
    until("the right one", BACK, async || leads_to("192.0.2.7").await).await;
    // The operator's next address, and that of an older one, which says nothing of it in the stamp.
    endpoints(&server, "192.0.2.8").await.unwrap();
    delete().await;
    until("the next one", BACK, async || leads_to("192.0.2.8").await).await;
    // Whose stamp is not written: what it wrote stays, and what others changed after it comes back.
    slice(&server, "192.0.2.9").await.unwrap();
    let subsets = Patch::Merge(json!({"subsets": [{"addresses": [{"ip": "198.51.100.1"}]}]}));
    former.patch("kubernetes", &PatchParams::default(), &subsets).await.unwrap();
    let is_back = async || {
        let former = former.get("kubernetes").await?;
        ensure!(serde_json::to_string(&former.subsets)?.contains("192.0.2.8"), "{former:?}");
        Ok(())
    };
    until("the Endpoints", BACK, is_back).await;
    assert_eq!(slices.get("kubernetes").await.unwrap().endpoints[0].addresses, ["192.0.2.9"]);
    let stamps: Api<ConfigMap> = Api::namespaced(client.clone(), "kube-system");
    let older = Patch::Merge(json!({"data": {"addresses": null, "addressType": null, "port": null}}));
    stamps.patch("berth-endpoint", &PatchParams::default(), &older).await.unwrap();
    let mark = server.audit_mark();
    slices.patch("kubernetes", &PatchParams::default(), &other).await.unwrap();
    let looked = async || {
        let all = server.audit_since(mark);
        let own = all.iter().filter(|event| event.user == names::APPROVER_USER);
        ensure!(own.filter(|event| event.uri.contains("berth-endpoint")).count() >= 2, "{all:?}");
        Ok(())
    };
    until("a look of each", LONG, looked).await;
    let slice = slices.get("kubernetes").await.unwrap();
    assert_eq!(slice.endpoints[0].addresses, ["198.51.100.1"], "it is the operator's");
}
