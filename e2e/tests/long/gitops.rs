//! Helm 4 waits for a chart with a Cluster in it, and says which one a person has to correct.

use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};
use berth_devcluster::{binaries, versions};
use berth_e2e::{NEWEST, Tenant, World, core, paths, run::run, tenant::condition};
use serde_json::json;

#[test]
#[ignore = "make test-all: builds Helm 4"]
fn helm_waits_for_a_cluster() {
    run("gitops", |world| {
        let tenant = Tenant::named(world, "by-helm");
        let team = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": tenant.namespace}});
        world.kube.ensure(&core("", "namespaces"), &team)?;
        let version = format!("version={NEWEST}");

        let installed = helm(world, &tenant, "install", &[&version, "spec.deletion.protected=false"], "5m")?;
        ensure!(installed.status.success(), "{}", text(&installed));
        let cluster = tenant.cluster()?;
        let ready = condition(&cluster, "Ready")?;
        ensure!(ready["status"] == "True", "it returned, and Ready is {ready}");
        ensure!(cluster["status"]["observedGeneration"] == cluster["metadata"]["generation"], "{cluster}");

        // A version that no operator has: that is for a person, and what runs stays.
        let refused = helm(world, &tenant, "upgrade", &["version=1.29.1", "spec.deletion.protected=false"], "1m")?;
        ensure!(!refused.status.success(), "{}", text(&refused));
        let stalled = condition(&tenant.cluster()?, "Stalled")?.clone();
        ensure!(stalled["status"] == "True" && stalled["reason"] == "VersionUnsupported", "{stalled}");

        let mended = helm(world, &tenant, "upgrade", &[&version, "spec.deletion.protected=false"], "5m")?;
        ensure!(mended.status.success(), "{}", text(&mended));
        ensure!(condition(&tenant.cluster()?, "Stalled").is_err(), "it is still there");
        tenant.nothing_restarted()
    });
}

fn helm(world: &World, tenant: &Tenant<'_>, verb: &str, values: &[&str], timeout: &str) -> Result<Output> {
    let helm = binaries::path("helm4", versions::HELM_NEXT, "helm4")?;
    let mut command = Command::new(helm);
    command.env("KUBECONFIG", world.cluster.kubeconfig());
    command.args([verb, &tenant.name]).arg(paths::root().join("examples/gitops/chart"));
    command.args(["-n", &tenant.namespace, "--wait", "--timeout", timeout]);
    command.args(values.iter().flat_map(|value| ["--set", value]));
    println!("$ helm {verb} {} {}", tenant.name, values.join(" "));
    let output = command.output().context("cannot run Helm 4")?;
    println!("{}", text(&output));
    Ok(output)
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}
