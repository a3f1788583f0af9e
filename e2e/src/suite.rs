//! Kubernetes' own e2e suite, which nobody here wrote, against a tenant with a pretended node.

use std::{
    fs::{self, File},
    process::{Child, Command, Stdio},
};

use anyhow::{Context, Result, ensure};
use berth_devcluster::binaries::{self, Selection};
use serde_json::json;

use crate::{Tenant, World, core, tenant::condition, until};

const FOCUS: &str = r"\[sig-api-machinery\] (Discovery|Watchers|CustomResourceDefinition|Servers with support|FieldValidation|ValidatingAdmissionPolicy).*\[Conformance\]|\[sig-auth\].*(SelfSubjectReview|SubjectReview|Certificates API).*\[Conformance\]";
const SKIP: &str = r"\[Slow\]|chunking|Aggregator|Webhook";
/// They wait up to a minute each for events that shall not come.
const SLOW: [&str; 3] = [
    "add, update, and delete watch notifications",
    "watch on custom resource definition",
    "an object deletion if it stops",
];
/// As many as the filter selects, in each of the versions.
const SPECS: usize = 27;

/// Which of them are run.
#[derive(Clone, Copy, Debug)]
pub enum Specs {
    /// All but [`Specs::Slow`].
    Quick,
    /// Those that wait for events that shall not come.
    Slow,
    /// Both.
    All,
}

impl Specs {
    /// What is run, what of that is skipped, and how many are left.
    fn chosen(self) -> (String, String, usize) {
        let slow = SLOW.join("|");
        match self {
            Self::Quick => (FOCUS.to_owned(), format!("{SKIP}|{slow}"), SPECS - SLOW.len()),
            Self::Slow => (format!(r"({slow}).*\[Conformance\]"), SKIP.to_owned(), SLOW.len()),
            Self::All => (FOCUS.to_owned(), SKIP.to_owned(), SPECS),
        }
    }
}

/// A tenant of that version is judged by the suite of that version.
pub fn conforms(world: &World, version: &str, specs: Specs) -> Result<()> {
    // Does nothing where they are there.
    binaries::build(&Selection::Named(vec![format!("e2e.test-{version}"), "kwok".to_owned()]))?;
    let name = format!("conform-{}", version.trim_start_matches('v').replace('.', "-"));
    let tenant = Tenant::ready(world, &name, &json!({"version": version.trim_start_matches('v')}))?;
    let kubeconfig = world.cluster.dir().join(format!("e2e-{name}.kubeconfig"));
    fs::write(&kubeconfig, tenant.kubeconfig()?)?;
    let _kwok = pretend_a_node(world, &tenant, &kubeconfig)?;
    run_suite(world, version, specs, &kubeconfig)?;
    tenant.nothing_restarted()?;
    tenant.let_go()
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
        "metadata": {
            // As a kubelet has it: what Berth runs on nodes asks for it, and the suite waits for that.
            "name": "pretended", "annotations": {"kwok.x-k8s.io/node": "fake"}, "labels": {"kubernetes.io/os": "linux"},
        },
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

fn run_suite(world: &World, version: &str, specs: Specs, kubeconfig: &std::path::Path) -> Result<()> {
    let suite = binaries::path("kubernetes", version, "e2e.test")?;
    let (focus, skip, number) = specs.chosen();
    let wanted = format!("{number} Passed | 0 Failed");
    let kubectl = binaries::kubectl()?;
    let log = world.cluster.dir().join("log").join(format!("e2e-conformance-{version}.log"));
    let file = File::create(&log)?;
    let status = Command::new(suite)
        .arg(format!("--kubeconfig={}", kubeconfig.display()))
        .arg(format!("--kubectl-path={}", kubectl.display()))
        .args(["--provider=skeleton", "--allowed-not-ready-nodes=10", "--disable-log-dump", "--ginkgo.no-color"])
        .arg(format!("--ginkgo.focus={focus}"))
        .arg(format!("--ginkgo.skip={skip}"))
        .stdin(Stdio::null())
        .stdout(file.try_clone()?)
        .stderr(file)
        .status()?;
    let text = fs::read_to_string(&log)?;
    let failed: Vec<&str> = text.lines().filter(|l| l.contains("[FAIL]") || l.contains("Ran ")).collect();
    ensure!(status.success() && text.contains(&wanted), "{status}, in {}:\n{}", log.display(), failed.join("\n"));
    println!("    {version}: {}", text.lines().find(|l| l.contains(&wanted)).unwrap_or_default());
    Ok(())
}
