//! Kubernetes' own e2e suite, which nobody here wrote, against a tenant with a pretended node.

use std::{
    fs::{self, File},
    process::{Child, Command, Stdio},
};

use anyhow::{Context, Result, ensure};
use berth_devcluster::{
    binaries::{self, Selection},
    versions,
};
use berth_e2e::{Tenant, World, core, tenant::condition, until};
use serde_json::json;

const FOCUS: &str = r"\[sig-api-machinery\] (Discovery|Watchers|CustomResourceDefinition|Servers with support|FieldValidation|ValidatingAdmissionPolicy).*\[Conformance\]|\[sig-auth\].*(SelfSubjectReview|SubjectReview|Certificates API).*\[Conformance\]";
const SKIP: &str = r"\[Slow\]|chunking|Aggregator|Webhook";
/// As many as the filter selects in this version.
const SPECS: &str = "27 Passed | 0 Failed";

#[test]
fn kubernetes_own_tests_pass() {
    berth_e2e::run("conformance", |world| {
        let node = binaries::directory("kwok", "0.8.0").join("kwok");
        if !node.is_file() || binaries::path("kubernetes", versions::KUBERNETES, "e2e.test").is_err() {
            binaries::build(&Selection::Named(vec!["e2e.test".to_owned(), "kwok".to_owned()]))?;
        }
        let tenant = Tenant::ready(world, "conform", &json!({}))?;
        let kubeconfig = world.cluster.dir().join("e2e-conform.kubeconfig");
        fs::write(&kubeconfig, tenant.kubeconfig()?)?;
        let _kwok = pretend_a_node(world, &tenant, &kubeconfig)?;
        run_suite(world, &kubeconfig)?;
        tenant.nothing_restarted()
    });
}

/// A process that ends with this value.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn pretend_a_node(world: &World, tenant: &Tenant<'_>, kubeconfig: &std::path::Path) -> Result<Process> {
    let directory = binaries::directory("kwok", "0.8.0");
    let log = File::create(world.cluster.dir().join("log/e2e-kwok.log"))?;
    let mut command = Command::new(directory.join("kwok"));
    command.arg("--kubeconfig").arg(kubeconfig).arg("--manage-all-nodes=true");
    for stage in fs::read_dir(directory.join("stages"))?.flatten() {
        command.arg("--config").arg(stage.path());
    }
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    let kwok = Process(command.spawn().context("cannot start kwok")?);
    let node = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": "pretended", "annotations": {"kwok.x-k8s.io/node": "fake"}},
    });
    let api = tenant.api()?;
    api.create(&core("", "nodes"), &node)?;
    until("the pretended node to be ready", || {
        let node = api.get(&format!("{}/pretended", core("", "nodes")))?;
        ensure!(condition(&node, "Ready")?["status"] == "True", "it is not");
        ensure!(node["spec"]["taints"].as_array().is_none_or(Vec::is_empty), "it has taints");
        Ok(())
    })?;
    Ok(kwok)
}

fn run_suite(world: &World, kubeconfig: &std::path::Path) -> Result<()> {
    let suite = binaries::path("kubernetes", versions::KUBERNETES, "e2e.test")?;
    let kubectl = binaries::kubectl()?;
    let log = world.cluster.dir().join("log/e2e-conformance.log");
    let file = File::create(&log)?;
    let status = Command::new(suite)
        .arg(format!("--kubeconfig={}", kubeconfig.display()))
        .arg(format!("--kubectl-path={}", kubectl.display()))
        .args(["--provider=skeleton", "--allowed-not-ready-nodes=10", "--disable-log-dump", "--ginkgo.no-color"])
        .arg(format!("--ginkgo.focus={FOCUS}"))
        .arg(format!("--ginkgo.skip={SKIP}"))
        .stdin(Stdio::null())
        .stdout(file.try_clone()?)
        .stderr(file)
        .status()?;
    let text = fs::read_to_string(&log)?;
    let failed: Vec<&str> = text.lines().filter(|l| l.contains("[FAIL]") || l.contains("Ran ")).collect();
    ensure!(status.success() && text.contains(SPECS), "{status}, in {}:\n{}", log.display(), failed.join("\n"));
    println!("    {}", text.lines().find(|l| l.contains(SPECS)).unwrap_or_default());
    Ok(())
}
