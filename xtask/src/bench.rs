//! `make bench`: a meta cluster of its own, one operator, and the program that measures.

use anyhow::ensure;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::demo::{Demo, Store, gateway_values};
use crate::images::{self, Profile, devcluster, install_here, release_dir, release_programs};
use crate::root;
use crate::shell::{Result, cache, output, run, say, state};

const CLUSTER: &str = "bench";

/// The version of Kubernetes' own tests: that of the benches' tenants.
const SUITE: &str = "v1.36.3";

/// Its meta cluster without nodes, for `scale`, `fleet` and most of `apps`.
const BARE: &str = "bench-scale";

/// Steps of `apps`: on the meta cluster with nodes, and on the one without.
const STEPS: [&[&str]; 2] = [&["deployed"], &["many", "rest", "access"]];

/// Brings up what is measured and measures it. `args` go to `berth-bench`.
pub(crate) fn run_all(args: &[String]) -> Result<()> {
    if args.iter().any(|arg| arg == "gateway") {
        return gateway(args);
    }
    if args.iter().any(|arg| arg == "sizes") {
        return sizes(args);
    }
    if args.iter().any(|arg| arg == "apps") {
        return apps(args);
    }
    let images = images::build(Profile::Release)?;
    let dir = root().join("target/bench");
    let has = |part: &str| args.iter().any(|a| a == part);
    let (scale, fleet, etcd, sleep) = (has("scale"), has("fleet"), has("etcd"), has("sleep"));
    let mut values = vec!["operator.replicas=1".to_owned()];
    if sleep {
        // One tenant is called again and again.
        values.push("hibernation.perTenantPerHour=1000".into());
        values.extend(gateway_values());
    }
    let store = if etcd { Store::S3 } else { Store::None };
    let (cluster, demo) = if scale || fleet {
        (BARE, Demo::bring_up_bare(BARE.into(), dir.join("scale"), &images, &pretended_store())?)
    } else {
        (CLUSTER, Demo::bring_up(CLUSTER.into(), dir.clone(), &images, &values, store)?)
    };
    let conformance = has("conformance");
    let machines = conformance || has("machines");
    if conformance {
        run(devcluster().args(["build", "agnhost-older", &format!("e2e.test-{SUITE}")]))?;
    }
    if machines {
        run(devcluster().args(["build", "agnhost"]))?;
        run(devcluster().args(["up", "--timeout", "300", "--name", CLUSTER, "--vpc", "a"]).stdout(Stdio::null()))?;
    }
    if args.iter().any(|a| a == "upgrade") {
        run(devcluster().args(["build", "kubernetes-v1.35.4", "kubernetes-v1.36.2"]))?;
        run(devcluster().args(["up", "--timeout", "300", "--name", CLUSTER, "--all-images"]).stdout(Stdio::null()))?;
    }
    say("berth-bench");
    release_programs(&["berth-bench", "berth-pretended"])?;
    let mut bench = bench_of(&demo, cluster, &dir);
    if args.is_empty() {
        bench.arg("all");
    }
    bench.args(args);
    if sleep {
        bench.arg("--gateway").arg(demo.gateway_address()?);
    }
    if scale {
        bench.arg("--operator").arg(&images.operator.binary);
    }
    if fleet {
        bench.arg("--operator").arg(release_dir().join("berth-pretended"));
        bench.arg("--plugin").arg(demo.plugin().get_program());
    }
    if machines {
        let kubectl = demo.kubectl().get_program().to_owned();
        bench.args(["--cluster", CLUSTER]).arg("--kubectl").arg(kubectl);
        bench.arg("--devcluster").arg(devcluster().get_program()).arg("--plugin").arg(demo.plugin().get_program());
    }
    if conformance {
        let commit = output(Command::new("git").current_dir(root()).args(["rev-parse", "--short=12", "HEAD"]))?;
        bench.arg("--suite").arg(cache().join("bin/kubernetes").join(SUITE).join("e2e.test"));
        bench.arg("--results").arg(dir.join(format!("conformance-{}.jsonl", commit.trim())));
    }
    run(&mut bench)
}

/// The program that measures, for that meta cluster.
fn bench_of(demo: &Demo, cluster: &str, dir: &Path) -> Command {
    let mut bench = Command::new(release_dir().join("berth-bench"));
    bench.arg("--kubeconfig").arg(demo.kubeconfig());
    bench.arg("--audit-log").arg(state().join(cluster).join("log/audit.log"));
    bench.arg("--out").arg(dir.join("results.jsonl"));
    bench
}

/// One meta cluster after the other, as far as steps are asked for that need it.
fn apps(args: &[String]) -> Result<()> {
    let (args, asked) = steps(args);
    let known = STEPS.concat();
    let unknown: Vec<_> = asked.iter().filter(|step| !known.contains(&step.as_str())).collect();
    ensure!(unknown.is_empty(), "--only: no such steps: {unknown:?}; there are {}", known.join(", "));
    let is_asked = |step: &&&str| asked.is_empty() || asked.iter().any(|one| one == **step);
    let [with_nodes, without] = STEPS.map(|all| all.iter().filter(is_asked).copied().collect::<Vec<&str>>().join(","));
    say("devcluster, and Helm for the image of berth-apps");
    release_programs(&["devcluster"])?;
    install_here(Profile::Release, &["devcluster"])?;
    run(devcluster().args(["build", "--only", "server"]))?;
    run(devcluster().args(["build", "helm4", "crane"]))?;
    let images = images::build(Profile::Release)?;
    release_programs(&["berth-bench", "berth-pretended"])?;
    let dir = root().join("target/bench");
    let mut outcome = Ok(());
    if !with_nodes.is_empty() {
        // The registry is a process of this machine.
        let values = ["operator.replicas=1", "apps.peers[0].ipBlock.cidr=10.0.0.0/8"].map(str::to_owned);
        let demo = Demo::bring_up(CLUSTER.into(), dir.clone(), &images, &values, Store::None)?;
        let mut bench = bench_of(&demo, CLUSTER, &dir);
        outcome = run(bench.args(&args).args(["--only", &with_nodes, "--cluster", CLUSTER]));
    }
    if !without.is_empty() {
        let demo = Demo::bring_up_bare(BARE.into(), dir.join("scale"), &images, &pretended_store())?;
        let mut bench = bench_of(&demo, BARE, &dir);
        bench.args(&args).args(["--only", &without]).arg("--operator").arg(release_dir().join("berth-pretended"));
        outcome = outcome.and(run(bench.arg("--program").arg(release_dir().join("berth-apps"))));
    }
    outcome
}

/// Arguments without `--only`, and what that says.
fn steps(args: &[String]) -> (Vec<String>, Vec<String>) {
    let (mut rest, mut only, mut args) = (vec![], vec![], args.iter());
    while let Some(arg) = args.next() {
        let said = if arg == "--only" { args.next().map(String::as_str) } else { arg.strip_prefix("--only=") };
        match said {
            Some(said) => only.extend(said.split(',').map(str::to_owned)),
            None => rest.push(arg.clone()),
        }
    }
    (rest, only)
}

/// Programs alone, with API servers that they start themselves.
fn gateway(args: &[String]) -> Result<()> {
    let programs = ["berth-bench", "berth-gateway", "berth-access", "devcluster"];
    say(&format!("building {}", programs.join(", ")));
    release_programs(&programs)?;
    install_here(Profile::Release, &["devcluster"])?;
    run(devcluster().args(["build", "--only", "server"]))?;
    let program = |name| release_dir().join(name);
    let mut bench = Command::new(program("berth-bench"));
    bench.arg("--out").arg(root().join("target/bench/results.jsonl")).args(args);
    run(bench.arg("--gateway").arg(program("berth-gateway")).arg("--access").arg(program("berth-access")))
}

/// The program that measures alone.
fn sizes(args: &[String]) -> Result<()> {
    say("building berth-bench");
    release_programs(&["berth-bench"])?;
    let mut bench = Command::new(release_dir().join("berth-bench"));
    run(bench.arg("--out").arg(root().join("target/bench/results.jsonl")).args(args))
}

/// A store for backups that are pretended.
fn pretended_store() -> Vec<String> {
    let fields = [("name", "main"), ("endpoint", "http://127.0.0.1:9000"), ("bucket", "b"), ("secretName", "backups")];
    fields.map(|(field, value)| format!("backups.stores[0].{field}={value}")).into()
}

/// Removes the clusters; results stay.
pub(crate) fn down() -> Result<()> {
    run(devcluster().args(["down", "--name", CLUSTER]))?;
    run(devcluster().args(["down", "--name", BARE]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_taken_out_of_the_arguments() {
        for (text, rest, only) in [
            ("apps", vec!["apps"], vec![]),
            (
                "--runs 3 apps --only many,rest --count 20",
                vec!["--runs", "3", "apps", "--count", "20"],
                vec!["many", "rest"],
            ),
            ("apps --only=deployed", vec!["apps"], vec!["deployed"]),
        ] {
            let args: Vec<String> = text.split(' ').map(str::to_owned).collect();
            let wanted = |all: Vec<&str>| all.into_iter().map(str::to_owned).collect::<Vec<_>>();
            assert_eq!(steps(&args), (wanted(rest), wanted(only)), "{text}");
        }
    }
}
