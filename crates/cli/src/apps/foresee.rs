//! Which objects change in tenants, by what charts render here: once as each was installed last, and as it would be now.

use super::objects::{self, Change, Foreseen};
use super::render::registry;
use crate::access::Access;
use crate::args::apps::Plan;
use crate::charts::{Helm, Release, documents};
use crate::output;
use anyhow::{Context as _, anyhow};
use berth_api::app::{AppRelease, ReadValues};
use berth_api::apps::Chart;
use berth_api::{App, AppInstallation, Cluster};
use berth_plan_apps::chart;
use berth_plan_apps::values::{self, Problem, TenantFacts, config_maps};
use kube::ResourceExt as _;
use serde_json::Value;
use std::path::PathBuf;

/// Charts that were fetched, each once.
struct Charts {
    helm: Helm,
    fetched: Vec<(Chart, PathBuf)>,
}

impl Charts {
    fn archive(&mut self, chart: &Chart) -> anyhow::Result<PathBuf> {
        if let Some((_, path)) = self.fetched.iter().find(|(of, _)| of == chart) {
            return Ok(path.clone());
        }
        let path = self.helm.pull(chart, self.fetched.len())?;
        self.fetched.push((chart.clone(), path.clone()));
        Ok(path)
    }

    /// What is rendered for a `Cluster`.
    fn objects(
        &mut self,
        name: &str,
        (release, read): (&AppRelease, &[ReadValues]),
        (cluster, registry): (&Cluster, &str),
    ) -> anyhow::Result<Vec<Value>> {
        let own = values::of(release, read, &TenantFacts::of(cluster, registry)).map_err(|problem| match problem {
            Problem::Wrong(why) => anyhow!("{why}"),
            Problem::Waits(on) => anyhow!("its values wait for {on}"),
        })?;
        let archive = self.archive(&chart(release))?;
        let of = Release {
            name: release.release_name.as_deref().unwrap_or(name),
            namespace: objects::namespace(release),
            version: cluster.spec.version.trim_start_matches('v').to_owned(),
        };
        let text = self.helm.template(&of, &archive, &config_maps::with_own(read, own))?;
        let read = documents(&text).map_err(|why| anyhow!("what its chart renders is not YAML: {why}"))?;
        Ok(read.into_iter().flat_map(objects::flat).collect())
    }
}

/// For each place what changes there. None: there is no `Cluster`.
pub(super) async fn foresee(
    access: &Access,
    args: &Plan,
    (app, read): (&App, &[ReadValues]),
    places: Vec<Option<(&Cluster, Option<&AppInstallation>)>>,
) -> anyhow::Result<Vec<Option<Foreseen>>> {
    let mut charts = Charts { helm: Helm::find()?, fetched: vec![] };
    let release = &app.spec.release;
    let registry = registry(access, release, &args.operator_namespace).await;
    if release.values_from.iter().any(|from| from.secret_ref.is_some()) {
        output::note("values of Secrets are not in it, and nothing that a chart looks up in a tenant");
    }
    let name = app.name_any();
    let mut one = |cluster: &Cluster, there: Option<&AppInstallation>| -> anyhow::Result<Vec<Change>> {
        let of = (cluster, &*registry);
        let old = match there {
            Some(it) => {
                charts.objects(&name, (&it.spec.release, &it.spec.config_maps), of).context("as it is there now")?
            }
            None => vec![],
        };
        let new = charts.objects(&name, (release, read), of)?;
        let again = charts.objects(&name, (release, read), of)?;
        Ok(objects::changes(&old, &new, &again, objects::namespace(release)))
    };
    let mut found = |(cluster, there): (&Cluster, Option<&AppInstallation>)| match one(cluster, there) {
        Ok(objects) => Foreseen { objects, problem: None },
        Err(error) => Foreseen { objects: vec![], problem: Some(format!("{error:#}")) },
    };
    Ok(places.into_iter().map(|place| place.map(&mut found)).collect())
}
