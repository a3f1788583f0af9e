//! Berth with apps switched on, charts in a registry that pods reach, and one `App` of a test.

use anyhow::{Context as _, Result, ensure};
use berth_api::names;
use berth_devcluster::binaries::{self, Selection};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{Options, Registry, Tenant, World, berth, images, until};

/// A registry of charts, and what Berth has to know to take them.
#[derive(Debug)]
pub struct Charts {
    /// The registry. Before the folder that it keeps them in, so that it ends first.
    pub registry: Registry,
    _place: TempDir,
    /// Values of the chart `berth`.
    pub values: Vec<String>,
}

impl Charts {
    /// What it needs, into the cache.
    pub fn programs() -> Result<()> {
        binaries::build(&Selection::Named(vec!["crane".to_owned(), "helm4".to_owned()]))
    }

    /// Serves them at this port of the host.
    pub fn serve(world: &World, port: u16) -> Result<Self> {
        let address = world.cluster.host_address();
        let place = tempfile::tempdir()?;
        let registry = Registry::serve(&format!("{address}:{port}"), place.path())?;
        let tag = images::load_apps(&world.cluster)?;
        let values = vec![
            "apps.enabled=true".to_owned(),
            format!("apps.image.tag={tag}"),
            format!("apps.peers[0].ipBlock.cidr={address}/32"),
            format!("writers.apps.sources={{oci://{}/charts/*}}", registry.host),
        ];
        Ok(Self { registry, _place: place, values })
    }

    /// Installs Berth with apps.
    pub fn install(&self, world: &World) -> Result<()> {
        world.install(&Options { values: self.values.clone(), ..Options::default() })
    }

    /// Pushes a chart with this one template, to its registry.
    pub fn push(&self, name: &str, version: &str, template: &str) -> Result<()> {
        self.registry.push_chart(name, version, template)
    }

    /// `spec.chart` of an App.
    pub fn chart(&self, name: &str, version: &str) -> Value {
        json!({"oci": format!("oci://{}/charts/{name}", self.registry.host), "version": version, "plainHTTP": true})
    }
}

/// An `App` in the namespace of the tests' tenants.
#[derive(Clone, Debug)]
pub struct TheApp<'w> {
    world: &'w World,
    namespace: String,
    name: String,
}

impl<'w> TheApp<'w> {
    /// Creates it beside that tenant.
    pub fn create(tenant: &Tenant<'w>, name: &str, spec: &Value) -> Result<Self> {
        let app = Self { world: tenant.world, namespace: tenant.namespace.clone(), name: name.to_owned() };
        let object =
            json!({"apiVersion": "berth.dev/v1alpha1", "kind": "App", "metadata": {"name": name}, "spec": spec});
        app.world.kube.create(&berth(&app.namespace, "apps"), &object)?;
        Ok(app)
    }

    /// Its path.
    pub fn path(&self) -> String {
        format!("{}/{}", berth(&self.namespace, "apps"), self.name)
    }

    /// As it is.
    pub fn get(&self) -> Result<Value> {
        self.world.kube.get(&self.path())
    }

    /// Changes its spec.
    pub fn change(&self, spec: &Value) -> Result<()> {
        self.world.kube.merge(&self.path(), &json!({"spec": spec})).map(drop)
    }

    /// Asks for a look for drift.
    pub fn look(&self, text: &str) -> Result<()> {
        let annotations = json!({(berth_api::labels::CHECK): text});
        self.world.kube.merge(&self.path(), &json!({"metadata": {"annotations": annotations}})).map(drop)
    }

    /// Name of its `AppInstallation` in a tenant.
    pub fn installation_name(&self, tenant: &Tenant<'_>) -> String {
        names::app_installation(&self.namespace, &self.name, &tenant.name)
    }

    /// The path of that.
    pub fn installation(&self, tenant: &Tenant<'_>) -> String {
        format!("{}/{}", berth(&tenant.namespace, "appinstallations"), self.installation_name(tenant))
    }

    /// Its `AppInstallation`s, as they are at one moment.
    pub fn installations(&self) -> Result<Vec<Value>> {
        let mut all = self.world.kube.list(&berth(&self.namespace, "appinstallations"))?;
        all.retain(|one| one["spec"]["app"]["name"] == self.name.as_str());
        Ok(all)
    }

    /// Deletes it, and waits until it was uninstalled everywhere.
    pub fn delete(&self) -> Result<()> {
        self.world.kube.delete(&self.path())?;
        until(&format!("App {} to be gone", self.name), || {
            let live = self.world.kube.find(&self.path())?;
            let status = live.as_ref().map(|live| live["status"].to_string());
            ensure!(live.is_none(), "{}", status.context("it is there")?);
            Ok(())
        })
    }
}
