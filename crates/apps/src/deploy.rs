//! Has a release be as it is described.

use crate::chart::{Fetched, fetch};
use crate::helm::{Helm, done};
use crate::place::Place;
use crate::problem::Problem;
use crate::release::{self, Seen};
use crate::state::{Marks, Step, decide};
use crate::uninstall;
use berth_contract::apps::{At, Deploy, Deployed, Release, files, labels};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use std::path::PathBuf;
use std::time::Duration;

/// Steps until it is as it is to be: mend, install, look.
const STEPS: usize = 4;
/// Revisions that Helm keeps.
const HISTORY: &str = "--history-max=10";

/// Values as Helm takes them.
struct Values {
    files: Vec<PathBuf>,
    digest: String,
}

/// Does it.
///
/// # Errors
///
/// What is at fault.
pub fn run(task: &Deploy, helm: &Helm, place: &Place) -> Result<Deployed, Problem> {
    let release = &task.release;
    // Before the registry is asked: who cannot get into the tenant needs no chart.
    let mut seen = release::read(helm, release, Duration::from_secs(place.patience))?;
    let chart = fetch(&task.chart, helm, place)?;
    let values = values(task, place)?;
    let wanted = Marks {
        installation: release.installation.clone(),
        chart: short(&chart.digest),
        values: short(&values.digest),
    };
    let (mut mended, mut unchanged) = (vec![], true);
    for _ in 0..STEPS {
        let status = seen.history.last().map_or_else(String::new, |newest| newest.status.clone());
        match decide(&seen.history, &seen.marks, seen.made, &wanted, release.adopt) {
            Step::Nothing => return Ok(deployed(&seen, &chart, &values, unchanged, &mended)),
            Step::Refuse => return Err(foreign(release)),
            Step::Install | Step::Upgrade => upgrade(task, helm, &chart, &values, &wanted, seen.revision() + 1)?,
            Step::RollBack(to) => {
                mended.push(format!(
                    "revision {} was {status}, and nobody at work on it: rolled back to revision {to}",
                    seen.revision()
                ));
                roll_back(release, helm, to)?;
            }
            Step::Purge => {
                mended.push(format!(
                    "revision {} was {status}, and nobody at work on it: uninstalled, and installed anew",
                    seen.revision()
                ));
                uninstall::purge(release, helm)?;
            }
        }
        unchanged = false;
        seen = release::read(helm, release, Duration::ZERO)?;
    }
    let status = seen.history.last().map_or("gone", |newest| &newest.status);
    Err(Problem::brief(
        At::Release,
        format!("release {} is {status} after {STEPS} steps: somebody else works on it", release.name),
    ))
}

/// For a label.
pub(crate) fn short(digest: &str) -> String {
    digest.chars().take(40).collect()
}

fn values(task: &Deploy, place: &Place) -> Result<Values, Problem> {
    let to = place.empty("values")?;
    let written = |name: String, values: &Map<String, Value>| {
        let path = to.join(name);
        let text = serde_json::to_vec(values).unwrap_or_default();
        std::fs::write(&path, text).map_err(|e| Problem::file(&path, &e))?;
        Ok(path)
    };
    let from = |n: usize| match task.plain.iter().find(|plain| plain.at == n) {
        Some(plain) => written(format!("values-{n}.json"), &plain.values),
        None => Ok(place.secret.join(files::values(n))),
    };
    let mut all = (0..task.value_files).map(from).collect::<Result<Vec<PathBuf>, Problem>>()?;
    all.push(written("values.json".to_owned(), &task.values)?);
    let mut digest = Sha256::new();
    for path in &all {
        let bytes = std::fs::read(path).map_err(|e| Problem::file(path, &e))?;
        digest.update(bytes.len().to_be_bytes());
        digest.update(bytes);
    }
    Ok(Values { files: all, digest: format!("{:x}", digest.finalize()) })
}

/// `next`: the revision that it becomes.
fn upgrade(
    task: &Deploy,
    helm: &Helm,
    chart: &Fetched,
    values: &Values,
    wanted: &Marks,
    next: i64,
) -> Result<(), Problem> {
    let release = &task.release;
    let mut args =
        vec!["upgrade".to_owned(), "--install".to_owned(), release.name.clone(), chart.path.display().to_string()];
    args.extend([format!("--namespace={}", release.namespace), "--create-namespace".into(), HISTORY.into()]);
    // Else values of the release before would count where there are none now.
    args.extend(["--reset-values".to_owned(), format!("--timeout={}s", release.timeout)]);
    args.extend(values.files.iter().map(|path| format!("--values={}", path.display())));
    let marks = [
        (labels::INSTALLATION, &wanted.installation),
        (labels::CHART, &wanted.chart),
        (labels::VALUES, &wanted.values),
        (labels::REVISION, &next.to_string()),
    ];
    args.extend(marks.iter().map(|(name, value)| format!("--labels={name}={value}")));
    args.push(if task.wait { "--wait".to_owned() } else { "--wait=hookOnly".to_owned() });
    if task.roll_back {
        args.push("--rollback-on-failure".to_owned());
    }
    if release.adopt {
        args.push("--take-ownership".to_owned());
    }
    done(helm, release, &args)
}

fn roll_back(release: &Release, helm: &Helm, to: i64) -> Result<(), Problem> {
    let args =
        ["rollback".to_owned(), release.name.clone(), to.to_string(), format!("--namespace={}", release.namespace)];
    // What comes next is an upgrade, which has its own hooks.
    let more = ["--no-hooks".to_owned(), HISTORY.to_owned(), format!("--timeout={}s", release.timeout)];
    done(helm, release, &[&args[..], &more].concat())
}

fn foreign(release: &Release) -> Problem {
    let Release { name, namespace, .. } = release;
    Problem::lasting(
        At::Foreign,
        format!(
            "release {name} in namespace {namespace} of the tenant is not of this App: uninstall it there, set spec.releaseName in another App, or spec.adopt to true to take it over"
        ),
    )
}

fn deployed(seen: &Seen, chart: &Fetched, values: &Values, unchanged: bool, mended: &[String]) -> Deployed {
    let (name, version, app_version) = seen.chart.clone();
    Deployed {
        revision: seen.revision(),
        chart: name,
        version,
        app_version,
        chart_digest: chart.digest.clone(),
        values_digest: values.digest.clone(),
        unchanged,
        mended: mended.join("; "),
    }
}
