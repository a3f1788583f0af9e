//! Clients of a tenant that watch it from outside: kube-rs, Go and curl. Nobody starts them anew, so over a restore they have to notice by
//! themselves.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Arc,
};

use anyhow::{Context, Result, ensure};
use berth_devcluster::{binaries, versions};
use futures::StreamExt;
use kube::{
    Api, Client, Config, ResourceExt,
    api::{ApiResource, DynamicObject, GroupVersionKind},
    config::{KubeConfigOptions, Kubeconfig},
    runtime::{
        WatchStreamExt,
        reflector::{Store, store::Writer},
        watcher,
    },
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::{Tenant, core, curl::Curl, s3::Process, tenant::name_of, until};

/// The scheduler that binds pods which name it.
const SCHEDULER: &str = "outsider";

/// All of them. They end with this value.
#[derive(Debug)]
pub struct Outside {
    kube_rs: Reflector,
    _go: Process,
    watch: Watch,
    // Last: the others read and write in it.
    dir: TempDir,
}

impl Outside {
    /// Starts all, and waits until each has seen the tenant.
    pub fn start(tenant: &Tenant<'_>) -> Result<Self> {
        let dir = tempfile::tempdir()?;
        let kubeconfig = tenant.kubeconfig()?;
        fs::write(dir.path().join("kubeconfig"), &kubeconfig)?;
        let kube_rs = Reflector::start(&kubeconfig)?;
        let go = scheduler(dir.path())?;
        let outside = Self { kube_rs, _go: go, watch: Watch::start(&kubeconfig)?, dir };
        outside.kube_rs.is_right(tenant)?;
        Ok(outside)
    }

    /// A new pod waits for what runs in Go to bind it to a new node.
    pub fn asks(&self, tenant: &Tenant<'_>, name: &str) -> Result<()> {
        let api = tenant.api()?;
        let room = json!({"cpu": "1", "memory": "1Gi", "pods": "10"});
        let node = json!({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"outside": name}},
            "status": {"capacity": room, "allocatable": room},
        });
        api.create(&core("", "nodes"), &node)?;
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
            "spec": {
                "schedulerName": SCHEDULER, "nodeSelector": {"outside": name}, "tolerations": [{"operator": "Exists"}],
                "containers": [{"name": "c", "image": "registry.k8s.io/pause:3.10.1"}],
            },
        });
        api.create(&core("default", "pods"), &pod).map(drop)
    }

    /// What [`Outside::asks`] waits for.
    pub fn is_bound(&self, tenant: &Tenant<'_>, name: &str) -> Result<()> {
        let (api, pods) = (tenant.api()?, core("default", "pods"));
        until(&format!("the scheduler outside to bind pod {name}"), || {
            let pod = api.get(&format!("{pods}/{name}"))?;
            ensure!(pod["spec"]["nodeName"] == name, "{}; {}", pod["status"], self.log());
            Ok(())
        })
    }

    /// What curl watches has told of a ConfigMap.
    pub fn saw(&self, name: &str) -> Result<()> {
        until(&format!("curl to see {name}"), || {
            let seen = self.watch.events()?;
            ensure!(seen.iter().any(|e| name_of(&e["object"]) == name), "{} events", seen.len());
            Ok(())
        })
    }

    /// After a restore, and after [`Outside::asks`]: each knows what there is now. curl begins anew, as its user would.
    pub fn noticed(&mut self, tenant: &Tenant<'_>, name: &str) -> Result<()> {
        self.kube_rs.is_right(tenant)?;
        self.is_bound(tenant, name)?;
        forget(tenant, name)?;
        let last = self.watch.ended()?;
        let told =
            watch(&self.watch.curl, &format!("&timeoutSeconds=20&resourceVersion={last}")).output().context("curl")?;
        let told = String::from_utf8_lossy(&told.stdout).into_owned();
        ensure!(told.contains("\"code\":410"), "a watch from {last} is told: {told}");
        self.watch = Watch::start(&tenant.kubeconfig()?)?;
        Ok(())
    }

    fn log(&self) -> String {
        let log = fs::read_to_string(self.dir.path().join("scheduler.log")).unwrap_or_default();
        let lines: Vec<_> = log.lines().rev().take(5).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join("\n")
    }
}

/// Node and pod are gone again.
fn forget(tenant: &Tenant<'_>, name: &str) -> Result<()> {
    let api = tenant.api()?;
    api.delete(&format!("{}/{name}?gracePeriodSeconds=0", core("default", "pods")))?;
    api.delete(&format!("{}/{name}", core("", "nodes")))
}

/// A reflector of ConfigMaps, as operators in Rust have it.
#[derive(Debug)]
struct Reflector {
    store: Store<DynamicObject>,
    // What it is driven by ends with it.
    _runtime: Runtime,
}

impl Reflector {
    fn start(kubeconfig: &str) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let maps = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "ConfigMap"));
        let kubeconfig = Kubeconfig::from_yaml(kubeconfig)?;
        let client = runtime.block_on(async {
            let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
            Ok::<_, anyhow::Error>(Client::try_from(config)?)
        })?;
        let api = Api::<DynamicObject>::namespaced_with(client, "default", &maps);
        let writer = Writer::new(maps);
        let store = writer.as_reader();
        let events = watcher(api, watcher::Config::default()).default_backoff().reflect(writer);
        runtime.spawn(events.for_each(|_| std::future::ready(())));
        Ok(Self { store, _runtime: runtime })
    }

    /// Its store is what there is. A list before and one after a look at it: others may write meanwhile.
    fn is_right(&self, tenant: &Tenant<'_>) -> Result<()> {
        let api = tenant.api()?;
        let list = || -> Result<BTreeSet<[String; 3]>> {
            let of = |map: &Value, field: &str| map["metadata"][field].as_str().unwrap_or_default().to_owned();
            let all = api.list(&core("default", "configmaps"))?;
            Ok(all.iter().map(|map| ["name", "uid", "resourceVersion"].map(|field| of(map, field))).collect())
        };
        until("kube-rs to know what there is", || {
            let before = list()?;
            let known: BTreeSet<_> = self.store.state().iter().map(identity).collect();
            let after = list()?;
            let missing: Vec<_> = before.intersection(&after).filter(|map| !known.contains(*map)).collect();
            let gone: Vec<_> = known.difference(&after).collect();
            ensure!(
                missing.is_empty() && gone.is_empty(),
                "it does not know {missing:?}, and thinks there is {gone:?}"
            );
            Ok(())
        })
    }
}

fn identity(map: &Arc<DynamicObject>) -> [String; 3] {
    [map.name_any(), map.uid().unwrap_or_default(), map.resource_version().unwrap_or_default()]
}

/// kube-scheduler as a process of this machine: what it knows, it knows from client-go's informers.
fn scheduler(dir: &Path) -> Result<Process> {
    let config = dir.join("scheduler.json");
    let content = json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": false}, "clientConnection": {"kubeconfig": dir.join("kubeconfig")},
        "profiles": [{"schedulerName": SCHEDULER}],
    });
    fs::write(&config, content.to_string())?;
    let log = File::create(dir.join("scheduler.log"))?;
    let child = Command::new(binaries::path("kubernetes", versions::KUBERNETES, "kube-scheduler")?)
        .arg(format!("--config={}", config.display()))
        .args(["--secure-port=0", "--authentication-skip-lookup=true"])
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()?;
    Ok(Process(child))
}

/// One connection that watches ConfigMaps until it is closed.
#[derive(Debug)]
struct Watch {
    process: Process,
    said: PathBuf,
    curl: Curl,
}

impl Watch {
    fn start(kubeconfig: &str) -> Result<Self> {
        let curl = Curl::of(kubeconfig)?;
        let said = curl.dir().join("watched");
        let child = watch(&curl, "").stdout(File::create(&said)?).stderr(Stdio::null()).spawn()?;
        Ok(Self { process: Process(child), said, curl })
    }

    fn events(&self) -> Result<Vec<Value>> {
        let said = fs::read_to_string(&self.said)?;
        // The last line may be cut.
        Ok(said.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
    }

    /// It does not wait for ever; the last version that it was told of.
    fn ended(&mut self) -> Result<String> {
        until("curl's watch to end", || {
            ensure!(self.process.0.try_wait()?.is_some(), "it waits");
            Ok(())
        })?;
        let events = self.events()?;
        let version = |e: &Value| e["object"]["metadata"]["resourceVersion"].as_str().map(str::to_owned);
        events.iter().rev().find_map(version).context("it was told of nothing")
    }
}

fn watch(curl: &Curl, more: &str) -> Command {
    curl.command(&format!("{}?watch=1{more}", core("default", "configmaps")))
}
