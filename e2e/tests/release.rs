//! docs/release.md, as it is printed, on a cluster that has nothing but a registry: Berth and a tenant come up by images that are pulled
//! from there, Berth is upgraded to the next release, and all is removed. The network namespace of a devcluster leads nowhere else.
//!
//! The next release is the same checkout under another version: what differs is what a version changes.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File},
    net::TcpStream,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Child, Command},
};

use anyhow::{Context as _, Result, ensure};
use berth_api::names;
use berth_devcluster::{
    Cluster, Config,
    binaries::{self, Selection},
    images, paths as dev, versions,
};
use berth_e2e::{make, pages, paths, run::must_be_real, until};
use serde_json::Value;

const NAME: &str = "e2e-release";
const FIRST: &str = env!("CARGO_PKG_VERSION");
const NEXT: &str = "0.2.0-e2e";

#[test]
#[ignore = "make test-all: a release is built, and a cluster of its own installs it from a registry"]
fn a_cluster_that_has_only_a_registry_installs_a_release() {
    must_be_real();
    let place = std::env::temp_dir().join(format!("berth-release-{}", std::process::id()));
    let result = released(&place).and_then(|()| {
        let cluster = Cluster::up(&Config::named(NAME))?;
        let mut site = Site::new(cluster, place.clone())?;
        let result = site.all();
        site.registry.kill()?;
        site.registry.wait()?;
        if result.is_err() {
            site.explain();
        }
        result
    });
    let removed = Cluster::remove(NAME);
    let _ = fs::remove_dir_all(&place);
    if let Err(error) = result.and(removed) {
        panic!("{error:#}");
    }
}

/// Both releases, signed, in folders of their own.
fn released(place: &Path) -> Result<()> {
    binaries::build(&Selection::Named(vec!["crane".to_owned()]))?;
    fs::create_dir_all(place)?;
    let key = place.join("key.pem");
    let openssl = |arguments: &[&str]| -> Result<()> {
        ensure!(Command::new("openssl").args(arguments).status()?.success(), "openssl {arguments:?}");
        Ok(())
    };
    openssl(&["genpkey", "-algorithm", "ed25519", "-out", &key.display().to_string()])?;
    for version in [FIRST, NEXT] {
        let said = make::make(
            "release",
            &[
                format!("RELEASE_DIR={}", place.join(version).display()),
                format!("RELEASE_VERSION={version}"),
                "RELEASE_TARGETS=linux/amd64".to_owned(),
                format!("RELEASE_KEY={}", key.display()),
            ],
        )?;
        ensure!(said.contains("built: linux/amd64\n"), "{said}");
        // As a download page has it.
        let public = place.join(version).join("berth.pub");
        openssl(&["pkey", "-in", &key.display().to_string(), "-pubout", "-out", &public.display().to_string()])?;
    }
    Ok(())
}

/// A cluster, a registry that it reaches, and a folder for what a person has beside them.
struct Site {
    cluster: Cluster,
    registry: Child,
    /// Such as 10.208.1.1:5000.
    host: String,
    place: PathBuf,
}

/// UID and restarts of each pod.
type Pods = BTreeMap<String, String>;

impl Site {
    fn new(cluster: Cluster, place: PathBuf) -> Result<Self> {
        let host = format!("{}:5000", cluster.host_address());
        let disk = place.join("registry");
        fs::create_dir_all(&disk)?;
        let log = File::create(place.join("registry.log"))?;
        let mut registry = Command::new(binaries::crane()?);
        registry.args(["registry", "serve", "--address", &host, "--disk"]).arg(disk);
        let registry = registry.stdout(log.try_clone()?).stderr(log).spawn()?;
        until("the registry to listen", || Ok(TcpStream::connect(&host).map(drop)?))?;
        Ok(Self { cluster, registry, host, place })
    }

    fn all(&self) -> Result<()> {
        self.nothing_is_imported()?;
        self.trust_the_registry()?;
        self.path()?;
        self.mirror()?;
        let values = format!(
            "operator: {{image: {{repository: {host}/berth/operator}}}}\nagent: {{image: {{repository: {host}/berth/agent}}}}\n\
             imageRegistry: {host}/k8s\n",
            host = self.host
        );
        fs::write(self.place.join("values.yaml"), values)?;
        let asked = self.asked()?;
        ensure!(asked.is_empty(), "the registry was asked before there was anything: {asked:?}");

        pages::run(&paths::root().join("docs/release.md"), &mut self.bash(FIRST))?;
        self.only_from_the_registry(FIRST)?;
        let before = self.pods()?;
        ensure!(before.len() == 4, "{before:?}");

        // The next release: the page's own commands, with another version.
        pages::run(&paths::root().join("docs/release.md"), &mut self.bash(NEXT))?;
        self.only_from_the_registry(NEXT)?;
        let after = self.pods()?;
        ensure!(after == before, "a new Berth touched the tenant: {before:?} {after:?}");
        self.removed()
    }

    /// What a devcluster brings for tenants goes, so that it is pulled or is not there.
    fn nothing_is_imported(&self) -> Result<()> {
        let ctr = || -> Result<Command> {
            let mut ctr = Command::new(binaries::path("containerd", versions::CONTAINERD, "ctr")?);
            ctr.arg("--address").arg(self.cluster.containerd_socket()).args(["--namespace", "k8s.io", "images"]);
            Ok(ctr)
        };
        let ours = |line: &&str| ["/kube-", "/etcd:", "/berth-dev/"].iter().any(|part| line.contains(part));
        // Name, type, digest. Kubelet's side has a second name for each, which is the digest of its configuration.
        let listed = output(ctr()?.arg("ls"))?;
        let rows = || listed.lines().map(|l| l.split_whitespace().collect::<Vec<_>>()).filter(|row| row.len() > 2);
        let digests: BTreeSet<&str> = rows().filter(|row| ours(&row[0])).map(|row| row[2]).collect();
        let names: Vec<&str> = rows().filter(|row| digests.contains(row[2])).map(|row| row[0]).collect();
        ensure!(digests.len() >= 4, "{listed}");
        output(ctr()?.args(["rm", "--sync"]).args(&names))?;
        let left = output(ctr()?.args(["ls", "--quiet"]))?;
        ensure!(!left.lines().any(|l| ours(&l)), "{left}");
        Ok(())
    }

    /// It has no TLS, since nobody else is on that network.
    fn trust_the_registry(&self) -> Result<()> {
        let (host, dir) = (&self.host, self.cluster.registries().join(&self.host));
        fs::create_dir_all(&dir)?;
        let hosts =
            format!("server = \"http://{host}\"\n[host.\"http://{host}\"]\n  capabilities = [\"pull\", \"resolve\"]\n");
        Ok(fs::write(dir.join("hosts.toml"), hosts)?)
    }

    /// The programs that the page takes for granted; helm is told that there is no TLS.
    fn path(&self) -> Result<PathBuf> {
        let bin = self.place.join("bin");
        if !bin.exists() {
            fs::create_dir_all(&bin)?;
            std::os::unix::fs::symlink(binaries::kubectl()?, bin.join("kubectl"))?;
            std::os::unix::fs::symlink(binaries::crane()?, bin.join("crane"))?;
            let helm = bin.join("helm");
            let wrapper = format!(
                "#!/bin/sh\ncase \"$1\" in upgrade|install) exec {helm} \"$@\" --plain-http;; *) exec {helm} \"$@\";; esac\n",
                helm = binaries::helm()?.display()
            );
            fs::write(&helm, wrapper)?;
            fs::set_permissions(&helm, fs::Permissions::from_mode(0o755))?;
        }
        Ok(bin)
    }

    /// Upstream's images under the names that `kubectl berth images` says.
    fn mirror(&self) -> Result<()> {
        images::all_built()?;
        let archive = format!("kubectl-berth_{FIRST}_linux_amd64.tar.gz");
        output(Command::new("tar").arg("-xzf").arg(self.place.join(FIRST).join(archive)).arg("-C").arg(self.path()?))?;
        let mut berth = Command::new(self.path()?.join("kubectl-berth"));
        let pairs = output(berth.args(["images", "--version", "1.36.3", "--to", &format!("{}/k8s", self.host)]))?;
        let mut pushed = 0;
        for (from, to) in
            pairs.lines().filter_map(|l| l.split_once(' ')).filter(|(from, _)| from.starts_with("registry.k8s.io"))
        {
            let archive = dev::cache().join("images").join(from.replace(['/', ':'], "_") + ".tar");
            let layout = self.place.join("layout").join(pushed.to_string());
            fs::create_dir_all(&layout)?;
            output(Command::new("tar").arg("-xf").arg(archive).arg("-C").arg(&layout))?;
            output(Command::new(binaries::crane()?).arg("push").arg(&layout).arg(to))?;
            pushed += 1;
        }
        ensure!(pushed == 4, "{pairs}");
        Ok(())
    }

    /// A shell that was just opened, in a folder that has no checkout.
    fn bash(&self, version: &str) -> Command {
        let mut bash = Command::new("bash");
        let path = std::env::var("PATH").unwrap_or_default();
        make::plain(&mut bash)
            .current_dir(&self.place)
            .env("HOME", &self.place)
            .env("PATH", format!("{}:{path}", self.place.join("bin").display()))
            .env("KUBECONFIG", self.cluster.kubeconfig())
            .env("RELEASE", self.place.join(version))
            .env("VERSION", version)
            .env("REGISTRY", format!("{}/berth", self.host));
        bash
    }

    /// Every image of Berth and its tenants has the registry's name, and the operator is that of the release, by digest.
    fn only_from_the_registry(&self, version: &str) -> Result<()> {
        let pods = self.json(&["get", "pods", "-A", "--field-selector=metadata.namespace!=kube-system"])?;
        let mut found = BTreeSet::new();
        for pod in pods["items"].as_array().context("no pods")? {
            let spec = &pod["spec"];
            let containers = ["containers", "initContainers"].iter().filter_map(|l| spec[*l].as_array()).flatten();
            found.extend(containers.filter_map(|c| c["image"].as_str()));
            let volumes = spec["volumes"].as_array().into_iter().flatten();
            found.extend(volumes.filter_map(|v| v["image"]["reference"].as_str()));
        }
        let elsewhere: Vec<_> = found.iter().filter(|i| !i.starts_with(&self.host)).collect();
        ensure!(elsewhere.is_empty() && found.len() >= 6, "{found:?}");
        let index = fs::read(self.place.join(version).join("oci/operator/index.json"))?;
        let index: Value = serde_json::from_slice(&index)?;
        let digest = index["manifests"][0]["digest"].as_str().context("no digest")?;
        let operator = format!("{}/berth/operator:{version}@{digest}", self.host);
        ensure!(found.contains(operator.as_str()), "{operator} is not among {found:?}");
        let asked = self.asked()?;
        for name in ["berth/operator", "berth/agent", "k8s/kube-apiserver", "k8s/etcd", "berth/charts/berth"] {
            ensure!(
                asked.iter().any(|line| line.contains(&format!("GET /v2/{name}/manifests/"))),
                "{name}: {asked:#?}"
            );
        }
        Ok(())
    }

    /// What the registry was asked for.
    fn asked(&self) -> Result<Vec<String>> {
        let text = fs::read_to_string(self.place.join("registry.log"))?;
        let pulls = text.lines().filter(|l| l.contains("GET /v2/") && l.contains("/manifests/"));
        Ok(pulls.map(ToOwned::to_owned).collect())
    }

    /// The tenant's.
    fn pods(&self) -> Result<Pods> {
        let all = self.json(&["-n", &names::control_plane_namespace("team-a", "acme"), "get", "pods"])?;
        let pods = all["items"].as_array().context("no pods")?.iter().map(|pod| {
            let runs = pod["status"]["containerStatuses"].as_array().into_iter().flatten();
            let restarts: Vec<_> = runs.map(|c| c["restartCount"].to_string()).collect();
            (pod["metadata"]["name"].to_string(), format!("{} {restarts:?}", pod["metadata"]["uid"]))
        });
        Ok(pods.collect())
    }

    fn removed(&self) -> Result<()> {
        let unprotected = r#"{"spec":{"deletion":{"protected":false}}}"#;
        self.kubectl(&["-n", "team-a", "patch", "clusters.berth.dev", "acme", "--type=merge", "-p", unprotected])?;
        self.kubectl(&["-n", "team-a", "delete", "clusters.berth.dev", "acme", "--timeout=5m"])?;
        let helm = ["uninstall", "berth", "berth-crds", "-n", "berth-system", "--wait", "--timeout=3m"];
        output(Command::new(binaries::helm()?).env("KUBECONFIG", self.cluster.kubeconfig()).args(helm))?;
        self.kubectl(&["delete", "customresourcedefinition", "clusters.berth.dev", "etcdclusters.berth.dev"])?;
        self.kubectl(&["delete", "namespace", "berth-system", "team-a", "--timeout=2m"])?;
        until("only Kubernetes' own namespaces to be left", || {
            let names = self.kubectl(&["get", "namespaces", "-o", "name"])?;
            ensure!(names.lines().all(|n| n == "namespace/default" || n.starts_with("namespace/kube-")), "{names}");
            Ok(())
        })
    }

    fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        output(self.cluster.kubectl()?.args(arguments))
    }

    fn json(&self, arguments: &[&str]) -> Result<Value> {
        Ok(serde_json::from_str(&self.kubectl(&[arguments, &["-o", "json"]].concat())?)?)
    }

    /// What helps to see why.
    fn explain(&self) {
        for look in [
            &["get", "pods", "-A", "-o", "wide"][..],
            &["get", "events", "-A", "--sort-by=.lastTimestamp"],
            &["get", "clusters.berth.dev", "-A", "-o", "yaml"],
        ] {
            println!("$ kubectl {}\n{}", look.join(" "), self.kubectl(look).unwrap_or_else(|e| format!("{e:#}")));
        }
    }
}

fn output(command: &mut Command) -> Result<String> {
    let name = format!("{command:?}");
    let output = command.output().with_context(|| format!("cannot run {name}"))?;
    ensure!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
