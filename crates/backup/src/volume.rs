//! A volume: a directory where a PersistentVolumeClaim is mounted. What is in its place is whole and there after a power cut: it is written
//! under another name, synced, and only then linked to its own, which takes no name that is taken.

use crate::problem::Problem;
use crate::store::{Deletion, Found, PART, Remote, part, too_large};
use berth_contract::backup::{At, Store};
use jiff::Timestamp;
use sha2::{Digest, Sha256};
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

/// What names begin with of what is not whole yet.
const PARTIAL: &str = ".partial-";

/// A directory.
#[derive(Debug)]
pub(crate) struct Volume {
    /// Without symbolic links.
    root: PathBuf,
    claim: String,
}

impl Volume {
    /// Looks whether it is there; reads nothing.
    pub(crate) fn open(store: &Store) -> Result<Self, Problem> {
        let claim = store.bucket.clone();
        match fs::canonicalize(&store.directory) {
            Ok(root) if root.is_dir() => Ok(Self { root, claim }),
            Ok(_) => Err(Problem::lasting(At::Store, format!("PersistentVolumeClaim {claim} is no file system"))),
            Err(e) => Err(Problem::lasting(At::Store, format!("PersistentVolumeClaim {claim}: {e}"))),
        }
    }
}

impl Remote for Volume {
    fn exists(&self, key: &str) -> Result<bool, Problem> {
        match fs::symlink_metadata(self.at(key)?) {
            Ok(_) => Ok(true),
            Err(e) if is_absent(&e) => Ok(false),
            Err(e) => Err(self.problem("look for", key, &e)),
        }
    }

    fn put_file(&self, key: &str, file: &Path) -> Result<(), Problem> {
        let mut from = File::open(file).map_err(|e| Problem::file("the snapshot", &e))?;
        self.put(key, |to| {
            loop {
                // Its own errors are those of scratch.
                let bytes = part(&mut from).map_err(Failed::Told)?;
                if bytes.is_empty() {
                    return Ok(());
                }
                to.write_all(&bytes)?;
            }
        })
    }

    fn create(&self, key: &str, bytes: Vec<u8>) -> Result<(), Problem> {
        self.put(key, |to| Ok(to.write_all(&bytes)?))
    }

    fn read_back(&self, key: &str, most: u64, into: &Path) -> Result<(String, u64), Problem> {
        let mut from = self.file(key)?;
        let mut file = File::create(into).map_err(|e| Problem::file("the snapshot that was read back", &e))?;
        let (mut hash, mut size) = (Sha256::new(), 0);
        loop {
            let mut bytes = vec![];
            let read = Read::by_ref(&mut from).take(PART as u64).read_to_end(&mut bytes);
            read.map_err(|e| self.problem("read", key, &e))?;
            if bytes.is_empty() {
                return Ok((format!("{:x}", hash.finalize()), size));
            }
            hash.update(&bytes);
            size += bytes.len() as u64;
            if size > most {
                return Err(too_large(key, size, most));
            }
            file.write_all(&bytes).map_err(|e| Problem::file("the snapshot that was read back", &e))?;
        }
    }

    fn read(&self, key: &str) -> Result<Vec<u8>, Problem> {
        let mut bytes = vec![];
        let read = self.file(key)?.take(PART as u64).read_to_end(&mut bytes);
        read.map_err(|e| self.problem("read", key, &e))?;
        Ok(bytes)
    }

    /// Its directory stays: another backup may be about to use it.
    fn delete(&self, key: &str) -> Result<Deletion, Problem> {
        let path = self.at(key)?;
        let deleted = match fs::remove_file(&path) {
            Ok(()) => path.parent().map_or(Ok(()), sync),
            Err(e) if is_absent(&e) => Ok(()),
            Err(e) => Err(e),
        };
        deleted.map(|()| Deletion::Gone).map_err(|e| self.problem("delete", key, &e))
    }

    fn list(&self, folder: &str) -> Result<Vec<Found>, Problem> {
        let entries = match fs::read_dir(self.at(folder)?) {
            Ok(entries) => entries,
            Err(e) if is_absent(&e) => return Ok(vec![]),
            Err(e) => return Err(self.problem("list", folder, &e)),
        };
        let mut found = vec![];
        for entry in entries.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let Ok(meta) = entry.metadata().and_then(|meta| meta.modified()) else { continue };
            if !name.starts_with(PARTIAL) {
                let at = Timestamp::try_from(meta).unwrap_or_default();
                found.push(Found { key: format!("{folder}/{name}"), at });
            }
        }
        Ok(found)
    }
}

impl Volume {
    /// The path of a key. Whoever else writes to the volume may have put links into it, which lead to files of this container.
    fn at(&self, key: &str) -> Result<PathBuf, Problem> {
        let outside =
            || Problem::lasting(At::Store, format!("PersistentVolumeClaim {}: {key} is not in it", self.claim));
        let mut path = self.root.clone();
        for part in Path::new(key).components() {
            let Component::Normal(part) = part else { return Err(outside()) };
            path.push(part);
            if fs::symlink_metadata(&path).is_ok_and(|found| found.is_symlink()) {
                return Err(outside());
            }
        }
        Ok(path)
    }

    fn file(&self, key: &str) -> Result<File, Problem> {
        let path = self.at(key)?;
        let found = fs::symlink_metadata(&path).map_err(|e| self.problem("read", key, &e))?;
        if !found.is_file() {
            return Err(Problem::lasting(At::Store, format!("PersistentVolumeClaim {}: {key} is no file", self.claim)));
        }
        File::open(path).map_err(|e| self.problem("read", key, &e))
    }

    fn put(&self, key: &str, write: impl FnOnce(&mut File) -> Result<(), Failed>) -> Result<(), Problem> {
        let path = self.at(key)?;
        let directory = path.parent().unwrap_or(&self.root);
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let partial = directory.join(format!("{PARTIAL}{name}-{}", std::process::id()));
        let result = self.create_directories(directory).map_err(Failed::Io).and_then(|()| {
            clear(directory);
            let mut file = OpenOptions::new().write(true).create_new(true).open(&partial)?;
            // As long as this is held, no other one takes it for what a dead one left. Not each file system can.
            let _ = file.try_lock();
            write(&mut file)?;
            file.sync_all()?;
            link(&partial, &path)?;
            Ok(sync(directory)?)
        });
        let _ = fs::remove_file(&partial);
        match result {
            Ok(()) => Ok(()),
            Err(Failed::Told(problem)) => Err(problem),
            Err(Failed::Io(e)) if e.kind() == ErrorKind::AlreadyExists => {
                Err(Problem::taken(&format!("PersistentVolumeClaim {}", self.claim), key))
            }
            Err(Failed::Io(e)) => Err(self.problem("write", key, &e)),
        }
    }

    /// Each is there after a power cut.
    fn create_directories(&self, directory: &Path) -> io::Result<()> {
        let mut above = self.root.clone();
        for part in directory.strip_prefix(&self.root).unwrap_or(directory).components() {
            let own = above.join(part);
            match fs::create_dir(&own) {
                Ok(()) => sync(&above)?,
                Err(e) if e.kind() == ErrorKind::AlreadyExists && own.is_dir() => {}
                Err(e) => return Err(e),
            }
            above = own;
        }
        Ok(())
    }

    fn problem(&self, verb: &str, key: &str, error: &io::Error) -> Problem {
        let help = match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
                ". It is full: request more storage for the claim, or delete EtcdBackups with deletionPolicy Delete that a newer one follows"
            }
            ErrorKind::ReadOnlyFilesystem => ". It can only be read: backups need a volume that can be written to",
            ErrorKind::PermissionDenied => {
                ". The Job runs as user and group 65532: let them write there, if the storage knows no fsGroup"
            }
            _ => "",
        };
        let message = format!("PersistentVolumeClaim {}: cannot {verb} {key}: {error}{help}", self.claim);
        let lasting = match error.kind() {
            ErrorKind::ReadOnlyFilesystem | ErrorKind::PermissionDenied => true,
            ErrorKind::NotFound => verb == "read",
            _ => false,
        };
        Problem { lasting, ..Problem::brief(At::Store, message) }
    }
}

/// Why a file was not written.
enum Failed {
    Io(io::Error),
    Told(Problem),
}

impl From<io::Error> for Failed {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

fn is_absent(error: &io::Error) -> bool {
    [ErrorKind::NotFound, ErrorKind::NotADirectory].contains(&error.kind())
}

/// Gives a file its name, if that is not taken.
fn link(from: &Path, to: &Path) -> io::Result<()> {
    match fs::hard_link(from, to) {
        // The answer to a first try was lost, and NFS has sent it again.
        Err(_) if is_same(from, to) => Ok(()),
        Err(e) if e.kind() != ErrorKind::AlreadyExists && !to.try_exists()? => {
            // A file system without links. A key is one backup's alone, so nobody else is about to take it.
            fs::rename(from, to)
        }
        other => other,
    }
}

/// Whether both are names of one file.
fn is_same(one: &Path, other: &Path) -> bool {
    let file = |path: &Path| fs::symlink_metadata(path).map(|file| (file.dev(), file.ino())).ok();
    file(one).is_some_and(|one| file(other) == Some(one))
}

/// What one left that was killed goes. One that is being written is locked.
fn clear(directory: &Path) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        if entry.file_name().to_string_lossy().starts_with(PARTIAL)
            && File::open(entry.path()).is_ok_and(|file| file.try_lock().is_ok())
        {
            let _ = fs::remove_file(entry.path());
        }
    }
}

fn sync(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

#[cfg(test)]
mod tests;
