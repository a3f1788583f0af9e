//! `apps plan`: which `Cluster`s an App would reach, which charts change there, and which objects.

use super::foresee::Foresight;
use super::objects::Foreseen;
use super::render::{of_file_or_stored, wanted};
use super::{list, named, objects, read_config_maps};
use crate::access::{Access, parse};
use crate::args::apps::Plan;
use crate::outcome::Outcome;
use crate::output;
use crate::paint::{good, safe, warn};
use berth_api::app::AppRelease;
use berth_api::{App, AppInstallation, Cluster};
use berth_plan_apps::app::{self, ValuesDigests};
use berth_plan_apps::values::config_maps;
use berth_render::{Kind, ObjectKey};
use kube::ResourceExt as _;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// What would become of it in a `Cluster`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
enum What {
    Nothing,
    Install,
    Upgrade,
    Uninstall,
}

/// In one `Cluster`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Change {
    #[serde(skip)]
    key: ObjectKey,
    cluster: String,
    what: What,
    /// From 1. None: there are no waves.
    wave: Option<usize>,
    /// The chart that it was given last.
    from: Option<String>,
    to: Option<String>,
    /// What changes in the tenant. None: nobody asked for it.
    #[serde(flatten)]
    foreseen: Option<Foreseen>,
}

pub(super) async fn run(access: &Access, args: &Plan, namespace: Option<&str>) -> anyhow::Result<Outcome> {
    let app = of_file_or_stored(access, args.file.as_deref(), args.app.as_deref(), namespace).await?;
    let operator = &*args.operator_namespace;
    let read = read_config_maps(access, &app).await?;
    // Whoever may see what is planned need not see what Secrets hold: what the operator saw last counts.
    let values = ValuesDigests {
        config_maps: config_maps::digest(&app.spec.release, &read),
        ..ValuesDigests::recorded(&recorded(access, &app).await?)
    };
    let newest = app::newest(&app, &values);
    let mut clusters = wanted(access, &app, operator).await?;
    let (scope, selector) = (app::scope(&app, operator), app::selector(&app));
    let mut there: Vec<AppInstallation> = list(access, Kind::AppInstallation, scope, Some(&selector)).await?;
    let asked: Vec<_> = args.cluster.iter().map(|cluster| named(access, cluster)).collect();
    let is_asked =
        |namespace: &str, name: &str| asked.is_empty() || asked.iter().any(|of| (&*of.0, &*of.1) == (namespace, name));
    clusters.retain(|key, _| is_asked(key.namespace.as_deref().unwrap_or_default(), &key.name));
    there.retain(|it| is_asked(&it.namespace().unwrap_or_default(), &it.spec.cluster.name));
    let mut all = changes(&app, &newest, &clusters, &there);
    if args.objects {
        let mut foresight = Foresight::of(access, operator, &app, &read).await?;
        for change in all.iter_mut().filter(|change| matches!(change.what, What::Install | What::Upgrade)) {
            let Some(cluster) = clusters.get(&change.key) else { continue };
            let listed = there.iter().find(|it| key_of(it) == change.key);
            change.foreseen = Some(foresight.changes(cluster, whole(access, listed).await?.as_ref()));
        }
    }
    if all.is_empty() {
        output::note("it is for no Cluster");
    }
    output::show(args.output, &all, || table(&all) + &objects::text(&told(&all)))?;
    Ok(Outcome::done_if(all.iter().all(|change| change.what == What::Nothing)))
}

/// The App as it is stored: its status says what the operator saw. One of a file may be new.
async fn recorded(access: &Access, app: &App) -> anyhow::Result<App> {
    let key = ObjectKey::namespaced(Kind::App, app.namespace().unwrap_or_default(), app.name_any());
    let live = access.get(&key).await?.map(|live| parse::<App>(live, &key.to_string())).transpose()?;
    Ok(App { status: live.and_then(|live| live.status), ..app.clone() })
}

/// The `Cluster` of an installation.
fn key_of(it: &AppInstallation) -> ObjectKey {
    ObjectKey::namespaced(Kind::Cluster, it.namespace().unwrap_or_default(), &*it.spec.cluster.name)
}

/// Lists leave out the values that it was given.
async fn whole(access: &Access, listed: Option<&AppInstallation>) -> anyhow::Result<Option<AppInstallation>> {
    let Some(it) = listed else { return Ok(None) };
    let key = ObjectKey::namespaced(Kind::AppInstallation, it.namespace().unwrap_or_default(), it.name_any());
    access.get(&key).await?.map(|live| parse(live, &key.to_string())).transpose()
}

/// What is to be told of each `Cluster`.
fn told(all: &[Change]) -> Vec<(&str, &Foreseen)> {
    all.iter().filter_map(|change| Some((&*change.cluster, change.foreseen.as_ref()?))).collect()
}

/// `newest`: the digest of what the App says now.
fn changes(app: &App, newest: &str, clusters: &BTreeMap<ObjectKey, Cluster>, there: &[AppInstallation]) -> Vec<Change> {
    let there: BTreeMap<ObjectKey, &AppInstallation> = there.iter().map(|it| (key_of(it), it)).collect();
    let all: BTreeSet<&ObjectKey> = clusters.keys().chain(there.keys()).collect();
    let change = |key: &ObjectKey| {
        let (cluster, it) = (clusters.get(key), there.get(key));
        let what = match (cluster, it) {
            (None, _) => What::Uninstall,
            (Some(_), None) => What::Install,
            (Some(_), Some(it)) if it.spec.digest == newest => What::Nothing,
            (Some(_), Some(_)) => What::Upgrade,
        };
        let labels = |cluster: &Cluster| cluster.metadata.labels.clone().unwrap_or_default();
        let wave = cluster.map(|cluster| app::wave_of(&app.spec, &labels(cluster)) + 1);
        Change {
            key: key.clone(),
            cluster: format!("{}/{}", key.namespace.as_deref().unwrap_or_default(), key.name),
            foreseen: None,
            what,
            wave: wave.filter(|_| !app.spec.waves.is_empty()),
            from: it.map(|it| chart(&it.spec.release)),
            to: cluster.map(|_| chart(&app.spec.release)),
        }
    };
    let mut all: Vec<Change> = all.into_iter().map(change).collect();
    all.sort_by_key(|change| change.wave);
    all
}

/// Which chart.
fn chart(release: &AppRelease) -> String {
    let version = release.chart.version.as_deref().or(release.chart.digest.as_deref()).unwrap_or_default();
    format!("{} {version}", release.source())
}

fn table(all: &[Change]) -> String {
    let rows = all.iter().map(|change| {
        let chart = match (&change.from, &change.to) {
            (Some(from), Some(to)) if from == to && change.what == What::Upgrade => {
                format!("{to}, with other values or another way to install it")
            }
            (Some(from), Some(to)) if from != to => format!("{from} → {to}"),
            (from, to) => to.as_ref().or(from.as_ref()).cloned().unwrap_or_default(),
        };
        let what = format!("{:?}", change.what);
        vec![
            change.wave.map_or_else(|| "-".to_owned(), |wave| wave.to_string()),
            safe(&change.cluster),
            if change.what == What::Nothing { good(&what) } else { warn(&what) },
            safe(&chart),
        ]
    });
    output::table(["WAVE", "CLUSTER", "", "CHART"], rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_cluster_that_it_is_for_or_was_for_has_a_line_in_the_order_of_the_waves() {
        let app = |version: &str| -> App {
            let waves = json!([{"name": "canary", "clusterSelector": {"matchLabels": {"tier": "canary"}}}]);
            serde_json::from_value(json!({
                "apiVersion": "berth.dev/v1alpha1", "kind": "App", "metadata": {"name": "web", "namespace": "team-a"},
                "spec": {"clusterSelector": {}, "chart": {"oci": "oci://reg/web", "version": version}, "waves": waves},
            }))
            .unwrap()
        };
        let cluster = |name: &str, tier: &str| -> (ObjectKey, Cluster) {
            let cluster = json!({
                "apiVersion": "berth.dev/v1alpha1", "kind": "Cluster",
                "metadata": {"name": name, "namespace": "team-a", "labels": {"tier": tier}}, "spec": {"version": "1.36.3"},
            });
            (ObjectKey::namespaced(Kind::Cluster, "team-a", name), serde_json::from_value(cluster).unwrap())
        };
        let has = |cluster: &str, version: &str| -> AppInstallation {
            let release = app(version).spec.release_of("web");
            serde_json::from_value(json!({
                "apiVersion": "berth.dev/v1alpha1", "kind": "AppInstallation",
                "metadata": {"name": cluster, "namespace": "team-a"},
                "spec": {
                    "app": {"namespace": "team-a", "name": "web", "uid": "u"}, "cluster": {"name": cluster, "uid": "u"},
                    "digest": app::newest(&app(version), &ValuesDigests::default()), "release": release,
                },
            }))
            .unwrap()
        };
        let clusters = [cluster("a", "none"), cluster("b", "canary"), cluster("c", "none")].into();
        let newest = app::newest(&app("2.0.0"), &ValuesDigests::default());
        let all =
            changes(&app("2.0.0"), &newest, &clusters, &[has("a", "1.0.0"), has("b", "2.0.0"), has("gone", "1.0.0")]);
        let lines: Vec<_> = all.iter().map(|change| (&*change.cluster, change.what, change.wave)).collect();
        assert_eq!(
            lines,
            [
                ("team-a/gone", What::Uninstall, None),
                ("team-a/b", What::Nothing, Some(1)),
                ("team-a/a", What::Upgrade, Some(2)),
                ("team-a/c", What::Install, Some(2)),
            ]
        );
        assert!(table(&all).contains("oci://reg/web 1.0.0 → oci://reg/web 2.0.0"), "{}", table(&all));
    }
}
