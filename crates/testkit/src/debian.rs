//! Programs from Debian's packages: their files are unpacked into the cache, and nothing is installed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// The folder with a package's files, such as `usr/bin`.
pub fn package(name: &str) -> Result<PathBuf> {
    let cache = std::env::var_os("BERTH_CACHE")
        .map_or_else(|| std::env::home_dir().unwrap_or_default().join(".cache/berth"), PathBuf::from);
    let tools = cache.join("tools");
    let root = tools.join(format!("{name}-debian"));
    if !root.exists() {
        unpack(name, &tools, &root)?;
    }
    Ok(root)
}

/// Fetches the package and unpacks it under a temporary name, then renames it.
fn unpack(name: &str, tools: &Path, root: &Path) -> Result<()> {
    fs::create_dir_all(tools)?;
    let work = tempfile::tempdir_in(tools)?;
    let download = || run(Command::new("apt-get").args(["download", "-q", name]).current_dir(work.path()));
    if download().is_err() {
        // A new machine has no lists of packages yet.
        run(Command::new("apt-get").args(["update", "-q"]))?;
        download()?;
    }
    let package =
        fs::read_dir(work.path())?.flatten().map(|e| e.path()).find(|p| p.extension().is_some_and(|e| e == "deb"));
    let files = work.path().join("files");
    run(Command::new("dpkg").arg("-x").arg(package.context("apt-get fetched no package")?).arg(&files))?;
    match fs::rename(&files, root) {
        // Another test was quicker.
        Err(_) if root.exists() => Ok(()),
        other => other.with_context(|| format!("cannot make {}", root.display())),
    }
}

fn run(command: &mut Command) -> Result<()> {
    let output = command.output().with_context(|| format!("cannot run {}", command.get_program().display()))?;
    if !output.status.success() {
        bail!("{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}
