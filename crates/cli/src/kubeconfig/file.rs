//! Files that hold keys: written as a whole or not at all, and readable for their owner alone.

use anyhow::{Context as _, bail};
use std::fs::{File, Metadata, OpenOptions};
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

/// Writes beside the file and puts that in its place, with mode 0600. A device or a pipe stays, and is written to.
pub(super) fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    let write = || match std::fs::metadata(path) {
        Ok(old) if old.is_file() => replace(&followed(path)?, text, Some(&old)),
        Ok(_) => OpenOptions::new().write(true).open(path)?.write_all(text.as_bytes()),
        Err(e) if e.kind() == ErrorKind::NotFound => replace(&followed(path)?, text, None),
        Err(e) => Err(e),
    };
    write().with_context(|| path.display().to_string())
}

/// What a link points to, whether or not that is there, is written; not the link.
fn followed(path: &Path) -> std::io::Result<PathBuf> {
    /// As many as Linux follows.
    const MOST: usize = 40;
    let mut path = path.to_owned();
    for _ in 0..MOST {
        match std::fs::read_link(&path) {
            Ok(to) => path = path.parent().map_or_else(|| to.clone(), |folder| folder.join(&to)),
            // It is no link, or it is not there.
            Err(e) if matches!(e.kind(), ErrorKind::InvalidInput | ErrorKind::NotFound) => return Ok(path),
            Err(e) => return Err(e),
        }
    }
    Err(std::io::Error::other("too many links"))
}

fn replace(path: &Path, text: &str, old: Option<&Metadata>) -> std::io::Result<()> {
    let mut file = tempfile::Builder::new().prefix(".kubectl-berth-").tempfile_in(folder(path)?)?;
    if let Some(old) = old {
        keep_owner(file.as_file(), old)?;
    }
    file.write_all(text.as_bytes())?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    Ok(())
}

/// What root writes over (`sudo`) stays with its owner and its group, and is still nothing for others.
#[cfg(unix)]
fn keep_owner(file: &File, old: &Metadata) -> std::io::Result<()> {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
    const ROOT: u32 = 0;
    if file.metadata()?.uid() != ROOT {
        return Ok(());
    }
    std::os::unix::fs::fchown(file, Some(old.uid()), Some(old.gid()))?;
    file.set_permissions(std::fs::Permissions::from_mode(old.mode() & 0o660))
}

/// Elsewhere a file has the rights of its folder.
#[cfg(not(unix))]
fn keep_owner(_: &File, _: &Metadata) -> std::io::Result<()> {
    Ok(())
}

/// The folder of a file, made if it is not there.
fn folder(path: &Path) -> std::io::Result<&Path> {
    let folder = path.parent().filter(|f| !f.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder)?;
    Ok(folder)
}

/// A file with keys that is removed when this is dropped.
pub(crate) struct PrivateFile(tempfile::TempPath);

impl PrivateFile {
    /// Writes it there, or to a new temporary file. A file that exists is not overwritten.
    pub(crate) fn new(path: Option<&Path>, text: &str) -> anyhow::Result<Self> {
        let Some(path) = path else {
            let mut file = tempfile::Builder::new().prefix("kubectl-berth-").suffix(".kubeconfig").tempfile()?;
            file.write_all(text.as_bytes())?;
            return Ok(Self(file.into_temp_path()));
        };
        let shown = || path.display().to_string();
        let mut options = OpenOptions::new();
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.write(true).create_new(true).open(path).with_context(shown)?;
        let path = tempfile::TempPath::try_from_path(path).with_context(shown)?;
        file.write_all(text.as_bytes()).with_context(shown)?;
        Ok(Self(path))
    }

    /// Its absolute path.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
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
            bail!(
                "{lock} exists: another program is writing that kubeconfig. Try again, or remove that file if none is"
            )
        }
        Err(e) => Err(e).with_context(|| lock.display().to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::io::Read;
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};

    #[test]
    fn only_the_owner_reads_it_and_links_stay() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("new/config");
        write(&path, "a").unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let link = dir.path().join("link");
        symlink(&path, &link).unwrap();
        write(&link, "b").unwrap();
        assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(read(&path).unwrap().as_deref(), Some("b"));
        assert_eq!(std::fs::read_dir(dir.path().join("new")).unwrap().count(), 1);
        assert_eq!(read(&dir.path().join("none")).unwrap(), None);
    }

    #[test]
    fn a_pipe_is_written_to_and_stays() {
        let dir = tempfile::tempdir().unwrap();
        let (mut reader, writer) = std::io::pipe().unwrap();
        // As /dev/stdout is, in a pipeline.
        let link = dir.path().join("stdout");
        symlink(format!("/proc/self/fd/{}", writer.as_raw_fd()), &link).unwrap();
        write(&link, "a").unwrap();
        drop(writer);
        assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "a");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_a_dangling_link_points_to_is_made() {
        let dir = tempfile::tempdir().unwrap();
        let (first, second) = (dir.path().join("first"), dir.path().join("second"));
        symlink("second", &first).unwrap();
        symlink("new/config", &second).unwrap();
        write(&first, "a").unwrap();
        assert!([&first, &second].iter().all(|l| std::fs::symlink_metadata(l).unwrap().is_symlink()));
        assert_eq!(read(&dir.path().join("new/config")).unwrap().as_deref(), Some("a"));
        symlink("loop", dir.path().join("loop")).unwrap();
        assert!(write(&dir.path().join("loop"), "a").is_err());
    }

    #[test]
    fn root_leaves_a_file_to_its_owner() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config");
        std::fs::write(&path, "old").unwrap();
        let as_root = std::fs::metadata(&path).unwrap().uid() == 0;
        // Without root there is only one's own, readable for its owner alone.
        let (owner, cases) = if as_root {
            (Some(4711), [(0o600, 0o600), (0o640, 0o640), (0o644, 0o640)])
        } else {
            (None, [(0o600, 0o600), (0o640, 0o600), (0o644, 0o600)])
        };
        std::os::unix::fs::chown(&path, owner, owner).unwrap();
        for (before, after) in cases {
            std::fs::set_permissions(&path, Permissions::from_mode(before)).unwrap();
            let old = std::fs::metadata(&path).unwrap();
            write(&path, "new").unwrap();
            let new = std::fs::metadata(&path).unwrap();
            assert_eq!((new.uid(), new.gid(), new.mode() & 0o777), (old.uid(), old.gid(), after));
        }
    }

    #[test]
    fn a_private_file_is_new_and_goes_with_its_owner() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("acme.kubeconfig");
        for named in [Some(path.as_path()), None] {
            let file = PrivateFile::new(named, "text").unwrap();
            let there = file.path().to_owned();
            assert!(there.is_absolute());
            assert_eq!(read(&there).unwrap().as_deref(), Some("text"));
            assert_eq!(std::fs::metadata(&there).unwrap().mode() & 0o777, 0o600);
            drop(file);
            assert!(!there.exists());
        }
        std::fs::write(&path, "mine").unwrap();
        assert!(PrivateFile::new(Some(&path), "text").is_err());
        assert_eq!(read(&path).unwrap().as_deref(), Some("mine"));
    }

    #[test]
    fn one_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config");
        let first = lock(&path).unwrap();
        assert!(lock(&path).unwrap_err().to_string().contains("config.lock exists"));
        drop(first);
        assert!(lock(&path).is_ok());
    }
}
