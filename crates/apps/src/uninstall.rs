//! Has a release be gone.

use crate::helm::{Helm, done};
use crate::place::Place;
use crate::problem::Problem;
use crate::release::Storage;
use crate::said::{look, tampering};
use crate::state::{Removal, removal};
use berth_contract::apps::{At, Release, Uninstall};
use std::time::Duration;

/// Does it. One that is somebody else's stays, and is theirs again where Berth failed to take it over.
///
/// # Errors
///
/// What is at fault.
pub fn run(task: &Uninstall, helm: &Helm, place: &Place) -> Result<(), Problem> {
    const PATIENCE: Duration = Duration::from_secs(20);
    let release = &task.release;
    let storage = Storage::new(helm, place, release)?;
    let history = storage.read(PATIENCE)?;
    match removal(&history, release.recorded.as_ref(), &release.installation, release.adopt) {
        Removal::Gone => return Ok(()),
        Removal::Leave(marks) => return storage.mark(&history, &marks),
        Removal::Tampered => {
            let why = format!(
                "{}, so Berth does not uninstall by it. Look at it with {}; then uninstall it there: this ends once it is gone",
                tampering(release, &history),
                look(release)
            );
            return Err(Problem::lasting(At::Foreign, why));
        }
        Removal::Uninstall { discard, hooks } => {
            // Helm goes by the last one.
            storage.discard(&discard)?;
            done(helm, release, &args(release, hooks), false)?;
        }
    }
    if storage.read(Duration::ZERO)?.is_empty() {
        return Ok(());
    }
    Err(Problem::brief(At::Release, format!("release {} is still there after its uninstallation", release.name)))
}

/// What is half gone is taken away without its hooks: they may be what hung.
pub(crate) fn purge(release: &Release, helm: &Helm) -> Result<(), Problem> {
    done(helm, release, &args(release, false), false).map(|_| ())
}

fn args(release: &Release, hooks: bool) -> Vec<String> {
    let mut args = vec![
        "uninstall".to_owned(),
        release.name.clone(),
        format!("--namespace={}", release.namespace),
        "--ignore-not-found".to_owned(),
        format!("--timeout={}s", release.timeout),
    ];
    if !hooks {
        args.push("--no-hooks".to_owned());
    }
    args
}
