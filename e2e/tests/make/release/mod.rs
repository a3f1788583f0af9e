//! docs/release.md, as it is printed, on a cluster that has nothing but a registry: the network namespace of a devcluster leads nowhere
//! else, and every image is pulled. The release before is upgraded to this checkout's, and all is removed; then this checkout's is
//! installed where nothing is.

mod before;
mod site;

use std::{fs, path::Path, process::Command};

use anyhow::{Context as _, Result, ensure};
use berth_api::names;
use berth_devcluster::{
    Cluster, Config,
    binaries::{self, Selection},
};
use berth_e2e::{images, make, operator::writes_since, run::must_be_real, until};
use serde_json::Value;

use before::Before;
use site::{Site, output};

const NAME: &str = "e2e-release";
/// Another version than the release before has.
const VERSION: &str = "0.2.0-e2e";

#[test]
#[ignore = "make test-all: two releases are built, and a cluster of its own installs them from a registry"]
fn a_cluster_that_has_only_a_registry_installs_a_release() {
    must_be_real();
    let place = tempfile::tempdir().unwrap();
    let result = released(place.path()).and_then(|()| {
        let before = Before::build()?;
        // A run that was cut off may have left one.
        Cluster::remove(NAME)?;
        let site = Site::new(Cluster::up(&Config::named(NAME))?, place.path())?;
        all(&site, &before).inspect_err(|_| site.explain())
    });
    let removed = Cluster::remove(NAME);
    if let Err(error) = result.and(removed) {
        panic!("{error:#}");
    }
}

/// This checkout's, signed.
fn released(place: &Path) -> Result<()> {
    binaries::build(&Selection::Named(vec!["crane".to_owned()]))?;
    let (dir, key) = (place.join(VERSION), place.join("key.pem").display().to_string());
    output(Command::new("openssl").args(["genpkey", "-algorithm", "ed25519", "-out", &key]))?;
    let said = make::make(
        "release",
        &[
            format!("RELEASE_DIR={}", dir.display()),
            format!("RELEASE_VERSION={VERSION}"),
            "RELEASE_TARGETS=linux/amd64".to_owned(),
            format!("RELEASE_KEY={key}"),
        ],
    )?;
    ensure!(said.contains("built: linux/amd64\n"), "{said}");
    // As a download page has it.
    output(Command::new("openssl").args(["pkey", "-in", &key, "-pubout", "-out"]).arg(dir.join("berth.pub")))?;
    Ok(())
}

fn all(site: &Site<'_>, before: &Before) -> Result<()> {
    images::forget(&site.cluster)?;
    site.registry.is_trusted_by(&site.cluster)?;
    site.mirror(VERSION)?;
    let asked = site.registry.asked()?;
    ensure!(asked.is_empty(), "the registry was asked before there was anything: {asked:?}");

    before.install(site)?;
    let pods = site.pods(before::TEAM, before::TENANT)?;
    ensure!(pods.len() == 4, "{pods:?}");
    let mark = site.cluster.audit_log().metadata()?.len();
    // The page waits for a tenant of the new operator, which has then looked at the older one, too.
    by_the_page(site)?;
    let after = site.pods(before::TEAM, before::TENANT)?;
    ensure!(after == pods, "a new Berth touched the tenant: {pods:?} {after:?}");
    let home = format!("/namespaces/{}", names::control_plane_namespace(before::TEAM, before::TENANT));
    let writes = writes_since(&site.cluster.audit_log(), mark)?;
    let (of_it, others): (Vec<_>, Vec<_>) = writes.iter().partition(|write| write.contains(&home));
    ensure!(!others.is_empty(), "the audit log does not show what it wrote to its own tenant");
    // On the namespace itself it records once which team has it.
    let (record, of_it): (Vec<_>, Vec<_>) = of_it.into_iter().partition(|write| !write.contains(&format!("{home}/")));
    ensure!(record.len() == 1, "it is recorded once: {record:#?}");
    ensure!(of_it.iter().all(|write| write.contains("/status")), "a new Berth wrote to the tenant: {of_it:#?}");
    removed(site, &[(before::TEAM, before::TENANT), ("team-a", "acme")])?;

    by_the_page(site)?;
    removed(site, &[("team-a", "acme")])
}

/// The page: a tenant runs, and whatever runs was pulled.
fn by_the_page(site: &Site<'_>) -> Result<()> {
    fs::write(site.place.join("values.yaml"), site.values("", ""))?;
    site.page(VERSION)?;
    let pods = site.pods("team-a", "acme")?;
    ensure!(pods.len() == 4, "{pods:?}");
    only_from_the_registry(site)
}

/// Every image of Berth and its tenants has the registry's name, and Berth's own are those of the release, by digest.
fn only_from_the_registry(site: &Site<'_>) -> Result<()> {
    let pods = site.json(&["get", "pods", "-A", "--field-selector=metadata.namespace!=kube-system"])?;
    let found = images::of_pods(pods["items"].as_array().context("no pods")?);
    let elsewhere: Vec<_> = found.iter().filter(|i| !i.starts_with(&site.host)).collect();
    ensure!(elsewhere.is_empty() && found.len() >= 6, "{found:?}");
    for name in ["operator", "agent"] {
        let index = fs::read(site.place.join(VERSION).join("oci").join(name).join("index.json"))?;
        let index: Value = serde_json::from_slice(&index)?;
        let digest = index["manifests"][0]["digest"].as_str().context("no digest")?;
        let image = format!("{}/berth/{name}:{VERSION}@{digest}", site.host);
        ensure!(found.contains(image.as_str()), "{image} is not among {found:?}");
    }
    let asked = site.registry.asked()?;
    for name in ["berth/operator", "berth/agent", "k8s/kube-apiserver", "k8s/etcd", "berth/charts/berth"] {
        ensure!(asked.iter().any(|line| line.contains(&format!("GET /v2/{name}/manifests/"))), "{name}: {asked:#?}");
    }
    Ok(())
}

/// As docs/install.md has it.
fn removed(site: &Site<'_>, tenants: &[(&str, &str)]) -> Result<()> {
    let unprotected = r#"{"spec":{"deletion":{"protected":false}}}"#;
    for (team, tenant) in tenants {
        site.kubectl(&["-n", team, "patch", "clusters.berth.dev", tenant, "--type=merge", "-p", unprotected])?;
        site.kubectl(&["-n", team, "delete", "clusters.berth.dev", tenant, "--timeout=5m"])?;
    }
    let helm = ["uninstall", "berth", "berth-crds", "-n", "berth-system", "--wait", "--timeout=3m"];
    output(Command::new(binaries::helm()?).env("KUBECONFIG", site.cluster.kubeconfig()).args(helm))?;
    let teams: Vec<&str> = tenants.iter().map(|(team, _)| *team).collect();
    site.kubectl(&[&["delete", "namespace", "berth-system", "--timeout=2m"], &teams[..]].concat())?;
    // Until a moment after the chart is gone, its policies refuse that.
    let kinds = berth_api::crds::names();
    let kinds = [vec!["delete".to_owned(), "customresourcedefinitions".to_owned()], kinds].concat();
    let kinds: Vec<&str> = kinds.iter().map(String::as_str).collect();
    until("the CustomResourceDefinitions to be deleted", || {
        site.kubectl(&[&kinds[..], &["--ignore-not-found"]].concat()).map(drop)
    })?;
    until("only Kubernetes' own namespaces to be left", || {
        let names = site.kubectl(&["get", "namespaces", "-o", "name"])?;
        ensure!(names.lines().all(|n| n == "namespace/default" || n.starts_with("namespace/kube-")), "{names}");
        Ok(())
    })
}
