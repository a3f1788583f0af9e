//! A stand-in of kubelet: what the operator wrote for a pod of etcd runs as a process, its guard first, on a directory as its volume.
//!
//! Members listen where their Services are: the meta cluster of these tests has its Services on loopback. Nothing else of a manifest is
//! changed but where its files lie.

use anyhow::Result;
use berth_api::{labels, names};
use berth_testkit::apiserver::{Process, binary};
use berth_testkit::world::Fate;
use k8s_openapi::api::core::v1::Pod;
use kube::{Client, ResourceExt as _};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::{fs, net::IpAddr};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::AbortHandle;

use super::manifest::{Here, Seen, file, list};

pub(crate) const VERSION: &str = "3.6.16";

/// How often files in pods become what the objects say.
const SYNC: Duration = Duration::from_secs(1);

/// What the world says of pods, by UID.
pub(crate) static FATES: LazyLock<Mutex<BTreeMap<String, Fate>>> = LazyLock::new(Mutex::default);

/// The world's view of a pod: what became of its process.
pub(crate) fn fate(pod: &Value) -> Fate {
    let uid = pod["metadata"]["uid"].as_str().unwrap_or_default();
    FATES.lock().unwrap().get(uid).copied().unwrap_or(Fate::Pending)
}

/// What runs for a pod.
struct Member {
    pod: String,
    volume: PathBuf,
    address: IpAddr,
    process: Option<Process>,
    started: Instant,
    /// How often it ended soon after its start.
    restarts: u32,
    not_before: Instant,
    fate: Fate,
}

/// The pods' processes and volumes.
struct Node {
    dir: tempfile::TempDir,
    agent: PathBuf,
    etcd: PathBuf,
    members: BTreeMap<String, Member>,
    /// What guards said.
    said: Vec<String>,
    changed: bool,
}

/// It runs until it is dropped, and all members with it.
pub(crate) struct Kubelet {
    node: Arc<Mutex<Node>>,
    task: AbortHandle,
}

impl Drop for Kubelet {
    fn drop(&mut self) {
        self.task.abort();
        self.lock().members.clear();
    }
}

impl Kubelet {
    /// `wake`: the world looks at pods again.
    pub(crate) fn start(client: Client, namespace: String, wake: impl Fn() + Send + 'static) -> Self {
        let agent = Path::new(env!("CARGO_BIN_EXE_berth-operator")).with_file_name("berth-agent");
        assert!(agent.exists(), "{} is not there: cargo build --workspace --bin berth-agent", agent.display());
        let node = Node {
            dir: tempfile::tempdir().unwrap(),
            agent,
            etcd: binary("etcd", &format!("v{VERSION}"), "etcd").unwrap(),
            members: BTreeMap::new(),
            said: vec![],
            changed: false,
        };
        let node = Arc::new(Mutex::new(node));
        let work = run(node.clone(), client, namespace, wake);
        Self { node, task: tokio::spawn(work).abort_handle() }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Node> {
        self.node.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Members whose process runs.
    pub(crate) fn running(&self) -> Vec<String> {
        self.lock().members.iter().filter(|(_, m)| m.process.is_some()).map(|(name, _)| name.clone()).collect()
    }

    /// SIGKILL; it comes back by itself.
    pub(crate) fn kill(&self, member: &str) {
        if let Some(process) = self.lock().members.get_mut(member).and_then(|m| m.process.as_mut()) {
            process.kill();
        }
    }

    /// SIGKILL, and what it left on its volume becomes something else before it starts again. False: it has no volume.
    pub(crate) fn harm(&self, member: &str, harm: impl FnOnce(&Path)) -> bool {
        let mut node = self.lock();
        let Some(member) = node.members.get_mut(member) else { return false };
        if let Some(process) = &mut member.process {
            process.kill();
        }
        harm(&member.volume);
        // Nobody exchanges a disk before files in pods are what the record says.
        member.not_before = Instant::now() + SYNC * 2;
        true
    }

    /// How often its process ended although nobody killed it.
    pub(crate) fn ended_by_itself(&self, member: &str) -> usize {
        let killed = "ended with exit status: 137";
        self.lock()
            .said
            .iter()
            .filter(|said| said.starts_with(&format!("{member}: ")) && !said.contains(killed))
            .count()
    }

    /// What guards and processes said last.
    pub(crate) fn said(&self) -> Vec<String> {
        let node = self.lock();
        let log = |name: &String| {
            let text = fs::read_to_string(node.dir.path().join(format!("{name}.log"))).unwrap_or_default();
            let last: Vec<_> = text.lines().rev().take(5).map(str::to_owned).collect();
            format!("{name}: {}", last.into_iter().rev().collect::<Vec<_>>().join("\n  "))
        };
        let fates = node.members.iter().map(|(name, m)| format!("{name}: {:?}", m.fate));
        node.said.iter().rev().take(20).cloned().chain(fates).chain(node.members.keys().map(log)).collect()
    }
}

/// Everything on a volume is gone.
pub(crate) fn wipe(volume: &Path) {
    fs::remove_dir_all(volume).unwrap();
    fs::create_dir_all(volume).unwrap();
}

async fn run(node: Arc<Mutex<Node>>, client: Client, namespace: String, wake: impl Fn() + Send + 'static) {
    let mut synced: Option<(Instant, Seen)> = None;
    loop {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let Ok(pods) = list::<Pod>(&client, &namespace).await else { continue };
        let is_new = |pod: &Pod| {
            let node = node.lock().unwrap();
            node.members.get(&pod.name_any()).is_none_or(|m| Some(&m.pod) != pod.uid().as_ref())
        };
        let due = synced.as_ref().is_none_or(|(at, _)| at.elapsed() > SYNC) || pods.iter().any(is_new);
        if due {
            let Ok(seen) = Seen::read(&client, &namespace).await else { continue };
            synced = Some((Instant::now(), seen));
        }
        let asked: Vec<_> = {
            let node = node.lock().unwrap();
            let running = node.members.iter().filter(|(_, m)| m.process.is_some());
            running.map(|(name, m)| (name.clone(), m.address)).collect()
        };
        let answers = asked.into_iter().map(async |(name, address)| ready(address).await.then_some(name));
        let ready: BTreeSet<String> = futures::future::join_all(answers).await.into_iter().flatten().collect();
        let (_, seen) = synced.as_ref().unwrap();
        let changed = {
            let mut node = node.lock().unwrap_or_else(PoisonError::into_inner);
            node.sync(&pods, seen, due, &ready);
            std::mem::take(&mut node.changed)
        };
        if changed {
            wake();
        }
    }
}

impl Node {
    /// `fresh`: what was seen was read just now.
    fn sync(&mut self, pods: &[Pod], seen: &Seen, fresh: bool, ready: &BTreeSet<String>) {
        let lives = |p: &&Pod| p.metadata.deletion_timestamp.is_none() && p.labels().contains_key(labels::ETCD_CLUSTER);
        let pods: BTreeMap<String, &Pod> = pods.iter().filter(lives).map(|p| (p.name_any(), p)).collect();
        let same = |name: &String, m: &Member| pods.get(name).is_some_and(|p| p.uid().as_ref() == Some(&m.pod));
        let mut fates = FATES.lock().unwrap();
        // What runs for pods that are gone ends before anything starts for their successors.
        self.members.retain(|name, member| {
            let same = same(name, member);
            if !same {
                fates.remove(&member.pod);
            }
            same
        });
        drop(fates);
        if fresh {
            let claims: BTreeSet<String> = seen.claims.iter().filter_map(kube::ResourceExt::uid).collect();
            for entry in fs::read_dir(self.dir.path()).unwrap().flatten() {
                let name = entry.file_name().to_string_lossy().into_owned();
                if name.strip_prefix("volume-").is_some_and(|uid| !claims.contains(uid)) {
                    fs::remove_dir_all(entry.path()).unwrap();
                }
            }
        }
        for (name, pod) in pods {
            if !self.members.contains_key(&name) && self.prepare(&name, pod, seen).is_none() {
                continue;
            }
            if fresh {
                self.write_files(&name, pod, seen);
            }
            self.look(&name, pod, seen, ready.contains(&name));
        }
    }

    /// A volume and an address for a pod.
    fn prepare(&mut self, name: &str, pod: &Pod, seen: &Seen) -> Option<()> {
        let claim = seen.claims.iter().find(|c| c.name_any() == format!("data-{name}"))?;
        if claim.metadata.deletion_timestamp.is_some() {
            return None;
        }
        let volume = self.dir.path().join(format!("volume-{}", claim.uid()?));
        fs::create_dir_all(&volume).unwrap();
        let (pod, address, now) = (pod.uid()?, seen.address(name)?, Instant::now());
        let member = Member {
            pod,
            volume,
            address,
            process: None,
            started: now,
            restarts: 0,
            not_before: now,
            fate: Fate::Pending,
        };
        self.members.insert(name.to_owned(), member);
        Some(())
    }

    fn write_files(&self, name: &str, pod: &Pod, seen: &Seen) {
        let pod = serde_json::to_value(pod).unwrap();
        for volume in pod["spec"]["volumes"].as_array().into_iter().flatten() {
            let Some(files) = seen.files(volume) else { continue };
            let dir = file(self.dir.path(), name, volume["name"].as_str().unwrap());
            for (path, bytes) in files {
                let path = dir.join(path);
                if fs::read(&path).is_ok_and(|there| there == bytes) {
                    continue;
                }
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                let new = path.with_extension("new");
                fs::write(&new, bytes).unwrap();
                fs::rename(new, path).unwrap();
            }
        }
    }

    /// What became of its process; starts it if its time has come.
    fn look(&mut self, name: &str, pod: &Pod, seen: &Seen, is_ready: bool) {
        let message = file(self.dir.path(), name, "message");
        let member = self.members.get_mut(name).unwrap();
        let before = member.fate;
        if let Some(process) = &mut member.process {
            if let Err(ended) = process.check() {
                member.process = None;
                let held = fs::read_to_string(&message).unwrap_or_default();
                if member.started.elapsed() > Duration::from_secs(5) {
                    member.restarts = 0;
                }
                // At once, and then later and later.
                let pause = [0, 500, 1000, 2000][usize::try_from(member.restarts).unwrap().min(3)];
                member.not_before = member.not_before.max(Instant::now() + Duration::from_millis(pause));
                member.restarts += 1;
                member.fate = if held.starts_with("DataLost") { Fate::Lost } else { Fate::CrashLoop };
                let said = if held.is_empty() { ended.to_string() } else { held };
                self.said.push(format!("{name}: {said:.600}"));
            } else if is_ready {
                member.fate = Fate::Ready;
            } else if member.started.elapsed() > Duration::from_millis(500) {
                member.fate = Fate::Unready;
            }
        } else if Instant::now() >= member.not_before {
            self.start(name, pod, seen).unwrap_or_else(|e| self.said.push(format!("{name}: {e:#}")));
        }
        let member = &self.members[name];
        if member.fate != before {
            self.changed = true;
        }
        FATES.lock().unwrap().insert(member.pod.clone(), member.fate);
    }

    fn start(&mut self, name: &str, pod: &Pod, seen: &Seen) -> Result<()> {
        let member = &self.members[name];
        let here = Here {
            dir: self.dir.path(),
            name,
            volume: &member.volume,
            address: member.address,
            agent: &self.agent,
            etcd: &self.etcd,
        };
        let args = here.command(&serde_json::to_value(pod)?, seen)?;
        let process = Process::spawn(self.dir.path(), name, Path::new("unshare"), &args)?;
        let member = self.members.get_mut(name).unwrap();
        (member.process, member.started) = (Some(process), Instant::now());
        Ok(())
    }
}

/// What the readiness probe asks.
async fn ready(address: IpAddr) -> bool {
    let ask = async {
        let mut stream = TcpStream::connect((address, 2381)).await?;
        stream.write_all(b"GET /readyz?exclude=data_corruption HTTP/1.0\r\nHost: etcd\r\n\r\n").await?;
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).await?;
        anyhow::Ok(answer.ends_with(b" 200"))
    };
    matches!(tokio::time::timeout(Duration::from_secs(1), ask).await, Ok(Ok(true)))
}

/// Of the etcd that all tests have.
pub(crate) fn member(ordinal: i32) -> String {
    names::etcd::member(names::ETCD, ordinal)
}
