//! The cluster that all tests share, and Berth on it.

use std::{
    cell::RefCell,
    collections::BTreeMap,
    fs::{self, File},
    path::{Path, PathBuf},
    process::Command,
    time::SystemTime,
};

use anyhow::{Context, Result, anyhow, bail, ensure};
use berth_api::labels;
use berth_devcluster::{
    Cluster, Config,
    images::{self, ImageSpec},
    paths as dev_paths,
};
use serde_json::{Value, json};

use crate::{
    Kube, berth, core,
    operator::{AGENT_IMAGE, Operator, Options},
    paths, until,
};

const NAME: &str = "e2e";

/// What a test works on.
#[derive(Debug)]
pub struct World {
    /// The meta cluster.
    pub cluster: Cluster,
    /// Access to it as its administrator.
    pub kube: Kube,
    operator: RefCell<Option<Operator>>,
    /// One test at a time, whichever process it is in. Last, so that it is released last.
    _turn: File,
}

impl World {
    /// Waits for its turn, brings the cluster up if it is not, clears what another test left, and starts Berth.
    pub fn open() -> Result<Self> {
        // A second call in one process finds it installed.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let turn = turn()?;
        let cluster = Cluster::up(&Config { volumes: 24, ..Config::named(NAME) })?;
        load_images(&cluster)?;
        kubectl(&cluster, &["apply", "--server-side", "--force-conflicts", "-f", &crds()])?;
        let kube = Kube::new(&fs::read_to_string(cluster.kubeconfig())?)?;
        let world = Self { cluster, kube, operator: RefCell::default(), _turn: turn };
        world.clear()?;
        world.start_operator(&Options::default())?;
        Ok(world)
    }

    /// Starts the operator, or another one in its place.
    pub fn start_operator(&self, options: &Options) -> Result<()> {
        self.stop_operator();
        *self.operator.borrow_mut() = Some(Operator::start(&self.cluster, options)?);
        Ok(())
    }

    /// Ends the operator at once.
    pub fn stop_operator(&self) {
        self.operator.borrow_mut().take();
    }

    /// Calls to the meta cluster and into tenants that changed something, since the operator started.
    pub fn operator_writes(&self) -> Result<u64> {
        let operator = self.operator.borrow();
        let operator = operator.as_ref().context("no operator runs")?;
        let of = |target| operator.metric(&format!("berth_api_calls_total{{target=\"{target}\",sort=\"write\"}}"));
        Ok(of("meta")? + of("tenant")?)
    }

    /// Passes of a controller that went well, since the operator started.
    pub fn operator_passes(&self, controller: &str) -> Result<u64> {
        let operator = self.operator.borrow();
        let operator = operator.as_ref().context("no operator runs")?;
        operator.metric(&format!("berth_reconcile_total{{controller=\"{controller}\",result=\"ok\"}}"))
    }

    /// The end of the operator's log.
    pub fn operator_log(&self, lines: usize) -> String {
        self.operator.borrow().as_ref().map(|o| o.log_tail(lines)).unwrap_or_default()
    }

    /// `kubectl` as the meta cluster's administrator; its output.
    pub fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        kubectl(&self.cluster, arguments)
    }

    /// Namespaces of tenants' control planes.
    pub fn homes(&self) -> Result<Vec<String>> {
        let all = self.kube.list(&format!("{}?labelSelector={}", core("", "namespaces"), labels::CLUSTER_NAME))?;
        Ok(all.iter().filter_map(|n| Some(n["metadata"]["name"].as_str()?.to_owned())).collect())
    }

    /// Waits until no tenant, no namespace of one and no used volume is left.
    pub fn nothing_is_left(&self) -> Result<()> {
        until("nothing of any tenant to be left, and all volumes to be offered again", || {
            let clusters = self.kube.list(&berth("", "clusters"))?;
            ensure!(clusters.is_empty(), "{} Clusters are left", clusters.len());
            let homes = self.homes()?;
            ensure!(homes.is_empty(), "namespaces {homes:?} are left");
            let volumes = self.kube.list(&core("", "persistentvolumes"))?;
            let taken = volumes.iter().filter(|v| v["status"]["phase"] != "Available").count();
            ensure!(volumes.len() == 24 && taken == 0, "{taken} of {} volumes are not offered", volumes.len());
            Ok(())
        })
    }

    /// Removes what a test left that did not end well: without Berth, by force.
    pub fn clear(&self) -> Result<()> {
        self.stop_operator();
        let no_finalizers = json!({"metadata": {"finalizers": null}});
        for plural in ["clusters", "etcdclusters"] {
            for object in self.kube.list(&berth("", plural))? {
                let path = path_of(&object, plural);
                self.kube.delete(&path)?;
                let _ = self.kube.merge(&path, &no_finalizers);
            }
        }
        for home in self.homes()? {
            self.kube.delete(&format!("{}/{home}", core("", "namespaces")))?;
            self.kube.call(
                &http::Method::DELETE,
                &core(&home, "pods"),
                "application/json",
                Some(&json!({"gracePeriodSeconds": 1})),
            )?;
        }
        self.nothing_is_left()
    }
}

fn path_of(object: &Value, plural: &str) -> String {
    let meta = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
    format!("{}/{}", berth(&meta("namespace"), plural), meta("name"))
}

fn turn() -> Result<File> {
    let path = dev_paths::state().join(format!("{NAME}.turn"));
    fs::create_dir_all(dev_paths::state())?;
    let file = File::options().create(true).append(true).open(&path).with_context(|| path.display().to_string())?;
    file.lock()?;
    Ok(file)
}

fn crds() -> String {
    paths::root().join("crds").display().to_string()
}

fn kubectl(cluster: &Cluster, arguments: &[&str]) -> Result<String> {
    let mut command: Command = cluster.kubectl()?;
    let output = command.args(arguments).output().context("cannot run kubectl")?;
    if !output.status.success() {
        bail!("kubectl {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Imports every image that is built and that the cluster has not got yet, in that very state.
fn load_images(cluster: &Cluster) -> Result<()> {
    let mut archives = images::all_built()?;
    archives.push(agent_image(cluster)?);
    let record = cluster.dir().join("e2e-images.json");
    let loaded: BTreeMap<String, u128> =
        fs::read(&record).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default();
    let wanted: Vec<(PathBuf, u128)> =
        archives.into_iter().map(|a| modified(&a).map(|m| (a, m))).collect::<Result<_>>()?;
    let key = |path: &Path| path.display().to_string();
    let missing: Vec<PathBuf> =
        wanted.iter().filter(|(a, m)| loaded.get(&key(a)) != Some(m)).map(|(a, _)| a.clone()).collect();
    if !missing.is_empty() {
        println!("    loading {} images", missing.len());
        cluster.load_images(&missing)?;
        let all: BTreeMap<String, u128> = wanted.iter().map(|(a, m)| (key(a), *m)).collect();
        fs::write(&record, serde_json::to_vec(&all)?)?;
    }
    Ok(())
}

fn agent_image(cluster: &Cluster) -> Result<PathBuf> {
    let agent = paths::agent()?;
    let archive = cluster.dir().join("e2e-agent.tar");
    if modified(&archive).ok() < modified(&agent).ok() {
        let files = vec![(agent, "/usr/local/bin/berth-agent".to_owned())];
        images::write_oci(&archive, &ImageSpec { reference: AGENT_IMAGE.to_owned(), files, ..ImageSpec::default() })?;
    }
    Ok(archive)
}

/// Milliseconds since 1970.
fn modified(path: &Path) -> Result<u128> {
    let time = path.metadata().and_then(|m| m.modified()).with_context(|| path.display().to_string())?;
    time.duration_since(SystemTime::UNIX_EPOCH).map(|d| d.as_millis()).map_err(|e| anyhow!(e))
}
