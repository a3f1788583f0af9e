//! Files that hold keys: written as a whole or not at all, and readable for their owner alone.

use anyhow::{Context as _, bail};
use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

/// The text of a file; None: there is no such file.
pub(super) fn read(path: &Path) -> anyhow::Result<Option<String>> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e).with_context(|| path.display().to_string()),
    }
}

/// Writes beside the file and puts that in its place. Mode 0600, as temporary files have it.
pub(super) fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    // What a link points to is written, not the link.
    let target = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let write = || -> std::io::Result<()> {
        let folder = folder(&target)?;
        let mut file = tempfile::Builder::new().prefix(".kubectl-berth-").tempfile_in(folder)?;
        file.write_all(text.as_bytes())?;
        file.as_file().sync_all()?;
        file.persist(&target)?;
        Ok(())
    };
    write().with_context(|| path.display().to_string())
}

/// The folder of a file, made if it is not there.
fn folder(path: &Path) -> std::io::Result<&Path> {
    let folder = path.parent().filter(|f| !f.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder)?;
    Ok(folder)
}

/// kubectl's own lock beside a kubeconfig, until it is dropped.
#[derive(Debug)]
pub(super) struct Lock(PathBuf);

impl Drop for Lock {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Takes the lock that kubectl takes.
pub(super) fn lock(path: &Path) -> anyhow::Result<Lock> {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    let lock = PathBuf::from(name);
    folder(path).with_context(|| path.display().to_string())?;
    match OpenOptions::new().write(true).create_new(true).open(&lock) {
        Ok(_) => Ok(Lock(lock)),
        Err(e) if e.kind() == ErrorKind::AlreadyExists => {
            let lock = lock.display();
            bail!("{lock} is there: somebody is writing that kubeconfig. Try again, or remove it if nobody is")
        }
        Err(e) => Err(e).with_context(|| lock.display().to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn only_the_owner_reads_it_and_links_stay() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("new/config");
        write(&path, "a").unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        write(&link, "b").unwrap();
        assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(read(&path).unwrap().as_deref(), Some("b"));
        assert_eq!(std::fs::read_dir(dir.path().join("new")).unwrap().count(), 1);
        assert_eq!(read(&dir.path().join("none")).unwrap(), None);
    }

    #[test]
    fn one_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config");
        let first = lock(&path).unwrap();
        assert!(lock(&path).unwrap_err().to_string().contains("config.lock is there"));
        drop(first);
        assert!(lock(&path).is_ok());
    }
}
