//! `make demo`: a real meta cluster on this machine, or one that is there ([`given`]), Berth from its charts, and a first tenant.
//!
//! Every step looks at what is there before it does anything, so that a second run is quick and changes nothing.

mod findings;
mod front;
mod given;
mod machines;
mod preflight;
mod probe;
mod steps;
mod store;

use anyhow::{Context as _, bail, ensure};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use self::front::Try;
pub(crate) use self::front::gateway_values;
use self::steps::Steps;
pub(crate) use self::store::Store;
use crate::images::{self, Images, Profile, demo_dir, demo_name, devcluster};
use crate::root;
use crate::shell::{
    Result, build_programs, cache, input, install, output, run, say, short_digest, state, write_if_changed,
};

const SYSTEM: &str = "berth-system";
pub(crate) const TEAM: &str = "team-a";
const TENANT: &str = "acme";
const TIMEOUT: Duration = Duration::from_mins(4);

pub(crate) struct Demo {
    cluster: String,
    /// Files of this cluster alone.
    dir: PathBuf,
    meta: PathBuf,
    acme: PathBuf,
    kubectl: PathBuf,
    helm: PathBuf,
    /// Arguments for Helm that mark a release.
    labels: Vec<&'static str>,
    /// How long the tenant may take.
    timeout: Duration,
    /// The variables with which `make demo-down` finds it again.
    variables: String,
    /// What the tenant is made from.
    example: PathBuf,
}

/// `with_store`: with an S3 server for backups, which Berth knows as a store. One that was given it keeps it.
pub(crate) fn up(with_store: bool) -> Result<()> {
    if let Some(kubeconfig) = given::kubeconfig() {
        ensure!(!with_store, "the store is an S3 server of the demo's own meta cluster: unset BERTH_KUBECONFIG");
        return given::up(kubeconfig);
    }
    let started = Instant::now();
    let mut steps = Steps::new(&STEPS);
    steps.next();
    // What takes longest begins as soon as there is what builds it.
    build_programs(&["devcluster", "cni-meta"])?;
    images::install_here(Profile::Dev, &["devcluster", "cni-meta"])?;
    let cluster = spawn(&[&["deps", "--install"], &["build", "--only", "cluster"], &["build", "helm", "kubectl"]]);
    let images = images::build(Profile::Dev)?;
    steps.next();
    ended(cluster)?;
    let for_pods = spawn(&[&["build", "agnhost"]]);
    let store = if with_store || Store::is_there(&demo_name()) { Store::S3 } else { Store::None };
    let example = root().join("examples/acme-vpc.yaml");
    let demo = Demo { example, ..Demo::new(demo_name(), demo_dir())? };
    steps.next();
    demo.cluster(store)?;
    steps.next();
    demo.berth(&images, &[demo.store(store)?, demo.front()?].concat())?;
    demo.network()?;
    steps.next();
    demo.tenant(
        started,
        || demo.apply().and_then(|()| demo.apply_behind()),
        |_| {
            steps.next();
            ended(for_pods)?;
            steps.next();
            demo.machines().and_then(|()| demo.hello())?;
            steps.next();
            let more = demo.by_one_address()?;
            steps.end();
            Ok(more)
        },
    )
}

/// What the demo does, and how long it takes on two cores: from nothing, and again.
const STEPS: [(&str, &str); 8] = [
    ("Berth's programs", "3 min, or seconds where they are built"),
    ("what a meta cluster is made of", "20 min, or minutes where it can be downloaded, or nothing where it is there"),
    ("meta cluster", "20 s"),
    ("Berth on it, and a network for the tenant", "20 s"),
    ("a tenant, and beside it one behind the gateway", "30 s"),
    ("the image that its pods run", "2 min, or nothing where it is built"),
    ("machines that join it, and pods on them", "1 min"),
    ("one address and one login for all tenants", "5 s"),
];

/// Runs devcluster beside the rest, one call after the other.
fn spawn(calls: &'static [&'static [&'static str]]) -> JoinHandle<Result<()>> {
    thread::spawn(|| calls.iter().try_for_each(|arguments| run(devcluster().args(*arguments))))
}

fn ended(calls: JoinHandle<Result<()>>) -> Result<()> {
    calls.join().unwrap_or_else(|_| bail!("devcluster was not run"))
}

pub(crate) fn down() -> Result<()> {
    if let Some(kubeconfig) = given::kubeconfig() {
        return given::down(kubeconfig);
    }
    let dir = demo_dir();
    if !dir.join("bin/devcluster").exists() && state().join(demo_name()).exists() {
        // The files are gone, but the cluster is not.
        images::build(Profile::Dev)?;
    }
    if dir.join("bin/devcluster").exists() {
        run(devcluster().args(["down", "--name", &demo_name()]))?;
    }
    if dir.exists() {
        fs::remove_dir_all(&dir).with_context(|| format!("cannot remove {}", dir.display()))?;
    }
    println!("The demo is gone. What was built stays in {} for the next one.", cache().display());
    Ok(())
}

impl Demo {
    /// A meta cluster with Berth, with more values for its chart.
    pub(crate) fn bring_up(
        cluster: String,
        dir: PathBuf,
        images: &Images,
        values: &[String],
        store: Store,
    ) -> Result<Self> {
        say("packages and binaries of the meta cluster");
        run(devcluster().args(["deps", "--install"]))?;
        run(devcluster().args(["build", "helm", "kubectl"]))?;
        let demo = Self::new(cluster, dir)?;
        say(&format!("meta cluster `{}`", demo.cluster));
        demo.cluster(store)?;
        say("Berth");
        demo.berth(images, &[values, &demo.store(store)?].concat())?;
        Ok(demo)
    }

    /// The meta cluster, and access to it.
    fn cluster(&self, store: Store) -> Result<()> {
        let up = ["up", "--timeout", "300", "--name", &self.cluster];
        run(devcluster().args(up).args(store.options()).stdout(Stdio::null()))?;
        self.files()?;
        println!("{}", output(self.kubectl().args(["get", "nodes"]))?.trim_end());
        Ok(())
    }

    /// A meta cluster without nodes, so that no pod runs, with what else the charts give Berth: rights, policies, configuration.
    pub(crate) fn bring_up_bare(cluster: String, dir: PathBuf, images: &Images, values: &[String]) -> Result<Self> {
        say("binaries of the meta cluster");
        run(devcluster().args(["deps", "--install"]))?;
        run(devcluster().args(["build", "helm", "kubectl"]))?;
        let demo = Self::new(cluster, dir)?;
        say(&format!("meta cluster `{}`, without nodes", demo.cluster));
        let nodes = ["--timeout", "300", "--nodes", "0"];
        run(devcluster().arg("up").args(nodes).args(["--name", &demo.cluster]).stdout(Stdio::null()))?;
        demo.files()?;
        demo.install_charts(images, &[&["operator.replicas=0".into()], values].concat())?;
        Ok(demo)
    }

    /// A meta cluster that is there.
    pub(crate) fn of_cluster(cluster: &str, dir: PathBuf) -> Result<Self> {
        let demo = Self::new(cluster.to_owned(), dir)?;
        demo.files()?;
        Ok(demo)
    }

    /// Berth as in this checkout, or upgraded to it, with more values for its chart.
    pub(crate) fn berth(&self, images: &Images, values: &[String]) -> Result<()> {
        self.load(images)?;
        self.install_charts(images, values)
    }

    /// Access to the meta cluster.
    pub(crate) fn kubeconfig(&self) -> &Path {
        &self.meta
    }

    fn new(cluster: String, dir: PathBuf) -> Result<Self> {
        let bin = demo_dir().join("bin");
        for (component, name) in [("kubernetes", "kubectl"), ("tools", "helm")] {
            let from = newest(&cache().join("bin").join(component), name)?;
            install(&from, &bin.join(name))?;
        }
        let variables = if cluster == "demo" { String::new() } else { format!("BERTH_CLUSTER={cluster}") };
        Ok(Self {
            labels: vec![],
            timeout: TIMEOUT,
            variables,
            example: root().join("examples/acme.yaml"),
            cluster,
            meta: dir.join("meta.kubeconfig"),
            acme: dir.join("acme.kubeconfig"),
            dir,
            kubectl: bin.join("kubectl"),
            helm: bin.join("helm"),
        })
    }

    /// Makes the tenant by `apply`, shows how it comes up, what it answers, and what to try next.
    fn tenant(
        &self,
        started: Instant,
        apply: impl FnOnce() -> Result<()>,
        then: impl FnOnce(&str) -> Result<Vec<Try>>,
    ) -> Result<()> {
        say(&format!("tenant `{TENANT}` in `{TEAM}`"));
        let applied = Instant::now();
        apply()?;
        self.wait(applied).map_err(|e| self.explain(e))?;
        let config =
            ["-n", TEAM, "get", "secret", "acme-kubeconfig", "-o", "go-template={{.data.value | base64decode}}"];
        write_if_changed(&self.acme, output(self.kubectl().args(config))?.as_bytes(), 0o600)?;

        say("kubectl get clusters.berth.dev -A");
        println!("{}", output(self.kubectl().args(["get", "clusters.berth.dev", "-A"]))?.trim_end());
        say("what the tenant answers to `kubectl get namespaces` and `kubectl version`");
        println!("{}", output(self.tenant_kubectl().args(["get", "namespaces"]))?.trim_end());
        println!("{}", output(self.tenant_kubectl().arg("version"))?.trim_end());
        let cp_namespace = "jsonpath={.status.controlPlaneNamespace.name}";
        let cp_namespace =
            output(self.kubectl().args(["-n", TEAM, "get", "clusters.berth.dev", TENANT, "-o", cp_namespace]))?;
        let more = then(&cp_namespace).map_err(|e| self.explain(e))?;
        self.next_commands(&cp_namespace, more);
        println!("\nDone in {:.0?}.", Duration::from_secs(started.elapsed().as_secs()));
        Ok(())
    }

    /// Access to the meta cluster, in the checkout.
    fn files(&self) -> Result<()> {
        let config = output(devcluster().args(["kubeconfig", "--name", &self.cluster]))?;
        write_if_changed(&self.meta, config.as_bytes(), 0o600).map(|_| ())
    }

    pub(crate) fn kubectl(&self) -> Command {
        let mut command = Command::new(&self.kubectl);
        command.arg("--kubeconfig").arg(&self.meta);
        command
    }

    fn tenant_kubectl(&self) -> Command {
        let mut command = Command::new(&self.kubectl);
        command.arg("--kubeconfig").arg(&self.acme);
        command
    }

    /// `kubectl-berth`, as it was built.
    pub(crate) fn plugin(&self) -> Command {
        let mut command = Command::new(demo_dir().join("bin/kubectl-berth"));
        command.env("KUBECONFIG", &self.meta);
        command
    }

    fn helm(&self) -> Command {
        let mut command = Command::new(&self.helm);
        command.env("KUBECONFIG", &self.meta).current_dir(root());
        command
    }

    /// Imports images that this cluster has not got yet.
    fn load(&self, images: &Images) -> Result<()> {
        let uid = output(self.kubectl().args(["get", "namespace", "kube-system", "-o", "jsonpath={.metadata.uid}"]))?;
        let all = images.all();
        let tags: Vec<&str> = all.iter().map(|image| image.tag.as_str()).collect();
        let want = format!("{uid} {}\n", tags.join(" "));
        let mark = self.dir.join("images/loaded");
        if fs::read_to_string(&mark).is_ok_and(|have| have == want) {
            return Ok(());
        }
        println!("loading images");
        run(devcluster().args(["load", "--name", &self.cluster]).args(all.iter().map(|image| &image.archive)))?;
        write_if_changed(&mark, want.as_bytes(), 0o644).map(|_| ())
    }

    fn install_charts(&self, images: &Images, more: &[String]) -> Result<()> {
        let mut values = vec![
            format!("operator.image.tag={}", images.operator.tag),
            format!("agent.image.tag={}", images.agent.tag),
            format!("backups.image.tag={}", images.backup.tag),
            format!("gateway.image.tag={}", images.gateway.tag),
            format!("access.image.tag={}", images.access.tag),
            format!("apiProxy.image.tag={}", images.api_proxy.tag),
            "operator.logJSON=false".to_owned(),
        ];
        if let Some(apps) = &images.apps {
            values.extend(["apps.enabled=true".to_owned(), format!("apps.image.tag={}", apps.tag)]);
        }
        values.extend_from_slice(more);
        self.install(&values)
    }

    /// Both charts, and the operator's Deployment rolled out.
    fn install(&self, values: &[String]) -> Result<()> {
        self.chart("berth-crds", &[])?;
        self.chart("berth", values)?;
        let rollout = ["-n", SYSTEM, "rollout", "status", "deployment/berth-operator", "--timeout=120s"];
        let text = output(self.kubectl().args(rollout)).map_err(|e| self.explain(e))?;
        println!("{}", text.lines().last().unwrap_or_default());
        Ok(())
    }

    /// Installs or upgrades a chart, unless the release is what the chart would give.
    fn chart(&self, name: &str, values: &[String]) -> Result<()> {
        let path = format!("charts/{name}");
        let set: Vec<&str> = values.iter().flat_map(|v| ["--set", v]).collect();
        let template = ["template", name, &path, "-n", SYSTEM, "--kube-version", "1.36.3"];
        let want = output(self.helm().args(template).args(&set))?;
        let have = output(self.helm().args(["get", "manifest", name, "-n", SYSTEM])).unwrap_or_default();
        if have.trim() == want.trim() && self.deployed(name) {
            println!("chart {name} is installed ({})", short_digest(want.as_bytes()));
            return Ok(());
        }
        println!("installing chart {name}");
        let upgrade = ["upgrade", "--install", name, &path, "-n", SYSTEM, "--create-namespace"];
        output(self.helm().args(upgrade).args(&set).args(&self.labels)).map(|_| ())
    }

    fn deployed(&self, name: &str) -> bool {
        let status = output(self.helm().args(["status", name, "-n", SYSTEM, "-o", "json"])).unwrap_or_default();
        serde_json::from_str::<Value>(&status).is_ok_and(|v| v["info"]["status"] == "deployed")
    }

    /// The team's namespace.
    fn team(&self) -> Result<()> {
        if output(self.kubectl().args(["get", "namespace", TEAM, "-o", "name"])).is_err() {
            run(self.kubectl().args(["create", "namespace", TEAM]))?;
        }
        Ok(())
    }

    fn apply(&self) -> Result<()> {
        self.team()?;
        run(self.kubectl().args(["apply", "-f"]).arg(&self.example))
    }

    /// Shows how conditions change until the tenant is ready.
    fn wait(&self, since: Instant) -> Result<()> {
        let mut shown = BTreeMap::new();
        let deadline = Instant::now() + self.timeout;
        while Instant::now() < deadline {
            let watch = ["-n", TEAM, "get", "clusters.berth.dev", TENANT, "-o", "json", "--watch"];
            let mut child = self.kubectl().args(watch).stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
            let Some(stdout) = child.stdout.take() else { bail!("kubectl has no output") };
            let (sender, receiver) = mpsc::channel();
            let reader = std::thread::spawn(move || {
                let objects = serde_json::Deserializer::from_reader(BufReader::new(stdout)).into_iter::<Value>();
                for object in objects.map_while(std::result::Result::ok) {
                    if sender.send(object).is_err() {
                        break;
                    }
                }
            });
            let ready = loop {
                match receiver.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                    Ok(cluster) if show(&cluster, &mut shown, since) => break true,
                    Ok(_) => {}
                    Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break false,
                }
            };
            let _ = child.kill();
            let _ = child.wait();
            drop(receiver);
            let _ = reader.join();
            if ready {
                println!("{TENANT} is ready after {:.1} s", since.elapsed().as_secs_f32());
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(500));
        }
        bail!("{TENANT} is not ready after {:?}", self.timeout)
    }

    /// Asks until what is said is good.
    fn wait_until(&self, what: &str, ask: impl Fn() -> Result<String>, good: impl Fn(&str) -> bool) -> Result<String> {
        let deadline = Instant::now() + self.timeout;
        let said = || {
            let said = ask()?;
            ensure!(good(&said), "it printed: {said}");
            Ok(said)
        };
        loop {
            match said() {
                Ok(said) => return Ok(said),
                Err(error) if Instant::now() > deadline => {
                    return Err(error).with_context(|| format!("waited {:?} for {what}", self.timeout));
                }
                Err(_) => thread::sleep(Duration::from_secs(1)),
            }
        }
    }

    /// Applies an object: a second time it changes nothing.
    fn apply_object(&self, object: &str) -> Result<()> {
        let apply = ["apply", "--server-side", "--field-manager=berth-demo", "-f", "-"];
        input(self.kubectl().args(apply), object).map(drop)
    }

    /// Adds what helps to see why.
    fn explain(&self, error: anyhow::Error) -> anyhow::Error {
        let looks: [&[&str]; 4] = [
            &["-n", TEAM, "get", "clusters.berth.dev", "-o", "wide"],
            &["get", "pods", "-A", "-o", "wide"],
            &["get", "events", "-A", "--sort-by=.lastTimestamp"],
            &["-n", SYSTEM, "logs", "deployment/berth-operator", "--tail=40"],
        ];
        for look in looks {
            eprintln!("\n$ kubectl {}", look.join(" "));
            match output(self.kubectl().args(look)) {
                Ok(text) => eprintln!("{}", text.trim_end()),
                Err(e) => eprintln!("{e:#}"),
            }
        }
        if self.cluster.is_empty() {
            return error;
        }
        let devcluster = demo_dir().join("bin/devcluster");
        error.context(format!("logs of the meta cluster: `{} logs --name {}`", devcluster.display(), self.cluster))
    }

    /// Commands for this directory, with `more` before the last one.
    fn next_commands(&self, cp_namespace: &str, more: Vec<Try>) {
        let here = |path: &Path| path.strip_prefix(root()).map_or(path.to_owned(), |rest| Path::new("$PWD").join(rest));
        let (bin, meta) = (here(&demo_dir().join("bin")), here(&self.meta));
        let variables = match self.variables.as_str() {
            "" => String::new(),
            "BERTH_KUBECONFIG" => format!(" BERTH_KUBECONFIG={}", self.meta.display()),
            other => format!(" {other}"),
        };
        println!("\n==> what to try next, in {}\n", root().display());
        println!("export PATH={}:$PATH KUBECONFIG={}", bin.display(), meta.display());
        let first = [
            ("kubectl berth status -A".to_owned(), "how tenants are"),
            (format!("kubectl berth connect {TENANT} -n {TEAM} -- kubectl get namespaces"), "in the tenant"),
            (format!("kubectl -n {cp_namespace} get pods"), "what runs for it"),
            (format!("kubectl -n {TEAM} delete clusters.berth.dev {TENANT}"), "it is protected, and says what to do"),
        ];
        let end = (format!("make demo-down{variables}"), "the end of the demo");
        for (command, comment) in first.into_iter().chain(more).chain([end]) {
            println!("{command:<66}  # {comment}");
        }
        println!("\nMore: docs/tutorial.md; docs/restore.md loses a volume, and gets it back from a backup");
    }
}

/// Prints conditions that changed. True once the tenant is ready.
fn show(cluster: &Value, shown: &mut BTreeMap<String, String>, since: Instant) -> bool {
    let at = since.elapsed().as_secs_f32();
    let mut ready = false;
    for condition in cluster["status"]["conditions"].as_array().into_iter().flatten() {
        let text = |key: &str| condition[key].as_str().unwrap_or_default();
        let (type_, status) = (text("type"), text("status"));
        ready |= type_ == "Ready"
            && status == "True"
            && condition["observedGeneration"] == cluster["metadata"]["generation"];
        let line = format!("{type_:<22} {status:<8} {}", text("message"));
        if shown.insert(type_.to_owned(), line.clone()).as_ref() != Some(&line) {
            let line: String = line.chars().take(150).collect();
            println!("{at:>6.1} s  {line}");
        }
    }
    ready
}

/// The newest version of a program in the cache.
pub(crate) fn newest(dir: &Path, name: &str) -> Result<PathBuf> {
    let versions = fs::read_dir(dir).with_context(|| format!("{name} is not built: {} is missing", dir.display()))?;
    let mut found: Vec<PathBuf> = versions.flatten().map(|v| v.path().join(name)).filter(|p| p.is_file()).collect();
    found.sort();
    found.pop().with_context(|| format!("{name} is not built in {}", dir.display()))
}
