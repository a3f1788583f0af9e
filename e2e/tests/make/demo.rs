//! `make demo` from a shell, as a reader of the README types it: the printed commands work as printed, a second run changes
//! nothing, and `make demo-down` leaves nothing.

use std::{
    collections::BTreeSet,
    env, fs,
    path::{Path, PathBuf},
    process::Command,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use anyhow::{Context as _, Result, bail, ensure};
use berth_e2e::{
    make::{self, building, plain},
    pages, paths,
    run::must_be_real,
    until,
};

/// A demo beside that of a person who runs the tests.
pub(super) const NAME: &str = "e2e-demo";

#[test]
fn the_demo_twice_and_away() {
    away_after(demo);
}

/// docs/restore.md, docs/operate.md and docs/tutorial.md, as they are printed.
#[test]
#[ignore = "make test-all: eight minutes"]
fn the_pages_about_the_demo_do_what_they_say() {
    away_after(|| {
        make("demo")?;
        in_a_checkout("docs/restore.md", |_| Ok(()))?;
        make("demo")?;
        in_a_checkout("docs/operate.md", |bash| {
            knows_the_demo(bash);
            Ok(())
        })?;
        in_a_checkout("docs/tutorial.md", |_| Ok(()))
    });
}

/// The demo's programs, and access to its meta cluster.
pub(super) fn knows_the_demo(bash: &mut Command) {
    let path = env::var("PATH").unwrap_or_default();
    bash.env("PATH", format!("{}:{path}", dir().join("bin").display()))
        .env("KUBECONFIG", dir().join("meta.kubeconfig"));
}

/// Runs a test on that demo, one at a time, and removes it.
#[expect(clippy::panic, reason = "a test fails by panicking")]
pub(super) fn away_after(test: impl FnOnce() -> Result<()>) {
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    must_be_real();
    let result = test();
    let down = make("demo-down").and_then(|_| nothing_is_left());
    if let Err(error) = result.and(down) {
        panic!("{error:#}");
    }
}

fn demo() -> Result<()> {
    let said = make("demo")?;
    ensure!(said.contains("acme is ready after"), "{said}");
    let answers = said.split_once("what the tenant answers").context("no answer of the tenant")?.1;
    ensure!(answers.contains("kube-system") && answers.contains("Server Version: v1.36"), "{said}");
    let files = dir();
    let kubeconfigs = ["meta.kubeconfig", "acme.kubeconfig", "initech.kubeconfig", "tenants.kubeconfig"];
    for name in ["bin/kubectl", "bin/kubectl-berth"].into_iter().chain(kubeconfigs) {
        ensure!(files.join(name).is_file(), "{name} is missing");
    }

    let before = until("the meta cluster is at rest", || {
        // Counted every fourth minute until all are ready: a change of the status.
        let nodes =
            kubectl(&["-n", "team-a", "get", "clusters.berth.dev", "acme", "-o", "jsonpath={.status.nodes.ready}"])?;
        ensure!(nodes == "2", "{nodes} nodes are counted as ready");
        let first = objects()?;
        std::thread::sleep(Duration::from_secs(2));
        let second = objects()?;
        ensure!(first == second, "changed: {:?}", first.symmetric_difference(&second).collect::<Vec<_>>());
        Ok(second)
    })?;
    make("demo")?;
    let after = objects()?;
    ensure!(before == after, "{:#?}", before.symmetric_difference(&after).collect::<Vec<_>>());

    let page = said.lines().skip_while(|l| !l.contains("what to try next")).skip(2);
    let commands: Vec<&str> = page.take_while(|line| !line.is_empty()).collect();
    let [export, commands @ .., last] = commands.as_slice() else { bail!("no commands: {said}") };
    ensure!(commands.len() == 7 && export.starts_with("export PATH=$PWD/target/"), "{said}");
    ensure!(last.starts_with(&format!("make demo-down BERTH_CLUSTER={NAME} ")), "{last}");
    let (mut refused, mut answered) = (0, 0);
    // As by somebody for the first time.
    fs::remove_file(files.join("tenants.kubeconfig"))?;
    for command in commands {
        println!("$ {command}");
        let script = format!("{export}\n{command}");
        let shell = plain(Command::new("bash").args(["-c", &script])).current_dir(paths::root()).output()?;
        let text = String::from_utf8_lossy(&shell.stdout).into_owned() + &String::from_utf8_lossy(&shell.stderr);
        println!("{}", text.trim_end());
        let asks = command.contains("initech") && command.contains("get namespaces");
        answered += usize::from(asks && text.contains("kube-system"));
        if !shell.status.success() {
            ensure!(text.contains("this Cluster is protected from deletion"), "`{command}` failed");
            refused += 1;
        }
    }
    ensure!(refused == 1, "the deletion of a protected Cluster is refused once: {refused}");
    ensure!(answered == 2, "initech answers by the gateway, and by the login: {answered}");
    ensure!(commands.iter().any(|command| command.starts_with("kubectl berth login https://")), "{commands:?}");
    by_which_way(&files)
}

/// One kubeconfig leads to the gateway by a name, the other to the login, and both programs saw who came.
fn by_which_way(files: &Path) -> Result<()> {
    let read = |name: &str| fs::read_to_string(files.join(name));
    let (by_name, by_login) = (read("initech.kubeconfig")?, read("tenants.kubeconfig")?);
    ensure!(by_name.contains("tls-server-name") && by_name.contains(".demo.test"), "{by_name}");
    for context in ["team-a/acme", "team-a/initech"] {
        ensure!(by_login.contains(&format!("/clusters/{context}")), "{by_login}");
    }
    ensure!(by_login.contains("visitor.token") && !by_login.contains("client-key"), "{by_login}");
    let log = kubectl(&["-n", "berth-gateway", "logs", "-l", "app.kubernetes.io/component=gateway", "--tail=-1"])?;
    ensure!(log.contains(r#""tenant":"team-a/initech""#), "nobody came to initech by the gateway: {log}");
    let log = kubectl(&["-n", "berth-access", "logs", "-l", "app.kubernetes.io/component=access", "--tail=-1"])?;
    let visitor = r#""user":"system:serviceaccount:team-a:visitor","tenant":"team-a/initech""#;
    ensure!(log.contains(visitor), "no call of the visitor: {log}");
    Ok(())
}

/// A page, as it is printed, in a directory that looks like a checkout whose demo is this one.
pub(super) fn in_a_checkout(page: &str, prepare: impl FnOnce(&mut Command) -> Result<()>) -> Result<()> {
    let (root, place) = (paths::root(), env::temp_dir().join(format!("berth-page-{}", std::process::id())));
    fs::create_dir_all(place.join("target"))?;
    std::os::unix::fs::symlink(root.join("examples"), place.join("examples"))?;
    std::os::unix::fs::symlink(dir(), place.join("target/demo"))?;
    let makefile = format!("demo demo-store demo-down:\n\t@$(MAKE) -C {} $@ BERTH_CLUSTER={NAME}\n", root.display());
    fs::write(place.join("Makefile"), makefile)?;
    let mut bash = Command::new("bash");
    let result =
        prepare(building(&mut bash).current_dir(&place)).and_then(|()| pages::run(&root.join(page), &mut bash));
    fs::remove_dir_all(&place)?;
    result
}

/// The files of that demo.
fn dir() -> PathBuf {
    paths::root().join(format!("target/demo-{NAME}"))
}

pub(super) fn make(target: &str) -> Result<String> {
    make::make(target, &[format!("BERTH_CLUSTER={NAME}")])
}

/// Every object that Berth and the demo make, with what changes when it is written. Leases are renewed all the time.
fn objects() -> Result<BTreeSet<String>> {
    let kinds = "clusters.berth.dev,etcdclusters.berth.dev,namespaces,deployments,statefulsets,pods,secrets,configmaps,\
                 services,persistentvolumeclaims,roles,rolebindings,clusterroles,clusterrolebindings,\
                 customresourcedefinitions,validatingadmissionpolicies";
    let columns =
        "custom-columns=K:.kind,NS:.metadata.namespace,N:.metadata.name,U:.metadata.uid,R:.metadata.resourceVersion";
    Ok(kubectl(&["get", kinds, "-A", "--no-headers", "-o", columns])?.lines().map(ToOwned::to_owned).collect())
}

fn kubectl(arguments: &[&str]) -> Result<String> {
    let files = dir();
    let mut command = Command::new(files.join("bin/kubectl"));
    let output = command.arg("--kubeconfig").arg(files.join("meta.kubeconfig")).args(arguments).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn nothing_is_left() -> Result<()> {
    ensure!(!dir().exists(), "{} is left", dir().display());
    let namespaces = Command::new("ip").args(["netns", "list"]).output()?.stdout;
    let traces = [
        ("network namespaces", String::from_utf8_lossy(&namespaces).into_owned()),
        ("mounts", fs::read_to_string("/proc/mounts")?),
        (
            "cgroups",
            fs::read_dir("/sys/fs/cgroup")?
                .flatten()
                .map(|e| e.file_name().to_string_lossy().into_owned() + "\n")
                .collect(),
        ),
    ];
    for (what, text) in traces {
        let left: Vec<_> = text.lines().filter(|l| l.contains(NAME)).collect();
        ensure!(left.is_empty(), "{what}: {left:?}");
    }
    Ok(())
}
