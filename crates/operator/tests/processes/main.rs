//! The operator as a process: its lease and the right to it, its end, its clock, and what it does while the meta cluster's API server
//! is away. And an audit webhook of an API server.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on says why")]

#[path = "../common/mod.rs"]
mod common;

mod audit;
mod clock;
mod lease;
mod outage;
mod rights;

use berth_testkit::{ApiServer, fixtures::until};
use common::{SOON, Team, crds};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use rustix::process::{Pid, Signal, kill_process};
use std::process::{Child, Command};
use tempfile::NamedTempFile;
use tokio::sync::OnceCell;

/// An operator's process, which the API server knows by its name.
pub(crate) struct Operator {
    name: &'static str,
    child: Child,
    log: NamedTempFile,
    _files: [NamedTempFile; 2],
}

/// The meta cluster's addresses: the server under test has no nodes to tell them.
const CONFIG: &str = "meta: {podCIDRs: [10.244.0.0/16], serviceCIDRs: [10.96.0.0/16], nodeCIDRs: [192.168.0.0/24], \
    apiServerIPs: [127.0.0.1]}";

impl Operator {
    pub(crate) fn start(server: &ApiServer, name: &'static str) -> Self {
        Self::start_with(server, name, &["--listen="], &[])
    }

    /// Likewise, with these arguments and variables.
    pub(crate) fn start_with(
        server: &ApiServer,
        name: &'static str,
        arguments: &[&str],
        variables: &[(&str, &str)],
    ) -> Self {
        Self::start_as(server, name, &["system:masters"], arguments, variables)
    }

    /// Likewise, with the rights of these groups.
    pub(crate) fn start_as(
        server: &ApiServer,
        name: &'static str,
        groups: &[&str],
        arguments: &[&str],
        variables: &[(&str, &str)],
    ) -> Self {
        let file = |text: &str| {
            let file = NamedTempFile::new().expect("a file");
            std::fs::write(file.path(), text).expect("written");
            file
        };
        let (kubeconfig, config) = (file(&server.kubeconfig_as(name, groups)), file(CONFIG));
        let log = file("");
        let child = Command::new(env!("CARGO_BIN_EXE_berth-operator"))
            .args(["--agent-image=berth.dev/agent:test", "--identity", name])
            .arg("--config")
            .arg(config.path())
            .args(arguments)
            .env("KUBECONFIG", kubeconfig.path())
            .env("NO_COLOR", "1")
            .envs(variables.iter().copied())
            .stdout(log.reopen().expect("the log"))
            .spawn()
            .expect("an operator");
        Self { name, child, log, _files: [kubeconfig, config] }
    }

    /// What it logged so far, as a person reads it: quotes are not escaped.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.log.path()).expect("the log").replace('\\', "")
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).expect("a pid");
        kill_process(pid, signal).expect("a signal");
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().is_ok_and(|s| s.is_some())
    }

    /// What it wrote since then, the lease aside.
    pub(crate) fn writes(&self, server: &ApiServer, mark: u64) -> Vec<String> {
        let all = server.audit_since(mark).into_iter();
        let mine = all.filter(|e| e.user == self.name && e.is_write() && e.resource != "leases");
        mine.map(|e| format!("{} {}", e.verb, e.uri)).collect()
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The operators' namespace.
pub(crate) async fn system(server: &ApiServer) {
    let system: Namespace =
        berth_testkit::yaml!("{{apiVersion: v1, kind: Namespace, metadata: {{name: berth-system}}}}");
    let namespaces = Api::<Namespace>::all(server.client());
    let params = PatchParams::apply("test").force();
    namespaces.patch("berth-system", &params, &Patch::Apply(&system)).await.expect("berth-system");
}

/// A server without a world, and nobody's lease on it: pods of tenants never run there, so that an operator comes to rest. Tests that
/// use it take turns.
pub(crate) async fn quiet() -> &'static ApiServer {
    static SERVER: OnceCell<ApiServer> = OnceCell::const_new();
    let start = async || {
        let server = ApiServer::start().await.expect("server");
        server.install_crds(&crds()).await.expect("CRDs");
        system(&server).await;
        server
    };
    let server = SERVER.get_or_init(start).await;
    let leases = Api::<Lease>::namespaced(server.client(), "berth-system");
    let _ = leases.delete("berth-operator", &DeleteParams::default()).await;
    server
}

pub(crate) async fn lease(server: &ApiServer) -> Option<Lease> {
    Api::<Lease>::namespaced(server.client(), "berth-system").get_opt("berth-operator").await.ok().flatten()
}

pub(crate) async fn holder(server: &ApiServer) -> String {
    lease(server).await.and_then(|l| l.spec?.holder_identity).unwrap_or_default()
}

/// Its namespace is there: an operator has taken it up.
pub(crate) async fn taken_up(team: &Team) {
    until(SOON, "the control-plane namespace", async || {
        team.namespaces().get_opt(&team.cp_namespace).await.is_ok_and(|n| n.is_some())
    })
    .await;
}
