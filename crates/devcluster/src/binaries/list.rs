//! The list of sums with which a cache serves others, see [`super::sources::Base`].

use std::{
    fmt::Write,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};

use super::{catalog::Selection, check, sources::SUMS};
use crate::{files, paths};

/// Writes `SHA256SUMS` of everything in the cache's `bin`, also of other checkouts' versions; gives its path and the number of files.
/// What is not the program that its name says is left out, and said.
pub fn write_sums() -> Result<(PathBuf, usize)> {
    let root = paths::cache().join("bin");
    let mut found = Vec::new();
    if root.is_dir() {
        collect(&root, &mut found)?;
    }
    found.sort();
    let known = Selection::All.artifacts().unwrap_or_default();
    let (mut list, mut count) = (String::new(), 0);
    for path in found {
        let below = path.strip_prefix(&root).unwrap_or(&path).display().to_string();
        let programs = known.iter().flat_map(|a| a.binaries.iter().map(move |(name, _)| (a, *name)));
        let program = programs.into_iter().find(|(artifact, name)| artifact.binary(name) == path);
        if let Some(why) = program.and_then(|(artifact, name)| check::program(&path, artifact, name).err()) {
            eprintln!("left out: {below} {why}; remove it, and `devcluster build` makes it again");
            continue;
        }
        let sum = check::sum(&path).with_context(|| format!("cannot read {}", path.display()))?;
        writeln!(list, "{sum}  {below}")?;
        count += 1;
    }
    if count == 0 {
        bail!("there is nothing in {}: `devcluster build` fills it", root.display());
    }
    let path = root.join(SUMS);
    files::write(&path, list)?;
    Ok((path, count))
}

/// The files below a folder. What begins with a dot is somebody's temporary file.
fn collect(folder: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))? {
        let entry = entry?;
        let name = entry.file_name();
        if name.to_string_lossy().starts_with('.') || name == SUMS {
            continue;
        }
        if entry.file_type()?.is_dir() {
            collect(&entry.path(), found)?;
        } else {
            found.push(entry.path());
        }
    }
    Ok(())
}
