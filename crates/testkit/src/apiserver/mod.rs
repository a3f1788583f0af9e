//! A real etcd and kube-apiserver on loopback.
//!
//! No controller runs beside them: namespaces never finish deleting and nothing is rolled out. Start a
//! [`World`](crate::World) where that matters.
//!
//! ```no_run
//! # async fn doc() -> anyhow::Result<()> {
//! let server = berth_testkit::ApiServer::shared().await; // one per test binary
//! let ns = server.namespace("rollout").await;            // one per test
//! let client = server.client_as("alice", &["team-a"]);   // RBAC applies
//! # Ok(()) }
//! ```

mod audit;
mod flags;
mod helpers;
mod pki;
mod process;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use kube::config::AuthInfo;
use kube::{Client, Config};
use tokio::sync::OnceCell;

use crate::ports::port;

pub use audit::AuditEvent;
pub use flags::binary;
pub use process::Process;

/// The admin's user name in the audit log.
pub const ADMIN: &str = "admin";

/// What may differ between servers.
#[derive(Clone, Debug)]
pub struct Options {
    /// Kubernetes version, as in the cache's folder names.
    pub kubernetes: String,
    /// etcd version, likewise.
    pub etcd: String,
    /// Flags put after the harness' own; the last one of a name wins.
    pub apiserver_args: Vec<String>,
    /// Variables of kube-apiserver, as `NAME=value`, beside those of the test.
    pub environment: Vec<String>,
}

impl Default for Options {
    fn default() -> Self {
        let (apiserver_args, environment) = (Vec::new(), Vec::new());
        Self { kubernetes: "v1.36.3".into(), etcd: "v3.6.16".into(), apiserver_args, environment }
    }
}

/// A running pair of etcd and kube-apiserver; both end with this value and with the test process.
pub struct ApiServer {
    // Fields drop in this order: the processes before the directory that they write to.
    apiserver: Mutex<Option<Process>>,
    etcd: Mutex<Process>,
    pki: pki::Pki,
    port: u16,
    apiserver_binary: PathBuf,
    apiserver_args: Vec<String>,
    environment: Vec<String>,
    /// How many of them are the harness' own.
    own_args: usize,
    dir: tempfile::TempDir,
}

impl std::fmt::Debug for ApiServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ApiServer").field("url", &self.url()).field("dir", &self.dir.path()).finish_non_exhaustive()
    }
}

impl ApiServer {
    /// The one server of this test binary, started by whoever asks first. Isolate tests by namespace.
    ///
    /// # Panics
    /// If the server does not start: there is no test without it.
    pub async fn shared() -> &'static Self {
        static SHARED: OnceCell<ApiServer> = OnceCell::const_new();
        SHARED.get_or_init(|| async { Self::start().await.unwrap_or_else(|e| panic!("test apiserver: {e:#}")) }).await
    }

    /// A server of one's own: for tests that stop, pause or reconfigure it.
    pub async fn start() -> Result<Self> {
        Self::start_with(Options::default()).await
    }

    /// Like [`ApiServer::start`], with other versions or flags.
    pub async fn start_with(options: Options) -> Result<Self> {
        let etcd_binary = binary("etcd", &options.etcd, "etcd")?;
        let apiserver_binary = binary("kubernetes", &options.kubernetes, "kube-apiserver")?;
        // A port may be taken between choosing and using it.
        let mut attempt = 1;
        loop {
            match Self::try_start(&etcd_binary, &apiserver_binary, &options).await {
                Err(e) if attempt < 3 && format!("{e:#}").contains("address already in use") => attempt += 1,
                other => return other,
            }
        }
    }

    async fn try_start(etcd_binary: &Path, apiserver_binary: &Path, options: &Options) -> Result<Self> {
        let extra = &options.apiserver_args;
        let dir = process::run_dir()?;
        let pki = pki::Pki::create(&dir.path().join("pki"))?;
        fs::write(dir.path().join("audit-policy.yaml"), flags::AUDIT_POLICY)?;
        let (port, etcd_port, peer_port) = (port(), port(), port());
        let etcd = Process::spawn(dir.path(), "etcd", etcd_binary, &flags::etcd(dir.path(), etcd_port, peer_port))?;
        let apiserver_args = flags::apiserver(dir.path(), port, etcd_port, extra);
        let server = Self {
            apiserver: Mutex::new(None),
            etcd: Mutex::new(etcd),
            pki,
            port,
            apiserver_binary: apiserver_binary.to_owned(),
            own_args: apiserver_args.len() - extra.len(),
            apiserver_args,
            environment: options.environment.clone(),
            dir,
        };
        server.start_apiserver().await?;
        Ok(server)
    }

    /// Starts kube-apiserver again after [`ApiServer::stop_apiserver`], on the same port, and waits until it is ready.
    pub async fn start_apiserver(&self) -> Result<()> {
        if self.process().is_none() {
            let binary = self.apiserver_binary.display().to_string();
            let command: Vec<String> =
                self.environment.iter().chain([&binary]).chain(&self.apiserver_args).cloned().collect();
            let process = Process::spawn(self.dir.path(), "kube-apiserver", Path::new("/usr/bin/env"), &command)?;
            *self.process() = Some(process);
        }
        let deadline = Instant::now() + Duration::from_mins(5);
        let mut config = self.config();
        config.default_retry = false;
        let client = Client::try_from(config)?;
        // `default` is made by the server itself, after it says that it is ready.
        for path in ["/readyz", "/api/v1/namespaces/default"] {
            loop {
                lock(&self.etcd).check()?;
                self.process().as_mut().context("kube-apiserver was stopped while starting")?.check()?;
                let request = http::Request::get(path).body(Vec::new())?;
                match tokio::time::timeout(Duration::from_secs(2), client.request_text(request)).await {
                    Ok(Ok(_)) => break,
                    result if Instant::now() > deadline => bail!("kube-apiserver is not ready: {path}: {result:?}"),
                    _ => tokio::time::sleep(Duration::from_millis(50)).await,
                }
            }
        }
        Ok(())
    }

    /// Another version of kube-apiserver takes over what is stored, with these flags in place of those that it was started with.
    pub async fn replace_apiserver(&mut self, kubernetes: &str, args: &[&str]) -> Result<()> {
        self.stop_apiserver();
        self.apiserver_binary = binary("kubernetes", kubernetes, "kube-apiserver")?;
        self.apiserver_args.truncate(self.own_args);
        self.apiserver_args.extend(args.iter().map(|arg| (*arg).to_owned()));
        self.start_apiserver().await
    }

    /// Kills kube-apiserver (the meta API is down); etcd and what it stores stay.
    pub fn stop_apiserver(&self) {
        self.process().take();
    }

    /// SIGSTOP to kube-apiserver: connections stay open and nothing answers.
    pub fn pause(&self) {
        self.process().as_ref().expect("pause: kube-apiserver is stopped").pause();
    }

    /// SIGCONT after [`ApiServer::pause`].
    pub fn resume(&self) {
        self.process().as_ref().expect("resume: kube-apiserver is stopped").resume();
    }

    /// `https://127.0.0.1:<port>`.
    pub fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.port)
    }

    /// Where the logs and the PKI of this server are.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Configuration of the admin (`system:masters`).
    pub fn config(&self) -> Config {
        self.config_as(ADMIN, &["system:masters"])
    }

    /// Configuration of `user` in `groups`: a client certificate; with more than two groups, impersonation by the admin.
    pub fn config_as(&self, user: &str, groups: &[&str]) -> Config {
        let mut config = Config::new(self.url().parse().expect("a URL of our own"));
        config.root_cert = Some(vec![self.pki.ca_der()]);
        config.auth_info = self.auth_as(user, groups);
        config
    }

    fn auth_as(&self, user: &str, groups: &[&str]) -> AuthInfo {
        if groups.len() > pki::MAX_GROUPS {
            return AuthInfo {
                impersonate: Some(user.to_owned()),
                impersonate_groups: Some(groups.iter().map(ToString::to_string).collect()),
                ..self.auth_as(ADMIN, &["system:masters"])
            };
        }
        let (cert, key) = self.pki.user(user, groups).unwrap_or_else(|e| panic!("certificate for {user}: {e:#}"));
        AuthInfo {
            client_certificate: Some(cert.display().to_string()),
            client_key: Some(key.display().to_string()),
            ..AuthInfo::default()
        }
    }

    /// A kubeconfig for another process (a CLI, an operator binary), as YAML.
    pub fn kubeconfig_as(&self, user: &str, groups: &[&str]) -> String {
        let ca = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, self.pki.ca_pem());
        let config = serde_json::json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "clusters": [{"name": "test", "cluster": {"server": self.url(), "certificate-authority-data": ca}}],
            "users": [{"name": user, "user": self.auth_as(user, groups)}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": user}}],
        });
        serde_saphyr::to_string(&config).expect("a kubeconfig serializes")
    }

    /// A client of the admin. A client belongs to the runtime it was made in: make one per test.
    pub fn client(&self) -> Client {
        Client::try_from(self.config()).expect("a client from a configuration of our own")
    }

    /// A client of `user` in `groups`, to whom RBAC applies.
    pub fn client_as(&self, user: &str, groups: &[&str]) -> Client {
        Client::try_from(self.config_as(user, groups)).expect("a client from a configuration of our own")
    }

    /// What the server did since it started, in the order of completion.
    pub fn audit(&self) -> Vec<AuditEvent> {
        self.audit_since(0)
    }

    /// What the server did since [`ApiServer::audit_mark`].
    pub fn audit_since(&self, mark: u64) -> Vec<AuditEvent> {
        audit::read(&self.audit_path(), mark).expect("the audit log is readable")
    }

    /// The present end of the audit log.
    pub fn audit_mark(&self) -> u64 {
        fs::metadata(self.audit_path()).map_or(0, |m| m.len())
    }

    fn audit_path(&self) -> PathBuf {
        self.dir.path().join("audit.log")
    }

    fn process(&self) -> MutexGuard<'_, Option<Process>> {
        lock(&self.apiserver)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
