//! examples/audit-logs.yaml keeps what a tenant's owner did: the configuration in it, run by a real collector over a node's logs.

use std::{
    fs,
    path::Path,
    process::{Child, Command, Stdio},
};

use anyhow::{Context as _, Result, ensure};
use berth_devcluster::{
    binaries::{self, Selection},
    versions::OTELCOL,
};
use berth_e2e::{Tenant, World, core, paths, run::run, until};
use serde_json::{Value, json};

const EXAMPLE: &str = "examples/audit-logs.yaml";

#[test]
#[ignore = "make test-all: builds an OpenTelemetry Collector"]
fn a_collector_keeps_a_tenants_audit_log() {
    run("audit", |world| {
        binaries::build(&Selection::Named(vec!["otelcol".to_owned()]))?;
        let example = fs::read_to_string(paths::root().join(EXAMPLE))?;
        ensure!(
            example.contains(&format!("opentelemetry-collector-contrib:{OTELCOL}\n")),
            "the example runs {OTELCOL}, which is tested"
        );
        accepted(world, &example)?;
        with_sink(world)?;
        let tenant = Tenant::ready(world, "audited", &audit())?;
        let place = tempfile::tempdir()?;
        let config = place.path().join("config.yaml");
        fs::write(&config, configuration(&example)?)?;

        let collector = Collector::start(world, &config, place.path())?;
        created(&tenant, "before-the-restart")?;
        until("the first event", || has(&tenant, place.path(), "before-the-restart"))?;
        drop(collector);
        // What happens while nobody collects is read afterwards.
        created(&tenant, "meanwhile")?;
        let _collector = Collector::start(world, &config, place.path())?;
        until("the second event", || has(&tenant, place.path(), "meanwhile"))?;
        let kept = events(place.path())?;
        let first =
            kept.iter().find(|event| is_creation(&event.1, "before-the-restart")).context("the first event is gone")?;
        ensure!(first.1["level"] == "Request", "the policy of the spec does not count: {}", first.1);
        ensure!(
            kept.iter().all(|(namespace, _)| *namespace == tenant.cp_namespace),
            "events of somebody else were kept"
        );
        Ok(())
    });
}

/// A policy of the team's own, and a webhook that never answers: neither keeps the tenant from coming up and serving.
fn audit() -> Value {
    let maps = json!([{"group": "", "resources": ["configmaps"]}]);
    let rules = json!([{"level": "Request", "verbs": ["create", "patch"], "resources": maps}, {"level": "Metadata"}]);
    let webhook = json!({"secretRef": {"name": "sink"}, "batch": {"maxWait": "1s"}});
    json!({"apiServer": {"audit": {"policy": {"rules": rules}, "webhook": webhook}}})
}

/// What the webhook is described by: nobody is at that address.
fn with_sink(world: &World) -> Result<()> {
    let namespace = Tenant::named(world, "audited").namespace;
    let team = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
    world.kube.ensure(&core("", "namespaces"), &team)?;
    let kubeconfig = json!({
        "clusters": [{"name": "c", "cluster": {"server": "https://192.0.2.1/events"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c"}}], "current-context": "x",
    });
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "sink"}, "type": "berth.dev/audit-webhook",
        "stringData": {"kubeconfig": kubeconfig.to_string()},
    });
    world.kube.ensure(&core(&namespace, "secrets"), &secret)
}

/// The API server takes every object of the example.
fn accepted(world: &World, example: &str) -> Result<()> {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {
        "name": "berth-audit", "labels": {"pod-security.kubernetes.io/enforce": "privileged"},
    }});
    let path = format!("{}/berth-audit", core("", "namespaces"));
    world.kube.ensure(&core("", "namespaces"), &namespace)?;
    let file = tempfile::NamedTempFile::new()?;
    fs::write(file.path(), example)?;
    let said = world.kubectl(&["apply", "--dry-run=server", "-f", &file.path().display().to_string()]);
    world.kube.delete(&path)?;
    let said = said?;
    ensure!(said.contains("daemonset.apps/collector created"), "{said}");
    Ok(())
}

fn configuration(example: &str) -> Result<String> {
    let (_, config) = example.split_once("config.yaml: |\n").context("a configuration in the example")?;
    let lines = config.lines().take_while(|line| *line != "---").map(|line| line.strip_prefix("    ").unwrap_or(line));
    Ok(lines.fold(String::new(), |text, line| text + line + "\n"))
}

fn created(tenant: &Tenant<'_>, name: &str) -> Result<()> {
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    tenant.api()?.ensure(&core("default", "configmaps"), &map)
}

fn has(tenant: &Tenant<'_>, place: &Path, name: &str) -> Result<()> {
    let found = events(place)?;
    let found = found.iter().any(|(namespace, event)| *namespace == tenant.cp_namespace && is_creation(event, name));
    ensure!(found, "the creation of {name} is not among the events");
    Ok(())
}

fn is_creation(event: &Value, name: &str) -> bool {
    let of = &event["objectRef"];
    let written = event["verb"] == "create" || event["verb"] == "patch";
    written && of["resource"] == "configmaps" && of["name"] == name && event["stage"] == "ResponseComplete"
}

/// Control-plane namespace and event, as the collector wrote them.
fn events(place: &Path) -> Result<Vec<(String, Value)>> {
    let mut all = vec![];
    for line in fs::read_to_string(place.join("events.jsonl")).unwrap_or_default().lines() {
        let batch: Value = serde_json::from_str(line)?;
        for resource in batch["resourceLogs"].as_array().into_iter().flatten() {
            let attributes = resource["resource"]["attributes"].as_array().context("attributes")?;
            let namespace = attributes.iter().find(|a| a["key"] == "k8s.namespace.name").context("a namespace")?;
            let namespace = namespace["value"]["stringValue"].as_str().context("its name")?;
            let records = resource["scopeLogs"].as_array().into_iter().flatten();
            for record in records.flat_map(|scope| scope["logRecords"].as_array().into_iter().flatten()) {
                let event = record["body"]["stringValue"].as_str().context("a line")?;
                all.push((namespace.to_owned(), serde_json::from_str(event)?));
            }
        }
    }
    Ok(all)
}

/// As the pod of the example runs it.
struct Collector(Child);

impl Collector {
    fn start(world: &World, config: &Path, place: &Path) -> Result<Self> {
        let logs = world.cluster.pod_logs(1).context("the first node")?;
        let mut command = Command::new(binaries::path("otelcol", OTELCOL, "otelcol")?);
        command.arg(format!("--config={}", config.display())).stdout(Stdio::null());
        let child = command.env("POD_LOGS", logs).env("AUDIT_LOGS", place).spawn()?;
        Ok(Self(child))
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        // As a node does that loses its power.
        let _ended = self.0.kill().and_then(|()| self.0.wait());
    }
}
