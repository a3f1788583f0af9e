//! A client that writes numbered keys and keeps outside of etcd which were acknowledged, and that reads some of them again. Another one
//! watches them.

use berth_testkit::apiserver::binary;
use k8s_openapi::api::core::v1::Secret;
use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use tempfile::TempDir;

use super::kubelet::VERSION;
use super::watcher::Watcher;

/// `etcdctl` with the certificate of a client, at the addresses that clients are told.
pub(crate) struct Client {
    dir: TempDir,
    endpoints: Mutex<Vec<String>>,
}

impl Client {
    pub(crate) fn new(secret: &Secret) -> Self {
        let dir = tempfile::tempdir().unwrap();
        for (file, bytes) in secret.data.iter().flatten() {
            fs::write(dir.path().join(file), &bytes.0).unwrap();
        }
        Self { dir, endpoints: Mutex::default() }
    }

    pub(crate) fn told(&self, addresses: impl Iterator<Item = String>) {
        let told: Vec<_> = addresses.map(|address| format!("https://{address}:2379")).collect();
        if !told.is_empty() {
            *self.endpoints.lock().unwrap() = told;
        }
    }

    pub(crate) fn endpoints(&self) -> String {
        self.endpoints.lock().unwrap().join(",")
    }

    /// `etcdctl`, and its arguments, for these addresses.
    pub(crate) fn command(&self, endpoints: &str, args: &[&str]) -> (PathBuf, Vec<String>) {
        let file = |flag: &str, name: &str| format!("--{flag}={}", self.dir.path().join(name).display());
        let mut all = vec![format!("--endpoints={endpoints}")];
        all.extend([file("cacert", "ca.crt"), file("cert", "tls.crt"), file("key", "tls.key")]);
        all.extend(["--dial-timeout=1s", "--command-timeout=3s"].iter().chain(args).map(|arg| (*arg).to_owned()));
        (binary("etcd", &format!("v{VERSION}"), "etcdctl").unwrap(), all)
    }

    /// What it printed; None: it failed.
    pub(crate) fn run(&self, args: &[&str]) -> Option<String> {
        let (program, args) = self.command(&self.endpoints(), args);
        let out = Command::new(program).args(args).stdin(Stdio::null()).output().unwrap();
        out.status.success().then(|| String::from_utf8(out.stdout).unwrap())
    }
}

/// What it knows, outside of etcd.
#[derive(Default)]
struct Known {
    acknowledged: BTreeSet<u32>,
    /// Acknowledged, and a linearizable read did not find it.
    missed: Vec<u32>,
}

pub(crate) struct Writer {
    /// Of its keys.
    prefix: String,
    watcher: Watcher,
    stop: Arc<AtomicBool>,
    known: Arc<Mutex<Known>>,
    thread: JoinHandle<()>,
}

static WRITERS: AtomicU32 = AtomicU32::new(0);

impl Writer {
    pub(crate) fn start(client: Arc<Client>) -> Self {
        let (stop, known) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Known::default())));
        let (asked, kept) = (stop.clone(), known.clone());
        let prefix = format!("writer-{}/", WRITERS.fetch_add(1, Ordering::Relaxed));
        let watcher = Watcher::start(client.clone(), prefix.clone());
        let keys = prefix.clone();
        let write = move || {
            for n in 0.. {
                if asked.load(Ordering::Relaxed) {
                    break;
                }
                let written = key(&keys, n);
                if client.run(&["put", &written, &n.to_string()]).is_none() {
                    continue;
                }
                kept.lock().unwrap().acknowledged.insert(n);
                // An older one, by a read that asks the quorum.
                let before = kept.lock().unwrap().acknowledged.iter().nth((n * 7919 % (n + 1)) as usize).copied();
                let Some(before) = before.filter(|_| n % 5 == 0) else { continue };
                let found = client.run(&["get", &key(&keys, before), "--print-value-only"]);
                if found.is_some_and(|value| value.trim() != before.to_string()) {
                    kept.lock().unwrap().missed.push(before);
                }
            }
        };
        Self { prefix, watcher, stop, known, thread: std::thread::spawn(write) }
    }

    pub(crate) fn acknowledged(&self) -> usize {
        self.known.lock().unwrap().acknowledged.len()
    }

    /// Stops it: how many writes were acknowledged. All of them are there, with their values, and the watcher saw each once and in order.
    pub(crate) fn nothing_was_lost(self, client: &Client) -> usize {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap();
        let known = self.known.lock().unwrap();
        let there = client.run(&["get", &self.prefix, "--prefix"]).expect("a linearizable read");
        let lines: Vec<_> = there.lines().collect();
        let there: BTreeSet<u32> = lines
            .chunks(2)
            .filter_map(|pair| {
                let n = pair.get(1)?.parse().ok()?;
                (pair[0] == key(&self.prefix, n)).then_some(n)
            })
            .collect();
        let lost: Vec<_> = known.acknowledged.difference(&there).collect();
        let missed = &known.missed;
        assert!(lost.is_empty() && missed.is_empty(), "lost: {lost:?}; not found at some time: {missed:?}");
        let acknowledged: Vec<_> = known.acknowledged.iter().map(|n| key(&self.prefix, *n)).collect();
        self.watcher.saw_all(&acknowledged);
        known.acknowledged.len()
    }
}

/// Keys are ordered as their numbers are.
fn key(prefix: &str, n: u32) -> String {
    format!("{prefix}{n:06}")
}
