//! Looks for what stands in the way of the next minor: at each API server, at its pod's own address, and in the tenant.

use super::pages::{Next, next_page};
use super::{Connect, DEADLINE, TenantTarget, metrics, version_of};
use crate::calls::{Calls, Io};
use crate::error::{IoError, chain};
use berth_api::text::TenantText;
use berth_plan::asked::{Answers, Facts, Metrics, Server};
use berth_plan_cluster::LookRequest;
use berth_render::{Kind, ObjectKey};
use futures::future::join_all;
use http::Request;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::time::timeout;

/// How long an API server may take for its metrics.
const METRICS_DEADLINE: Duration = Duration::from_secs(10);

/// What is said of a failure, at the most.
const LONGEST: usize = 300;

/// `APIService`s that are read at once, and pages: a tenant with more is told so.
const PAGE: usize = 400;
const PAGES: usize = 4;

/// All of it. `tenant`: its API as clients reach it.
pub async fn look(
    connect: &Connect,
    target: &TenantTarget,
    tenant: &Io,
    asked: &LookRequest,
    calls: &Arc<Calls>,
    now: Timestamp,
) -> Facts {
    let all = asked.servers.iter().map(|(pod, url)| async move {
        let target = target.of_pod(url.clone(), &asked.server_name);
        (pod.clone(), server(connect, target, calls.clone()).await.map_err(|why| short(&why)))
    });
    let (servers, services_down, admission) = futures::join!(join_all(all), services_down(tenant), admission(tenant));
    Facts { at: now, servers: servers.into_iter().collect(), services_down, admission }
}

/// How each API server answered its clients. One that does not say so is left out.
pub async fn answers(
    connect: &Connect,
    target: &TenantTarget,
    asked: &LookRequest,
    calls: &Arc<Calls>,
) -> BTreeMap<String, Answers> {
    let all = asked.servers.iter().map(|(pod, url)| async move {
        let client = connect(target.of_pod(url.clone(), &asked.server_name)).await.ok()?;
        let metrics = metrics_of(&Io::new(client, calls.clone(), DEADLINE)).await.ok()?;
        Some((pod.clone(), metrics.answers))
    });
    join_all(all).await.into_iter().flatten().collect()
}

async fn server(connect: &Connect, target: TenantTarget, calls: Arc<Calls>) -> Result<Server, String> {
    let io = Io::new(connect(target).await?, calls, DEADLINE);
    let version = io.raw("/version").await.map_err(|e| e.to_string())?;
    let version = version_of(&version).ok_or("get /version: the answer is not a Kubernetes API server's")?;
    let unwell = io.plain("/readyz").await.err().map(|e| short(&e.to_string()));
    Ok(Server { version, unwell, metrics: metrics_of(&io).await? })
}

async fn metrics_of(io: &Io) -> Result<Metrics, String> {
    let request = Request::get("/metrics").body(vec![]).map_err(|e| e.to_string())?;
    io.calls().reads.fetch_add(1, Ordering::Relaxed);
    let read = async {
        let text = io
            .client()
            .request_stream(request)
            .await
            .map_err(|e| IoError::from_kube("get /metrics", &e).to_string())?;
        metrics::read(text).await.map_err(|e| format!("get /metrics: {}", chain(&e)))
    };
    timeout(METRICS_DEADLINE, read)
        .await
        .unwrap_or_else(|_| Err(format!("get /metrics: no answer within {METRICS_DEADLINE:?}")))
}

/// By the columns that `kubectl get apiservices` shows.
async fn services_down(tenant: &Io) -> Result<BTreeMap<TenantText, TenantText>, TenantText> {
    let (mut down, mut more) = (BTreeMap::new(), String::new());
    for _ in 0..PAGES {
        let url = format!("/apis/apiregistration.k8s.io/v1/apiservices?includeObject=None&limit={PAGE}{more}");
        let table = tenant.table(&url).await.map_err(|e| short(&e.to_string()))?;
        down.extend(rows(&table).ok_or("the answer is no table of APIServices")?);
        match next_page(&table) {
            Next::None => return Ok(down),
            Next::At(next) => more = next,
            Next::Odd => return Err("where the next page begins is too long".into()),
        }
    }
    Err(format!("there are more than {}", PAGE * PAGES).into())
}

/// Those that are not available, and why.
fn rows(table: &Value) -> Option<Vec<(TenantText, TenantText)>> {
    let columns = table["columnDefinitions"].as_array()?;
    let column = |name: &str| columns.iter().position(|column| column["name"] == name);
    let (name, available) = (column("Name")?, column("Available")?);
    let cell = |row: &Value, at: usize| short(row["cells"][at].as_str().unwrap_or_default());
    let down = table["rows"].as_array()?.iter().map(|row| (cell(row, name), cell(row, available)));
    Some(down.filter(|(_, available)| **available != *"True").collect())
}

/// Each new API server writes ClusterRoles like this one before it is well.
async fn admission(tenant: &Io) -> Result<(), TenantText> {
    let key = ObjectKey::cluster(Kind::ClusterRole, "system:berth-preflight");
    let role = json!({
        "apiVersion": Kind::ClusterRole.api_version(), "kind": Kind::ClusterRole.name(),
        "metadata": {"name": key.name, "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"}}, "rules": [],
    });
    tenant.create_dry(&key, &role).await.map(drop).map_err(|e| short(&e.to_string()))
}

/// What a tenant says goes into conditions.
fn short(text: &str) -> TenantText {
    TenantText::of(text, LONGEST)
}
