//! The user's own `helm`: it has their logins and CAs of registries.

use anyhow::{Context as _, anyhow, bail};
use berth_api::app::AppRelease;
use berth_api::apps::Chart;
use berth_plan::digest::sha256;
use serde_json::{Map, Value};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// Helm, and where charts are kept meanwhile.
#[derive(Debug)]
pub(crate) struct Helm {
    scratch: TempDir,
}

/// What of a release decides what it renders.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Release {
    pub(crate) name: String,
    pub(crate) namespace: String,
    /// Kubernetes' version.
    pub(crate) version: String,
}

impl Release {
    /// Of that App, in a tenant with that version of Kubernetes.
    pub(crate) fn of(app: &str, release: &AppRelease, version: &str) -> Self {
        Self {
            name: release.release_name.as_deref().unwrap_or(app).to_owned(),
            namespace: release.namespace.as_deref().unwrap_or("default").to_owned(),
            version: version.trim_start_matches('v').to_owned(),
        }
    }
}

impl Helm {
    /// An error if there is none.
    pub(crate) fn find() -> anyhow::Result<Self> {
        let helm = Self { scratch: tempfile::tempdir().context("a directory for charts")? };
        helm.call(&["version".to_owned(), "--short".to_owned()])?;
        Ok(helm)
    }

    /// Fetches a chart. `number`: of which nothing was fetched before.
    pub(crate) fn pull(&self, chart: &Chart, number: usize) -> anyhow::Result<PathBuf> {
        let to = self.scratch.path().join(number.to_string());
        std::fs::create_dir(&to).with_context(|| to.display().to_string())?;
        let mut args = chart.pull();
        args.push(format!("--destination={}", to.display()));
        self.call(&args)?;
        let mut all = std::fs::read_dir(&to).with_context(|| to.display().to_string())?.flatten();
        let path = all.next().map(|entry| entry.path()).context("helm pull left no archive")?;
        if let Some(wanted) = chart.archive() {
            let digest = sha256(&std::fs::read(&path).with_context(|| path.display().to_string())?);
            if digest != wanted {
                bail!("chart {} of {}: its digest is sha256:{digest}, not sha256:{wanted}", chart.name, chart.from);
            }
        }
        Ok(path)
    }

    /// What it renders.
    pub(crate) fn template(
        &self,
        release: &Release,
        chart: &Path,
        values: &Map<String, Value>,
    ) -> anyhow::Result<String> {
        let file = self.scratch.path().join("values.json");
        std::fs::write(&file, serde_json::to_vec(values)?).with_context(|| file.display().to_string())?;
        self.call(&[
            "template".to_owned(),
            release.name.clone(),
            chart.display().to_string(),
            format!("--namespace={}", release.namespace),
            format!("--kube-version={}", release.version),
            format!("--values={}", file.display()),
            "--skip-tests".to_owned(),
        ])
    }

    /// What it prints.
    fn call(&self, args: &[String]) -> anyhow::Result<String> {
        let output = Command::new("helm").args(args).current_dir(self.scratch.path()).stdin(Stdio::null()).output();
        let output = output.map_err(|error| match error.kind() {
            ErrorKind::NotFound => {
                anyhow!("there is no program helm in your PATH, which renders charts: install Helm, in version 3 or 4")
            }
            _ => anyhow::Error::new(error).context("cannot run helm"),
        })?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            let verb = args.first().map_or("", String::as_str);
            bail!("helm {verb}: {}", said.trim());
        }
        String::from_utf8(output.stdout).context("what helm printed")
    }
}
