//! Has a release be gone.

use crate::helm::{Helm, done};
use crate::problem::Problem;
use crate::release::read;
use berth_contract::apps::{At, Release, Uninstall};
use std::time::Duration;

/// Does it. One that is somebody else's stays.
///
/// # Errors
///
/// What is at fault.
pub fn run(task: &Uninstall, helm: &Helm) -> Result<(), Problem> {
    const PATIENCE: Duration = Duration::from_secs(20);
    let release = &task.release;
    let seen = read(helm, release, PATIENCE)?;
    if seen.history.is_empty() || seen.marks.installation != release.installation {
        return Ok(());
    }
    done(helm, release, &args(release))?;
    if read(helm, release, Duration::ZERO)?.history.is_empty() {
        return Ok(());
    }
    Err(Problem::brief(At::Release, format!("release {} is still there after its uninstallation", release.name)))
}

/// What is half made, or half gone, is taken away without its hooks: they may be what hung.
pub(crate) fn purge(release: &Release, helm: &Helm) -> Result<(), Problem> {
    let mut args = args(release);
    args.push("--no-hooks".to_owned());
    done(helm, release, &args)
}

fn args(release: &Release) -> Vec<String> {
    vec![
        "uninstall".to_owned(),
        release.name.clone(),
        format!("--namespace={}", release.namespace),
        "--ignore-not-found".to_owned(),
        format!("--timeout={}s", release.timeout),
    ]
}
