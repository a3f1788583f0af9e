//! Old data on a member's volume: what the guard and `berth-backup` set aside beside the data directory, and when they delete it.
//!
//! It is deleted once it was there for long enough by **two** times: that of the clock, and that of the last write to the log of the data
//! that is in use now. The second one grows only while etcd runs on that data. So a clock that is wrong when a member starts deletes nothing
//! early, and neither does one that was wrong while it ran and is right again. Only one that is wrong all the time does.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// In a directory that was set aside: when that was, in seconds since 1970. A person who changes it changes when it is deleted.
pub const NOTE: &str = "berth-set-aside";
/// What the name of a directory begins with that is about to be gone.
pub const GOING: &str = "deleting-";

/// Whether a directory of this name was set aside: `epoch-<number>` and `removed-<ID>`, with a number behind if that was taken.
pub fn is_aside(name: &str) -> bool {
    let all = |text: &str, is: fn(&u8) -> bool| !text.is_empty() && text.bytes().all(|b| is(&b));
    let of = |text: &str| match (text.strip_prefix("epoch-"), text.strip_prefix("removed-")) {
        (Some(epoch), _) => epoch == "none" || all(epoch, u8::is_ascii_digit),
        (_, Some(id)) => id == "first" || all(id, u8::is_ascii_hexdigit),
        _ => false,
    };
    of(name) || name.rsplit_once('-').is_some_and(|(name, nth)| all(nth, u8::is_ascii_digit) && of(name))
}

/// Notes when a directory was set aside, unless that is on record. Data that was written after that time by the clock was set aside
/// later: the clock was wrong.
pub fn note(dir: &Path, now: SystemTime) -> io::Result<()> {
    let note = dir.join(NOTE);
    if since(dir).is_some() {
        return Ok(());
    }
    let at = written(dir)?.map_or(now, |written| written.max(now));
    // Rounded up: what was written in the same second was not written later.
    let seconds = at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() + 1;
    let new = note.with_extension("new");
    let mut file = File::create(&new)?;
    file.write_all(format!("{seconds}\n").as_bytes())?;
    file.sync_all()?;
    fs::rename(&new, &note)?;
    File::open(dir)?.sync_all()
}

/// Sees to what was set aside on this volume: notes when that was where nobody did, and deletes what is there for longer than `keep`.
/// `data` is the data that is in use; without any nothing is deleted, and neither without `keep`. It says what it did; what cannot be done
/// is said, too, and harms nobody.
pub fn tend(volume: &Path, data: &Path, keep: Option<Duration>, now: SystemTime) -> Vec<String> {
    let mut said = vec![];
    let mut tell = |dir: &Path, what: io::Result<Option<&str>>| match what {
        Ok(None) => {}
        Ok(Some(what)) => said.push(format!("{} {what}", dir.display())),
        Err(error) => said.push(format!("{}: {error}", dir.display())),
    };
    let names = match names(volume) {
        Ok(names) => names,
        Err(error) => {
            tell(volume, Err(error));
            return said;
        }
    };
    for name in names {
        let dir = volume.join(&name);
        if dir == data {
            continue;
        }
        // It was due when it got that name.
        if name.strip_prefix(GOING).is_some_and(is_aside) {
            tell(&dir, fs::remove_dir_all(&dir).map(|()| None));
        } else if is_aside(&name) {
            tell(&dir, note(&dir, now).map(|()| None));
            if keep.is_some_and(|keep| is_due(&dir, data, keep, now)) {
                tell(&dir, delete(volume, &name).map(|()| Some("is deleted: it was old data")));
            }
        }
    }
    said
}

/// Names of directories on a volume. What only points to one is none.
fn names(volume: &Path) -> io::Result<Vec<String>> {
    let mut names = vec![];
    for entry in fs::read_dir(volume)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            names.extend(entry.file_name().into_string());
        }
    }
    names.sort();
    Ok(names)
}

/// Whole or not at all: half of it could be taken for data.
fn delete(volume: &Path, name: &str) -> io::Result<()> {
    let going = volume.join(format!("{GOING}{name}"));
    fs::rename(volume.join(name), &going)?;
    File::open(volume)?.sync_all()?;
    fs::remove_dir_all(going)
}

fn is_due(dir: &Path, data: &Path, keep: Duration, now: SystemTime) -> bool {
    let Some(until) = since(dir).and_then(|since| since.checked_add(keep)) else { return false };
    let used = written(data).ok().flatten();
    now > until && used.is_some_and(|used| used > until)
}

/// When it was set aside, if that is on record.
fn since(dir: &Path) -> Option<SystemTime> {
    let text = fs::read_to_string(dir.join(NOTE)).ok()?;
    UNIX_EPOCH.checked_add(Duration::from_secs(text.trim().parse().ok()?))
}

/// When etcd wrote to its log last.
fn written(data: &Path) -> io::Result<Option<SystemTime>> {
    let wal: PathBuf = data.join("member").join("wal");
    let entries = match fs::read_dir(&wal) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut last = None;
    for entry in entries {
        let entry = entry?;
        if Path::new(&entry.file_name()).extension() == Some(OsStr::new("wal")) {
            last = last.max(Some(entry.metadata()?.modified()?));
        }
    }
    Ok(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_hours(24);
    const KEEP: Duration = Duration::from_hours(7 * 24);

    fn day(n: u32) -> SystemTime {
        UNIX_EPOCH + Duration::from_hours(490_896) + DAY * n
    }

    /// Data whose log was written last on that day.
    fn data(at: &Path, last: u32) {
        let wal = at.join("member/wal");
        fs::create_dir_all(&wal).unwrap();
        let file = File::create(wal.join("0-0.wal")).unwrap();
        file.set_modified(day(last)).unwrap();
    }

    fn volume() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        data(&dir.path().join("epoch-1"), 0);
        data(&dir.path().join("data"), 0);
        dir
    }

    /// What is there afterwards.
    fn tended(volume: &Path, keep: Option<Duration>, now: u32) -> Vec<String> {
        tend(volume, &volume.join("data"), keep, day(now));
        names(volume).unwrap()
    }

    #[test]
    fn it_is_kept_for_the_time_and_then_goes() {
        let dir = volume();
        let both = ["data", "epoch-1"];
        assert_eq!(tended(dir.path(), Some(KEEP), 0), both);
        data(&dir.path().join("data"), 7);
        assert_eq!(tended(dir.path(), Some(KEEP), 7), both, "to the day");
        data(&dir.path().join("data"), 8);
        assert_eq!(tended(dir.path(), None, 8), both, "nobody said for how long");
        let said = tend(dir.path(), &dir.path().join("data"), Some(KEEP), day(8));
        assert!(said.len() == 1 && said[0].ends_with("epoch-1 is deleted: it was old data"), "{said:?}");
        assert_eq!(names(dir.path()).unwrap(), ["data"]);
        assert_eq!(tend(dir.path(), &dir.path().join("data"), Some(KEEP), day(9)), Vec::<String>::new());
    }

    #[test]
    fn a_clock_that_jumps_deletes_nothing_early() {
        let dir = volume();
        let both = ["data", "epoch-1"];
        tended(dir.path(), Some(KEEP), 0);
        data(&dir.path().join("data"), 1);
        assert_eq!(tended(dir.path(), Some(KEEP), 400), both, "ahead when the member starts");
        data(&dir.path().join("data"), 400);
        assert_eq!(tended(dir.path(), Some(KEEP), 2), both, "ahead while it ran");
        // Long behind when it was set aside.
        let dir = volume();
        data(&dir.path().join("epoch-1"), 30);
        tended(dir.path(), Some(KEEP), 0);
        data(&dir.path().join("data"), 31);
        assert_eq!(tended(dir.path(), Some(KEEP), 31), both);
        data(&dir.path().join("data"), 38);
        assert_eq!(tended(dir.path(), Some(KEEP), 38), ["data"]);
    }

    #[test]
    fn without_data_in_use_nothing_goes() {
        let dir = volume();
        tended(dir.path(), Some(KEEP), 0);
        fs::remove_dir_all(dir.path().join("data")).unwrap();
        assert_eq!(tended(dir.path(), Some(KEEP), 40), ["epoch-1"]);
        fs::create_dir_all(dir.path().join("data/member/wal")).unwrap();
        assert_eq!(tended(dir.path(), Some(KEEP), 40), ["data", "epoch-1"]);
        // What a restore has just written was not in use yet.
        data(&dir.path().join("data"), 0);
        fs::remove_file(dir.path().join("epoch-1").join(NOTE)).unwrap();
        assert_eq!(tended(dir.path(), Some(Duration::ZERO), 0), ["data", "epoch-1"]);
    }

    #[test]
    fn a_note_that_is_damaged_begins_anew_and_half_of_it_goes() {
        let dir = volume();
        fs::write(dir.path().join("epoch-1").join(NOTE), "yesterday").unwrap();
        data(&dir.path().join("data"), 40);
        assert_eq!(tended(dir.path(), Some(KEEP), 40), ["data", "epoch-1"]);
        let since = fs::read_to_string(dir.path().join("epoch-1").join(NOTE)).unwrap();
        assert_eq!(since, format!("{}\n", 1_767_225_600 + 40 * 86400 + 1));
        fs::rename(dir.path().join("epoch-1"), dir.path().join("deleting-epoch-1")).unwrap();
        assert_eq!(tended(dir.path(), None, 40), ["data"]);
    }

    #[test]
    fn only_what_was_set_aside_goes() {
        for name in
            ["epoch-1", "epoch-12-3", "epoch-none", "epoch-none-1", "removed-8e9e05c52164694d", "removed-first-2"]
        {
            assert!(is_aside(name), "{name}");
        }
        for name in [
            "data",
            "epoch-",
            "epoch-x",
            "epoch-1-x",
            "epoch-1.bak",
            "removed-",
            "removed-etcd",
            "restore-2",
            "lost+found",
            "epoch",
            "-1",
        ] {
            assert!(!is_aside(name), "{name}");
            let dir = volume();
            data(&dir.path().join(name), 0);
            data(&dir.path().join("data"), 40);
            let note = dir.path().join(name).join(NOTE);
            fs::write(note, "1\n").unwrap();
            tended(dir.path(), Some(KEEP), 40);
            assert!(dir.path().join(name).exists(), "{name}");
        }
        // Whatever the data in use is called, and what only points to it.
        let dir = volume();
        fs::write(dir.path().join("epoch-1").join(NOTE), "1\n").unwrap();
        data(&dir.path().join("epoch-1"), 40);
        std::os::unix::fs::symlink("data", dir.path().join("epoch-2")).unwrap();
        tend(dir.path(), &dir.path().join("epoch-1"), Some(KEEP), day(40));
        assert!(dir.path().join("epoch-1").exists() && dir.path().join("epoch-2").exists());
        assert!(!dir.path().join("data").join(NOTE).exists());
    }
}
