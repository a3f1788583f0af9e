//! An S3 server that pods reach, and backups in it.

use std::{
    fs,
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use anyhow::{Context as _, Result, ensure};
use berth_devcluster::binaries::{self, Selection};
use serde_json::{Value, json};

use crate::{Options, Tenant, World, berth, core, operator::SYSTEM, until};

const PORT: u16 = 9750;

/// The access key that the server knows, with the secret `secret`.
pub const ACCESS_KEY: &str = "AKIAE2E";

/// A process that ends with this value.
#[derive(Debug)]
pub struct Process(pub Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts an S3 server with the bucket `berth` in this directory.
pub fn start(world: &World, dir: &Path) -> Result<Process> {
    binaries::build(&Selection::Named(vec!["s3s-fs".to_owned()]))?;
    fs::create_dir_all(dir.join("berth"))?;
    let program: PathBuf = binaries::s3_server()?;
    let host = world.cluster.host_address().to_string();
    let child = Command::new(program)
        .args(["--host", &host, "--port", &PORT.to_string(), "--access-key", ACCESS_KEY, "--secret-key", "secret"])
        .arg(dir)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    let server = Process(child);
    until("the S3 server to listen", || Ok(TcpStream::connect((host.as_str(), PORT)).map(drop)?))?;
    Ok(server)
}

/// Berth with the server as the store `main`.
pub fn options(world: &World) -> Options {
    let host = world.cluster.host_address();
    let endpoint = format!("http://{host}:{PORT}");
    let peer = format!("backups.peers[0].ipBlock.cidr={host}/32");
    let store = |field: &str, value: &str| format!("backups.stores[0].{field}={value}");
    let fields =
        [("name", "main"), ("endpoint", &endpoint), ("bucket", "berth"), ("prefix", "e2e"), ("secretName", "backups")];
    // The tests have schedules of their own, or none.
    let none = "backups.default=null".to_owned();
    let values = fields.map(|(f, v)| store(f, v)).into_iter().chain([peer, none]).collect();
    Options { values, ..Options::default() }
}

/// The Secret of the store.
pub fn credentials(world: &World, secret: &str) -> Result<()> {
    let data = json!({"accessKeyID": ACCESS_KEY, "secretAccessKey": secret});
    let object = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "backups"}, "stringData": data});
    world.kube.ensure(&core(SYSTEM, "secrets"), &object)?;
    world.kube.merge(&format!("{}/backups", core(SYSTEM, "secrets")), &json!({"stringData": data})).map(|_| ())
}

/// Takes a backup; its status once it has that phase.
pub fn taken(world: &World, tenant: &Tenant<'_>, name: &str, phase: &str) -> Result<Value> {
    let backup = json!({
        "apiVersion": "berth.dev/v1alpha1", "kind": "EtcdBackup", "metadata": {"name": name},
        "spec": {"clusterRef": {"name": tenant.name}, "store": "main"},
    });
    world.kube.create(&berth(&tenant.namespace, "etcdbackups"), &backup)?;
    until(&format!("{name} to be {phase}"), || {
        let backup = world.kube.get(&format!("{}/{name}", berth(&tenant.namespace, "etcdbackups")))?;
        ensure!(backup["status"]["phase"] == phase, "{}", backup["status"]);
        Ok(backup["status"].clone())
    })
}

/// Restores a tenant from that backup, by an `EtcdRestore` with the name `back`, and waits until that is done.
pub fn put_back(world: &World, tenant: &Tenant<'_>, backup: &str) -> Result<()> {
    let id = tenant.etcd()?["status"]["clusterId"].as_str().context("no cluster ID")?.to_owned();
    let restore = json!({
        "apiVersion": "berth.dev/v1alpha1", "kind": "EtcdRestore", "metadata": {"name": "back"},
        "spec": {"clusterRef": {"name": tenant.name}, "source": {"backup": backup}, "confirm": id},
    });
    world.kube.create(&berth(&tenant.namespace, "etcdrestores"), &restore)?;
    until("the restore", || {
        let restore = world.kube.get(&format!("{}/back", berth(&tenant.namespace, "etcdrestores")))?;
        ensure!(restore["status"]["phase"] == "Restored", "{}", restore["status"]);
        Ok(())
    })
}

/// Deletes everything of these kinds, and has Berth without a store again.
pub fn end(world: &World, plurals: &[&str]) -> Result<()> {
    for plural in plurals {
        for object in world.kube.list(&berth("", plural))? {
            let meta = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
            world.kube.delete(&format!("{}/{}", berth(&meta("namespace"), plural), meta("name")))?;
        }
        until(&format!("no {plural} to be left"), || {
            ensure!(world.kube.list(&berth("", plural))?.is_empty(), "some are left");
            Ok(())
        })?;
    }
    world.install(&Options::default())
}
