//! The user's own Helm, which renders charts here: nobody asks a tenant for that.

use anyhow::{Context as _, bail};
use berth_api::app::{AppChart, AppRelease};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Charts that were fetched, each once.
#[derive(Debug)]
pub(super) struct Charts {
    /// The program.
    helm: OsString,
    dir: tempfile::TempDir,
    fetched: BTreeMap<Vec<String>, PathBuf>,
}

/// What a chart is rendered for.
#[derive(Clone, Copy, Debug)]
pub(super) struct For<'a> {
    /// Name of the App, as that of a release without one of its own.
    pub(super) app: &'a str,
    pub(super) release: &'a AppRelease,
    pub(super) values: &'a Map<String, Value>,
    /// Kubernetes' version in the tenant, if it is known.
    pub(super) version: Option<&'a str>,
}

impl Charts {
    /// With that Helm: a path, or a name in `PATH`.
    pub(super) fn by(helm: &Path) -> anyhow::Result<Self> {
        let dir = tempfile::tempdir().context("a temporary folder")?;
        Ok(Self { helm: helm.into(), dir, fetched: BTreeMap::new() })
    }

    /// The objects that Helm would install, without those of hooks, and with those in the chart's folder `crds`.
    pub(super) fn objects(&mut self, what: For<'_>) -> anyhow::Result<Vec<Value>> {
        let archive = self.archive(&what.release.chart)?;
        let values = self.dir.path().join("values.json");
        std::fs::write(&values, serde_json::to_vec(what.values)?).context("values in a temporary file")?;
        let name = what.release.release_name.as_deref().unwrap_or(what.app);
        let mut args = vec!["template".into(), name.to_owned(), shown(&archive), format!("--values={}", shown(&values))];
        args.extend([format!("--namespace={}", namespace(what.release)), "--no-hooks".into(), "--include-crds".into()]);
        args.extend(what.version.map(|version| format!("--kube-version={version}")));
        objects(&self.call(&args)?)
    }

    fn archive(&mut self, chart: &AppChart) -> anyhow::Result<PathBuf> {
        let mut args = pull(chart);
        if let Some(archive) = self.fetched.get(&args) {
            return Ok(archive.clone());
        }
        let to = self.dir.path().join(format!("chart-{}", self.fetched.len()));
        std::fs::create_dir(&to).context("a temporary folder")?;
        let key = args.clone();
        args.push(format!("--destination={}", shown(&to)));
        self.call(&args)?;
        let archive = std::fs::read_dir(&to)?.flatten().map(|entry| entry.path()).next();
        let archive = archive.with_context(|| format!("helm {}: it left no archive", key.join(" ")))?;
        self.fetched.insert(key, archive.clone());
        Ok(archive)
    }

    fn call(&self, args: &[String]) -> anyhow::Result<String> {
        let called = Command::new(&self.helm).args(args).stdin(Stdio::null()).output();
        let called = called.with_context(|| {
            format!("{} cannot be started: charts are rendered by Helm. Install it, or name it with --helm", self.helm.display())
        })?;
        if !called.status.success() {
            let said = String::from_utf8_lossy(&called.stderr);
            let said = said.rfind("Error: ").and_then(|from| said.get(from..)).unwrap_or(&said);
            let of: Vec<&str> = args.iter().take(2).map(String::as_str).collect();
            bail!("helm {}: {}", of.join(" "), said.trim().trim_start_matches("Error: "));
        }
        String::from_utf8(called.stdout).context("what Helm printed is not text")
    }
}

/// The namespace of the release.
pub(super) fn namespace(release: &AppRelease) -> &str {
    release.namespace.as_deref().unwrap_or("default")
}

/// `helm pull` of it. The login, and whom Helm trusts, are those of whoever calls.
fn pull(chart: &AppChart) -> Vec<String> {
    let mut args = vec!["pull".to_owned()];
    let digest = chart.digest.as_ref().filter(|_| chart.oci.is_some());
    match (&chart.oci, digest) {
        (Some(oci), Some(digest)) => args.push(format!("{oci}@{digest}")),
        (Some(oci), None) => args.push(oci.clone()),
        (None, _) => {
            args.push(chart.name.clone().unwrap_or_default());
            args.push(format!("--repo={}", chart.repository.as_deref().unwrap_or_default()));
        }
    }
    args.extend(chart.version.as_ref().filter(|_| digest.is_none()).map(|version| format!("--version={version}")));
    if chart.plain_http {
        args.push("--plain-http".to_owned());
    }
    args
}

/// Documents of YAML, and what is in lists.
fn objects(text: &str) -> anyhow::Result<Vec<Value>> {
    let all: Vec<Value> = serde_saphyr::from_multiple(text).map_err(|e| anyhow::anyhow!("what Helm rendered: {e}"))?;
    Ok(all.into_iter().flat_map(flat).collect())
}

fn flat(object: Value) -> Vec<Value> {
    let is_list = object["kind"].as_str().is_some_and(|kind| kind.ends_with("List"));
    match object["items"].as_array().filter(|_| is_list) {
        Some(items) => items.iter().cloned().flat_map(flat).collect(),
        None if object["metadata"]["name"].is_string() => vec![object],
        None => vec![],
    }
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_is_asked_for_as_a_job_asks_for_it() {
        let of = |chart: AppChart| pull(&chart).join(" ");
        let oci = AppChart { oci: Some("oci://reg/c".into()), version: Some("1.0.0".into()), ..AppChart::default() };
        assert_eq!(of(oci.clone()), "pull oci://reg/c --version=1.0.0");
        let digest = AppChart { digest: Some("sha256:ab".into()), plain_http: true, ..oci };
        assert_eq!(of(digest), "pull oci://reg/c@sha256:ab --plain-http");
        let repository = AppChart {
            repository: Some("https://charts".into()),
            name: Some("c".into()),
            version: Some("1.0.0".into()),
            digest: Some("sha256:ab".into()),
            ..AppChart::default()
        };
        assert_eq!(of(repository), "pull c --repo=https://charts --version=1.0.0");
    }

    #[test]
    fn documents_and_lists_are_objects() {
        let text = "---\n# Source: a\nkind: A\nmetadata: {name: a}\n---\n# nothing\n---\nkind: XList\nitems: [{kind: B, metadata: {name: b}}]\n";
        let kinds: Vec<_> = objects(text).unwrap().iter().map(|o| o["kind"].clone()).collect();
        assert_eq!(kinds, ["A", "B"]);
        assert!(objects("a: [").is_err());
    }

    #[test]
    fn no_helm_is_said_with_the_way_out() {
        let mut charts = Charts::by(Path::new("/nonexistent/helm")).unwrap();
        let release = AppRelease { chart: AppChart { oci: Some("oci://reg/c".into()), ..AppChart::default() }, ..AppRelease::default() };
        let what = For { app: "web", release: &release, values: &Map::new(), version: None };
        let error = format!("{:#}", charts.objects(what).unwrap_err());
        assert!(error.contains("Install it, or name it with --helm"), "{error}");
    }
}
