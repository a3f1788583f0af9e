//! The cluster that all tests share, and Berth on it.

use std::{
    fs::{self, File},
    process::Command,
};

use anyhow::{Context, Result, bail, ensure};
use berth_api::labels;
use berth_devcluster::{
    Cluster, Config,
    binaries::{self, Selection},
    paths,
};
use berth_testkit::patience::patience;
use serde_json::{Value, json};

use crate::{Kube, Options, Tenant, apps, berth, core, images, until};

const NAME: &str = "e2e";
const THREE_NODES: &str = "e2e-ha";
const POLICIES: &str = "e2e-policies";
const BARE: &str = "e2e-bare";
const VOLUMES: u16 = 24;
/// Both with the usual subnet: 172.20.0.0/24.
const VPCS: [&str; 2] = ["a", "b"];

/// What a test works on.
#[derive(Debug)]
pub struct World {
    /// The meta cluster.
    pub cluster: Cluster,
    /// Access to it as its administrator.
    pub kube: Kube,
    /// One test at a time, whichever process it is in. Last, so that it is released last.
    _turn: File,
}

impl World {
    /// Waits for its turn, brings the cluster up if it is not, lets go of what another test left, and installs Berth. The cluster has the
    /// VPCs `a` and `b`, with the same subnet.
    pub fn open() -> Result<Self> {
        Self::open_as(Config { volumes: VOLUMES, ..Config::named(NAME) })
    }

    /// Likewise, with three nodes, in a cluster of its own.
    pub fn open_with_three_nodes() -> Result<Self> {
        Self::open_as(Config { volumes: VOLUMES, nodes: 3, ..Config::named(THREE_NODES) })
    }

    /// Removes the cluster of [`World::open_with_three_nodes`].
    pub fn remove_three_nodes() -> Result<()> {
        Cluster::remove(THREE_NODES)
    }

    /// Likewise, in a cluster of its own that enforces NetworkPolicies.
    pub fn open_with_network_policies() -> Result<Self> {
        binaries::build(&Selection::Named(vec!["kube-router".to_owned()]))?;
        Self::open_as(Config { volumes: VOLUMES, network_policies: true, ..Config::named(POLICIES) })
    }

    /// Removes the cluster of [`World::open_with_network_policies`].
    pub fn remove_network_policies() -> Result<()> {
        Cluster::remove(POLICIES)
    }

    /// Likewise, in a new cluster of its own that has no image of a tenant's or of Berth's, and without Berth: see
    /// [`World::install_from`].
    pub fn open_bare() -> Result<Self> {
        let turn = turn()?;
        // A run that was cut off may have left one, with images.
        Cluster::remove(BARE)?;
        let world = Self::up(turn, Config { volumes: VOLUMES, ..Config::named(BARE) })?;
        images::forget(&world.cluster)?;
        Ok(world)
    }

    /// Removes the cluster of [`World::open_bare`].
    pub fn remove_bare() -> Result<()> {
        Cluster::remove(BARE)
    }

    fn open_as(config: Config) -> Result<Self> {
        let world = Self::up(turn()?, config)?;
        images::load_upstream(&world.cluster)?;
        world.install(&Options::default())?;
        world.let_go()?;
        Ok(world)
    }

    fn up(turn: File, mut config: Config) -> Result<Self> {
        config.vpcs = VPCS.iter().map(|name| name.parse()).collect::<Result<_>>()?;
        // A second call in one process finds it installed.
        let _ = rustls::crypto::ring::default_provider().install_default();
        config.timeout = patience(config.timeout);
        let cluster = Cluster::up(&config)?;
        let kube = Kube::new(&fs::read_to_string(cluster.kubeconfig())?)?;
        Ok(Self { cluster, kube, _turn: turn })
    }

    /// `kubectl` as the meta cluster's administrator; its output.
    pub fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        kubectl(&self.cluster, arguments)
    }

    /// The address of a Service in the meta cluster.
    pub fn service_address(&self, namespace: &str, name: &str) -> Result<String> {
        let service = self.kube.get(&format!("{}/{name}", core(namespace, "services")))?;
        Ok(service["spec"]["clusterIP"].as_str().context("an address")?.to_owned())
    }

    /// Waits until both replicas of the Deployment that is called as its namespace are of the newest kind, and no other is left.
    pub fn pair_has_rolled(&self, name: &str) -> Result<()> {
        until(&format!("{name} to have rolled"), || {
            let live = self.kube.get(&format!("{}/{name}", apps(name, "deployments")))?;
            let status = &live["status"];
            ensure!(status["observedGeneration"] == live["metadata"]["generation"], "not observed");
            for count in ["replicas", "updatedReplicas", "availableReplicas"] {
                ensure!(status[count] == 2, "{status}");
            }
            Ok(())
        })
    }

    /// Namespaces of tenants' control planes.
    pub fn cp_namespaces(&self) -> Result<Vec<String>> {
        let all = self.kube.list(&format!("{}?labelSelector={}", core("", "namespaces"), labels::CLUSTER_NAME))?;
        Ok(all.iter().filter_map(|n| Some(n["metadata"]["name"].as_str()?.to_owned())).collect())
    }

    /// Waits until no other tenant is left than this one, so that whatever the operator writes is about it.
    pub fn wait_alone(&self, tenant: &Tenant<'_>) -> Result<()> {
        until("other tenants to be gone", || {
            let clusters = self.kube.list(&berth("", "clusters"))?;
            ensure!(clusters.len() == 1, "{} Clusters are there", clusters.len());
            ensure!(self.cp_namespaces()? == [tenant.cp_namespace.clone()], "a namespace is left");
            Ok(())
        })
    }

    /// Waits until no tenant, no namespace of one and no used volume is left.
    pub fn nothing_is_left(&self) -> Result<()> {
        until("nothing of any tenant to be left, and all volumes to be offered again", || {
            let clusters = self.kube.list(&berth("", "clusters"))?;
            ensure!(clusters.is_empty(), "{} Clusters are left", clusters.len());
            let cp_namespaces = self.cp_namespaces()?;
            ensure!(cp_namespaces.is_empty(), "namespaces {cp_namespaces:?} are left");
            let volumes = self.kube.list(&core("", "persistentvolumes"))?;
            let taken = volumes.iter().filter(|v| v["status"]["phase"] != "Available").count();
            ensure!(
                volumes.len() == usize::from(VOLUMES) && taken == 0,
                "{taken} of {} volumes are not offered",
                volumes.len()
            );
            Ok(())
        })
    }

    /// Deletes every tenant, as a person would, and does not wait for it: the next test has tenants of other names.
    pub fn let_go(&self) -> Result<()> {
        // What is for tenants that a selector finds would be for those of the next test, too. An older chart has none of these kinds.
        for plural in ["apps", "clusteraccesses"] {
            for object in self.kube.list(&berth("", plural)).unwrap_or_default() {
                self.kube.delete(&path_of(&object, plural))?;
            }
        }
        let unprotected = json!({"spec": {"deletion": {"protected": false}, "paused": false}});
        for cluster in self.kube.list(&berth("", "clusters"))? {
            self.kube.merge(&path_of(&cluster, "clusters"), &unprotected)?;
            self.kube.delete(&path_of(&cluster, "clusters"))?;
        }
        Ok(())
    }

    /// Removes what a test left that failed; what does not go by itself by force, without Berth.
    pub fn clear(&self) -> Result<()> {
        let Err(error) = self.let_go().and_then(|()| self.nothing_is_left()) else { return Ok(()) };
        println!("    clearing by force, since {error:#}");
        self.stop_operator()?;
        for plural in ["etcdbackupschedules", "etcdbackups", "clusters", "etcdclusters"] {
            for object in self.kube.list(&berth("", plural))? {
                let path = path_of(&object, plural);
                self.allow_deletion(&path)?;
                self.kube.delete(&path)?;
                let _ = self.kube.merge(&path, &json!({"metadata": {"finalizers": null}}));
            }
        }
        for cp_namespace in self.cp_namespaces()? {
            let path = format!("{}/{cp_namespace}", core("", "namespaces"));
            self.allow_deletion(&path)?;
            self.kube.delete(&path)?;
        }
        self.nothing_is_left()
    }

    /// Lifts what the chart's admission policies refuse to delete.
    pub fn allow_deletion(&self, path: &str) -> Result<()> {
        self.kube.merge(path, &json!({"metadata": {"labels": {labels::ALLOW_DELETION: "true"}}})).map(drop)
    }
}

fn path_of(object: &Value, plural: &str) -> String {
    let meta = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
    format!("{}/{}", berth(&meta("namespace"), plural), meta("name"))
}

fn turn() -> Result<File> {
    let path = paths::state().join(format!("{NAME}.turn"));
    fs::create_dir_all(paths::state())?;
    let file = File::options().create(true).append(true).open(&path).with_context(|| path.display().to_string())?;
    file.lock()?;
    Ok(file)
}

fn kubectl(cluster: &Cluster, arguments: &[&str]) -> Result<String> {
    let mut command: Command = cluster.kubectl()?;
    let output = command.args(arguments).output().context("cannot run kubectl")?;
    if !output.status.success() {
        bail!("kubectl {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
