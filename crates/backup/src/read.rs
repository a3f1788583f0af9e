//! Reads a snapshot back that was proven some time ago. Only its bytes: an etcd ran with them when they were proven.

use crate::check::fetch;
use crate::place::Place;
use crate::problem::Problem;
use crate::take::empty;
use berth_contract::backup::{At, Earlier, Failure, Outcome, ReadBack};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

/// How long it may take beside a snapshot that is to be taken.
pub const BESIDE: Duration = Duration::from_mins(5);

/// From one look to the next.
const PACE: Duration = Duration::from_millis(100);

/// Reads it back.
pub fn run(task: &berth_contract::backup::Read, place: &Place) -> Result<(), Problem> {
    let remote = place.open(&task.store)?;
    empty(&place.scratch)?;
    let fetched = fetch(&*remote, &task.of.key, &task.of.sha256, &place.scratch.join("snapshot.db"));
    let emptied = empty(&place.scratch);
    fetched.and(emptied)
}

/// Has a process of its own read it, which is ended after [`BESIDE`]: whatever becomes of that, a snapshot is taken afterwards. `says`: the
/// file with its outcome.
pub fn beside(of: Earlier, reads: &mut Command, says: &Path) -> ReadBack {
    let _ = std::fs::remove_file(says);
    let failed = |message: String| Some(Failure { at: At::Other, message });
    let failure = match ended(reads) {
        Err(error) => failed(format!("it could not be read: {error}")),
        Ok(false) => failed(format!("it was not read within {} minutes", BESIDE.as_secs() / 60)),
        Ok(true) => match std::fs::read(says).map(|text| serde_json::from_slice(&text)) {
            Ok(Ok(Outcome::Read)) => None,
            Ok(Ok(Outcome::Failed(failure))) => Some(failure),
            other => failed(format!("whoever read it said nothing of it: {other:?}")),
        },
    };
    ReadBack { of, failure }
}

/// Whether it ended by itself.
fn ended(reads: &mut Command) -> std::io::Result<bool> {
    let end = Instant::now() + BESIDE;
    let mut child = reads.spawn()?;
    while child.try_wait()?.is_none() {
        if Instant::now() > end {
            child.kill()?;
            child.wait()?;
            return Ok(false);
        }
        thread::sleep(PACE);
    }
    Ok(true)
}
