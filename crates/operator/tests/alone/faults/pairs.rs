//! Private keys that are not their certificates', and nobody touches the `Cluster`: told of a root, reissued for a leaf.

use crate::common::canary::Canary;
use crate::common::log::Log;
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
    canaries: [Canary; 2],
}

/// Likewise, with keys swapped, and what then was in the Secrets.
pub(crate) struct Swapped {
    pairs: Pairs,
    /// The root's own key.
    key: ByteString,
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
    /// With an operator that runs, and what it logs at level debug.
    pub(crate) async fn new(server: &ApiServer, log: &Log) -> Self {
        let (root, leaf) = (Team::with_cluster(server).await, Team::with_cluster(server).await);
        for team in [&root, &leaf] {
            team.ready().await.unwrap_or_else(|e| panic!("{e:#}"));
        }
        let canaries = [Canary::of(&root, log).await, Canary::of(&leaf, log).await];
        Self { root, leaf, canaries }
    }

    pub(crate) async fn swap(self) -> Swapped {
        let key = data(&self.root, &names::ca(ACME)).await["tls.key"].clone();
        let root = swap(&self.root, &names::ca(ACME), "tls.key").await;
        let leaf = swap(&self.leaf, names::APISERVER_PKI, &format!("{LEAF}.key")).await;
        Swapped { pairs: self, key, root, leaf }
    }
}

impl Swapped {
    /// Waits until the operator has seen both, and puts the root right.
    pub(crate) async fn seen(self) {
        let Pairs { root, leaf, canaries: [mut of_root, of_leaf] } = self.pairs;
        let said = root.says(ConditionType::Ready, "CertificateAuthorityInvalid").await;
        let mismatch =
            format!("Secret {}/{}: the private key does not belong to the ", root.cp_namespace, names::ca(ACME));
        assert!(said.contains(&mismatch), "{said}");
        assert_eq!(data(&root, &names::ca(ACME)).await, self.root, "a root is not replaced");
        let (crt, key) = (format!("{LEAF}.crt"), format!("{LEAF}.key"));
        until(SOON, "another certificate", async || {
            let now = data(&leaf, names::APISERVER_PKI).await;
            now[&crt] != self.leaf[&crt] && now[&key] != self.leaf[&key]
        })
        .await;
        leaf.ready().await.unwrap_or_else(|e| panic!("{e:#}"));
        of_root.reported("CertificateAuthorityInvalid").await;
        of_root.silent("a root with another key").await;
        root.inside::<Secret>()
            .patch(&names::ca(ACME), &PatchParams::default(), &Patch::Merge(json!({"data": {"tls.key": self.key}})))
            .await
            .expect("restore");
        root.touch().await;
        root.ready().await.unwrap_or_else(|e| panic!("{e:#}"));
        for canary in [of_root, of_leaf] {
            canary.silent_to_the_end().await;
        }
    }
}
