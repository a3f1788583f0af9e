//! The CNI plugin that attaches pods to VPCs: a copy of it lies among the other plugins, so that a build does not pull it away from under
//! a cluster that runs.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};

use crate::{files, layout::Layout, supervisor};

/// This project's own.
const OWN: &str = "cni-meta";

/// The name under which another plugin is called: its file's.
pub(crate) fn name(file: &Path) -> Result<String> {
    let name = file.file_name().and_then(|name| name.to_str());
    name.map(str::to_owned).with_context(|| format!("{} is no file of a CNI plugin", file.display()))
}

/// What the plugin is called, by what the cluster's state says.
pub(crate) fn called(name: Option<&str>) -> &str {
    name.unwrap_or(OWN)
}

/// Puts a plugin where containerd finds it; gives its name. `name`: that of the one which the cluster has, if it is not this project's own;
/// `file`: where that is taken from, if it is not there yet.
pub(crate) fn install(layout: &Layout, name: Option<&str>, file: Option<&Path>) -> Result<String> {
    let installed = layout.dir.join("cni-bin").join(called(name));
    match (file, name) {
        (Some(file), _) => copy(file, &installed)?,
        (None, None) => copy(&own()?, &installed)?,
        // Started again: the copy stays.
        (None, Some(_)) if installed.is_file() => {}
        (None, Some(_)) => bail!("{} is gone: run `devcluster up --cni-meta-plugin FILE`", installed.display()),
    }
    Ok(called(name).to_owned())
}

/// Beside `devcluster`.
fn own() -> Result<PathBuf> {
    let path = supervisor::program()?.with_file_name(OWN);
    if !path.is_file() {
        bail!("no `{OWN}` in {}: run `cargo build -p berth-devcluster`", path.with_file_name("").display());
    }
    Ok(path)
}

/// As a whole: a pod may need the old one at this moment.
fn copy(from: &Path, to: &Path) -> Result<()> {
    files::create_dir(to.parent().context("a plugin without a directory")?)?;
    let temporary = files::temporary_beside(to)?;
    let copied = fs::copy(from, &temporary);
    copied.with_context(|| format!("cannot copy the CNI plugin {} to {}", from.display(), temporary.display()))?;
    fs::rename(&temporary, to).with_context(|| format!("cannot write {}", to.display()))
}
