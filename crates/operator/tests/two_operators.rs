//! Two operator processes and one lease: who was stopped past it writes nothing when it goes on, and who is asked to end hands over.

mod common;

use berth_testkit::{ApiServer, fixtures::until};
use common::{SOON, Team, server};
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Another may have the lease only after it ran out: 15 s and a look a second.
const FAILOVER: Duration = Duration::from_mins(2);

/// An operator's process, which the API server knows by its name.
struct Operator {
    name: &'static str,
    child: Child,
    _kubeconfig: tempfile::NamedTempFile,
}

impl Operator {
    fn start(server: &ApiServer, name: &'static str) -> Self {
        let kubeconfig = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(kubeconfig.path(), server.kubeconfig_as(name, &["system:masters"])).expect("a kubeconfig");
        let child = Command::new(env!("CARGO_BIN_EXE_berth-operator"))
            .args(["--agent-image=berth.dev/agent:test", "--listen=", "--identity", name])
            .env("KUBECONFIG", kubeconfig.path())
            .stdout(Stdio::null())
            .spawn()
            .expect("an operator");
        Self { name, child, _kubeconfig: kubeconfig }
    }

    fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).expect("a pid");
        kill_process(pid, signal).expect("a signal");
    }

    /// What it wrote since then, the lease aside.
    fn writes(&self, server: &ApiServer, mark: u64) -> Vec<String> {
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

async fn holder(server: &ApiServer) -> String {
    let leases = Api::<Lease>::namespaced(server.client(), "berth-system");
    let lease = leases.get_opt("berth-operator").await.ok().flatten();
    lease.and_then(|l| l.spec?.holder_identity).unwrap_or_default()
}

async fn leads(server: &ApiServer, operator: &Operator) -> Duration {
    let started = Instant::now();
    until(FAILOVER, &format!("{} leads", operator.name), async || holder(server).await == operator.name).await;
    started.elapsed()
}

/// Its namespace is there: an operator has taken it up.
async fn taken_up(team: &Team) {
    until(SOON, "the control-plane namespace", async || {
        team.namespaces().get_opt(&team.home).await.is_ok_and(|n| n.is_some())
    })
    .await;
}

#[tokio::test]
async fn one_leads_and_the_other_writes_nothing() {
    let server = server().await;
    let system = serde_json::from_value(json!({"metadata": {"name": "berth-system"}})).expect("a namespace");
    let team = Team::with_cluster(server).await;
    team.namespaces().create(&kube::api::PostParams::default(), &system).await.expect("berth-system");
    let first = Operator::start(server, "first");
    leads(server, &first).await;
    taken_up(&team).await;

    // Stopped in the middle of its work, with more of it to come.
    let more = [Team::with_cluster(server).await, Team::with_cluster(server).await];
    first.signal(Signal::STOP);
    let mut second = Operator::start(server, "second");
    let late = Team::with_cluster(server).await;
    let failover = leads(server, &second).await;
    for team in more.iter().chain([&late]) {
        taken_up(team).await;
    }
    let mark = server.audit_mark();
    first.signal(Signal::CONT);
    let mut first = first;
    until(SOON, "the first to notice and to end", async || first.child.try_wait().is_ok_and(|s| s.is_some())).await;
    assert_eq!(first.writes(server, mark), Vec::<String>::new());
    assert_eq!(holder(server).await, "second");

    // Asked to end: the next one need not wait for the lease to run out.
    let third = Operator::start(server, "third");
    until(SOON, "the third to look at the lease", async || {
        server.audit().iter().any(|e| e.user == "third" && e.resource == "leases")
    })
    .await;
    second.signal(Signal::TERM);
    let handover = leads(server, &third).await;
    until(SOON, "the second to end", async || second.child.try_wait().is_ok_and(|s| s.is_some())).await;
    let mark = server.audit_mark();
    taken_up(&Team::with_cluster(server).await).await;
    assert!(!third.writes(server, mark).is_empty());
    println!("failover {:.1} s, hand-over {:.1} s", failover.as_secs_f32(), handover.as_secs_f32());
}
