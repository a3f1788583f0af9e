//! Small file helpers: whole-file writes that are never half there, and locks that die with their holder.

use std::{
    fs::{self, File, OpenOptions},
    io::Write,
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::Path,
};

use anyhow::{Context, Result, anyhow};
use nix::{
    errno::Errno,
    fcntl::{Flock, FlockArg},
};

/// Makes a directory and its parents, naming the path on failure.
pub(crate) fn create_dir(path: &Path) -> Result<()> {
    fs::create_dir_all(path).with_context(|| format!("cannot create the directory {}", path.display()))
}

/// Writes a file under a temporary name and renames it, so that a reader sees the old content or the new one.
pub(crate) fn write(path: &Path, content: impl AsRef<[u8]>) -> Result<()> {
    write_mode(path, content, 0o644)
}

/// Like [`write`], readable by the owner only: for private keys.
pub(crate) fn write_secret(path: &Path, content: impl AsRef<[u8]>) -> Result<()> {
    write_mode(path, content, 0o600)
}

fn write_mode(path: &Path, content: impl AsRef<[u8]>, mode: u32) -> Result<()> {
    let temporary = temporary_beside(path)?;
    let result = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(mode)
        .open(&temporary)
        .and_then(|mut file| file.write_all(content.as_ref()))
        .and_then(|()| fs::rename(&temporary, path));
    if result.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    result.with_context(|| format!("cannot write {}", path.display()))
}

/// A name in the same directory (so that a rename is atomic) that no other process uses.
pub(crate) fn temporary_beside(path: &Path) -> Result<std::path::PathBuf> {
    let name = path.file_name().ok_or_else(|| anyhow!("{} has no file name", path.display()))?;
    Ok(path.with_file_name(format!(".{}.{}.tmp", name.to_string_lossy(), std::process::id())))
}

/// Reads a file, or gives `None` when it does not exist.
pub(crate) fn read_optional(path: &Path) -> Result<Option<String>> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e).with_context(|| format!("cannot read {}", path.display())),
    }
}

/// Removes a file or directory tree; one that is already gone is fine.
pub(crate) fn remove(path: &Path) -> Result<()> {
    let result = match fs::symlink_metadata(path) {
        Ok(meta) if meta.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(e) => Err(e),
    };
    match result {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
            Err(e).with_context(|| format!("cannot remove {}", path.display()))
        }
        _ => Ok(()),
    }
}

/// An exclusive `flock` on a file. The kernel gives it back when the holder ends, however it ends.
#[derive(Debug)]
pub(crate) struct Lock(#[expect(dead_code, reason = "held for its drop")] Flock<File>);

impl Lock {
    /// The lock, unless somebody else holds it.
    pub(crate) fn try_acquire(path: &Path) -> Result<Option<Self>> {
        match Flock::lock(Self::open(path)?, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => Ok(Some(Self(lock))),
            Err((_, Errno::EWOULDBLOCK)) => Ok(None),
            Err((_, e)) => Err(e).with_context(|| format!("cannot lock {}", path.display())),
        }
    }

    fn open(path: &Path) -> Result<File> {
        if let Some(parent) = path.parent() {
            create_dir(parent)?;
        }
        // Rust opens files close-on-exec, so no process started under the lock inherits it.
        OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .with_context(|| format!("cannot open the lock file {}", path.display()))
    }

    /// Waits for the lock; `what` is printed once if somebody else holds it.
    pub(crate) fn acquire(path: &Path, what: &str) -> Result<Self> {
        let mut announced = false;
        loop {
            let locked = match Flock::lock(Self::open(path)?, FlockArg::LockExclusiveNonblock) {
                Err((file, Errno::EWOULDBLOCK)) => {
                    if !announced {
                        eprintln!("waiting for another devcluster that is busy with {what}");
                        announced = true;
                    }
                    Flock::lock(file, FlockArg::LockExclusive)
                }
                other => other,
            };
            let lock = locked.map_err(|(_, e)| e).with_context(|| format!("cannot lock {}", path.display()))?;
            // Whoever held it before may have removed the file: then this is a lock on a file that nobody else sees.
            if fs::metadata(path).is_ok_and(|now| lock.metadata().is_ok_and(|ours| ours.ino() == now.ino())) {
                return Ok(Self(lock));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_replaces_the_whole_file_and_leaves_no_temporary() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("state.json");
        write(&file, "a longer first version").unwrap();
        write(&file, "short").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "short");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn removing_what_is_not_there_is_fine() {
        let dir = tempfile::tempdir().unwrap();
        remove(&dir.path().join("nothing")).unwrap();
    }
}
