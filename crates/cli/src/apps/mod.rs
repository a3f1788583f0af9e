//! `apps`: how far Apps are in which `Cluster`s, and the values that each gets.

mod config_maps;
mod foresee;
mod objects;
mod plan;
mod render;

pub(crate) use config_maps::read as read_config_maps;
pub(crate) use render::wanted;

use crate::access::{Access, parse};
use crate::args::Meta;
use crate::args::apps::{Apps, List, Verb};
use crate::outcome::Outcome;
use crate::paint::{bad, good, safe, warn};
use crate::{age, output};
use anyhow::anyhow;
use berth_api::app::AppState;
use berth_api::conditions::{ConditionType, find};
use berth_api::{App, AppInstallation, labels};
use berth_plan_apps::app;
use berth_render::{Kind, ObjectKey};
use jiff::Timestamp;
use kube::ResourceExt as _;
use serde::Serialize;
use serde::de::DeserializeOwned;

pub(crate) async fn run(meta: &Meta, args: &Apps) -> anyhow::Result<Outcome> {
    let access = Access::to_read(meta).await?;
    match (&args.verb, &args.list) {
        (Some(Verb::Plan(plan)), _) => plan::run(&access, plan, meta.namespace.as_deref()).await,
        (Some(Verb::Render(render)), _) => render::run(&access, render, meta.namespace.as_deref()).await,
        (None, list @ List { app: Some(name), .. }) => one(&access, name, list).await,
        (None, list @ List { cluster: Some(cluster), .. }) => in_cluster(&access, cluster, list).await,
        (None, list) => all(&access, list).await,
    }
}

/// How far one is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Counted {
    app: String,
    clusters: i64,
    deployed: i64,
    running: i64,
    waiting: i64,
    failed: i64,
    queued: i64,
    deleting: i64,
    /// The first wave that is not through, from 1.
    wave: Option<i64>,
    /// How many waves there are.
    waves: Option<usize>,
    ready: bool,
    message: String,
}

/// How one is in a `Cluster`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct InCluster {
    app: String,
    cluster: String,
    state: AppState,
    /// Helm's.
    revision: Option<i64>,
    /// Of the chart.
    version: Option<String>,
    /// Since when that release is there.
    since: Option<String>,
    message: String,
    /// What there is not as Helm left it.
    drift: Option<String>,
}

/// The `Cluster` that a word means.
pub(crate) fn named(access: &Access, cluster: &str) -> (String, String) {
    let (namespace, name) = cluster.split_once('/').unwrap_or((&access.namespace, cluster));
    (namespace.to_owned(), name.to_owned())
}

/// The App of that name, as stored.
pub(crate) async fn stored(access: &Access, name: &str) -> anyhow::Result<App> {
    let key = ObjectKey::namespaced(Kind::App, &*access.namespace, name);
    if let Some(live) = access.get(&key).await? {
        return parse(live, &key.to_string());
    }
    access.installed().await?;
    Err(anyhow!("{key} does not exist. List all with: kubectl berth apps -A"))
}

/// All of a kind that this version can read; the others are complained of.
pub(crate) async fn list<T: DeserializeOwned>(
    access: &Access,
    kind: Kind,
    namespace: Option<&str>,
    selector: Option<&str>,
) -> anyhow::Result<Vec<T>> {
    let items = access.io.list(kind, namespace, selector).await.map_err(|e| access.explain(e))?;
    let read = |item: serde_json::Value| {
        let of = ObjectKey::of(kind, &item).to_string();
        parse(item, &of).inspect_err(output::complain).ok()
    };
    Ok(items.into_iter().filter_map(read).collect())
}

async fn all(access: &Access, args: &List) -> anyhow::Result<Outcome> {
    let namespace = (!args.all_namespaces).then_some(&*access.namespace);
    let apps: Vec<App> = list(access, Kind::App, namespace, None).await?;
    let all: Vec<Counted> = apps.iter().map(counted).collect();
    if all.is_empty() {
        output::note("there is no App");
    }
    output::show(args.output, &all, || counts(&all))?;
    Ok(Outcome::done_if(all.iter().all(|app| app.ready)))
}

fn counted(app: &App) -> Counted {
    let status = app.status.clone().unwrap_or_default();
    let seen = status.observed_generation == app.metadata.generation;
    let ready = find(&status.conditions, ConditionType::Ready).filter(|_| seen);
    let of = |count: Option<i64>| count.unwrap_or_default();
    Counted {
        app: format!("{}/{}", app.namespace().unwrap_or_default(), app.name_any()),
        clusters: of(status.selected),
        deployed: of(status.deployed),
        running: of(status.running),
        waiting: of(status.waiting),
        failed: of(status.failed),
        queued: of(status.queued),
        deleting: of(status.deleting),
        wave: status.wave,
        waves: (!app.spec.waves.is_empty()).then_some(app.spec.waves.len() + 1),
        ready: ready.is_some_and(|ready| ready.status == "True"),
        message: ready.map_or_else(|| "the operator has not seen it yet".to_owned(), |ready| ready.message.clone()),
    }
}

fn counts(all: &[Counted]) -> String {
    let rows = all.iter().map(|app| {
        let deployed = app.deployed.to_string();
        let failed = app.failed.to_string();
        vec![
            safe(&app.app),
            app.clusters.to_string(),
            if app.ready { good(&deployed) } else { warn(&deployed) },
            app.running.to_string(),
            app.waiting.to_string(),
            if app.failed == 0 { failed } else { bad(&failed) },
            app.queued.to_string(),
            app.deleting.to_string(),
            match (app.wave, app.waves) {
                (Some(wave), Some(waves)) => format!("{wave}/{waves}"),
                _ => "-".to_owned(),
            },
            if app.ready { String::new() } else { safe(&app.message) },
        ]
    });
    let head = ["APP", "CLUSTERS", "DEPLOYED", "RUNNING", "WAITING", "FAILED", "QUEUED", "DELETING", "WAVE", ""];
    output::table(head, rows)
}

async fn one(access: &Access, name: &str, args: &List) -> anyhow::Result<Outcome> {
    let app = stored(access, name).await?;
    let scope = app::scope(&app, &args.operator_namespace);
    let selector = app::selector(&app);
    let installations: Vec<AppInstallation> = list(access, Kind::AppInstallation, scope, Some(&selector)).await?;
    let mut tenants = tenants(&app, &installations);
    if let Some(cluster) = &args.cluster {
        let (namespace, name) = named(access, cluster);
        tenants.retain(|tenant| tenant.cluster == format!("{namespace}/{name}"));
    }
    show(&tenants, args, &format!("App {}/{name} is in no such Cluster", access.namespace))?;
    let at = app.status.as_ref().and_then(|status| usize::try_from(status.wave?).ok()?.checked_sub(1));
    if let Some(at) = at.filter(|_| args.cluster.is_none()) {
        output::note(&format!("it is at {}; later ones wait until that is through", app::wave_name(&app.spec, at)));
    }
    let queued = app.status.as_ref().and_then(|status| status.queued).unwrap_or_default();
    let listed = tenants.iter().filter(|tenant| tenant.state == AppState::Queued).count();
    if args.cluster.is_none() && i64::try_from(listed).is_ok_and(|listed| listed < queued) {
        output::note(&format!("{queued} Clusters wait for their turn; not all of them are listed"));
    }
    Ok(Outcome::done_if(tenants.iter().all(|tenant| tenant.state == AppState::Deployed)))
}

/// In each `Cluster`: of those whose turn has not come the App's status names some.
fn tenants(app: &App, installations: &[AppInstallation]) -> Vec<InCluster> {
    let of = format!("{}/{}", app.namespace().unwrap_or_default(), app.name_any());
    let is_ours = |it: &&AppInstallation| it.spec.app.uid == app.uid().unwrap_or_default();
    let mut all: Vec<InCluster> = installations
        .iter()
        .filter(is_ours)
        .map(|it| {
            let is_newest = app::is_newest(app, it) || it.metadata.deletion_timestamp.is_some();
            let older = "it has an older spec, and its turn has not come";
            let there = installed(it);
            if is_newest { there } else { InCluster { state: AppState::Queued, message: older.into(), ..there } }
        })
        .collect();
    for listed in app.status.iter().flat_map(|status| &status.clusters) {
        let cluster = format!("{}/{}", listed.namespace, listed.name);
        if listed.state == AppState::Queued && all.iter().all(|it| it.cluster != cluster) {
            let (app, message) = (of.clone(), listed.message.clone());
            let state = AppState::Queued;
            all.push(InCluster {
                app,
                cluster,
                state,
                revision: None,
                version: None,
                since: None,
                message,
                drift: None,
            });
        }
    }
    all.sort_by(|a, b| a.cluster.cmp(&b.cluster));
    all
}

fn installed(it: &AppInstallation) -> InCluster {
    let status = it.status.clone().unwrap_or_default();
    let release = status.release.as_ref();
    InCluster {
        app: format!("{}/{}", it.spec.app.namespace, it.spec.app.name),
        cluster: format!("{}/{}", it.namespace().unwrap_or_default(), it.spec.cluster.name),
        state: app::state(it),
        revision: release.map(|release| release.revision),
        version: release.map(|release| release.version.clone()),
        since: release.and_then(|release| release.since.as_ref()).map(|at| at.0.to_string()),
        message: find(&status.conditions, ConditionType::Ready).map(|ready| ready.message.clone()).unwrap_or_default(),
        drift: find(&status.conditions, ConditionType::Drifted)
            .filter(|drifted| drifted.status == "True")
            .map(|drifted| drifted.message.clone()),
    }
}

async fn in_cluster(access: &Access, cluster: &str, args: &List) -> anyhow::Result<Outcome> {
    let (namespace, name) = named(access, cluster);
    let selector = format!("{}={name}", labels::CLUSTER_NAME);
    let there: Vec<AppInstallation> = list(access, Kind::AppInstallation, Some(&namespace), Some(&selector)).await?;
    let all: Vec<InCluster> = there.iter().map(installed).collect();
    show(&all, args, &format!("Cluster {namespace}/{name} has no Apps"))?;
    Ok(Outcome::done_if(all.iter().all(|it| it.state == AppState::Deployed)))
}

fn show(all: &[InCluster], args: &List, none: &str) -> anyhow::Result<()> {
    if all.is_empty() {
        output::note(none);
    }
    output::show(args.output, &all, || table(all, Timestamp::now()))
}

fn table(all: &[InCluster], now: Timestamp) -> String {
    let rows = all.iter().map(|it| {
        let state = format!("{:?}", it.state);
        let since = it.since.as_ref().and_then(|at| at.parse::<Timestamp>().ok());
        vec![
            safe(&it.app),
            safe(&it.cluster),
            match it.state {
                AppState::Deployed => good(&state),
                AppState::Failed => bad(&state),
                _ => warn(&state),
            },
            it.revision.map_or_else(|| "-".to_owned(), |revision| revision.to_string()),
            safe(it.version.as_deref().unwrap_or("-")),
            since.map_or_else(|| "-".to_owned(), |at| age::age(at, now)),
            match it.state {
                AppState::Deployed => safe(it.drift.as_deref().unwrap_or_default()),
                _ => safe(&it.message),
            },
        ]
    });
    output::table(["APP", "CLUSTER", "STATE", "REVISION", "VERSION", "SINCE", ""], rows)
}
