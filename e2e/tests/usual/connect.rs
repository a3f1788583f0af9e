//! `kubectl berth connect` from where only the meta cluster's API is reachable, and from where the tenant is.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Command, Output, Stdio},
};

use anyhow::{Context, Result, ensure};
use berth_devcluster::binaries;
use berth_e2e::{Tenant, World, paths, run::run, until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;

/// A network namespace with one link into the meta cluster's, and one route: to its API server.
const NETNS: &str = "berth-e2e-connect";

#[test]
fn a_tenant_is_reached_through_the_meta_cluster() {
    run("connect", connect);
}

fn connect(world: &World) -> Result<()> {
    let tenant = Tenant::ready(world, "reached", &json!({}))?;
    let place = Place::new(world)?;
    let result = through_the_meta_cluster(world, &tenant, &place);
    Place::remove();
    result?;

    // From here, where a route leads to the tenant's address, nothing is forwarded.
    // A pod answers before its Service leads to it.
    until("the tenant's own address to be used", || {
        let here = output(berth(world, &tenant)?.args(["--", "kubectl", "config", "view", "--minify"]))?;
        ensure!(here.status.success(), "{here:?}");
        let server = tenant.cluster()?["status"]["endpoints"][0]["host"].as_str().unwrap_or_default().to_owned();
        ensure!(text(&here.stdout).contains(&format!("server: https://{server}:")), "{}", text(&here.stdout));
        ensure!(text(&here.stderr).contains(" answers at https://"), "{}", text(&here.stderr));
        Ok(())
    })
}

fn through_the_meta_cluster(world: &World, tenant: &Tenant<'_>, place: &Place) -> Result<()> {
    let address = tenant.kubeconfig()?;
    fs::write(place.dir.path().join("direct"), address)?;
    let direct =
        format!("kubectl --kubeconfig {} get ns --request-timeout=3s", place.dir.path().join("direct").display());
    let direct = Place::inside(Command::new("sh").args(["-c", &direct]), world)?.output()?;
    ensure!(!direct.status.success(), "the tenant is reachable: this test shows nothing");

    // A command, many connections, a large answer and its exit code.
    let script = "kubectl create configmap hello --from-literal=from=me && for i in 1 2 3; do kubectl get --raw /openapi/v2 | wc -c; done; exit 7";
    let forwarded = Place::inside(berth(world, tenant)?.args(["--", "sh", "-c", script]), world)?.output()?;
    ensure!(forwarded.status.code() == Some(7), "{}\n{}", text(&forwarded.stdout), text(&forwarded.stderr));
    ensure!(text(&forwarded.stdout).contains("configmap/hello created"), "{}", text(&forwarded.stdout));
    let sizes: Vec<u64> = text(&forwarded.stdout).lines().filter_map(|l| l.trim().parse().ok()).collect();
    ensure!(sizes.len() == 3 && sizes.iter().all(|size| *size > 1_000_000), "{sizes:?}");
    ensure!(text(&forwarded.stderr).contains("is forwarded to https://127.0.0.1:"), "{}", text(&forwarded.stderr));

    // Without a command: until it is told to end. A pod that goes takes no more than its own connections with it.
    let mut command = berth(world, tenant)?;
    let mut child = Place::inside(&mut command, world)?.stdout(Stdio::piped()).spawn()?;
    let mut line = String::new();
    BufReader::new(child.stdout.take().context("no output")?).read_line(&mut line)?;
    let file = line.trim().strip_prefix("export KUBECONFIG=").context("no kubeconfig is named")?.to_owned();
    let get = format!("kubectl --kubeconfig {file} get namespaces --request-timeout=5s");
    let answers = || -> Result<()> {
        let output = Place::inside(Command::new("sh").args(["-c", &get]), world)?.output()?;
        ensure!(output.status.success(), "{}", text(&output.stderr));
        Ok(())
    };
    answers()?;
    world.kubectl(&[
        "-n",
        &tenant.cp_namespace,
        "delete",
        "pod",
        "-l",
        "app.kubernetes.io/component=kube-apiserver",
    ])?;
    until("the new pod to answer through the same port", &answers)?;
    kill(Pid::from_raw(i32::try_from(child.id())?), Signal::SIGINT)?;
    let status = child.wait()?;
    ensure!(status.success(), "{status}");
    ensure!(!Path::new(&file).exists(), "{file} is left");
    Ok(())
}

/// `kubectl berth connect` for that tenant.
fn berth(world: &World, tenant: &Tenant<'_>) -> Result<Command> {
    let mut command = Command::new(paths::program("kubectl-berth")?);
    command.args(["connect", &tenant.name, "-n", &tenant.namespace]);
    surroundings(&mut command, world)?;
    Ok(command)
}

/// With kubectl, and access to the meta cluster.
fn surroundings(command: &mut Command, world: &World) -> Result<()> {
    let kubectl = binaries::kubectl()?;
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{}:{path}", kubectl.parent().context("kubectl is in a folder")?.display()));
    command.env("KUBECONFIG", world.cluster.kubeconfig());
    Ok(())
}

struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    /// Another name than an earlier run's is not needed: what that left is removed first.
    fn new(world: &World) -> Result<Self> {
        let place = Self { dir: tempfile::tempdir()? };
        Self::remove();
        let (meta, api) = (world.cluster.netns(), world.cluster.slot().node_address());
        ip(&format!("netns add {NETNS}"))?;
        ip(&format!("link add berth-e2e-c type veth peer name meta netns {NETNS}"))?;
        ip(&format!("link set berth-e2e-c netns {meta}"))?;
        ip(&format!("-n {meta} addr add 192.0.2.1/30 dev berth-e2e-c"))?;
        ip(&format!("-n {meta} link set berth-e2e-c up"))?;
        ip(&format!("-n {NETNS} addr add 192.0.2.2/30 dev meta"))?;
        ip(&format!("-n {NETNS} link set meta up"))?;
        ip(&format!("-n {NETNS} link set lo up"))?;
        ip(&format!("-n {NETNS} route add {api}/32 via 192.0.2.1"))?;
        Ok(place)
    }

    /// That command, run in the namespace.
    fn inside(command: &mut Command, world: &World) -> Result<Command> {
        let mut inside = Command::new("ip");
        inside.args(["netns", "exec", NETNS]).arg(command.get_program()).args(command.get_args());
        surroundings(&mut inside, world)?;
        Ok(inside)
    }

    /// With the namespace goes its end of the link, and with that the other.
    fn remove() {
        let _ = ip(&format!("netns del {NETNS}"));
    }
}

fn ip(arguments: &str) -> Result<()> {
    let output = output(Command::new("ip").args(arguments.split(' ')))?;
    ensure!(output.status.success(), "ip {arguments}: {}", text(&output.stderr));
    Ok(())
}

fn output(command: &mut Command) -> Result<Output> {
    command.output().with_context(|| format!("{command:?}"))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
