//! `make bench`: a meta cluster of its own, one operator, and the program that measures.

use std::process::{Command, Stdio};

use crate::demo::{Demo, Store, gateway_values};
use crate::images::{self, Profile, devcluster, install_here, release_dir, release_programs};
use crate::root;
use crate::shell::{Result, cache, output, run, say, state};

const CLUSTER: &str = "bench";

/// The version of Kubernetes' own tests: that of the benches' tenants.
const SUITE: &str = "v1.36.3";

/// Its meta cluster without nodes, for `scale` and `fleet`.
const BARE: &str = "bench-scale";

/// Brings up what is measured and measures it. `args` go to `berth-bench`.
pub(crate) fn run_all(args: &[String]) -> Result<()> {
    if args.iter().any(|arg| arg == "gateway") {
        return gateway(args);
    }
    if args.iter().any(|arg| arg == "sizes") {
        return sizes(args);
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
    let mut bench = Command::new(release_dir().join("berth-bench"));
    bench.arg("--kubeconfig").arg(demo.kubeconfig());
    bench.arg("--audit-log").arg(state().join(cluster).join("log/audit.log"));
    bench.arg("--out").arg(dir.join("results.jsonl"));
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
