//! The alerts and the dashboard of the chart, judged by a real Prometheus that scrapes the program: each fires and clears.

use super::*;
use berth_testkit::fixtures::package;
use berth_testkit::prometheus::{Prometheus, impatient};
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::api::{Patch, PatchParams};
use platform::{USER, certificate};
use std::path::PathBuf;

fn file(name: &str) -> PathBuf {
    package().join("../../charts/berth/files").join(name)
}

/// Until these fire and no other.
async fn fires(prometheus: &Prometheus, names: &[&str]) {
    until(&format!("{names:?} to fire"), async || prometheus.firing().is_ok_and(|firing| firing == names)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_alert_fires_and_clears() {
    let mut p = Platform::start().await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let rules = impatient(&file("alerts-access.yaml"), dir.path()).unwrap();
    let prometheus = Prometheus::start(&p.access.metrics, &rules).unwrap();
    until("the first scrape", async || {
        let ready = prometheus.get("/api/v1/query?query=berth_access_ready");
        ready.is_ok_and(|said| said["result"][0]["value"][1] == "1")
    })
    .await;
    fires(&prometheus, &[]).await;

    p.operator.stop();
    fires(&prometheus, &["BerthAccessNoOperator"]).await;
    p.operator.connect(&p.meta, &p.tenant, &p.proxy_ca);
    fires(&prometheus, &[]).await;

    // Whoever may not ask learns nothing.
    let bindings: Api<ClusterRoleBinding> = Api::all(p.meta.client());
    let bound = |subject: serde_json::Value| Patch::Merge(json!({ "subjects": [subject] }));
    bindings.patch(USER, &PatchParams::default(), &bound(user("nobody"))).await.unwrap();
    let mut calls = 0;
    until("reviews that fail to be told", async || {
        calls += 1;
        // Each is asked for: none is known from before.
        get(&p, &format!("nobody-{calls}"), "/clusters").await;
        prometheus.firing().is_ok_and(|firing| firing == ["BerthAccessReviewsFail"])
    })
    .await;
    bindings.patch(USER, &PatchParams::default(), &bound(user(USER))).await.unwrap();
    fires(&prometheus, &[]).await;

    certificate(p.dir.path(), 6).unwrap();
    fires(&prometheus, &["BerthAccessCertificateExpires"]).await;
    certificate(p.dir.path(), 30).unwrap();
    fires(&prometheus, &[]).await;

    prometheus.answers(&file("dashboard-access.json")).unwrap();
    p.access.stop();
    fires(&prometheus, &["BerthAccessAbsent"]).await;
}
