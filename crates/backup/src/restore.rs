//! Puts a backup onto the volume of a member whose etcd does not run: staged beside what is there, then renamed. What was there stays,
//! under its epoch. It may end anywhere, and is done again then: the marker, which the member's guard goes by, names the new epoch before the
//! new data has its place, so that the old data never runs in it, and nothing runs before all is there.

use crate::check::fetch;
use crate::etcd::NewMember;
use crate::place::Place;
use crate::problem::Problem;
use berth_contract::backup::{At, Restore};
use berth_contract::{MARKER_FILE, Marker, aside};
use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// etcd's data directory on the volume.
const DATA: &str = "data";
/// Which snapshot is in the data directory. The marker says of which epoch it is.
const ORIGIN: &str = "berth-restored";
/// What no two of these programs hold at once.
const LOCK: &str = ".berth-restore.lock";

/// Restores a backup. Done already is as good.
pub fn run(task: &Restore, place: &Place) -> Result<(), Problem> {
    let missing = || Problem::lasting(At::Other, "no --volume for the restored data");
    let volume = place.volume.as_deref().ok_or_else(missing)?;
    let _lock = lock(volume)?;
    if is_done(task, volume)? {
        println!("epoch {} is on the volume", task.epoch);
        return Ok(());
    }
    // There has to be room for what was there, and for what comes.
    for said in aside::tend(volume, &volume.join(DATA), task.keep_old_data.map(Duration::from_secs), SystemTime::now())
    {
        println!("{said}");
    }
    let stage = volume.join(format!("restore-{}", task.epoch));
    if stage.exists() {
        fs::remove_dir_all(&stage).map_err(|e| failed("what an earlier try left", &e))?;
    }
    fs::create_dir(&stage).map_err(|e| failed("the volume", &e))?;
    let snapshot = stage.join("snapshot.db");
    let remote = place.open(&task.store)?;
    fetch(&*remote, &task.key, &task.sha256, &snapshot)?;
    let token = format!("{}-{}", task.identity, task.epoch);
    let member = NewMember { name: &task.member, peer: &task.peer_url, token: &token, bump: Some(task.bump) };
    let data = stage.join(DATA);
    place.programs().restore(&snapshot, &data, &member)?;
    fs::remove_file(&snapshot).map_err(|e| failed("the snapshot", &e))?;
    sync(&data).map_err(|e| failed("the restored data", &e))?;
    put(task, volume, &data).map_err(|e| failed("the volume", &e))?;
    fs::remove_dir_all(&stage).map_err(|e| failed("the volume", &e))?;
    println!("restored {} as epoch {}", task.key, task.epoch);
    Ok(())
}

fn failed(what: &str, error: &io::Error) -> Problem {
    let help = if error.kind() == io::ErrorKind::StorageFull {
        ": the member's volume is too small for the old data, the snapshot and the new data"
    } else {
        ""
    };
    Problem::brief(At::Other, format!("{what}: {error}{help}"))
}

fn lock(volume: &Path) -> Result<File, Problem> {
    let file = File::create(volume.join(LOCK)).map_err(|e| failed("the volume", &e))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(Problem::brief(At::Other, "another restore writes to the volume")),
        Err(TryLockError::Error(e)) => Err(failed("the volume", &e)),
    }
}

/// Whether the data of this epoch is in its place. Err: the volume is not this member's, or another restore came later.
fn is_done(task: &Restore, volume: &Path) -> Result<bool, Problem> {
    let foreign =
        |what: String| Err(Problem::lasting(At::Other, format!("the volume holds {what}; nothing is touched")));
    let data = has_data(volume).map_err(|e| failed("the volume", &e))?;
    match read(volume)? {
        None if data => foreign("data without Berth's marker".into()),
        None => Ok(false),
        Some(Marker { cluster_uid, member, epoch, .. })
            if (&cluster_uid, &member) != (&task.identity, &task.member) =>
        {
            foreign(format!("the data of member {member:.63} of cluster {cluster_uid:.63} in epoch {epoch}"))
        }
        Some(marker) if marker.epoch > task.epoch => foreign(format!(
            "epoch {}, and epoch {} was to be restored: another restore came later",
            marker.epoch, task.epoch
        )),
        // Another backup may have been restored to the same epoch, in which nothing has run yet.
        Some(marker) => {
            let origin = fs::read_to_string(volume.join(ORIGIN)).unwrap_or_default();
            Ok(marker.epoch == task.epoch && data && origin == task.sha256)
        }
    }
}

fn read(volume: &Path) -> Result<Option<Marker>, Problem> {
    match fs::read(volume.join(MARKER_FILE)) {
        Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(|e| {
            Problem::lasting(At::Other, format!("{MARKER_FILE} on the volume cannot be read: {e}; nothing is touched"))
        }),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(failed("the volume", &e)),
    }
}

fn has_data(volume: &Path) -> io::Result<bool> {
    match fs::read_dir(volume.join(DATA)) {
        Ok(mut entries) => Ok(entries.next().is_some()),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(e) => Err(e),
    }
}

/// First what was there goes aside, then the marker changes, then the new data comes: each whole, and there after a power cut.
fn put(task: &Restore, volume: &Path, data: &Path) -> io::Result<()> {
    let at = volume.join(DATA);
    if at.exists() {
        let old = read(volume).ok().flatten().map(|m| m.epoch.to_string());
        let aside = free(volume, &format!("epoch-{}", old.as_deref().unwrap_or("none")));
        fs::rename(&at, &aside)?;
        File::open(volume)?.sync_all()?;
        // If it is not noted now, the member does it when it starts.
        if let Err(error) = aside::note(&aside, SystemTime::now()) {
            println!("{}: {error}", aside.display());
        }
    }
    let marker =
        Marker { cluster_uid: task.identity.clone(), epoch: task.epoch, member: task.member.clone(), id: None };
    write_durably(&volume.join(ORIGIN), task.sha256.as_bytes())?;
    write_durably(&volume.join(MARKER_FILE), &serde_json::to_vec(&marker)?)?;
    fs::rename(data, &at)?;
    File::open(volume)?.sync_all()
}

/// Whole, and there after a power cut.
fn write_durably(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let new = path.with_extension("new");
    let mut file = File::create(&new)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&new, path)?;
    path.parent().map_or(Ok(()), |volume| File::open(volume)?.sync_all())
}

/// A name that is not taken.
fn free(volume: &Path, name: &str) -> PathBuf {
    let nth = |n: u32| volume.join(if n == 0 { name.to_owned() } else { format!("{name}-{n}") });
    (0..u32::MAX).map(nth).find(|path| !path.exists()).unwrap_or_else(|| nth(0))
}

fn sync(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        for entry in fs::read_dir(path)? {
            sync(&entry?.path())?;
        }
    }
    File::open(path)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_contract::backup::Store;

    fn task(epoch: i64) -> Restore {
        Restore {
            store: Store::default(),
            key: "k".into(),
            sha256: "ab".into(),
            identity: "u".into(),
            epoch,
            member: "etcd-0".into(),
            peer_url: "https://etcd-0".into(),
            bump: 1,
            keep_old_data: None,
        }
    }

    fn write(path: &Path, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn what_was_there_stays_and_what_is_later_or_anothers_is_left() {
        let dir = tempfile::tempdir().unwrap();
        let volume = dir.path();
        assert!(!is_done(&task(2), volume).unwrap(), "a new volume");
        write(&volume.join("data/member/wal/1.wal"), "old");
        assert!(is_done(&task(2), volume).is_err(), "nobody knows whose it is");
        write(&volume.join(MARKER_FILE), r#"{"clusterUID":"u","epoch":1,"member":"etcd-0","id":"8e"}"#);
        for epoch in [2, 3] {
            assert!(!is_done(&task(epoch), volume).unwrap());
            write(&volume.join("stage/data/member/wal/1.wal"), "new");
            put(&task(epoch), volume, &volume.join("stage/data")).unwrap();
            assert!(is_done(&task(epoch), volume).unwrap());
            assert_eq!(fs::read_to_string(volume.join("data/member/wal/1.wal")).unwrap(), "new");
        }
        assert_eq!(fs::read_to_string(volume.join("epoch-1/member/wal/1.wal")).unwrap(), "old");
        assert!(volume.join("epoch-2").exists());
        assert!(volume.join("epoch-1").join(aside::NOTE).exists(), "since when");
        assert!(is_done(&task(2), volume).is_err(), "it is late");
        assert!(is_done(&Restore { member: "etcd-1".into(), ..task(4) }, volume).is_err());
        assert!(is_done(&Restore { identity: "v".into(), ..task(4) }, volume).is_err());
        assert!(!is_done(&Restore { sha256: "cd".into(), ..task(3) }, volume).unwrap(), "another backup");
        fs::remove_dir_all(volume.join("data")).unwrap();
        assert!(!is_done(&task(3), volume).unwrap(), "it ended after the marker, and before the data had its place");
    }

    #[test]
    fn only_one_writes() {
        let dir = tempfile::tempdir().unwrap();
        let held = lock(dir.path()).unwrap();
        assert!(lock(dir.path()).is_err());
        drop(held);
        assert!(lock(dir.path()).is_ok());
    }
}
