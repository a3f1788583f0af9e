//! Tenants' API servers as processes of this machine: with the arguments, Secrets and ConfigMaps of their pods, but on loopback, and with one etcd for all.

use anyhow::{Context as _, Result, ensure};
use berth_api::{labels, names};
use berth_devcluster::{binaries, versions};
use berth_fence::{Fence, FencedClient};
use berth_kubeio::{TenantTarget, connect};
use berth_testkit::apiserver::Process;
use berth_testkit::ports::{port, ports};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, ResourceExt as _};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use super::mount::mount;
use crate::kubelet::is_well;
use crate::process::usage;

/// API servers that start at once: each takes a core while it does.
const STARTS: usize = 3;
const TIMEOUT: Duration = Duration::from_mins(4);
/// Less than leases last.
const RENEW: Duration = Duration::from_secs(100);
const LEASE: u64 = 300;

/// It ends with this.
pub(super) struct Servers {
    /// By the UIDs of their pods. None: it starts.
    all: Mutex<BTreeMap<String, Option<Server>>>,
    _etcd: Process,
    etcd: u16,
    program: PathBuf,
    client: Client,
    starts: Semaphore,
    dir: tempfile::TempDir,
}

struct Server {
    /// The control-plane namespace.
    home: String,
    process: Process,
    tenant: Tenant,
    leads: JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.leads.abort();
    }
}

/// How a tenant is reached.
#[derive(Clone)]
pub(super) struct Tenant {
    pub(super) port: u16,
    ca_cert: Vec<u8>,
    ca_key: Vec<u8>,
}

impl Servers {
    /// The etcd alone.
    pub(super) fn start(client: &Client) -> Result<Self> {
        let dir = tempfile::tempdir()?;
        std::fs::create_dir(dir.path().join("tenants"))?;
        let [etcd, peer] = ports();
        let url = |port: u16| format!("http://127.0.0.1:{port}");
        let arguments = [
            "--name=bench".to_owned(),
            format!("--data-dir={}", dir.path().join("etcd").display()),
            format!("--listen-client-urls={}", url(etcd)),
            format!("--advertise-client-urls={}", url(etcd)),
            format!("--listen-peer-urls={}", url(peer)),
            format!("--initial-advertise-peer-urls={}", url(peer)),
            format!("--initial-cluster=bench={}", url(peer)),
            "--quota-backend-bytes=8589934592".to_owned(),
            "--unsafe-no-fsync".to_owned(),
            "--log-level=warn".to_owned(),
        ];
        let binary = |component, version, name| binaries::path(component, version, name);
        let process = Process::spawn(dir.path(), "etcd", &binary("etcd", versions::ETCD, "etcd")?, &arguments)?;
        Ok(Self {
            all: Mutex::default(),
            _etcd: process,
            etcd,
            program: binary("kubernetes", versions::KUBERNETES, "kube-apiserver")?,
            client: client.clone(),
            starts: Semaphore::new(STARTS),
            dir,
        })
    }

    /// The folder that says where tenants are, as `berth-pretended` reads it.
    pub(super) fn tenants(&self) -> PathBuf {
        self.dir.path().join("tenants")
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<String, Option<Server>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs the API server of a pod, and says that it is well once it answers.
    pub(super) async fn serve(self: Arc<Self>, pod: Pod) {
        let uid = pod.uid().unwrap_or_default();
        let known = {
            let mut all = self.all();
            let known = all.get(&uid).map(Option::is_some);
            all.entry(uid.clone()).or_default();
            known
        };
        if known.is_none() {
            match self.begin(&pod).await {
                // The pod may be gone by now.
                Ok(server) => drop(self.all().get_mut(&uid).map(|place| place.replace(server))),
                Err(error) => {
                    println!("the API server in {}: {error:#}", pod.namespace().unwrap_or_default());
                    self.all().remove(&uid);
                    return;
                }
            }
        }
        if known != Some(false) {
            is_well(&self.client, &pod).await;
        }
    }

    /// Ends that of a pod.
    pub(super) fn end(&self, pod: &Pod) {
        let ended = self.all().remove(&pod.uid().unwrap_or_default());
        drop(ended);
    }

    async fn begin(&self, pod: &Pod) -> Result<Server> {
        let _turn = self.starts.acquire().await?;
        let home = pod.namespace().context("a pod without a namespace")?;
        let root = self.dir.path().join(pod.uid().context("a pod without a UID")?);
        mount(&self.client, pod, &root).await?;
        let cluster = pod.labels().get(labels::CLUSTER_NAME).context("a pod of no Cluster")?;
        let ca = Api::<Secret>::namespaced(self.client.clone(), &home).get(&names::ca(cluster)).await?;
        let data = ca.data.unwrap_or_default();
        let key = |name: &str| data.get(name).map(|bytes| bytes.0.clone()).with_context(|| format!("no {name}"));
        let tenant = Tenant { port: port(), ca_cert: key("tls.crt")?, ca_key: key("tls.key")? };
        let container =
            pod.spec.as_ref().and_then(|spec| spec.containers.first()).context("a pod without a container")?;
        let given = container.args.clone().unwrap_or_default();
        let arguments = arguments(&given, &root, &home, self.etcd, tenant.port);
        let mut process = Process::spawn(&root, "kube-apiserver", &self.program, &arguments)?;
        let since = Instant::now();
        while let Err(error) = tenant.lead().await {
            process.check()?;
            ensure!(since.elapsed() < TIMEOUT, "it does not answer: {error:#}");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        std::fs::write(self.tenants().join(id(&tenant.ca_cert)), tenant.port.to_string())?;
        let leader = tenant.clone();
        let leads = tokio::spawn(async move {
            loop {
                tokio::time::sleep(RENEW).await;
                if let Err(error) = leader.lead().await {
                    println!("the API server at port {}: {error:#}", leader.port);
                }
            }
        });
        Ok(Server { home, process, tenant, leads })
    }

    /// The port of the tenant whose control-plane namespace that is.
    pub(super) fn port_of(&self, home: &str) -> Option<u16> {
        self.all().values().flatten().find(|server| server.home == home).map(|server| server.tenant.port)
    }

    /// All that serve.
    pub(super) fn serving(&self) -> Vec<Tenant> {
        self.all().values().flatten().map(|server| server.tenant.clone()).collect()
    }

    /// Seconds of CPU, and MiB of memory that they share with nobody, of all of them together.
    pub(super) fn usage(&self) -> (f64, f64) {
        let pids: Vec<i32> = self.all().values().flatten().map(|server| server.process.pid()).collect();
        let all = pids.into_iter().filter_map(|pid| usage(u32::try_from(pid).ok()?));
        all.fold((0.0, 0.0), |(cpu, memory), usage| (cpu + usage.cpu, memory + usage.anonymous))
    }
}

impl Tenant {
    /// As the operator, for an hour.
    pub(super) async fn client(&self) -> Result<FencedClient> {
        let server = format!("https://127.0.0.1:{}", self.port);
        let target = TenantTarget::new(server, None, &self.ca_cert, &self.ca_key, Timestamp::now().into());
        let connect = connect(Fence::open());
        connect(target.map_err(anyhow::Error::msg)?).await.map_err(anyhow::Error::msg)
    }

    /// Says once more that its controller-manager and its scheduler work: neither is there.
    async fn lead(&self) -> Result<()> {
        let client = self.client().await?;
        client.request_text(http::Request::get("/readyz").body(vec![])?).await?;
        let leases: Api<Lease> = Api::namespaced((*client).clone(), "kube-system");
        let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string();
        for name in [names::CONTROLLER_MANAGER, names::SCHEDULER] {
            let lease = json!({
                "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name},
                "spec": {"holderIdentity": "bench", "leaseDurationSeconds": LEASE, "renewTime": now},
            });
            leases.patch(name, &PatchParams::apply("bench").force(), &Patch::Apply(lease)).await?;
        }
        Ok(())
    }
}

/// As the stand-in of tenants' APIs in the operator's tests names them (`id` in `tenant.rs` there).
fn id(ca_cert: &[u8]) -> String {
    format!("tenant-{}", &berth_plan::digest::sha256(ca_cert)[..10])
}

/// What the pod says, but for where etcd and files are, and where it listens.
fn arguments(given: &[String], root: &Path, home: &str, etcd: u16, port: u16) -> Vec<String> {
    let without = ["--etcd-cafile", "--etcd-certfile", "--etcd-keyfile"];
    let one = |argument: &String| match argument.split('=').next()? {
        flag if without.contains(&flag) => None,
        "--etcd-servers" => Some(format!("--etcd-servers=http://127.0.0.1:{etcd}")),
        "--secure-port" => Some(format!("--secure-port={port}")),
        _ => Some(argument.replacen("=/", &format!("={}/", root.display()), 1)),
    };
    let own = ["--bind-address=127.0.0.1".to_owned(), format!("--etcd-prefix=/{home}")];
    given.iter().filter_map(one).chain(own).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_told_what_its_pod_says_but_for_etcd_files_and_its_port() {
        let given = [
            "--allow-privileged=true",
            "--audit-log-path=-",
            "--client-ca-file=/etc/kubernetes/pki/ca.crt",
            "--etcd-cafile=/etc/kubernetes/pki/etcd/ca.crt",
            "--etcd-servers=https://etcd-0.etcd.acme.svc:2379",
            "--secure-port=6443",
        ]
        .map(str::to_owned);
        let told = arguments(&given, Path::new("/tmp/x"), "acme-1", 1, 2);
        let wanted = [
            "--allow-privileged=true",
            "--audit-log-path=-",
            "--client-ca-file=/tmp/x/etc/kubernetes/pki/ca.crt",
            "--etcd-servers=http://127.0.0.1:1",
            "--secure-port=2",
            "--bind-address=127.0.0.1",
            "--etcd-prefix=/acme-1",
        ];
        assert_eq!(told, wanted);
    }
}
