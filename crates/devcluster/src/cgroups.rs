//! The cluster's part of the cgroup tree, and in it that of each further node: all containers are there, so it also says
//! which processes are pods'. A group is named by its path in every hierarchy.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

use crate::{files, process::Process};

const ROOT: &str = "/sys/fs/cgroup";

/// Makes the cgroup that kubelet is told to use as root. On cgroup v1 it must exist in every controller's hierarchy.
/// The groups above it must be there.
pub(crate) fn ensure(group: &str) -> Result<()> {
    if Path::new(ROOT).join("cgroup.controllers").exists() {
        return ensure_v2(&Path::new(ROOT).join(group));
    }
    for hierarchy in hierarchies()? {
        let group = hierarchy.join(group);
        files::create_dir(&group)?;
        // A new cpuset is empty on v1, and no process can enter it until both are set.
        for file in ["cpuset.cpus", "cpuset.mems"] {
            if group.join(file).exists() {
                let value = fs::read(hierarchy.join(file))?;
                fs::write(group.join(file), value)
                    .with_context(|| format!("cannot set {file} of {}", group.display()))?;
            }
        }
    }
    Ok(())
}

fn ensure_v2(group: &Path) -> Result<()> {
    files::create_dir(group)?;
    for parent in [Path::new(ROOT), group] {
        let available = fs::read_to_string(parent.join("cgroup.controllers"))?;
        for controller in available.split_whitespace() {
            // A controller that cannot be delegated is one that kubelet does without, or complains about by name.
            let _ = fs::write(parent.join("cgroup.subtree_control"), format!("+{controller}"));
        }
    }
    Ok(())
}

/// Every process in a group and those below it: the containers of pods.
pub(crate) fn processes(group: &str) -> BTreeSet<Process> {
    groups(group)
        .iter()
        .filter_map(|group| fs::read_to_string(group.join("cgroup.procs")).ok())
        .flat_map(|pids| pids.lines().filter_map(|pid| pid.parse().ok()).filter_map(Process::find).collect::<Vec<_>>())
        .collect()
}

/// Removes a group and those below it. The processes in them must be gone.
pub(crate) fn remove(group: &str) -> Result<()> {
    for group in groups(group) {
        match fs::remove_dir(&group) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                return Err(e).with_context(|| format!("cannot remove the cgroup {}", group.display()));
            }
            _ => {}
        }
    }
    Ok(())
}

/// A group and those below it in all hierarchies, children before their parents.
fn groups(group: &str) -> Vec<PathBuf> {
    let mut roots = hierarchies().unwrap_or_default();
    roots.push(PathBuf::from(ROOT));
    let mut all = Vec::new();
    for root in roots {
        collect(&root.join(group), &mut all);
    }
    all
}

fn collect(group: &Path, all: &mut Vec<PathBuf>) {
    if let Ok(entries) = fs::read_dir(group) {
        for entry in entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
            collect(&entry.path(), all);
        }
        all.push(group.to_owned());
    }
}

/// The mounted hierarchies of cgroup v1: one per controller, and `unified`, in which runc makes groups too. Names that are
/// links to another are left out. On v2 these are groups of others, in which there is nothing of ours.
fn hierarchies() -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(ROOT).with_context(|| format!("cannot list {ROOT}"))?;
    Ok(entries
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .filter(|path| path.join("cgroup.procs").exists())
        .collect())
}
