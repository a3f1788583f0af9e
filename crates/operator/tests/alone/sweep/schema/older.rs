//! Template sets older than some fields, as an older operator stored them. For what is pinned to one, `Ready` names such a field.

use super::subject::{Kind, Subject, Verdict};
use crate::common::SOON;
use crate::common::team::ACME;
use anyhow::{Result, ensure};
use berth_api::version::Version;
use berth_api::{labels, names};
use berth_render::{Catalog, TemplateSet};
use berth_testkit::FaultPlan;
use berth_testkit::oracle::Dump;
use serde_json::{Value, json};
use std::time::Instant;

/// Fields, and what a folder of templates says in place of reading their values: what they are by default.
const UNREAD: &[(Kind, &str, &str, &str)] = &[
    (Kind::Cluster, "apiServer.authentication", "apiserver", "jwt = []"),
    (Kind::Cluster, "apiServer.audit", "apiserver", r#"audit = {"policy": none, "webhook": none}"#),
    (
        Kind::Cluster,
        "apiServer.serviceAccountIssuers",
        "apiserver",
        r#"service_account_issuers = ["https://kubernetes.default.svc.cluster.local"]"#,
    ),
    (Kind::Cluster, "apiServer.admission", "apiserver", "admission = []"),
    (Kind::Cluster, "apiServer.trustedCA", "apiserver", "trusted_ca = none"),
    (Kind::Cluster, "endpoint.service.annotations", "common__apiserver", "annotations = {}"),
    (Kind::Etcd, "keepOldData", "cluster", "keep_old_data = 604800"),
    (Kind::Etcd, "heartbeatInterval", "cluster", "heartbeat_ms = none"),
    (Kind::Etcd, "electionTimeout", "cluster", "election_ms = none"),
    (Kind::Etcd, "snapshotCount", "cluster", "snapshot_count = 10000"),
    (Kind::Etcd, "quotaBackendBytes", "cluster", "quota_bytes = 2147483648"),
];

/// Whether the older set does not read the values of a field.
pub(super) fn unread(kind: Kind, path: &str) -> bool {
    UNREAD.iter().any(|(of, field, ..)| *of == kind && path.starts_with(field))
}

fn builtin(kind: Kind) -> &'static TemplateSet {
    let first = kind.first();
    let version: Version = first["version"].as_str().and_then(|text| text.parse().ok()).expect("a version");
    let (catalog, minor) = (Catalog::builtin(), version.minor());
    let set = if kind == Kind::Cluster { catalog.kubernetes(minor) } else { catalog.etcd(minor) };
    set.expect("built in")
}

fn older(kind: Kind) -> TemplateSet {
    let mut data = builtin(kind).to_data();
    for (_, _, folder, assignment) in UNREAD.iter().filter(|(of, ..)| *of == kind) {
        for (_, text) in data.iter_mut().filter(|(key, _)| key.starts_with(&format!("{folder}__"))) {
            *text = format!("{{% set {assignment} %}}\n{text}");
        }
    }
    TemplateSet::from_data(data).expect("a set")
}

impl Subject {
    /// Pins what is up to the older set, which changes no pod; the state.
    pub(crate) async fn pin_to_older(&self, plan: &FaultPlan) -> Result<Dump> {
        let (set, built_in) = (older(self.kind), builtin(self.kind).digest());
        let (ns, former, name) = match self.kind {
            Kind::Cluster => (&self.team.cp_namespace, names::templates(&built_in), names::templates(&set.digest())),
            Kind::Etcd => {
                let name = |digest: &str| names::etcd::templates(ACME, digest);
                (&self.team.ns, name(&built_in), name(&set.digest()))
            }
        };
        let former = self.call(http::Request::get(format!("/api/v1/namespaces/{ns}/configmaps/{former}")), "").await?;
        // The pin first: a set that nothing is pinned to would be pruned.
        let (place, pin) = match self.kind {
            Kind::Cluster => (
                format!("/api/v1/namespaces/{ns}"),
                json!({"metadata": {"annotations": {(labels::TEMPLATES): set.digest()}}}),
            ),
            Kind::Etcd => (self.its_url("/status"), json!({"status": {"templates": {"digest": set.digest()}}})),
        };
        self.call(http::Request::patch(place), pin).await?;
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "immutable": true, "data": set.to_data(),
            "metadata": {"name": name, "labels": former["metadata"]["labels"]},
        });
        let request = http::Request::post(format!("/api/v1/namespaces/{ns}/configmaps"));
        self.send(request, "application/json", &map).await.map_err(anyhow::Error::msg)?;
        let began = Instant::now();
        loop {
            let noted = json!({"metadata": {"annotations": {"test.berth.dev/at": format!("{began:?}")}}});
            self.call(http::Request::patch(self.its_url("")), noted).await?;
            match self.verdict(plan).await? {
                Verdict::Ready => return self.dump(plan).await,
                other => ensure!(began.elapsed() < SOON, "pinned to {name}: {other:?}"),
            }
        }
    }

    async fn call(&self, request: http::request::Builder, patch: impl Into<Value>) -> Result<Value> {
        let patch = patch.into();
        self.send(request, "application/merge-patch+json", &patch).await.map_err(anyhow::Error::msg)
    }
}
