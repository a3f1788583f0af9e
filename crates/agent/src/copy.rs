//! Copies data that was set aside, so that a person looks at the copy and what was set aside stays as it is: etcd writes to what it starts
//! from, and its image has no program that copies.

use anyhow::{Context as _, bail};
use berth_contract::aside;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// `copy`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What was set aside, such as `/var/lib/etcd/epoch-1`.
    #[arg(long)]
    from: PathBuf,
    /// The copy, beside it: its name with a number behind, such as `/var/lib/etcd/epoch-1-1`. It is deleted when what was set aside is, by the
    /// same rules.
    #[arg(long)]
    to: PathBuf,
    /// Delete the copy.
    #[arg(long)]
    remove: bool,
}

/// What stays free for the etcd that serves from the same volume: its log grows by 64 MiB at a time.
const FREE: u64 = 100 << 20;

/// In a copy. What was set aside twice has a number behind its name, too.
const NOTE: &str = "berth-copy";

/// It is there whole, or not at all.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let Args { from, to, remove } = args;
    let name = |path: &Path| path.file_name().and_then(|name| name.to_str()).map(str::to_owned).unwrap_or_default();
    let (source, target) = (name(from), name(to));
    if !aside::is_aside(&source) {
        bail!("{}: only what was set aside is copied, such as epoch-1", from.display());
    }
    let is_numbered = target.strip_prefix(&source).is_some_and(|rest| rest.starts_with('-'));
    if !is_numbered || !aside::is_aside(&target) || to.parent() != from.parent() {
        bail!("{}: the copy is beside it, with a number behind its name, such as {source}-1", to.display());
    }
    if *remove {
        if !to.join(NOTE).exists() {
            bail!("{} is no copy that this command made: nothing is deleted", to.display());
        }
        fs::remove_dir_all(to).with_context(|| to.display().to_string())?;
        println!("{} is deleted", to.display());
        return Ok(());
    }
    if to.exists() {
        bail!("{} is there already", to.display());
    }
    let (needed, free) = (size(from)? + FREE, free(from)?);
    if free < needed {
        bail!("{} has {} MiB free, and {} MiB are needed", from.display(), free >> 20, needed >> 20);
    }
    // By this name it is deleted if this does not come to its end.
    let part = to.with_file_name(format!("{}{target}", aside::GOING));
    if part.exists() {
        fs::remove_dir_all(&part).with_context(|| part.display().to_string())?;
    }
    if let Err(error) = copy(from, &part) {
        let _ = fs::remove_dir_all(&part);
        return Err(error);
    }
    File::create(part.join(NOTE))?.sync_all()?;
    fs::rename(&part, to).with_context(|| to.display().to_string())?;
    println!("{} is a copy of {}", to.display(), from.display());
    Ok(())
}

fn size(dir: &Path) -> anyhow::Result<u64> {
    let mut sum = 0;
    for entry in fs::read_dir(dir).with_context(|| dir.display().to_string())? {
        let entry = entry?;
        sum += if entry.file_type()?.is_dir() { size(&entry.path())? } else { entry.metadata()?.len() };
    }
    Ok(sum)
}

/// What whoever is not root may still write there.
fn free(dir: &Path) -> anyhow::Result<u64> {
    let all = nix::sys::statvfs::statvfs(dir).with_context(|| dir.display().to_string())?;
    Ok(all.blocks_available() * all.fragment_size())
}

fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    fs::create_dir(to).with_context(|| to.display().to_string())?;
    // As etcd makes it: it refuses a data directory that others may read.
    fs::set_permissions(to, fs::metadata(from)?.permissions())?;
    for entry in fs::read_dir(from).with_context(|| from.display().to_string())? {
        let entry = entry?;
        let (kind, target) = (entry.file_type()?, to.join(entry.file_name()));
        if kind.is_dir() {
            copy(&entry.path(), &target)?;
        } else if kind.is_file() {
            fs::copy(entry.path(), &target).with_context(|| entry.path().display().to_string())?;
            File::open(&target)?.sync_all()?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_whole_and_what_was_set_aside_stays() {
        let volume = tempfile::tempdir().unwrap();
        let at = |name: &str| volume.path().join(name);
        fs::create_dir_all(at("epoch-1/member/wal")).unwrap();
        fs::write(at("epoch-1/member/wal/0.wal"), "log").unwrap();
        fs::write(at("epoch-1/berth-set-aside"), "1\n").unwrap();
        let copies = |from: &str, to: &str| {
            run(&Args { from: at(from), to: at(to), remove: false }).map_err(|e| format!("{e:#}"))
        };
        // One was cut off.
        fs::create_dir_all(at("deleting-epoch-1-1/member")).unwrap();
        copies("epoch-1", "epoch-1-1").unwrap();
        for dir in ["epoch-1", "epoch-1-1"] {
            assert_eq!(fs::read_to_string(at(dir).join("member/wal/0.wal")).unwrap(), "log", "{dir}");
            assert_eq!(fs::read_to_string(at(dir).join("berth-set-aside")).unwrap(), "1\n", "{dir}");
        }
        assert!(!at("deleting-epoch-1-1").exists());
        assert!(copies("epoch-1", "epoch-1-1").unwrap_err().contains("is there already"));
        fs::create_dir_all(at("data/member")).unwrap();
        assert!(copies("data", "data-1").unwrap_err().contains("only what was set aside"));
        for wrong in ["data", "epoch-2", "epoch-1x", "copy", "epoch-1-1/epoch-1-2"] {
            assert!(copies("epoch-1", wrong).is_err(), "{wrong}");
        }
        assert!(copies("epoch-7", "epoch-7-1").is_err(), "it is not there");
        run(&Args { from: at("epoch-1"), to: at("epoch-1-1"), remove: true }).unwrap();
        assert!(!at("epoch-1-1").exists() && at("epoch-1/member/wal/0.wal").exists());
        assert!(run(&Args { from: at("epoch-1"), to: at("epoch-1"), remove: true }).is_err(), "copies only");
        fs::create_dir_all(at("epoch-1-2/member")).unwrap();
        assert!(run(&Args { from: at("epoch-1"), to: at("epoch-1-2"), remove: true }).is_err(), "it was set aside");
        assert!(at("epoch-1-2/member").exists());
    }
}
