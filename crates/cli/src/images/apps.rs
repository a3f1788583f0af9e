//! Images of Apps: of their charts, rendered with the values of each Cluster.

use super::{lines, manifests};
use crate::access::{Access, namespace_of, object_in};
use crate::apps::{list, named, read_config_maps, stored, wanted};
use crate::args::{Images, ImagesOf, Meta};
use crate::charts::{Helm, Release};
use crate::outcome::Outcome;
use crate::output;
use anyhow::{Context as _, anyhow, bail};
use berth_api::app::ReadValues;
use berth_api::{App, Cluster};
use berth_plan_apps::chart;
use berth_plan_apps::values::{self, Problem, TenantFacts, config_maps};
use berth_render::{Kind, ObjectKey, images};
use kube::ResourceExt as _;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

pub(crate) async fn run(meta: &Meta, args: &Images) -> anyhow::Result<Outcome> {
    // Before anybody is asked: without it nothing can be said.
    let helm = Helm::find()?;
    let access = Access::to_read(meta).await?;
    let apps = apps(&access, meta.namespace.as_deref(), &args.of).await?;
    if apps.is_empty() {
        output::note("there is no App");
    }
    let clusters = asked(&access, &args.of);
    let (mut all, mut outcome) = (BTreeSet::new(), Outcome::Done);
    for (number, app) in apps.iter().enumerate() {
        let of = format!("App {}/{}", app.namespace().unwrap_or_default(), app.name_any());
        match of_app(&access, &helm, app, number, &clusters, &args.of.operator_namespace).await {
            Ok((found, left_out)) => {
                all.extend(found);
                for why in &left_out {
                    output::note(&format!("{of}: {why}"));
                    outcome = if outcome == Outcome::Done { Outcome::NotYet } else { outcome };
                }
            }
            // What the others have is no less true.
            Err(error) => {
                output::complain(&error.context(of));
                outcome = Outcome::Failed;
            }
        }
    }
    output::print(&lines(args, all.iter().map(String::as_str))?)?;
    for (target, sources) in same_names(args, &all) {
        output::note(&format!("{} would all be {target}: mirror them by hand", sources.join(", ")));
    }
    output::note(
        "images that only arguments, variables or custom resources name are not listed, and none that values of Secrets say",
    );
    Ok(outcome)
}

/// The Apps that are meant. `namespace`: the one that was asked for.
async fn apps(access: &Access, namespace: Option<&str>, of: &ImagesOf) -> anyhow::Result<Vec<App>> {
    if of.apps {
        return list(access, Kind::App, namespace, None).await;
    }
    let mut all = vec![];
    for name in &of.app {
        all.push(stored(access, name).await?);
    }
    if let Some(path) = &of.file {
        let mut app: App = object_in(path, "App")?;
        let said = namespace_of(app.metadata.namespace.as_deref(), namespace)?.unwrap_or(&access.namespace);
        app.metadata.namespace = Some(said.to_owned());
        all.push(app);
    }
    Ok(all)
}

/// The `Cluster`s that are meant. None: all.
fn asked(access: &Access, of: &ImagesOf) -> BTreeSet<ObjectKey> {
    let key = |cluster: &String| {
        let (namespace, name) = named(access, cluster);
        ObjectKey::namespaced(Kind::Cluster, namespace, name)
    };
    of.cluster.iter().map(key).collect()
}

/// Its images, and what was left out, and why.
async fn of_app(
    access: &Access,
    helm: &Helm,
    app: &App,
    number: usize,
    asked: &BTreeSet<ObjectKey>,
    operator: &str,
) -> anyhow::Result<(BTreeSet<String>, Vec<String>)> {
    let read = read_config_maps(access, app).await?;
    let wanted = wanted(access, app, operator).await?;
    if let Some(other) = asked.iter().find(|key| !wanted.contains_key(key)) {
        bail!("it is not for {other}: spec.clusterSelector and spec.clusterRefs say for which it is");
    }
    let is_asked = |key: &ObjectKey| asked.is_empty() || asked.contains(key);
    let clusters: Vec<Cluster> =
        wanted.into_iter().filter(|(key, _)| is_asked(key)).map(|(_, cluster)| cluster).collect();
    let (renderings, left_out) = renderings(app, &read, &clusters)?;
    if renderings.is_empty() {
        return Ok((BTreeSet::new(), left_out));
    }
    let archive = helm.pull(&chart(&app.spec.release), number)?;
    let mut all = BTreeSet::new();
    for (release, values) in renderings.values() {
        let text = helm.template(release, &archive, values)?;
        let found = manifests::images(&text).map_err(|why| anyhow!("what its chart renders is not YAML: {why}"));
        all.extend(found.with_context(|| format!("for Kubernetes {}", release.version))?);
    }
    Ok((all, left_out))
}

/// Each once, by all that differs between `Cluster`s.
type Renderings = BTreeMap<(String, String), (Release, Map<String, Value>)>;

/// What is to be rendered, and what cannot be yet.
fn renderings(app: &App, read: &[ReadValues], clusters: &[Cluster]) -> anyhow::Result<(Renderings, Vec<String>)> {
    let release = &app.spec.release;
    let name = app.metadata.name.as_deref().unwrap_or_default();
    let (mut all, mut left_out) = (Renderings::new(), vec![]);
    let mut put = |version: &str, values: Map<String, Value>| {
        let of = Release::of(name, release, version);
        let key = (of.version.clone(), Value::from(values.clone()).to_string());
        all.insert(key, (of, values));
    };
    for cluster in clusters {
        // Upstream's names are what a mirror is filled from.
        let tenant = TenantFacts { image_registry: String::new(), ..TenantFacts::of(cluster, "") };
        let of = format!("Cluster {}/{}", tenant.namespace, tenant.name);
        match values::of(release, read, &tenant) {
            Ok(own) => put(&cluster.spec.version, config_maps::with_own(read, own)),
            Err(Problem::Waits(on)) => left_out.push(format!("{of} is left out: its values wait for {on}")),
            Err(Problem::Wrong(why)) => bail!("{of}: {why}"),
        }
    }
    if clusters.is_empty() {
        if release.values_template.is_some() {
            left_out.push("it is for no Cluster yet, so its spec.valuesTemplate is left out".to_owned());
        }
        let plain = berth_api::app::AppRelease { values_template: None, ..release.clone() };
        let own = values::of(&plain, read, &TenantFacts::default());
        let own = own.map_err(|problem| match problem {
            Problem::Waits(why) | Problem::Wrong(why) => anyhow!("{why}"),
        })?;
        for version in images::TESTED {
            put(version, config_maps::with_own(read, own.clone()));
        }
    }
    Ok((all, left_out))
}

/// Images that would have one name in the mirror.
fn same_names<'a>(args: &Images, all: &'a BTreeSet<String>) -> Vec<(String, Vec<&'a str>)> {
    let Some(registry) = &args.to else { return vec![] };
    let mut by_name: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for image in all {
        by_name.entry(images::mirrored(registry, args.layout.into(), image)).or_default().push(image);
    }
    by_name.into_iter().filter(|(_, sources)| sources.len() > 1).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Layout;
    use serde_json::json;

    fn app(template: Option<&str>) -> App {
        let spec = json!({
            "clusterSelector": {}, "chart": {"oci": "oci://reg/web", "version": "1.0.0"}, "namespace": "shop",
            "valuesFrom": [{"configMapRef": {"name": "web"}}], "valuesTemplate": template, "values": {"a": 1},
        });
        let app = json!({
            "apiVersion": "berth.dev/v1alpha1", "kind": "App", "metadata": {"name": "web", "namespace": "team-a"}, "spec": spec,
        });
        serde_json::from_value(app).unwrap()
    }

    fn cluster(name: &str, version: &str) -> Cluster {
        let images = json!({"registry": "mirror.example.com/k8s"});
        let cluster = json!({
            "apiVersion": "berth.dev/v1alpha1", "kind": "Cluster", "metadata": {"name": name, "namespace": "team-a"},
            "spec": {"version": version, "images": images},
        });
        serde_json::from_value(cluster).unwrap()
    }

    fn read() -> [ReadValues; 1] {
        let values = json!({"a": 0, "b": 2}).to_string();
        [ReadValues { name: "web".into(), key: "values.yaml".into(), values }]
    }

    #[test]
    fn what_is_the_same_for_many_clusters_is_rendered_once_and_by_upstreams_names() {
        let clusters = [cluster("a", "1.36.3"), cluster("b", "1.36.3"), cluster("c", "1.35.4")];
        let app = app(Some("registry: {{ cluster.imageRegistry }}\n"));
        let (all, left_out) = renderings(&app, &read(), &clusters).unwrap();
        assert!(left_out.is_empty(), "{left_out:?}");
        let said: Vec<_> = all.values().map(|(of, values)| (&*of.version, Value::from(values.clone()))).collect();
        let values = json!({"a": 1, "b": 2, "registry": ""});
        assert_eq!(said, [("1.35.4", values.clone()), ("1.36.3", values)]);
        let (first, _) = all.values().next().unwrap();
        assert_eq!((&*first.name, &*first.namespace), ("web", "shop"));
    }

    #[test]
    fn what_is_not_known_yet_is_left_out_and_without_a_cluster_plain_values_count() {
        let waits = app(Some("host: {{ cluster.endpoint.host }}\n"));
        let (all, left_out) = renderings(&waits, &read(), &[cluster("a", "1.36.3")]).unwrap();
        assert!(all.is_empty());
        assert!(left_out[0].starts_with("Cluster team-a/a is left out: its values wait for"), "{left_out:?}");
        let (all, left_out) = renderings(&waits, &read(), &[]).unwrap();
        assert!(left_out[0].contains("spec.valuesTemplate is left out"), "{left_out:?}");
        assert_eq!(all.len(), images::TESTED.len());
        assert!(all.values().all(|(_, values)| Value::from(values.clone()) == json!({"a": 1, "b": 2})));
        let wrong = app(Some("tier: {{ cluster.labels.tier }}\n"));
        let why = renderings(&wrong, &read(), &[cluster("a", "1.36.3")]).unwrap_err().to_string();
        assert!(why.starts_with("Cluster team-a/a: spec.valuesTemplate"), "{why}");
    }

    #[test]
    fn two_that_would_have_one_name_in_a_mirror_are_told() {
        let to = Some("reg/k8s".to_owned());
        let args = Images { versions: vec![], etcd: vec![], to, layout: Layout::Flat, of: ImagesOf::default() };
        let all: BTreeSet<String> = ["a/web:1", "b/web:1", "b/web:2"].map(str::to_owned).into();
        assert_eq!(same_names(&args, &all), [("reg/k8s/web:1".to_owned(), vec!["a/web:1", "b/web:1"])]);
    }
}
