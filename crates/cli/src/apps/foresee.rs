//! Which objects change in tenants, by what charts render here: once as each was installed last, and as it would be now.

use super::objects::{self, Change, Foreseen};
use super::render::registry;
use crate::access::Access;
use crate::charts::{Helm, Release, documents};
use crate::output;
use anyhow::{Context as _, anyhow};
use berth_api::app::{AppRelease, ReadValues};
use berth_api::apps::Chart;
use berth_api::{App, AppInstallation, Cluster};
use berth_plan_apps::chart;
use berth_plan_apps::values::{self, Problem, TenantFacts, config_maps};
use serde_json::{Map, Value};
use std::path::PathBuf;

/// Foresees what becomes of an App in one `Cluster` after the other.
pub(super) struct Foresight<'a> {
    app: &'a App,
    /// What is in its ConfigMaps.
    read: &'a [ReadValues],
    registry: String,
    helm: Helm,
    /// Charts that were fetched, each once.
    fetched: Vec<(Chart, PathBuf)>,
    /// Most `Cluster`s have the same.
    known: Vec<(Compared, Vec<Change>)>,
}

/// What decides the changes: what was rendered last, if anything, and what would be now.
type Compared = (Option<Rendering>, Rendering);

/// All that a chart is rendered from.
#[derive(PartialEq)]
struct Rendering {
    archive: PathBuf,
    release: Release,
    values: Map<String, Value>,
}

impl<'a> Foresight<'a> {
    /// With the user's own Helm. An error if there is none.
    pub(super) async fn of(
        access: &Access,
        operator: &str,
        app: &'a App,
        read: &'a [ReadValues],
    ) -> anyhow::Result<Self> {
        let (helm, release) = (Helm::find()?, &app.spec.release);
        let registry = registry(access, release, operator).await;
        if release.values_from.iter().any(|from| from.secret_ref.is_some()) {
            output::note("values of Secrets are not in it, and nothing that a chart looks up in a tenant");
        }
        Ok(Self { app, read, registry, helm, fetched: vec![], known: vec![] })
    }

    /// What changes there. `there`: what is installed.
    pub(super) fn changes(&mut self, cluster: &Cluster, there: Option<&AppInstallation>) -> Foreseen {
        match self.try_changes(cluster, there) {
            Ok(objects) => Foreseen { objects, problem: None },
            Err(error) => Foreseen { objects: vec![], problem: Some(format!("{error:#}")) },
        }
    }

    fn try_changes(&mut self, cluster: &Cluster, there: Option<&AppInstallation>) -> anyhow::Result<Vec<Change>> {
        let last = there.map(|it| self.rendering(&it.spec.release, &it.spec.config_maps, cluster));
        let last = last.transpose().context("as it is there now")?;
        let now = self.rendering(&self.app.spec.release, self.read, cluster)?;
        let from = (last, now);
        if let Some((_, changes)) = self.known.iter().find(|(of, _)| *of == from) {
            return Ok(changes.clone());
        }
        let (last, now) = &from;
        let old = last.as_ref().map(|last| self.objects(last)).transpose().context("as it is there now")?;
        let (new, again) = (self.objects(now)?, self.objects(now)?);
        let changes = objects::changes(&old.unwrap_or_default(), &new, &again, &now.release.namespace);
        self.known.push((from, changes.clone()));
        Ok(changes)
    }

    fn rendering(&mut self, release: &AppRelease, read: &[ReadValues], cluster: &Cluster) -> anyhow::Result<Rendering> {
        let own = values::of(release, read, &TenantFacts::of(cluster, &self.registry));
        let own = own.map_err(|problem| match problem {
            Problem::Wrong(why) => anyhow!("{why}"),
            Problem::Waits(on) => anyhow!("its values wait for {on}"),
        })?;
        let name = self.app.metadata.name.as_deref().unwrap_or_default();
        Ok(Rendering {
            archive: self.archive(chart(release))?,
            release: Release::of(name, release, &cluster.spec.version),
            values: config_maps::with_own(read, own),
        })
    }

    fn archive(&mut self, chart: Chart) -> anyhow::Result<PathBuf> {
        if let Some((_, path)) = self.fetched.iter().find(|(of, _)| *of == chart) {
            return Ok(path.clone());
        }
        let path = self.helm.pull(&chart, self.fetched.len())?;
        self.fetched.push((chart, path.clone()));
        Ok(path)
    }

    fn objects(&self, of: &Rendering) -> anyhow::Result<Vec<Value>> {
        let text = self.helm.template(&of.release, &of.archive, &of.values)?;
        let read = documents(&text).map_err(|why| anyhow!("what its chart renders is not YAML: {why}"))?;
        Ok(read.into_iter().flat_map(objects::flat).collect())
    }
}
