//! Rights of a person in many tenants: until they are given, and what they cost afterwards.

use anyhow::{Result, ensure};
use berth_api::ClusterAccess;
use kube::api::PostParams;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

use super::setup::{Pretended, SETTLE, Setup};
use super::{charts, jobs};
use crate::{Figure, audit, operator, outside};

const NAME: &str = "person";
/// How names of what Berth has in tenants begin where the meta cluster's API stands for theirs.
const INSIDE: &str = "berth:tenant-";
/// Tenants that are made at once.
const MADE_AT_ONCE: usize = 50;
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(50);
const TIMEOUT: Duration = Duration::from_mins(10);

pub(super) async fn run(setup: &Setup<'_>) -> Result<Vec<Figure>> {
    let client = setup.client;
    let pretended = Pretended::start(setup, jobs::pretend(client), None).await?;
    let tenants = setup.tenants * 2;
    let names: Vec<String> = (0..tenants).map(|n| format!("access-{n}")).collect();
    pretended.make(&names, MADE_AT_ONCE, || Ok(())).await?;
    tokio::time::sleep(SETTLE).await;
    let minutes = Duration::from_mins(setup.rest_minutes);
    let before = in_tenants(minutes).await?;
    let since = Instant::now();
    let person = json!([{"kind": "User", "name": "person@example.com"}]);
    let spec = json!({"clusterSelector": {}, "role": "Viewer", "subjects": person});
    let access: ClusterAccess = serde_json::from_value(json!({"metadata": {"name": NAME}, "spec": spec}))?;
    let accesses = charts::accesses(client);
    accesses.create(&PostParams::default(), &access).await?;
    let seconds = loop {
        let status = accesses.get(NAME).await?.status.unwrap_or_default();
        if status.granted.and_then(|n| usize::try_from(n).ok()) == Some(tenants) {
            break since.elapsed().as_secs_f64();
        }
        ensure!(since.elapsed() < TIMEOUT, "it is not given after {TIMEOUT:?}: {}", json!(status));
        tokio::time::sleep(PAUSE).await;
    };
    println!("granted in {tenants} after {seconds:.1} s");
    let calls = asked_for(setup)?;
    ensure!(calls >= tenants, "the audit log has {calls} requests for what it gave in {tenants} tenants");
    tokio::time::sleep(SETTLE).await;
    let (settled, writes) = (asked_for(setup)?, setup.written()?);
    let after = in_tenants(minutes).await?;
    let (further, writes) = (asked_for(setup)? - settled, setup.written()? - writes);
    pretended.end().await?;
    let one = |name, unit, value| Figure::new(name, unit, vec![value]);
    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    let (tenants, calls, further, writes) = (tenants as f64, calls as f64, further as f64, writes as f64);
    Ok(vec![
        one("access.tenants", "tenants", tenants),
        one("access.granted", "s", seconds),
        one("access.calls", "each", calls / tenants),
        one("access.rest_calls", "1/min", further * 60.0 / minutes.as_secs_f64()),
        one("access.rest_more", "1/min", after - before),
        one("access.rest_writes", "writes", writes),
    ])
}

/// All requests into tenants, a minute.
async fn in_tenants(time: Duration) -> Result<f64> {
    let calls = async || anyhow::Ok(operator::tenant_calls(&operator::get_from("127.0.0.1", outside::PORT).await?));
    let before = calls().await?;
    tokio::time::sleep(time).await;
    Ok((calls().await? - before) * 60.0 / time.as_secs_f64())
}

/// Requests so far for what the access gave. Tenants' APIs are that of the meta cluster under other names, so its audit log has them.
fn asked_for(setup: &Setup<'_>) -> Result<usize> {
    audit::count(setup.audit_log, INSIDE, is_given)
}

fn is_given(event: &Value) -> bool {
    let name = event.pointer("/objectRef/name").and_then(Value::as_str).unwrap_or_default();
    let inside = name.strip_prefix(INSIDE).and_then(|name| name.split_once(':'));
    inside.is_some_and(|(_, name)| name.starts_with("access:") || name == "viewer")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_access_gives_has_names_of_its_own() {
        let is = |name: &str| is_given(&json!({"objectRef": {"resource": "x", "name": name}}));
        assert!(is("berth:tenant-0123456789:access:1-2") && is("berth:tenant-0123456789:viewer"));
        assert!(!is("berth:tenant-0123456789:apps") && !is("berth:viewer") && !is("berth-operator"));
    }
}
