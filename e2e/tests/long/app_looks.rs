//! An App whose chart makes keys, passwords and dates anew at each rendering, as many do: however often it is looked for drift, by the interval
//! and because a person asks, nothing is found, nothing is written, and there is no other revision.

use std::time::Duration;

use anyhow::{Result, ensure};
use berth_api::app::phase;
use berth_e2e::{
    Charts, Jobs, Kube, Tenant, TheApp, World, apps, apps_release as release, core, kube_client, run, until,
    until_within,
};
use serde_json::{Value, json};

const APP: &str = "anew";
const NAMESPACE: &str = "shop";
/// In seconds; the schema allows no less.
const INTERVAL: u64 = 600;
/// How often by the interval; `BERTH_E2E_LOOKS` says otherwise, at ten minutes each.
const BY_TIME: usize = 2;
/// How often because a person asks.
const ASKED: usize = 4;

#[test]
#[ignore = "make test-all: looks for drift come ten minutes apart"]
fn a_chart_that_renders_differently_each_time_is_installed_once() {
    Charts::programs().expect("crane and Helm 4");
    run("app_looks", |world| {
        let charts = Charts::serve(world, 5081)?;
        charts.install(world)?;
        charts.push(APP, "1.0.0", CHART)?;
        work(world, &charts)
    });
}

fn work(world: &World, charts: &Charts) -> Result<()> {
    let tenant = Tenant::ready(world, "app-looks", &json!({}))?;
    let mark = world.audit_mark()?;
    let spec = json!({
        "clusterSelector": {}, "chart": charts.chart(APP, "1.0.0"), "namespace": NAMESPACE,
        // What is found would be set back.
        "drift": {"mode": "Repair", "intervalSeconds": INTERVAL},
    });
    let app = TheApp::create(&tenant, APP, &spec)?;
    let it = Looks {
        world,
        inside: tenant.api()?,
        installation: app.installation(&tenant),
        jobs: Jobs::of(&tenant, &app.installation_name(&tenant)),
    };
    until("it to be deployed", || {
        let status = it.status()?;
        ensure!(status["phase"] == phase::DEPLOYED, "{status}");
        Ok(())
    })?;
    let before = it.versions()?;
    let by_time = std::env::var("BERTH_E2E_LOOKS").ok().and_then(|looks| looks.parse().ok()).unwrap_or(BY_TIME);
    let mut last = Value::Null;
    for n in 1..=by_time {
        last = it.looked(&last)?;
        println!("    look {n} by the interval, at {last}");
    }
    // Whoever is the operator then knows what the former one knew. By an interval of a week nobody looks meanwhile.
    world.restart_operator()?;
    app.change(&json!({"drift": {"intervalSeconds": 604_800}}))?;
    for n in 1..=ASKED {
        app.look(&format!("look {n}"))?;
        last = it.looked(&last)?;
    }
    let status = it.status()?;
    ensure!(status["release"]["revision"] == 1 && status["failures"].is_null(), "{status}");
    release::is_the_only_one(&it.inside, NAMESPACE, APP, 1)?;
    let history = release::history(&it.inside, NAMESPACE, APP)?;
    ensure!(history.len() == 1, "{history:?}");
    let after = it.versions()?;
    ensure!(after == before, "{before:?}, then {after:?}");
    // One that installed it, and one for each look.
    let made = it.jobs.made_since(mark)?;
    ensure!(made == 1 + by_time + ASKED, "{made} Jobs for {by_time} looks by the interval and {ASKED} others");
    app.delete()?;
    tenant.nothing_restarted()?;
    tenant.let_go()
}

struct Looks<'w> {
    world: &'w World,
    inside: Kube,
    /// Path of the `AppInstallation`.
    installation: String,
    jobs: Jobs<'w>,
}

impl Looks<'_> {
    fn status(&self) -> Result<Value> {
        Ok(self.world.kube.get(&self.installation)?["status"].clone())
    }

    /// Waits until there was a look after that one, which found nothing; its time.
    fn looked(&self, last: &Value) -> Result<Value> {
        let status = until_within(Duration::from_secs(INTERVAL + 300), "a look", || {
            let status = self.status()?;
            let drift = &status["drift"];
            ensure!(drift["checkedAt"].is_string() && drift["checkedAt"] != *last, "{drift}");
            Ok(status)
        })?;
        let drift = &status["drift"];
        let is_nothing = drift["count"] == 0 && drift["objects"].is_null() && drift["message"].is_null();
        ensure!(is_nothing && status["release"]["revision"] == 1, "{status}");
        Ok(drift["checkedAt"].clone())
    }

    /// What a write to any of what the chart made would change. Controllers write statuses, which is none.
    fn versions(&self) -> Result<Vec<String>> {
        let hooks = kube_client::path("/apis/admissionregistration.k8s.io/v1", "", "validatingwebhookconfigurations");
        let of = [
            (format!("{}/web", core(NAMESPACE, "secrets")), "resourceVersion"),
            (format!("{}/tls", core(NAMESPACE, "secrets")), "resourceVersion"),
            (format!("{}/dated", core(NAMESPACE, "configmaps")), "resourceVersion"),
            (format!("{hooks}/anew.example.com"), "resourceVersion"),
            (format!("{}/dated", kube_client::path("/apis/batch/v1", NAMESPACE, "cronjobs")), "generation"),
            (format!("{}/web", apps(NAMESPACE, "deployments")), "generation"),
        ];
        let version = |(path, field): &(String, &str)| {
            let meta = self.inside.get(path)?["metadata"].clone();
            Ok(format!("{} {} {}", meta["name"], meta["uid"], meta[*field]))
        };
        of.iter().map(version).collect()
    }
}

/// Passwords, certificates in Secrets and in a webhook's configuration, and dates. The webhook is asked of nothing that there is.
const CHART: &str = r#"{{- $ca := genCA "anew" 365 }}
{{- $pair := genSignedCert "web" nil (list "web.shop.svc") 365 $ca }}
apiVersion: v1
kind: Secret
metadata:
  name: web
stringData:
  password: {{ randAlphaNum 32 | quote }}
---
apiVersion: v1
kind: Secret
type: kubernetes.io/tls
metadata:
  name: tls
data:
  ca.crt: {{ $ca.Cert | b64enc | quote }}
  tls.crt: {{ $pair.Cert | b64enc | quote }}
  tls.key: {{ $pair.Key | b64enc | quote }}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: dated
  annotations:
    example.com/rendered-at: {{ now | date "2006-01-02T15:04:05Z07:00" | quote }}
data:
  at: {{ now | unixEpoch | quote }}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata:
  name: anew.example.com
webhooks:
  - name: anew.example.com
    admissionReviewVersions: [v1]
    sideEffects: None
    failurePolicy: Ignore
    clientConfig:
      caBundle: {{ $ca.Cert | b64enc | quote }}
      service: {name: web, namespace: shop}
    rules: [{apiGroups: [anew.example.com], apiVersions: [v1], operations: [CREATE], resources: [things]}]
---
apiVersion: batch/v1
kind: CronJob
metadata:
  name: dated
  annotations:
    example.com/rendered-at: {{ now | unixEpoch | quote }}
spec:
  schedule: "0 0 29 2 *"
  suspend: true
  jobTemplate:
    spec:
      template:
        spec:
          restartPolicy: Never
          containers: [{name: c, image: "registry.k8s.io/pause:3.10.1"}]
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
spec:
  replicas: 0
  selector: {matchLabels: {app: web}}
  template:
    metadata:
      labels: {app: web}
      annotations:
        example.com/rendered-at: {{ now | unixEpoch | quote }}
        example.com/checksum: {{ randAlphaNum 8 | sha256sum | quote }}
    spec:
      containers: [{name: c, image: "registry.k8s.io/pause:3.10.1"}]
"#;
