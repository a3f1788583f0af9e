//! An etcd with TLS, an S3 server on a directory, and the program.

use crate::proxy::{self, Fault};
use berth_contract::backup::{Outcome, Store, Subject, TASK, Take, Task, keys};
use berth_testkit::{ports::ports, s3::S3Server};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, SanType};
use std::cell::Cell;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The access key that the server knows, with the secret `secret`.
pub(crate) const ACCESS_KEY: &str = S3Server::ACCESS_KEY_ID;

/// The S3 server.
pub(crate) fn s3_program() -> PathBuf {
    cache().join("tools/s3s-fs-0.14.1/s3s-fs")
}

fn cache() -> PathBuf {
    let home = || PathBuf::from(std::env::var_os("HOME").unwrap()).join(".cache/berth");
    std::env::var_os("BERTH_CACHE").map_or_else(home, PathBuf::from).join("bin")
}

fn programs(version: &str) -> PathBuf {
    cache().join(format!("etcd/v{version}"))
}

/// The versions of etcd that are built; at least one must be.
pub(crate) fn versions() -> Vec<&'static str> {
    let found: Vec<_> = ["3.6.16", "3.5.35"].into_iter().filter(|v| programs(v).join("etcdutl").exists()).collect();
    assert!(!found.is_empty(), "no etcd under $BERTH_CACHE/bin: run devcluster build etcd");
    found
}

/// Processes end with it.
pub(crate) struct World {
    dir: TempDir,
    etcd: Child,
    pub(crate) s3: S3Server,
    version: &'static str,
    client: u16,
    /// How long the program waits for an answer of the store, in seconds.
    pub(crate) store_timeout: Cell<u64>,
}

impl World {
    pub(crate) fn start(version: &'static str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        for name in ["pki", "store", "scratch", "volume"] {
            fs::create_dir_all(path(name)).unwrap();
        }
        certificates(&path("pki"));
        let [client, peer] = ports();
        let url = |port: u16| format!("https://127.0.0.1:{port}");
        let peer = format!("http://127.0.0.1:{peer}");
        let pki = |name: &str| path("pki").join(name).display().to_string();
        let etcd = Command::new(programs(version).join("etcd"))
            .args(["--name=etcd-0", "--unsafe-no-fsync", "--log-level=error", "--client-cert-auth=true"])
            .arg(format!("--data-dir={}", path("etcd").display()))
            .args([format!("--listen-client-urls={}", url(client)), format!("--advertise-client-urls={}", url(client))])
            .args([format!("--listen-peer-urls={peer}"), format!("--initial-advertise-peer-urls={peer}")])
            .arg(format!("--initial-cluster=etcd-0={peer}"))
            .args([format!("--cert-file={}", pki("tls.crt")), format!("--key-file={}", pki("tls.key"))])
            .arg(format!("--trusted-ca-file={}", pki("ca.crt")))
            .stdout(Stdio::null())
            .stderr(fs::File::create(path("etcd.log")).unwrap())
            .spawn()
            .unwrap();
        let s3 = S3Server::start(&s3_program());
        let world = Self { etcd, s3, version, client, dir, store_timeout: Cell::new(120) };
        world.until("etcd to answer", || world.ctl(&["get", "nothing"]).is_some());
        world
    }

    fn until(&self, what: &str, done: impl Fn() -> bool) {
        let began = Instant::now();
        while !done() {
            let log = fs::read_to_string(self.path("etcd.log")).unwrap_or_default();
            assert!(began.elapsed() < Duration::from_secs(30), "waited 30 s for {what}: {log}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn scratch(&self) -> PathBuf {
        self.path("scratch")
    }

    /// Of the member that is restored.
    pub(crate) fn volume(&self) -> PathBuf {
        self.path("volume")
    }

    fn ctl(&self, args: &[&str]) -> Option<String> {
        let flag = |name: &str, file: &str| format!("--{name}={}", self.path("pki").join(file).display());
        let output = Command::new(programs(self.version).join("etcdctl"))
            .arg(format!("--endpoints=https://127.0.0.1:{}", self.client))
            .args([flag("cacert", "ca.crt"), flag("cert", "tls.crt"), flag("key", "tls.key")])
            .args(args)
            .output()
            .unwrap();
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Writes keys 1 to n, each with its number.
    pub(crate) fn write(&self, n: usize) {
        // A call for each would start a process for each.
        for first in (1..=n).step_by(100) {
            let puts: Vec<_> = (first..=n.min(first + 99)).map(|i| format!("put /registry/{i} {i}\n")).collect();
            let text = format!("\n{}\n\n", puts.concat());
            let file = self.path("txn");
            fs::write(&file, text).unwrap();
            let flag = |name: &str, file: &str| format!("--{name}={}", self.path("pki").join(file).display());
            let status = Command::new(programs(self.version).join("etcdctl"))
                .arg(format!("--endpoints=https://127.0.0.1:{}", self.client))
                .args([flag("cacert", "ca.crt"), flag("cert", "tls.crt"), flag("key", "tls.key"), "txn".into()])
                .stdin(fs::File::open(&file).unwrap())
                .stdout(Stdio::null())
                .status();
            assert!(status.unwrap().success());
        }
    }

    pub(crate) fn store(&self) -> Store {
        Self::at(self.s3.address())
    }

    /// A directory, as a volume in the Job's pod.
    pub(crate) fn on_volume(&self) -> Store {
        let directory = self.path("claim");
        fs::create_dir_all(&directory).unwrap();
        Store { directory: directory.display().to_string(), bucket: "backups".into(), ..Store::default() }
    }

    /// Through a proxy with a fault.
    pub(crate) fn through(&self, fault: Fault) -> Store {
        Self::at(proxy::start(self.s3.address(), fault))
    }

    fn at(address: SocketAddr) -> Store {
        let region = "us-east-1".into();
        Store {
            endpoint: format!("http://{address}"),
            bucket: "bucket".into(),
            region,
            path_style: true,
            ..Store::default()
        }
    }

    pub(crate) fn task(&self, store: &Store) -> Task {
        let of = Subject {
            namespace: "team-a".into(),
            name: "acme".into(),
            identity: "id".into(),
            epoch: 1,
            ..Subject::default()
        };
        let members = vec![format!("https://127.0.0.1:{}", self.client)];
        let prefix = "prod/team-a/acme/id".into();
        Task::Take(Take { store: store.clone(), prefix, members, of, without_quorum: false, all: false, earlier: None })
    }

    /// Of a member that is left of two, which is what this one becomes: the other never comes.
    pub(crate) fn survivors(&self) -> Task {
        let [other] = ports();
        let added = self.ctl(&["member", "add", "other", &format!("--peer-urls=http://127.0.0.1:{other}")]);
        assert!(added.is_some());
        self.until("the quorum to be lost", || {
            self.ctl(&["put", "lost", "1", "--command-timeout=500ms"]).is_none()
                && self.ctl(&["endpoint", "status", "-w", "json"]).is_some_and(|s| !s.contains("\"leader\":"))
        });
        match self.task(&self.store()) {
            Task::Take(take) => Task::Take(Take { without_quorum: true, ..take }),
            other => other,
        }
    }

    pub(crate) fn take(&self, store: &Store) -> (Outcome, i32) {
        self.run(&self.task(store), "secret")
    }

    /// Runs the program; its termination message and exit code.
    pub(crate) fn run(&self, task: &Task, secret: &str) -> (Outcome, i32) {
        fs::write(self.path("store").join(keys::ACCESS_KEY_ID), ACCESS_KEY).unwrap();
        fs::write(self.path("store").join(keys::SECRET_ACCESS_KEY), format!("{secret}\n")).unwrap();
        let log = self.path("termination");
        let flag = |name: &str, path: PathBuf| format!("--{name}={}", path.display());
        let status = Command::new(env!("CARGO_BIN_EXE_berth-backup"))
            .arg("run")
            .args([flag("etcd-pki", self.path("pki")), flag("credentials", self.path("store"))])
            .args([flag("scratch", self.scratch()), flag("programs", programs(self.version))])
            .arg(flag("volume", self.volume()))
            .arg(format!("--store-timeout={}", self.store_timeout.get()))
            .arg(flag("termination-log", log.clone()))
            .env(TASK, serde_json::to_string(task).unwrap())
            .status()
            .unwrap();
        let text = fs::read_to_string(log).unwrap();
        assert!(text.len() < 4096, "a termination message holds 4096 bytes");
        (serde_json::from_str(&text).unwrap(), status.code().unwrap())
    }

    /// An object of the bucket, as the server keeps it: a file.
    pub(crate) fn object(&self, key: &str) -> Vec<u8> {
        fs::read(self.s3.file(key)).unwrap()
    }

    /// Names of all objects in the bucket.
    pub(crate) fn keys(&self) -> Vec<String> {
        let all = self.s3.keys("prod");
        all.iter().filter_map(|key| key.rsplit('/').next()).map(str::to_owned).collect()
    }

    /// Changes an object of the bucket behind everybody's back.
    pub(crate) fn spoil(&self, key: &str, change: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = self.object(key);
        change(&mut bytes);
        fs::write(self.s3.file(key), bytes).unwrap();
    }

    /// Removes an object of the bucket.
    pub(crate) fn remove(&self, key: &str) {
        fs::remove_file(self.s3.file(key)).unwrap();
    }

    /// Starts an etcd with what is on the volume; its revision, and what `get` of that key with these flags answers.
    pub(crate) fn restored_on_volume(&self, flags: &[&str]) -> (i64, String) {
        let [client, peer] = ports();
        let (client, peer) = (format!("http://127.0.0.1:{client}"), format!("http://127.0.0.1:{peer}"));
        let mut etcd = Command::new(programs(self.version).join("etcd"))
            .arg(format!("--data-dir={}", self.volume().join("data").display()))
            .args(["--name=etcd-0", "--log-level=error"])
            .args([format!("--listen-client-urls={client}"), format!("--advertise-client-urls={client}")])
            .arg(format!("--listen-peer-urls={peer}"))
            .stderr(fs::File::create(self.path("etcd.log")).unwrap())
            .spawn()
            .unwrap();
        let ctl = |args: &[&str]| {
            let output = Command::new(programs(self.version).join("etcdctl"))
                .arg(format!("--endpoints={client}"))
                .args(args)
                .output()
                .unwrap();
            let text = [output.stdout, output.stderr].concat();
            (output.status.success(), String::from_utf8_lossy(&text).into_owned())
        };
        self.until("etcd on the volume to answer", || ctl(&["get", "nothing"]).0);
        let status = ctl(&["endpoint", "status", "-w", "json"]).1;
        let status: serde_json::Value = serde_json::from_str(&status).unwrap();
        let answer = ctl(&[&["get"], flags].concat()).1;
        etcd.kill().unwrap();
        etcd.wait().unwrap();
        (status[0]["Status"]["header"]["revision"].as_i64().unwrap(), answer)
    }

    /// Restores a snapshot as docs/backup.md says, starts etcd with it, and counts the keys.
    pub(crate) fn restored_by_hand(&self, snapshot: &[u8]) -> u64 {
        let (file, data) = (self.path("by-hand.db"), self.path("by-hand"));
        fs::write(&file, snapshot).unwrap();
        let [client, peer] = ports();
        let (client, peer) = (format!("http://127.0.0.1:{client}"), format!("http://127.0.0.1:{peer}"));
        let restored = Command::new(programs(self.version).join("etcdutl"))
            .args(["snapshot", "restore"])
            .arg(&file)
            .arg(format!("--data-dir={}", data.display()))
            .args([
                "--name=etcd-0",
                "--initial-cluster-token=by-hand",
                "--bump-revision=1000000000",
                "--mark-compacted",
            ])
            .args([format!("--initial-cluster=etcd-0={peer}"), format!("--initial-advertise-peer-urls={peer}")])
            .output()
            .unwrap();
        assert!(restored.status.success(), "{}", String::from_utf8_lossy(&restored.stderr));
        let mut etcd = Command::new(programs(self.version).join("etcd"))
            .arg(format!("--data-dir={}", data.display()))
            .args(["--name=etcd-0", "--log-level=error"])
            .args([format!("--listen-client-urls={client}"), format!("--advertise-client-urls={client}")])
            .arg(format!("--listen-peer-urls={peer}"))
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let count = || {
            let output = Command::new(programs(self.version).join("etcdctl"))
                .arg(format!("--endpoints={client}"))
                .args(["get", "", "--prefix", "--count-only", "--write-out=fields"])
                .output()
                .unwrap();
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            text.lines().find_map(|l| l.strip_prefix("\"Count\" : ")?.parse::<u64>().ok())
        };
        self.until("the restored etcd to answer", || count().is_some());
        let counted = count().unwrap();
        etcd.kill().unwrap();
        etcd.wait().unwrap();
        fs::remove_dir_all(&data).unwrap();
        counted
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = self.etcd.kill();
        let _ = self.etcd.wait();
    }
}

/// A CA, and one certificate for the server and its client.
fn certificates(dir: &Path) {
    let mut ca = CertificateParams::default();
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca = CertifiedIssuer::self_signed(ca, KeyPair::generate().unwrap()).unwrap();
    let mut leaf = CertificateParams::default();
    leaf.subject_alt_names = vec![SanType::IpAddress([127, 0, 0, 1].into())];
    let key = KeyPair::generate().unwrap();
    let leaf = leaf.signed_by(&key, &ca).unwrap();
    for (name, text) in [("ca.crt", ca.pem()), ("tls.crt", leaf.pem()), ("tls.key", key.serialize_pem())] {
        fs::write(dir.join(name), text).unwrap();
    }
}
