//! The demo on a cluster that is there: nothing is built, and nothing is touched that the demo did not make.

use anyhow::{Context as _, bail};
use serde_json::{Value, json};
use std::env;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::{Demo, SYSTEM, TEAM, TENANT, findings, newest, preflight, probe};
use crate::root;
use crate::shell::{Result, cache, input, output, say};

/// What the demo made carries this annotation. Releases of Helm carry [`LABEL`].
const MADE: &str = "demo.berth.dev/made";

/// The label of releases, which Helm keeps apart from what they install.
const LABEL: &str = "made-by=berth-demo";

/// Images of a tenant are pulled from a registry.
const TIMEOUT: Duration = Duration::from_mins(15);

/// What was asked for, by variables of the environment.
#[derive(Debug)]
pub(super) struct Wanted {
    /// IMAGE.
    pub(super) operator: Option<String>,
    /// AGENT_IMAGE.
    pub(super) agent: Option<String>,
    /// STORAGE_CLASS.
    pub(super) storage_class: Option<String>,
    /// POD_CIDRS.
    pub(super) pod_cidrs: Option<String>,
}

fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|v| !v.is_empty())
}

/// The kubeconfig of a cluster that is there, if one was named: BERTH_KUBECONFIG.
pub(super) fn kubeconfig() -> Option<PathBuf> {
    variable("BERTH_KUBECONFIG").map(|path| root().join(path))
}

/// An object that the demo makes.
pub(super) fn made(mut object: Value) -> Value {
    object["metadata"]["annotations"][MADE] = "true".into();
    object
}

fn dir() -> PathBuf {
    root().join("target/demo-given")
}

fn demo(kubeconfig: PathBuf) -> Result<Demo> {
    Ok(Demo {
        cluster: String::new(),
        meta: kubeconfig,
        acme: dir().join("acme.kubeconfig"),
        dir: dir(),
        kubectl: tool("kubectl", "kubernetes")?,
        helm: tool("helm", "tools")?,
        labels: vec!["--labels", LABEL],
        timeout: TIMEOUT,
        variables: "BERTH_KUBECONFIG".to_owned(),
        example: root().join("examples/acme.yaml"),
    })
}

/// A program of the machine, or one that a demo built.
fn tool(name: &str, component: &str) -> Result<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let found = env::split_paths(&path).map(|dir| dir.join(name)).find(|p| p.is_file());
    let built = || newest(&cache().join("bin").join(component), name).ok();
    found.or_else(built).with_context(|| format!("{name} is not there: install it"))
}

/// Looks whether everything is there, installs Berth and makes the tenant.
pub(super) fn up(kubeconfig: PathBuf) -> Result<()> {
    let started = Instant::now();
    let mut demo = demo(kubeconfig)?;
    let wanted = Wanted {
        operator: variable("IMAGE"),
        agent: variable("AGENT_IMAGE"),
        storage_class: variable("STORAGE_CLASS"),
        pod_cidrs: variable("POD_CIDRS"),
    };
    say(&format!("is everything there? ({})", demo.meta.display()));
    let found = preflight::look(&demo, &wanted);
    print!("{}", findings::report(&found));
    match findings::missing(&found) {
        0 => {}
        1 => bail!("one thing is missing, see above; nothing was changed"),
        some => bail!("{some} things are missing, see above; nothing was changed"),
    }
    let images = findings::images(wanted.operator.as_deref(), wanted.agent.as_deref());
    let (operator, agent) = images.map_err(anyhow::Error::msg)?;

    say("Berth");
    let crds = [vec!["customresourcedefinition".to_owned()], berth_api::crds::names()].concat();
    let had_crds = output(demo.kubectl().arg("get").args(&crds)).is_ok();
    demo.namespace(SYSTEM)?;
    let mut values = vec![
        format!("operator.image.repository={}", operator.repository),
        format!("operator.image.tag={}", operator.tag),
        format!("agent.image.repository={}", agent.repository),
        format!("agent.image.tag={}", agent.tag),
    ];
    values.extend(wanted.pod_cidrs.as_ref().map(|networks| format!("meta.podCIDRs={{{networks}}}")));
    values.extend(wanted.storage_class.as_ref().map(|class| format!("writers.storage.classes={{{class}}}")));
    demo.install(&values)?;
    if !had_crds {
        // The chart keeps them when it goes, so that no tenant is lost; the demo's own go with it.
        output(demo.kubectl().arg("annotate").args(&crds).arg(format!("{MADE}=true")))?;
    }
    if let Some(class) = &wanted.storage_class {
        demo.example = example(&demo, class)?;
    }
    let apply = || {
        demo.namespace(TEAM)?;
        let example: Value = serde_saphyr::from_str(&fs::read_to_string(&demo.example)?)?;
        print!("{}", input(demo.kubectl().args(["apply", "-f", "-"]), &made(example).to_string())?);
        Ok(())
    };
    demo.tenant(started, apply, |cp_namespace| {
        say("what the tenant's API server reaches");
        print!("{}", findings::report(&probe::reach(&demo, &agent, cp_namespace)));
        Ok(vec![])
    })
}

/// Removes what the demo made. What somebody else made stays, and what that needs.
pub(super) fn down(kubeconfig: PathBuf) -> Result<()> {
    let demo = demo(kubeconfig)?;
    output(demo.kubectl().args(["--request-timeout=15s", "version"]))?;
    probe::remove(&demo)?;
    let tenant = ["-n", TEAM, "clusters.berth.dev", TENANT];
    if demo.is_made(&tenant)? {
        say(&format!("removing the tenant {TEAM}/{TENANT}"));
        let unprotected = r#"{"spec":{"deletion":{"protected":false}}}"#;
        output(demo.kubectl().arg("patch").args(tenant).args(["--type=merge", "-p", unprotected]))?;
        output(demo.kubectl().arg("delete").args(tenant).arg("--timeout=5m"))?;
    }
    let left = demo.objects_of_others()?;
    if !left.is_empty() {
        bail!("Berth stays, since it has other tenants; delete them and try again: {}", left.join(", "));
    }
    demo.remove_namespace(TEAM)?;
    for release in ["berth", "berth-crds"].into_iter().filter(|r| demo.is_released(r)) {
        say(&format!("removing the release {release}"));
        output(demo.helm().args(["uninstall", release, "-n", SYSTEM, "--wait", "--timeout=3m"]))?;
    }
    for crd in berth_api::crds::names() {
        if demo.is_made(&["customresourcedefinition", &crd])? {
            // The chart's policies are gone, and API servers take a moment to know.
            let lift = format!("{}=true", berth_api::labels::ALLOW_DELETION);
            output(demo.kubectl().args(["label", "--overwrite", "customresourcedefinition", &crd, &lift]))?;
            output(demo.kubectl().args(["delete", "customresourcedefinition", &crd, "--timeout=1m"]))?;
        }
    }
    demo.remove_namespace(SYSTEM)?;
    if dir().exists() {
        fs::remove_dir_all(dir())?;
    }
    println!("What the demo made is gone.");
    Ok(())
}

impl Demo {
    /// Whether an object is there and the demo made it.
    pub(super) fn is_made(&self, object: &[&str]) -> Result<bool> {
        let path = format!("jsonpath={{.metadata.annotations.{}}}", MADE.replace('.', "\\."));
        match output(self.kubectl().arg("get").args(object).args(["-o", &path])) {
            Ok(mark) => Ok(mark == "true"),
            Err(error) => {
                let said = format!("{error:#}");
                let gone = said.contains("NotFound") || said.contains("the server doesn't have a resource type");
                if gone { Ok(false) } else { Err(error) }
            }
        }
    }

    /// Whether a release is there and the demo made it.
    pub(super) fn is_released(&self, name: &str) -> bool {
        let list = output(self.helm().args(["list", "-n", SYSTEM, "-q", "--selector", LABEL]));
        list.is_ok_and(|names| names.lines().any(|l| l == name))
    }

    /// All objects of both charts.
    pub(super) fn rendered(&self) -> Result<Vec<Value>> {
        let mut all = vec![];
        for chart in ["berth-crds", "berth"] {
            let template = ["template", chart, &format!("charts/{chart}"), "-n", SYSTEM, "--kube-version", "1.36.3"];
            let text = output(self.helm().args(template))?;
            let objects: Vec<Value> = serde_saphyr::from_multiple(&text).context("helm printed no YAML")?;
            all.extend(objects.into_iter().filter(Value::is_object));
        }
        Ok(all)
    }

    /// Makes a namespace, with the mark, unless it is there.
    fn namespace(&self, name: &str) -> Result<()> {
        if output(self.kubectl().args(["get", "namespace", name, "-o", "name"])).is_ok() {
            return Ok(());
        }
        let namespace = made(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}));
        print!("{}", input(self.kubectl().args(["create", "-f", "-"]), &namespace.to_string())?);
        Ok(())
    }

    /// Removes a namespace that the demo made, unless somebody put something into it.
    fn remove_namespace(&self, name: &str) -> Result<()> {
        if !self.is_made(&["namespace", name])? {
            return Ok(());
        }
        let kinds = "configmaps,secrets,services,pods,persistentvolumeclaims,deployments,statefulsets,jobs";
        let left = output(self.kubectl().args(["-n", name, "get", kinds, "-o", "name"]))?;
        // Those of the operator go a moment after their Deployment.
        let own = |l: &&str| *l == "configmap/kube-root-ca.crt" || l.starts_with("pod/berth-operator-");
        let left: Vec<&str> = left.lines().filter(|l| !own(l)).collect();
        if !left.is_empty() {
            println!("namespace {name} stays, since there is more in it: {}", left.join(", "));
            return Ok(());
        }
        output(self.kubectl().args(["delete", "namespace", name, "--timeout=3m"])).map(|_| ())
    }

    /// Berth's own resources that are left.
    fn objects_of_others(&self) -> Result<Vec<String>> {
        let mut left = vec![];
        for kind in berth_api::crds::names() {
            if output(self.kubectl().args(["get", "customresourcedefinition", &kind])).is_err() {
                continue;
            }
            let name = "jsonpath={range .items[*]}{.metadata.namespace}/{.metadata.name}{\"\\n\"}{end}";
            left.extend(output(self.kubectl().args(["get", &kind, "-A", "-o", name]))?.lines().map(ToOwned::to_owned));
        }
        Ok(left)
    }
}

/// The example with that class of volumes, as a file: one more tenant is made from it, too.
fn example(demo: &Demo, class: &str) -> Result<PathBuf> {
    let text = fs::read_to_string(&demo.example).with_context(|| demo.example.display().to_string())?;
    // The spec is the last that it has.
    let text = format!("{}\n  etcd:\n    storage:\n      className: {class:?}\n", text.trim_end());
    let path = demo.dir.join("acme.yaml");
    fs::create_dir_all(&demo.dir)?;
    fs::write(&path, text).with_context(|| path.display().to_string())?;
    Ok(path)
}
