//! Berth itself, installed with its charts.

use std::{
    fs::File,
    io::{BufRead, BufReader, Read, Seek, SeekFrom, Write},
    net::TcpStream,
    path::Path,
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use berth_devcluster::binaries;
use serde_json::{Value, json};

use crate::{Registry, World, apps, core, images, paths, until, values};

/// Where Berth runs.
pub const SYSTEM: &str = "berth-system";
/// Name of the Secret with which tenants' pods pull images.
pub const PULL_SECRET: &str = "every-value";
/// Name of its Deployment, and of what belongs to that.
pub const NAME: &str = "berth-operator";

/// How Berth is installed.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The operator's program, if it is not the one that was built.
    pub program: Option<Vec<u8>>,
    /// What the agent's image has at its end, so that it is another one.
    pub agent_suffix: &'static str,
    /// How the agent gets into the pods of new tenants, if not as the nodes can do it.
    pub agent_delivery: Option<&'static str>,
    /// More values of the chart `berth`, as `helm --set` takes them.
    pub values: Vec<String>,
    /// Life of leaf certificates, if not the default.
    pub leaf_lifetime_minutes: Option<u32>,
}

impl World {
    /// Installs both charts, every value set, or changes what is installed, and waits until only the new operator is left.
    pub fn install(&self, options: &Options) -> Result<()> {
        let load = |name: &str, content: &[u8], others: &[&str]| images::load_own(&self.cluster, name, content, others);
        self.install_with(options, load, &[])
    }

    /// The same, of images in a registry, to which Berth's own are pushed: nothing is loaded. Upstream's have to be there, below `k8s`.
    pub fn install_from(&self, registry: &Registry, options: &Options) -> Result<()> {
        let push = |name: &str, content: &[u8], others: &[&str]| {
            let (tag, archive) = images::pack_own(&self.cluster, name, content, others)?;
            registry.push_image(&archive, &format!("{}/berth/{name}:{tag}", registry.host))?;
            Ok(tag)
        };
        let image = |part: &str, name: &str| format!("{part}.image.repository={}/berth/{name}", registry.host);
        let images = [("operator", "operator"), ("agent", "agent"), ("backups", "backup"), ("apps", "apps")];
        let mut values = images.map(|(part, name)| image(part, name)).to_vec();
        values.push(format!("imageRegistry={}/k8s", registry.host));
        self.install_with(options, push, &values)
    }

    /// `image` makes an image of Berth's known, and gives its tag.
    fn install_with(
        &self,
        options: &Options,
        image: impl Fn(&str, &[u8], &[&str]) -> Result<String>,
        more: &[String],
    ) -> Result<()> {
        let program = options.program.clone().map_or_else(|| images::built("operator"), Ok)?;
        // What follows a program's end is not read by anybody.
        let agent = [images::built("agent")?.as_slice(), options.agent_suffix.as_bytes()].concat();
        let operator = image("operator", &program, &[])?;
        let agent = image("agent", &agent, &["approve"])?;
        let backup = image("backup", &images::built("backup")?, &[])?;
        let operator = format!("operator.image.tag={operator}");
        let backup = format!("backups.image.tag={backup}");
        let agent = format!("agent.image.tag={agent}");
        let delivery = format!("agent.delivery={}", options.agent_delivery.unwrap_or("Auto"));
        self.chart("berth-crds", &[], &[])?;
        self.pull_secret()?;
        let (file, meta) = (values::file(), values::meta(&self.kube)?);
        let mut values = vec!["operator.replicas=1", "operator.logJSON=false", &operator, &agent, &backup, &delivery];
        values.extend(more.iter().chain(&options.values).map(String::as_str));
        self.charts_namespaces_are_gone()?;
        self.chart("berth", &["-f", &file, "--set-json", &meta], &values)?;
        if let Some(minutes) = options.leaf_lifetime_minutes {
            // The chart counts in days.
            let path = format!("{}/{NAME}", apps(SYSTEM, "deployments"));
            let mut deployment = self.kube.get(&path)?;
            let args = deployment.pointer_mut("/spec/template/spec/containers/0/args");
            for arg in args.and_then(Value::as_array_mut).into_iter().flatten() {
                if arg.as_str().is_some_and(|a| a.starts_with("--leaf-lifetime-minutes=")) {
                    *arg = json!(format!("--leaf-lifetime-minutes={minutes}"));
                }
            }
            self.kube.merge(&path, &json!({"spec": {"template": deployment["spec"]["template"]}}))?;
        }
        self.operator_settled()
    }

    /// What the chart made for the test before, and its next release takes away, ends a while after.
    fn charts_namespaces_are_gone(&self) -> Result<()> {
        let ours = format!("{}?labelSelector=app.kubernetes.io/name=berth,helm.sh/chart", core("", "namespaces"));
        until("namespaces of the chart that are being deleted to be gone", || {
            let all = self.kube.list(&ours)?;
            let ends = all.iter().find(|namespace| !namespace["metadata"]["deletionTimestamp"].is_null());
            ensure!(ends.is_none(), "{ends:?}");
            Ok(())
        })
    }

    /// The Secret of the value `tenants.pullSecrets`. No registry asks for what it has.
    fn pull_secret(&self) -> Result<()> {
        let auths = json!({"auths": {"every-value.example.com": {"auth": "ZXZlcnk6dmFsdWU="}}}).to_string();
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/dockerconfigjson",
            "metadata": {"name": PULL_SECRET}, "stringData": {".dockerconfigjson": auths},
        });
        self.kube.ensure(&core(SYSTEM, "secrets"), &secret)
    }

    /// Uninstalls both charts. CustomResourceDefinitions stay, by the charts' own wish.
    pub fn uninstall(&self) -> Result<()> {
        for chart in ["berth", "berth-crds"] {
            self.helm(&["uninstall", chart, "--namespace", SYSTEM, "--wait", "--timeout", "4m"])?;
        }
        Ok(())
    }

    /// Ends the operator's pod; another one takes its place.
    pub fn restart_operator(&self) -> Result<()> {
        self.kubectl(&["-n", SYSTEM, "rollout", "restart", &format!("deployment/{NAME}")])?;
        self.operator_settled()
    }

    /// Ends the operator until [`World::start_operator`] or the next [`World::install`].
    pub fn stop_operator(&self) -> Result<()> {
        self.kubectl(&["-n", SYSTEM, "scale", &format!("deployment/{NAME}"), "--replicas=0"])?;
        until("the operator to be gone", || {
            ensure!(self.operator_pods()?.is_empty());
            Ok(())
        })
    }

    /// Starts the operator that was stopped.
    pub fn start_operator(&self) -> Result<()> {
        self.kubectl(&["-n", SYSTEM, "scale", &format!("deployment/{NAME}"), "--replicas=1"])?;
        self.operator_settled()
    }

    /// `values`, as `helm --set` takes them, count more than `more`, which are other arguments of it.
    fn chart(&self, name: &str, more: &[&str], values: &[&str]) -> Result<()> {
        let chart = paths::root().join("charts").join(name).display().to_string();
        let set = values.iter().flat_map(|v| ["--set", v]);
        let upgrade = ["upgrade", "--install", name, &chart, "--namespace", SYSTEM, "--create-namespace"];
        self.helm(&upgrade.into_iter().chain(more.iter().copied()).chain(set).collect::<Vec<_>>()).map(|_| ())
    }

    fn helm(&self, arguments: &[&str]) -> Result<String> {
        let mut command = std::process::Command::new(binaries::helm()?);
        let output = command.env("KUBECONFIG", self.cluster.kubeconfig()).args(arguments).output()?;
        if !output.status.success() {
            bail!("helm {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    fn operator_settled(&self) -> Result<()> {
        until("the operator to lead, alone", || {
            let deployment = self.kube.get(&format!("{}/{NAME}", apps(SYSTEM, "deployments")))?;
            let status = &deployment["status"];
            ensure!(status["observedGeneration"] == deployment["metadata"]["generation"], "{status}");
            ensure!(status["updatedReplicas"] == 1 && status["availableReplicas"] == 1, "{status}");
            ensure!(self.operator_pods()?.len() == 1, "an old pod is left");
            ensure!(self.operator_metric("berth_leader ")? == 1, "it does not lead yet");
            Ok(())
        })
    }

    fn operator_pods(&self) -> Result<Vec<Value>> {
        self.kube.list(&format!("{}?labelSelector=app.kubernetes.io/name%3Dberth", core(SYSTEM, "pods")))
    }

    /// Passes of a controller that went well, since the operator started.
    pub fn operator_reconciles(&self, controller: &str) -> Result<u64> {
        self.operator_metric(&format!("berth_reconcile_total{{controller=\"{controller}\",result=\"ok\"}}"))
    }

    fn operator_metric(&self, line: &str) -> Result<u64> {
        let pods = self.operator_pods()?;
        let address = pods.first().and_then(|p| p["status"]["podIP"].as_str()).context("no operator runs")?;
        let mut stream = TcpStream::connect_timeout(&format!("{address}:8080").parse()?, Duration::from_secs(5))?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        write!(stream, "GET /metrics HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        let value = text.lines().find_map(|l| l.strip_prefix(line)?.trim().parse().ok());
        value.with_context(|| format!("no `{line}` in\n{text}"))
    }

    /// Waits until both controllers of an operator that was just started have looked at what is there.
    pub fn operator_has_reconciled(&self) -> Result<()> {
        until("both controllers to have looked", || {
            ensure!(self.operator_reconciles("cluster")? > 0 && self.operator_reconciles("etcdcluster")? > 0);
            Ok(())
        })
    }

    /// The end of the operator's log.
    pub fn operator_log(&self, lines: usize) -> String {
        let tail = format!("--tail={lines}");
        self.kubectl(&["-n", SYSTEM, "logs", &format!("deployment/{NAME}"), &tail]).unwrap_or_else(|e| format!("{e:#}"))
    }

    /// What the audit log has so far: for [`World::writes_since`].
    pub fn audit_mark(&self) -> Result<u64> {
        Ok(self.cluster.audit_log().metadata()?.len())
    }

    /// [`writes_since`] in this cluster.
    pub fn writes_since(&self, mark: u64) -> Result<Vec<String>> {
        writes_since(&self.cluster.audit_log(), mark)
    }
}

/// What the operator wrote to the meta cluster since an audit log had that length, leases and dry runs aside: `verb path`.
pub fn writes_since(audit_log: &Path, mark: u64) -> Result<Vec<String>> {
    let text = |event: &Value, field: &str| event[field].as_str().unwrap_or_default().to_owned();
    let all = operator_writes(audit_log, mark)?;
    Ok(all.iter().map(|event| format!("{} {}", text(event, "verb"), text(event, "requestURI"))).collect())
}

/// The events of these writes.
pub fn operator_writes(audit_log: &Path, mark: u64) -> Result<Vec<Value>> {
    let mut log = File::open(audit_log)?;
    log.seek(SeekFrom::Start(mark))?;
    let user = format!("system:serviceaccount:{SYSTEM}:{NAME}");
    let mut writes = vec![];
    for line in BufReader::new(log).lines() {
        let line = line?;
        if !line.contains(&user) {
            continue;
        }
        let event: Value = serde_json::from_str(&line)?;
        let (verb, uri) =
            (event["verb"].as_str().unwrap_or_default(), event["requestURI"].as_str().unwrap_or_default());
        let reads = ["get", "list", "watch"].contains(&verb) || uri.contains("dryRun=All");
        let lease = event["objectRef"]["resource"] == "leases";
        if event["user"]["username"] == user.as_str() && event["stage"] == "ResponseComplete" && !reads && !lease {
            writes.push(event);
        }
    }
    Ok(writes)
}
