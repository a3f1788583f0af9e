//! `make demo` on a cluster that is there, against a second devcluster: what is missing is named at once, Berth and a tenant come
//! up, and `make demo-down` leaves the cluster as it was.

use std::{collections::BTreeSet, fs, process::Command};

use anyhow::{Context as _, Result, ensure};
use berth_devcluster::{Cluster, Config, binaries};
use berth_e2e::{images, make, pages, paths, run};

const NAME: &str = "e2e-given";

#[test]
#[ignore = "make test-all: a cluster of its own, and six minutes"]
fn a_demo_on_a_cluster_that_is_there() {
    run::must_be_real();
    let result = Cluster::up(&Config::named(NAME)).and_then(|cluster| demo(&Given { cluster }));
    let removed = Cluster::remove(NAME);
    if let Err(error) = result.and(removed) {
        panic!("{error:#}");
    }
}

/// The cluster that is there.
struct Given {
    cluster: Cluster,
}

fn demo(given: &Given) -> Result<()> {
    images::load_upstream(&given.cluster)?;
    let image = |name: &str| -> Result<String> {
        let others: &[&str] = if name == "agent" { &["approve"] } else { &[] };
        let tag = images::load_own(&given.cluster, name, &images::built(name)?, others)?;
        Ok(format!("ghcr.io/berth-dev/{name}:{tag}"))
    };
    let images = [format!("IMAGE={}", image("operator")?), format!("AGENT_IMAGE={}", image("agent")?)];
    given.kubectl(&["annotate", "storageclass", "local", "storageclass.kubernetes.io/is-default-class-"])?;
    let before = given.objects()?;

    // Nothing is there, and all of that is said at once.
    let mut nobody = vec![given.nobody()?];
    let said = refused(&nobody, "4 things are missing")?;
    for what in ["images           set IMAGE", "nodes ", "StorageClass ", "rights "] {
        ensure!(said.contains(&format!("MISSING  {what}")), "{what}: {said}");
    }
    ensure!(said.contains("create, delete, get, patch deployments.apps in berth-system"), "{said}");
    "BERTH_KUBECONFIG=/nowhere".clone_into(&mut nobody[0]);
    ensure!(refused(&nobody, "2 things are missing")?.contains("MISSING  API "), "no answer is one thing");
    // With an image that nobody has.
    let mut variables = vec![format!("BERTH_KUBECONFIG={}", given.cluster.kubeconfig().display())];
    let missing = "IMAGE=ghcr.io/berth-dev/operator:none".to_owned();
    let said =
        refused(&[&variables[..], &[missing, "STORAGE_CLASS=local".to_owned()]].concat(), "one thing is missing")?;
    ensure!(said.contains("MISSING  images") && said.contains("operator:none"), "{said}");
    variables.extend(images.clone());
    let said = refused(&variables, "one thing is missing")?;
    ensure!(
        said.contains("MISSING  StorageClass     none is the default; set STORAGE_CLASS; there are local"),
        "{said}"
    );
    ensure!(given.objects()? == before, "a look changed something");

    variables.push("STORAGE_CLASS=local".to_owned());
    let said = make::make("demo", &variables)?;
    // The network plugin of a devcluster enforces none.
    ensure!(said.contains("WARNING  NetworkPolicies  not enforced"), "{said}");
    ensure!(said.contains("ok       Pod Security     enforced"), "{said}");
    ensure!(said.contains("acme is ready after"), "{said}");
    let there = given.objects()?;
    make::make("demo", &variables)?;
    ensure!(given.objects()? == there, "a second run changed something");

    // Somebody's tenant keeps what it needs.
    given.kubectl(&["create", "namespace", "team-b"])?;
    let other = "apiVersion: berth.dev/v1alpha1\nkind: Cluster\nmetadata: {name: other, namespace: team-b}\n\
                 spec: {version: 1.36.3, paused: true, deletion: {protected: false}}\n";
    let file = given.cluster.dir().join("e2e-other.yaml");
    fs::write(&file, other)?;
    given.kubectl(&["create", "-f", &file.display().to_string()])?;
    let (well, _) = make::try_make("demo-down", &variables)?;
    ensure!(!well && given.kubectl(&["-n", "team-b", "get", "clusters.berth.dev", "-o", "name"])?.contains("other"));
    given.kubectl(&["-n", "berth-system", "rollout", "status", "deployment/berth-operator", "--timeout=10s"])?;
    given.kubectl(&["-n", "team-b", "delete", "clusters.berth.dev", "other", "--timeout=3m"])?;
    given.kubectl(&["delete", "namespace", "team-b", "--timeout=3m"])?;

    make::make("demo-down", &variables)?;
    let after = given.objects()?;
    ensure!(before == after, "left or lost: {:#?}", before.symmetric_difference(&after).collect::<Vec<_>>());
    make::make("demo-down", &variables)?;
    install(given, &images)?;
    ensure!(given.objects()? == before, "the page leaves something");
    Ok(())
}

/// docs/install.md, as it is printed.
fn install(given: &Given, images: &[String; 2]) -> Result<()> {
    given.kubectl(&["annotate", "storageclass", "local", "storageclass.kubernetes.io/is-default-class=true"])?;
    let place = std::env::temp_dir().join(format!("berth-install-{}", std::process::id()));
    fs::create_dir_all(&place)?;
    for name in ["charts", "examples"] {
        std::os::unix::fs::symlink(paths::root().join(name), place.join(name))?;
    }
    let part = |of: &str| -> Result<String> {
        let (repository, tag) = of.split_once('=').and_then(|(_, image)| image.rsplit_once(':')).context("no image")?;
        Ok(format!("{{repository: {repository}, tag: {tag}}}"))
    };
    let values = format!("operator:\n  image: {}\nagent:\n  image: {}\n", part(&images[0])?, part(&images[1])?);
    fs::write(place.join("values.yaml"), values)?;
    let tools = [binaries::kubectl()?, binaries::helm()?];
    let mut path: Vec<String> = tools.iter().filter_map(|t| Some(t.parent()?.display().to_string())).collect();
    path.extend(std::env::var("PATH"));
    let path = path.join(":");
    let mut bash = Command::new("bash");
    let bash = make::plain(&mut bash).current_dir(&place).env("PATH", path);
    let result = pages::run(&paths::root().join("docs/install.md"), bash.env("KUBECONFIG", given.cluster.kubeconfig()));
    fs::remove_dir_all(&place)?;
    result
}

/// A demo that does not begin; the screen that says why.
fn refused(variables: &[String], why: &str) -> Result<String> {
    let mut command = Command::new("make");
    command.arg("-C").arg(paths::root()).arg("demo").args(variables);
    let output = make::building(&mut command).output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    println!("$ make demo {}\n{text}", variables.join(" "));
    ensure!(!output.status.success() && text.contains(why), "it is not said that {why}");
    Ok(text)
}

impl Given {
    fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        let output = self.cluster.kubectl()?.args(arguments).output().context("cannot run kubectl")?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "kubectl {}: {}", arguments.join(" "), said.trim());
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// BERTH_KUBECONFIG of somebody without any right.
    fn nobody(&self) -> Result<String> {
        let token = self.kubectl(&["-n", "kube-system", "create", "token", "coredns"])?;
        let file = self.cluster.dir().join("e2e-nobody.kubeconfig");
        let config = self.kubectl(&["config", "view", "--raw", "--minify", "-o", "json"])?;
        let mut config: serde_json::Value = serde_json::from_str(&config)?;
        config["users"][0]["user"] = serde_json::json!({"token": token.trim()});
        fs::write(&file, config.to_string())?;
        Ok(format!("BERTH_KUBECONFIG={}", file.display()))
    }

    /// Everything that a demo could make or change, without what changes by itself.
    fn objects(&self) -> Result<BTreeSet<String>> {
        let kinds = "namespaces,customresourcedefinitions,clusterroles,clusterrolebindings,validatingadmissionpolicies,\
                     validatingadmissionpolicybindings,storageclasses,deployments,secrets,configmaps,services,roles,\
                     rolebindings,networkpolicies";
        let columns = "custom-columns=K:.kind,NS:.metadata.namespace,N:.metadata.name,U:.metadata.uid";
        let list = self.kubectl(&["get", kinds, "-A", "--no-headers", "-o", columns])?;
        Ok(list.lines().map(ToOwned::to_owned).collect())
    }
}
