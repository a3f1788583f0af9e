//! What the operator and `berth-apps` in a Job agree on: the task, which is in the environment, and the outcome, which is the container's
//! termination message. Both are of the same Berth, but for a Job that runs while the operator is replaced.

mod drift;
mod release;

use crate::jobs::{self, Said};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use drift::{Check, Checked, Drifted, Ignored, Known, Object, What};
pub use release::{Recorded, Release, longest_call, longest_job};

/// Environment variable with the [`Task`] as JSON. It holds no secret.
pub const TASK: &str = "BERTH_APPS_TASK";

/// Files of the Secret beside the Job.
pub mod files {
    /// The tenant's kubeconfig.
    pub const KUBECONFIG: &str = "value";
    /// Login of the registry, as `docker login` writes it.
    pub const LOGIN: &str = ".dockerconfigjson";
    /// CAs in PEM of the registry's certificate.
    pub const CA: &str = "ca.crt";
    /// Values from the n-th entry of the spec, if that is a Secret, as YAML.
    pub fn values(n: usize) -> String {
        format!("values-{n}.yaml")
    }
}

/// Labels of a release, which Helm keeps with it.
pub mod labels {
    /// Name of the `AppInstallation` that made it. Not its UID: an App that comes back of a backup of the meta cluster has another one.
    pub const INSTALLATION: &str = "berth.dev/app-installation";
    /// Digest of the chart, shortened.
    pub const CHART: &str = "berth.dev/chart";
    /// Digest of the values, shortened.
    pub const VALUES: &str = "berth.dev/values";
    /// Helm's revision that was made with these labels: Helm hands them on to what somebody upgrades by hand.
    pub const REVISION: &str = "berth.dev/revision";
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Task {
    /// Have the release be as it is described.
    Deploy(Box<Deploy>),
    /// Have it be gone.
    Uninstall(Uninstall),
    /// Compare what is there with what Helm left.
    Check(Box<Check>),
}

impl Task {
    /// The release.
    pub fn release(&self) -> &Release {
        match self {
            Self::Deploy(task) => &task.release,
            Self::Uninstall(task) => &task.release,
            Self::Check(task) => &task.release,
        }
    }
}

/// A release that is to be there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Deploy {
    /// Which.
    pub release: Release,
    /// Of which chart.
    pub chart: Chart,
    /// Values that are no secret. They count more than those of files.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub values: Map<String, Value>,
    /// How many [`files::values`] there are, with those of `plain`.
    #[serde(default)]
    pub value_files: usize,
    /// Those of them that are no secret, and no file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub plain: Vec<Plain>,
    /// What is in the others, without saying it: in the digest of all values that is published this stands for the file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<Told>,
    /// Helm waits until what it made is ready.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub wait: bool,
    /// What fails is rolled back, or uninstalled if it was new.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub roll_back: bool,
    /// Epoch of the tenant's etcd, which the outcome repeats: another one after a restore. 0: not known.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub epoch: i64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn is_zero(number: &i64) -> bool {
    *number == 0
}

/// Values that are no secret, and count by their place among those that are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Plain {
    /// Which of the [`files::values`] they take the place of.
    pub at: usize,
    /// The values.
    #[serde(default)]
    pub values: Map<String, Value>,
}

/// Values of a Secret, by a digest that has more in it than they, so that nobody can try what they are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Told {
    /// Which of the [`files::values`] they are.
    pub at: usize,
    /// The digest.
    pub digest: String,
}

/// Where a chart is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Chart {
    /// Reference in an OCI registry, with `oci://`, or the URL of a repository.
    pub from: String,
    /// Name in the repository. Empty: `from` is a reference.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Version. Empty: the digest says which.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// Digest, as `sha256:…`: of the manifest in a registry, of the archive in a repository. Empty: any.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub digest: String,
    /// The registry speaks HTTP.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub plain_http: bool,
}

impl Chart {
    /// Arguments of Helm that fetch it, but for files.
    pub fn pull(&self) -> Vec<String> {
        let mut args = vec!["pull".to_owned()];
        if self.name.is_empty() {
            let digest = if self.digest.is_empty() { String::new() } else { format!("@{}", self.digest) };
            args.push(format!("{}{digest}", self.from));
        } else {
            args.extend([self.name.clone(), format!("--repo={}", self.from)]);
        }
        // With a digest that says which, and the tag may have gone.
        if !self.version.is_empty() && (self.digest.is_empty() || !self.name.is_empty()) {
            args.push(format!("--version={}", self.version));
        }
        if self.plain_http {
            args.push("--plain-http".to_owned());
        }
        args
    }

    /// The digest that its archive has to have. None: any, or Helm has compared the manifest's, as in a registry.
    pub fn archive(&self) -> Option<&str> {
        self.digest.strip_prefix("sha256:").filter(|_| !self.name.is_empty())
    }
}

/// A release that is to be gone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Uninstall {
    /// Which.
    pub release: Release,
}

/// How a task ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Outcome {
    /// The release is as it was described.
    Deployed(Deployed),
    /// It is gone.
    Uninstalled,
    /// It was compared.
    Checked(Checked),
    /// It failed.
    Failed(Failure),
}

impl Said for Outcome {
    type At = At;

    fn failure(&self) -> Option<&Failure> {
        match self {
            Self::Failed(failure) => Some(failure),
            _ => None,
        }
    }
}

/// A release as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Deployed {
    /// Helm's revision.
    pub revision: i64,
    /// Name of the chart.
    pub chart: String,
    /// Its version.
    pub version: String,
    /// Version of what it installs, as the chart says. Empty: it says none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub app_version: String,
    /// SHA-256 of the chart's archive in hexadecimal.
    pub chart_digest: String,
    /// SHA-256 of all values in hexadecimal.
    pub values_digest: String,
    /// SHA-256 of what Helm goes by of this revision, as [`Recorded::manifest_digest`].
    #[serde(default)]
    pub manifest_digest: String,
    /// [`Deploy::epoch`].
    #[serde(default, skip_serializing_if = "is_zero")]
    pub epoch: i64,
    /// It was so already.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unchanged: bool,
    /// What was found and mended before, such as a revision that was pending. Empty: nothing.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub mended: String,
}

/// Why a task failed.
pub type Failure = jobs::Failure<At>;

/// What is at fault.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum At {
    /// The registry: it refuses, or does not answer.
    Registry,
    /// The chart: it is not the one that was asked for, or cannot be read or rendered.
    Chart,
    /// The tenant: its API does not answer, or refuses.
    Tenant,
    /// A release of that name is somebody else's.
    Foreign,
    /// Helm, at installing, upgrading or uninstalling.
    Release,
    /// Anything else.
    #[default]
    #[serde(other)]
    Other,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_newer_programs_words_are_understood() {
        let said: Outcome = serde_json::from_str(r#"{"failed": {"at": "Moon", "message": "m", "more": 1}}"#).unwrap();
        assert_eq!(said.failure(), Some(&Failure { at: At::Other, message: "m".into() }));
        let said = r#"{"deployed": {"revision": 2, "chart": "c", "version": "1.0.0", "chartDigest": "a", "valuesDigest": "b", "later": 1}}"#;
        let Outcome::Deployed(deployed) = serde_json::from_str(said).unwrap() else { panic!("{said}") };
        assert_eq!((deployed.revision, deployed.unchanged), (2, false));
    }

    #[test]
    fn a_chart_is_asked_for_by_version_or_by_digest() {
        let of = |chart: &Chart| (chart.pull().join(" "), chart.archive().map(str::to_owned));
        let oci = Chart { from: "oci://reg/c".into(), version: "1.0.0".into(), ..Chart::default() };
        assert_eq!(of(&oci), ("pull oci://reg/c --version=1.0.0".into(), None));
        let digest = Chart { digest: "sha256:ab".into(), plain_http: true, ..oci };
        assert_eq!(of(&digest), ("pull oci://reg/c@sha256:ab --plain-http".into(), None));
        let repository = Chart {
            from: "https://charts".into(),
            name: "c".into(),
            version: "1.0.0".into(),
            digest: "sha256:ab".into(),
            ..Chart::default()
        };
        assert_eq!(of(&repository), ("pull c --repo=https://charts --version=1.0.0".into(), Some("ab".into())));
    }

    #[test]
    fn a_task_is_written_so() {
        let recorded = Some(Recorded { revision: 2, manifest_digest: "d".into(), ..Recorded::default() });
        let release = Release {
            name: "r".into(),
            namespace: "n".into(),
            installation: "u".into(),
            timeout: 60,
            recorded,
            ..Release::default()
        };
        let chart = Chart { from: "oci://reg/c".into(), version: "1.0.0".into(), ..Chart::default() };
        let deploy = Deploy {
            release: release.clone(),
            chart,
            value_files: 1,
            secrets: vec![Told { at: 0, digest: "s".into() }],
            wait: true,
            epoch: 1,
            ..Deploy::default()
        };
        let text = serde_json::to_string(&Task::Deploy(Box::new(deploy))).unwrap();
        assert_eq!(
            text,
            r#"{"deploy":{"release":{"name":"r","namespace":"n","installation":"u","timeout":60,"recorded":{"revision":2,"manifestDigest":"d","chartDigest":"","valuesDigest":""}},"chart":{"from":"oci://reg/c","version":"1.0.0"},"valueFiles":1,"secrets":[{"at":0,"digest":"s"}],"wait":true,"epoch":1}}"#
        );
        let read: Task = serde_json::from_str(&text).unwrap();
        assert_eq!(read.release(), &release);
        let Task::Deploy(mut deploy) = read else { panic!("{text}") };
        let values = Map::from_iter([("a".to_owned(), Value::Null)]);
        deploy.plain = vec![Plain { at: 0, values }];
        let text = serde_json::to_string(&Task::Deploy(deploy.clone())).unwrap();
        assert!(text.contains(r#""plain":[{"at":0,"values":{"a":null}}]"#), "{text}");
        assert_eq!(serde_json::from_str::<Task>(&text).unwrap(), Task::Deploy(deploy));
    }
}
