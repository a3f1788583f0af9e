//! Reads what Helm has recorded of a release in the tenant.

use crate::helm::{Helm, Said, is_forbidden, is_unreachable, last};
use crate::problem::Problem;
use crate::state::{Marks, Revision};
use berth_contract::apps::{At, Release, labels};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

/// How long Helm may take to read.
pub(crate) const READ: Duration = Duration::from_mins(1);

/// A release as it is.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Its revisions, from the oldest. Empty: there is no release.
    pub history: Vec<Revision>,
    /// Whose the newest is.
    pub marks: Marks,
    /// The revision that was made with these marks, as it says.
    pub made: Option<i64>,
    /// Chart, its version, and that of what it installs.
    pub chart: (String, String, String),
}

impl Seen {
    /// The newest revision.
    pub fn revision(&self) -> i64 {
        self.history.last().map_or(0, |newest| newest.revision)
    }
}

/// What `helm get metadata` tells.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Metadata {
    chart: String,
    version: String,
    app_version: String,
    labels: BTreeMap<String, String>,
}

/// Reads it. `patience`: until when a tenant that does not answer, or does not let this user in yet, is asked again.
///
/// # Errors
///
/// The tenant does not answer, or Helm says something strange.
pub fn read(helm: &Helm, release: &Release, patience: Duration) -> Result<Seen, Problem> {
    let until = Instant::now() + patience;
    let namespace = format!("--namespace={}", release.namespace);
    let history = loop {
        let said = helm.call(&["history", &release.name, &namespace, "--max=256", "--output=json"], READ)?;
        if said.ok {
            break strict::<Vec<Revision>>(&said.out)?;
        }
        if said.err.contains("release: not found") {
            return Ok(Seen::default());
        }
        let waits = is_unreachable(&said.err) || is_forbidden(&said.err);
        if !waits || Instant::now() >= until {
            return Err(tenant(&said));
        }
        thread::sleep(Duration::from_secs(1));
    };
    let said = helm.call(&["get", "metadata", &release.name, &namespace, "--output=json"], READ)?;
    if !said.ok {
        return Err(tenant(&said));
    }
    let Metadata { chart, version, app_version, labels } = strict(&said.out)?;
    let label = |name: &str| labels.get(name).cloned().unwrap_or_default();
    let marks =
        Marks { installation: label(labels::INSTALLATION), chart: label(labels::CHART), values: label(labels::VALUES) };
    let made = labels.get(labels::REVISION).and_then(|made| made.parse().ok());
    Ok(Seen { history, marks, made, chart: (chart, version, app_version) })
}

fn tenant(said: &Said) -> Problem {
    Problem::brief(At::Tenant, format!("the tenant's API: {}", last(&said.err)))
}

fn strict<T: for<'d> Deserialize<'d>>(text: &str) -> Result<T, Problem> {
    serde_json::from_str(text).map_err(|e| Problem::lasting(At::Other, format!("helm says what is no answer: {e}")))
}
