//! `apps render`: the values that an App gives each of its `Cluster`s, made by the operator's own function.

use super::{named, read_config_maps, stored};
use crate::access::{Access, namespace_of, object_in};
use crate::args::apps::Render;
use crate::outcome::Outcome;
use crate::output;
use crate::paint::safe;
use crate::plan::image_registry;
use anyhow::bail;
use berth_api::app::{AppRelease, ReadValues};
use berth_api::{App, Cluster};
use berth_plan_apps::app;
use berth_plan_apps::values::{self, Problem, TenantFacts, config_maps};
use berth_render::{Kind, ObjectKey};
use kube::ResourceExt as _;
use serde::Serialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

/// Values of one `Cluster`, or why there are none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Rendered {
    cluster: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    values: Option<Map<String, Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

pub(super) async fn run(access: &Access, args: &Render, namespace: Option<&str>) -> anyhow::Result<Outcome> {
    let app = of_file_or_stored(access, args.file.as_deref(), args.app.as_deref(), namespace).await?;
    let clusters = clusters(access, args, &app).await?;
    let release = &app.spec.release;
    let registry = registry(access, release, &args.operator_namespace).await;
    let read = read_config_maps(access, &app).await?;
    let all: Vec<Rendered> = clusters.iter().map(|cluster| rendered(&app, &read, cluster, &registry)).collect();
    if all.is_empty() {
        output::note("it is for no Cluster");
    }
    if release.values_from.iter().any(|from| from.secret_ref.is_some()) {
        output::note(
            "values of Secrets (spec.valuesFrom) are not shown: they count by their place in that list, and less than spec.valuesTemplate and spec.values",
        );
    }
    output::show(args.output, &all, || documents(&all))?;
    Ok(Outcome::done_if(all.iter().all(|one| one.problem.is_none())))
}

/// The registry that the operator gives tenants without one of their own, if that is said anywhere.
pub(super) async fn registry(access: &Access, release: &AppRelease, operator: &str) -> String {
    // Nobody needs to read the operator's flags for what is not said.
    if !release.values_template.as_ref().is_some_and(|text| text.contains("imageRegistry")) {
        return String::new();
    }
    image_registry(&access.io, operator).await.unwrap_or_else(|| {
        output::note(
            "the operator's Deployment cannot be read: cluster.imageRegistry is that of the Cluster, or empty",
        );
        String::new()
    })
}

/// The App in a file, or as stored. `namespace`: the one that was asked for.
pub(super) async fn of_file_or_stored(
    access: &Access,
    file: Option<&Path>,
    name: Option<&str>,
    namespace: Option<&str>,
) -> anyhow::Result<App> {
    let Some(path) = file else { return stored(access, name.unwrap_or_default()).await };
    let mut app: App = object_in(path, "App")?;
    let said = namespace_of(app.metadata.namespace.as_deref(), namespace)?.unwrap_or(&access.namespace);
    app.metadata.namespace = Some(said.to_owned());
    Ok(app)
}

/// Those that it is for.
pub(crate) async fn wanted(access: &Access, app: &App, operator: &str) -> anyhow::Result<BTreeMap<ObjectKey, Cluster>> {
    let (all, _) = access.clusters(app::scope(app, operator), None).await?;
    let key = |cluster: &Cluster| {
        ObjectKey::namespaced(Kind::Cluster, cluster.namespace().unwrap_or_default(), cluster.name_any())
    };
    let objects: BTreeMap<ObjectKey, Value> =
        all.iter().map(|cluster| Ok((key(cluster), serde_json::to_value(cluster)?))).collect::<anyhow::Result<_>>()?;
    let (wanted, missing) = app::wanted(app, &objects, operator);
    for missing in missing {
        output::note(&format!("spec.clusterRefs: {missing} does not exist"));
    }
    let all = all.into_iter().map(|cluster| (key(&cluster), cluster));
    Ok(all.filter(|(key, _)| wanted.contains_key(key)).collect())
}

/// Those that it is for, and that were asked for.
async fn clusters(access: &Access, args: &Render, app: &App) -> anyhow::Result<Vec<Cluster>> {
    let wanted = wanted(access, app, &args.operator_namespace).await?;
    let mut asked = vec![];
    for cluster in &args.cluster {
        let (namespace, name) = named(access, cluster);
        let key = ObjectKey::namespaced(Kind::Cluster, namespace, name);
        if !wanted.contains_key(&key) {
            bail!("the App is not for {key}: spec.clusterSelector and spec.clusterRefs say for which it is");
        }
        asked.push(key);
    }
    let is_asked = |key: &ObjectKey| asked.is_empty() || asked.contains(key);
    Ok(wanted.into_iter().filter(|(key, _)| is_asked(key)).map(|(_, cluster)| cluster).collect())
}

/// `read`: what is in the App's ConfigMaps.
fn rendered(app: &App, read: &[ReadValues], cluster: &Cluster, registry: &str) -> Rendered {
    let of = format!("{}/{}", cluster.namespace().unwrap_or_default(), cluster.name_any());
    match values::of(&app.spec.release, read, &TenantFacts::of(cluster, registry)) {
        Ok(own) => Rendered { cluster: of, values: Some(config_maps::with_own(read, own)), problem: None },
        Err(Problem::Wrong(why)) => Rendered { cluster: of, values: None, problem: Some(why) },
        Err(Problem::Waits(on)) => Rendered { cluster: of, values: None, problem: Some(format!("waiting for {on}")) },
    }
}

/// A YAML document for each.
fn documents(all: &[Rendered]) -> String {
    let mut text = String::new();
    for one in all {
        let _ = writeln!(text, "---\n# Cluster {}", safe(&one.cluster));
        if let Some(problem) = &one.problem {
            let _ = writeln!(text, "# {}", safe(problem));
        }
        if let Some(values) = &one.values {
            text.push_str(&output::yaml(values).unwrap_or_default());
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_cluster_has_a_document() {
        let spec = json!({
            "clusterSelector": {}, "chart": {"oci": "oci://reg/web", "version": "1.0.0"},
            "valuesFrom": [{"configMapRef": {"name": "web"}}],
            "valuesTemplate": "name: {{ cluster.name }}\ntier: {{ cluster.labels.tier }}\n", "values": {"on": "on"},
        });
        let app = json!({
            "apiVersion": "berth.dev/v1alpha1", "kind": "App", "metadata": {"name": "web", "namespace": "team-a"}, "spec": spec,
        });
        let app: App = serde_json::from_value(app).unwrap();
        let cluster = |name: &str, labels: &Value| -> Cluster {
            let cluster = json!({
                "apiVersion": "berth.dev/v1alpha1", "kind": "Cluster",
                "metadata": {"name": name, "namespace": "team-a", "labels": labels}, "spec": {"version": "1.36.3"},
            });
            serde_json::from_value(cluster).unwrap()
        };
        let values = json!({"name": "counts less", "size": 1}).to_string();
        let read = [ReadValues { name: "web".into(), key: "values.yaml".into(), values }];
        let all = [cluster("acme", &json!({"tier": "gold"})), cluster("beta", &json!({}))];
        let all: Vec<Rendered> = all.iter().map(|cluster| rendered(&app, &read, cluster, "")).collect();
        let text = documents(&all);
        let (first, second) = text.strip_prefix("---\n").and_then(|text| text.split_once("---\n")).unwrap();
        assert!(first.starts_with("# Cluster team-a/acme\n"), "{text}");
        let read: Value = serde_saphyr::from_str(first).unwrap();
        assert_eq!(read, json!({"name": "acme", "size": 1, "tier": "gold", "on": "on"}));
        let expected = "# Cluster team-a/beta\n# spec.valuesTemplate for Cluster team-a/beta, line 2: undefined value: `cluster.labels.tier` is undefined";
        assert!(second.starts_with(expected), "{text}");
    }
}
