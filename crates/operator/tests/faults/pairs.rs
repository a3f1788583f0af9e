//! Private keys that are not their certificates', and nobody touches the `Cluster`: told of a root, issued anew for a leaf.

use crate::common::team::ACME;
use crate::common::{SOON, Team};
use berth_api::conditions::ConditionType;
use berth_api::names;
use berth_testkit::ApiServer;
use berth_testkit::fixtures::until;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use std::collections::BTreeMap;

/// A pair in [`names::APISERVER_PKI`].
const LEAF: &str = "apiserver-kubelet-client";

type Data = BTreeMap<String, ByteString>;

/// Two tenants, so that the operator's look at one is no reason to look at the other.
pub(crate) struct Pairs {
    root: Team,
    leaf: Team,
}

/// Likewise, with keys swapped, and what then was in the Secrets.
pub(crate) struct Swapped {
    pairs: Pairs,
    root: Data,
    leaf: Data,
}

async fn data(team: &Team, secret: &str) -> Data {
    team.inside::<Secret>().get(secret).await.expect("get").data.unwrap_or_default()
}

/// Puts the key of another CA of the tenant there.
async fn swap(team: &Team, secret: &str, key: &str) -> Data {
    let other = &data(team, &names::proxy_ca(ACME)).await["tls.key"];
    let patch = Patch::Merge(json!({"data": {key: other}}));
    team.inside::<Secret>().patch(secret, &PatchParams::default(), &patch).await.expect("patch");
    data(team, secret).await
}

impl Pairs {
    /// With an operator that runs.
    pub(crate) async fn new(server: &ApiServer) -> Self {
        let all = Self { root: Team::with_cluster(server).await, leaf: Team::with_cluster(server).await };
        for team in [&all.root, &all.leaf] {
            team.ready().await.unwrap_or_else(|e| panic!("{e:#}"));
        }
        all
    }

    pub(crate) async fn swap(self) -> Swapped {
        let root = swap(&self.root, &names::ca(ACME), "tls.key").await;
        let leaf = swap(&self.leaf, names::APISERVER_PKI, &format!("{LEAF}.key")).await;
        Swapped { pairs: self, root, leaf }
    }
}

impl Swapped {
    /// Waits until the operator has seen both.
    pub(crate) async fn seen(&self) {
        let Pairs { root, leaf } = &self.pairs;
        let said = root.says(ConditionType::Ready, "CertificateAuthorityInvalid").await;
        let mismatch = format!("Secret {}/{}: the private key does not belong to the ", root.home, names::ca(ACME));
        assert!(said.contains(&mismatch), "{said}");
        assert_eq!(data(root, &names::ca(ACME)).await, self.root, "a root is not replaced");
        let (crt, key) = (format!("{LEAF}.crt"), format!("{LEAF}.key"));
        until(SOON, "another certificate", async || {
            let now = data(leaf, names::APISERVER_PKI).await;
            now[&crt] != self.leaf[&crt] && now[&key] != self.leaf[&key]
        })
        .await;
        leaf.ready().await.unwrap_or_else(|e| panic!("{e:#}"));
    }
}
