//! Real etcd processes with TLS, as Berth's templates start them.

#![allow(clippy::unwrap_used, clippy::panic, dead_code, unreachable_pub)]

use berth_etcdio::{Credential, EtcdTarget, Member};
use berth_pki::{CA_LIFETIME, CertSpec, KeyPairPem, LEAF_LIFETIME, Usage, issue, issue_ca};
use jiff::Timestamp;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// The versions that must be tested.
pub const VERSIONS: [&str; 2] = ["3.6.16", "3.5.35"];

/// `<cache>/bin/etcd/v<version>/<name>`, if it was built.
pub fn binary(version: &str, name: &str) -> Option<PathBuf> {
    let cache = std::env::var_os("BERTH_CACHE")
        .map_or_else(|| PathBuf::from(std::env::var_os("HOME").unwrap()).join(".cache/berth"), PathBuf::from);
    let path = cache.join(format!("bin/etcd/v{version}/{name}"));
    path.exists().then_some(path)
}

/// The versions that are there; at least one must be.
pub fn versions() -> Vec<&'static str> {
    let found: Vec<_> = VERSIONS.into_iter().filter(|v| binary(v, "etcd").is_some()).collect();
    assert!(!found.is_empty(), "no etcd under $BERTH_CACHE/bin: run devcluster build etcd");
    for missing in VERSIONS.iter().filter(|v| !found.contains(v)) {
        eprintln!("skipped: etcd {missing} is not built");
    }
    found
}

pub fn ca(name: &str) -> KeyPairPem {
    issue_ca(&spec(name, Usage::Ca), Timestamp::now()).unwrap()
}

fn spec(name: &str, usage: Usage) -> CertSpec {
    let lifetime = if usage == Usage::Ca { CA_LIFETIME } else { LEAF_LIFETIME };
    CertSpec {
        common_name: name.into(),
        organizations: vec![],
        dns_names: vec![],
        ip_addresses: vec![],
        usage,
        lifetime,
    }
}

/// An etcd cluster.
pub struct Etcd {
    dir: TempDir,
    pub client_ca: KeyPairPem,
    members: Vec<Process>,
}

struct Process {
    name: String,
    client: u16,
    args: Vec<String>,
    binary: PathBuf,
    child: Option<Child>,
}

/// How to start one.
pub struct Options {
    pub version: &'static str,
    pub members: usize,
    pub quota: i64,
    pub server_usage: Usage,
}

impl Options {
    pub fn new(version: &'static str, members: usize) -> Self {
        Self { version, members, quota: 64 << 20, server_usage: Usage::Peer }
    }
}

fn free_ports(n: usize) -> Vec<u16> {
    (0..n).map(|_| berth_testkit::ports::port()).collect()
}

fn host(name: &str) -> String {
    format!("{name}.tenant-1.svc")
}

impl Etcd {
    pub fn start(options: &Options) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (client_ca, peer_ca) = (ca("etcd-client-ca-1"), ca("etcd-peer-ca-1"));
        let names: Vec<_> = (0..options.members).map(|i| format!("etcd-{i}")).collect();
        let ports = free_ports(options.members * 2);
        let leaf = |name: &str, usage, ca: &KeyPairPem| {
            // Also of those that come later.
            let mut dns_names: Vec<_> = (0..5).map(|i| host(&format!("etcd-{i}"))).collect();
            dns_names.push("localhost".into());
            let ip_addresses = vec![IpAddr::V4(Ipv4Addr::LOCALHOST)];
            let spec = CertSpec { dns_names, ip_addresses, ..spec(name, usage) };
            let pair = issue(&spec, ca.cert_pem.as_bytes(), ca.key_pem.expose_bytes(), Timestamp::now()).unwrap();
            let dir = dir.path().join(name);
            fs::create_dir_all(&dir).unwrap();
            fs::write(dir.join("tls.crt"), pair.cert_pem).unwrap();
            fs::write(dir.join("tls.key"), pair.key_pem.expose_bytes()).unwrap();
            fs::write(dir.join("ca.crt"), &ca.cert_pem).unwrap();
        };
        leaf("server", options.server_usage, &client_ca);
        leaf("peer", Usage::Peer, &peer_ca);
        let initial: Vec<_> =
            names.iter().enumerate().map(|(i, n)| format!("{n}=https://127.0.0.1:{}", ports[2 * i + 1])).collect();
        let members = names
            .iter()
            .enumerate()
            .map(|(i, name)| {
                let (client, peer) = (ports[2 * i], ports[2 * i + 1]);
                let file = |f: &str| dir.path().join(f).display().to_string();
                let args = vec![
                    format!("--name={name}"),
                    format!("--data-dir={}", file(name)),
                    format!("--listen-client-urls=https://127.0.0.1:{client}"),
                    format!("--advertise-client-urls=https://127.0.0.1:{client}"),
                    format!("--listen-peer-urls=https://127.0.0.1:{peer}"),
                    format!("--initial-advertise-peer-urls=https://127.0.0.1:{peer}"),
                    format!("--initial-cluster={}", initial.join(",")),
                    "--initial-cluster-state=new".into(),
                    "--client-cert-auth=true".into(),
                    format!("--cert-file={}", file("server/tls.crt")),
                    format!("--key-file={}", file("server/tls.key")),
                    format!("--trusted-ca-file={}", file("server/ca.crt")),
                    "--peer-client-cert-auth=true".into(),
                    format!("--peer-cert-file={}", file("peer/tls.crt")),
                    format!("--peer-key-file={}", file("peer/tls.key")),
                    format!("--peer-trusted-ca-file={}", file("peer/ca.crt")),
                    format!("--quota-backend-bytes={}", options.quota),
                    "--tls-min-version=TLS1.2".into(),
                    "--unsafe-no-fsync".into(),
                    "--log-level=error".into(),
                ];
                let binary = binary(options.version, "etcd").unwrap();
                Process { name: name.clone(), client, args, binary, child: None }
            })
            .collect();
        let mut etcd = Self { dir, client_ca, members };
        for i in 0..etcd.members.len() {
            etcd.up(i);
        }
        etcd
    }

    /// Where the next member will be reached by its peers; [`Self::join`] starts it.
    pub fn next_peer_url(&mut self) -> String {
        let ports = free_ports(2);
        let (first, name) = (&self.members[0], format!("etcd-{}", self.members.len()));
        let peer_url = format!("https://127.0.0.1:{}", ports[1]);
        let replaced = |arg: &String| {
            let (flag, _) = arg.split_once('=').unwrap_or((arg, ""));
            match flag {
                "--name" => format!("--name={name}"),
                "--data-dir" => format!("--data-dir={}", self.path(&name).display()),
                "--listen-client-urls" | "--advertise-client-urls" => format!("{flag}=https://127.0.0.1:{}", ports[0]),
                "--listen-peer-urls" | "--initial-advertise-peer-urls" => format!("{flag}={peer_url}"),
                "--initial-cluster-state" => "--initial-cluster-state=existing".to_owned(),
                _ => arg.clone(),
            }
        };
        let args = first.args.iter().map(replaced).collect();
        let next = Process { name: name.clone(), client: ports[0], args, binary: first.binary.clone(), child: None };
        self.members.push(next);
        peer_url
    }

    /// Starts the last member, which is to find these.
    pub fn join(&mut self, initial_cluster: &str) {
        let last = self.members.len() - 1;
        let args = &mut self.members[last].args;
        args.retain(|arg| !arg.starts_with("--initial-cluster="));
        args.push(format!("--initial-cluster={initial_cluster}"));
        self.up(last);
    }

    pub fn up(&mut self, i: usize) {
        let log = fs::File::options().create(true).append(true).open(self.path("log")).unwrap();
        let m = &mut self.members[i];
        let child = Command::new(&m.binary).args(&m.args).stdout(Stdio::null()).stderr(log).spawn().unwrap();
        m.child = Some(child);
    }

    pub fn down(&mut self, i: usize) {
        if let Some(mut child) = self.members[i].child.take() {
            _ = child.kill();
            _ = child.wait();
        }
    }

    /// From its next start on it is of that version.
    pub fn becomes(&mut self, i: usize, version: &str) {
        self.members[i].binary = binary(version, "etcd").unwrap();
    }

    /// `etcdctl` of that version, through whichever member answers.
    pub fn client(&self, version: &str) -> Client {
        let file = |f: &str| self.path(f).display().to_string();
        let endpoints: Vec<_> = self.members.iter().map(|m| format!("https://127.0.0.1:{}", m.client)).collect();
        let args = vec![
            format!("--endpoints={}", endpoints.join(",")),
            format!("--cacert={}", file("server/ca.crt")),
            format!("--cert={}", file("server/tls.crt")),
            format!("--key={}", file("server/tls.key")),
        ];
        Client { binary: binary(version, "etcdctl").unwrap(), args }
    }

    fn path(&self, file: &str) -> PathBuf {
        Path::new(self.dir.path()).join(file)
    }

    pub fn target(&self) -> EtcdTarget {
        let ca = &self.client_ca;
        let credential =
            Credential::issue(ca.cert_pem.as_bytes(), ca.key_pem.expose_bytes(), Timestamp::now()).unwrap();
        let members = self
            .members
            .iter()
            .map(|m| Member::new(&m.name, &host(&m.name), SocketAddr::from((Ipv4Addr::LOCALHOST, m.client))).unwrap());
        EtcdTarget { members: members.collect(), credential }
    }

    /// Writes a key so many bytes large, as often as asked; how often that worked before it did not.
    pub fn fill(&self, version: &str, key: &str, bytes: usize, times: usize) -> usize {
        let value = self.path("value");
        fs::write(&value, "x".repeat(bytes)).unwrap();
        let put = |_: &usize| self.ctl_reading(version, &["put", key], fs::File::open(&value).unwrap().into());
        (0..times).take_while(put).count()
    }

    /// `etcdctl`, through the first member; the server's certificate will do as a client's.
    pub fn ctl(&self, version: &str, args: &[&str]) -> bool {
        self.ctl_reading(version, args, Stdio::null())
    }

    fn ctl_reading(&self, version: &str, args: &[&str], stdin: Stdio) -> bool {
        let file = |f: &str| self.path(f).display().to_string();
        let out = Command::new(binary(version, "etcdctl").unwrap())
            .env("ETCDCTL_API", "3")
            .arg(format!("--endpoints=https://127.0.0.1:{}", self.members[0].client))
            .arg(format!("--cacert={}", file("server/ca.crt")))
            .arg(format!("--cert={}", file("server/tls.crt")))
            .arg(format!("--key={}", file("server/tls.key")))
            .args(args)
            .stdin(stdin)
            .output()
            .unwrap();
        out.status.success()
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.path("log")).unwrap_or_default()
    }
}

/// `etcdctl` for one etcd.
pub struct Client {
    binary: PathBuf,
    args: Vec<String>,
}

impl Client {
    /// What it printed; None: it failed.
    pub fn run(&self, args: &[&str]) -> Option<String> {
        let out = Command::new(&self.binary).args(&self.args).args(args).stdin(Stdio::null()).output().unwrap();
        out.status.success().then(|| String::from_utf8(out.stdout).unwrap())
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        for i in 0..self.members.len() {
            self.down(i);
        }
    }
}
