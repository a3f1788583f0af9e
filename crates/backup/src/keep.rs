//! Keeps a snapshot in a store, so that nothing is left there that nobody deletes. Before the snapshot comes a mark, which goes once the manifest
//! is there. Whoever fails takes back what it wrote; what one left that was killed, a later backup finds by its mark. A snapshot without a mark is
//! never touched: it was proven. Clocks may be wrong, so a snapshot is looked for once more when its manifest is there: then nobody deletes it.

use crate::problem::Problem;
use crate::store::{Deletion, Found, Remote, manifest_key};
use berth_contract::backup::{At, Kept, Manifest};
use jiff::{SignedDuration, Timestamp};
use std::path::Path;
use std::time::{Duration, Instant};

/// What the key of a mark ends with.
const MARK: &str = ".unproven";
/// A mark so old is of nobody who is still at work: a Job has an hour.
const ABANDONED: SignedDuration = SignedDuration::from_hours(24);
/// Who takes so long writes no manifest any more: another may think that it was killed.
const LATE: Duration = Duration::from_hours(6);
/// What is deleted at once of what others left.
const MOST: usize = 10;

/// The key of the mark of a snapshot.
fn mark_of(snapshot: &str) -> String {
    format!("{}{MARK}", snapshot.strip_suffix(".db").unwrap_or(snapshot))
}

/// Keeps a snapshot, with its manifest once `prove` has found that it can be restored.
pub fn keep(
    remote: &dyn Remote,
    key: &str,
    snapshot: &Path,
    prove: impl FnOnce() -> Result<Manifest, Problem>,
) -> Result<Manifest, Problem> {
    let begun = Instant::now();
    let mark = mark_of(key);
    let text = format!("{key} is being written, or was never proven.\n");
    remote.create(&mark, text.into_bytes())?;
    for said in sweep(remote, &mark).unwrap_or_else(|problem| vec![problem.failure.message]) {
        println!("{said}");
    }
    if let Err(problem) = remote.put_file(key, snapshot) {
        if problem.taken {
            unmark(remote, &mark);
        } else {
            // It may yet come, so the mark stays.
            take_back(remote, &[key]);
        }
        return Err(problem);
    }
    let proven = prove().and_then(|manifest| in_time(begun).map(|()| manifest));
    let manifest = proven.inspect_err(|_| take_back(remote, &[key, &mark]))?;
    if let Err(problem) = describe(remote, &manifest) {
        let beside = manifest_key(key);
        let written = [&*beside, key, &*mark];
        take_back(remote, &written[usize::from(problem.taken)..]);
        return Err(problem);
    }
    unmark(remote, &mark);
    Ok(manifest)
}

fn in_time(begun: Instant) -> Result<(), Problem> {
    if begun.elapsed() < LATE {
        return Ok(());
    }
    Err(Problem::brief(At::Other, format!("it took more than {} hours", LATE.as_secs() / 3600)))
}

/// Writes the manifest. Without it nothing is restored.
fn describe(remote: &dyn Remote, manifest: &Manifest) -> Result<(), Problem> {
    let text = serde_json::to_vec_pretty(manifest).map_err(|e| Problem::lasting(At::Other, e.to_string()))?;
    let beside = manifest_key(&manifest.key);
    remote.create(&beside, text.clone())?;
    let lost = if remote.read(&beside)? != text {
        format!("{beside}: the store gives back another manifest than it was given")
    } else if !remote.exists(&manifest.key)? {
        format!("{}: the snapshot was proven, and is not in the store any more", manifest.key)
    } else {
        return Ok(());
    };
    Err(Problem::brief(At::Proof, lost))
}

/// Deletes what this process wrote and did not prove, one after the other. If anything fails, the mark, which is the last, says what is left.
fn take_back(remote: &dyn Remote, written: &[&str]) {
    for key in written {
        let stays = match remote.delete(key) {
            Ok(Deletion::Gone) => continue,
            Ok(Deletion::Kept(Kept { message, .. })) => message,
            Err(problem) => problem.failure.message,
        };
        return println!("{key} stays for now: {stays}");
    }
}

/// Says that nothing is to be deleted. If it fails, the manifest says the same.
fn unmark(remote: &dyn Remote, mark: &str) {
    match remote.delete(mark) {
        Ok(Deletion::Gone) => {}
        Ok(Deletion::Kept(Kept { message, .. })) => println!("{mark} stays: {message}"),
        Err(problem) => println!("{mark} stays: {}", problem.failure.message),
    }
}

/// Deletes what others left in this folder that were killed; what it did.
fn sweep(remote: &dyn Remote, own: &str) -> Result<Vec<String>, Problem> {
    let folder = own.rsplit_once('/').map_or("", |(folder, _)| folder);
    let found = remote.list(folder)?;
    let mut said = vec![];
    for snapshot in abandoned(&found, own).into_iter().take(MOST) {
        let (mark, manifest) = (mark_of(&snapshot), manifest_key(&snapshot));
        if !found.iter().any(|found| found.key == manifest) && !remote.exists(&manifest)? {
            if let Deletion::Kept(Kept { message, .. }) = remote.delete(&snapshot)? {
                said.push(format!("{snapshot} stays for now: {message}"));
                continue;
            }
            said.push(format!("{snapshot} is deleted: who wrote it was ended before it was proven"));
        }
        remote.delete(&mark)?;
    }
    Ok(said)
}

/// Snapshots whose mark is older than this one's own by two clocks: that of the store, and those of the nodes, by their keys. None, if the own mark
/// is not among what was found: then nobody knows the time.
fn abandoned(found: &[Found], own: &str) -> Vec<String> {
    let times = |mark: &Found| Some([mark.at, taken_at(&mark.key)?]);
    let Some(now) = found.iter().find(|found| found.key == own).and_then(times) else { return vec![] };
    let is_old = |mark: &&Found| {
        times(mark).is_some_and(|then| now.iter().zip(then).all(|(now, then)| now.duration_since(then) >= ABANDONED))
    };
    let marks = found.iter().filter(is_old).filter_map(|found| found.key.strip_suffix(MARK));
    marks.map(|stem| format!("{stem}.db")).collect()
}

/// When a snapshot was taken, by the clock of its node: its key begins with it.
fn taken_at(key: &str) -> Option<Timestamp> {
    let name = key.rsplit_once('/').map_or(key, |(_, name)| name);
    name.split_once('-')?.0.parse().ok()
}

/// Deletes a backup. Its mark goes first, if one was left: without it nobody else touches what is left of a deletion that does not end. Then the
/// manifest: what has none is no backup. None: all is gone.
pub fn discard(remote: &dyn Remote, key: &str) -> Result<Option<Kept>, Problem> {
    for key in [mark_of(key), manifest_key(key), key.to_owned()] {
        if let Deletion::Kept(kept) = remote.delete(&key)? {
            return Ok(Some(kept));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests;
