//! Where a release is installed: a cluster, a registry that it reaches, and a folder for what a person has beside them.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::Path,
    process::Command,
};

use anyhow::{Context as _, Result, ensure};
use berth_api::names;
use berth_devcluster::{Cluster, binaries, images, paths as dev};
use berth_e2e::{Registry, make, pages, paths};
use serde_json::Value;

pub(crate) struct Site<'p> {
    pub(crate) cluster: Cluster,
    /// The registry, such as 10.208.1.1:5000.
    pub(crate) host: String,
    pub(crate) place: &'p Path,
    pub(crate) registry: Registry,
}

impl<'p> Site<'p> {
    pub(crate) fn new(cluster: Cluster, place: &'p Path) -> Result<Self> {
        let host = format!("{}:5000", cluster.host_address());
        let registry = Registry::serve(&host, place)?;
        let site = Self { cluster, host, place, registry };
        site.bin()?;
        Ok(site)
    }

    /// The programs that the pages take for granted; helm is told that there is no TLS.
    fn bin(&self) -> Result<()> {
        let bin = self.place.join("bin");
        fs::create_dir_all(&bin)?;
        symlink(binaries::kubectl()?, bin.join("kubectl"))?;
        symlink(binaries::crane()?, bin.join("crane"))?;
        let helm = bin.join("helm");
        let wrapper = format!(
            "#!/bin/sh\ncase \"$1\" in upgrade|install) exec {helm} \"$@\" --plain-http;; *) exec {helm} \"$@\";; esac\n",
            helm = binaries::helm()?.display()
        );
        fs::write(&helm, wrapper)?;
        Ok(fs::set_permissions(&helm, fs::Permissions::from_mode(0o755))?)
    }

    /// Upstream's images under the names that the release's `kubectl berth images` says.
    pub(crate) fn mirror(&self, version: &str) -> Result<()> {
        images::all_built()?;
        let archive = self.place.join(version).join(format!("kubectl-berth_{version}_linux_amd64.tar.gz"));
        output(Command::new("tar").arg("-xzf").arg(archive).arg("-C").arg(self.place.join("bin")))?;
        let list = format!("kubectl berth images --version 1.36.3 --to {}/k8s", self.host);
        let pairs = output(self.shell().args(["-c", &list]))?;
        let upstream = pairs.lines().filter_map(|l| l.split_once(' '));
        let upstream: Vec<_> = upstream.filter(|(from, _)| from.starts_with("registry.k8s.io")).collect();
        ensure!(upstream.len() == 6, "{pairs}");
        for (from, to) in upstream {
            self.registry.push_image(&dev::cache().join("images").join(from.replace(['/', ':'], "_") + ".tar"), to)?;
        }
        Ok(())
    }

    /// values.yaml of the page. No tags: those of a released chart.
    pub(crate) fn values(&self, operator: &str, agent: &str) -> String {
        let host = &self.host;
        format!(
            "operator: {{image: {{repository: {host}/berth/operator, tag: '{operator}'}}}}\n\
             agent: {{image: {{repository: {host}/berth/agent, tag: '{agent}'}}}}\nimageRegistry: {host}/k8s\n"
        )
    }

    /// docs/release.md, as it is printed.
    pub(crate) fn page(&self, version: &str) -> Result<()> {
        let mut bash = self.shell();
        bash.env("RELEASE", self.place.join(version)).env("VERSION", version);
        pages::run(&paths::root().join("docs/release.md"), bash.env("REGISTRY", format!("{}/berth", self.host)))
    }

    /// A shell that was just opened, in a folder that has no checkout.
    pub(crate) fn shell(&self) -> Command {
        let mut bash = Command::new("bash");
        let path = std::env::var("PATH").unwrap_or_default();
        make::plain(&mut bash)
            .current_dir(self.place)
            .env("HOME", self.place)
            .env("PATH", format!("{}:{path}", self.place.join("bin").display()))
            .env("KUBECONFIG", self.cluster.kubeconfig());
        bash
    }

    /// UID and restarts of each pod of a tenant.
    pub(crate) fn pods(&self, team: &str, tenant: &str) -> Result<BTreeMap<String, String>> {
        let all = self.json(&["-n", &names::control_plane_namespace(team, tenant), "get", "pods"])?;
        let pods = all["items"].as_array().context("no pods")?.iter().map(|pod| {
            let runs = pod["status"]["containerStatuses"].as_array().into_iter().flatten();
            let restarts: Vec<_> = runs.map(|c| c["restartCount"].to_string()).collect();
            (pod["metadata"]["name"].to_string(), format!("{} {restarts:?}", pod["metadata"]["uid"]))
        });
        Ok(pods.collect())
    }

    pub(crate) fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        output(self.cluster.kubectl()?.args(arguments))
    }

    pub(crate) fn json(&self, arguments: &[&str]) -> Result<Value> {
        Ok(serde_json::from_str(&self.kubectl(&[arguments, &["-o", "json"]].concat())?)?)
    }

    /// What helps to see why.
    pub(crate) fn explain(&self) {
        for look in [
            &["get", "pods", "-A", "-o", "wide"][..],
            &["get", "events", "-A", "--sort-by=.lastTimestamp"],
            &["get", "clusters.berth.dev", "-A", "-o", "yaml"],
            &["-n", "berth-system", "logs", "deployment/berth-operator", "--tail=60"],
        ] {
            println!("$ kubectl {}\n{}", look.join(" "), self.kubectl(look).unwrap_or_else(|e| format!("{e:#}")));
        }
    }
}

pub(crate) fn output(command: &mut Command) -> Result<String> {
    let name = format!("{command:?}");
    let output = command.output().with_context(|| format!("cannot run {name}"))?;
    ensure!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
