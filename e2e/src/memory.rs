//! What a container's cgroup says of its memory.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

/// Bytes that a container of a pod needs, as `kubectl top` counts them: all of its cgroup, without the files that nobody reads.
pub fn of(pod: &serde_json::Value, container: &str) -> Result<u64> {
    let all = pod["status"]["containerStatuses"].as_array().context("the pod has no containers yet")?;
    let status = all.iter().find(|c| c["name"] == container).with_context(|| format!("no container {container}"))?;
    let id = status["containerID"].as_str().and_then(|id| id.rsplit('/').next()).context("it does not run")?;
    // cgroup v1, then v2.
    for (root, usage, unread) in [
        ("/sys/fs/cgroup/memory", "memory.usage_in_bytes", "total_inactive_file"),
        ("/sys/fs/cgroup", "memory.current", "inactive_file"),
    ] {
        let Some(group) = group(Path::new(root), id).filter(|group| group.join(usage).exists()) else { continue };
        let usage: u64 = fs::read_to_string(group.join(usage))?.trim().parse()?;
        let stat = fs::read_to_string(group.join("memory.stat"))?;
        let unread = stat.lines().find_map(|line| line.strip_prefix(unread)?.trim().parse::<u64>().ok());
        return Ok(usage.saturating_sub(unread.with_context(|| format!("{stat} has no {unread:?}"))?));
    }
    anyhow::bail!("no cgroup of container {id}")
}

/// The directory of that name, somewhere below.
fn group(root: &Path, name: &str) -> Option<PathBuf> {
    let directories = fs::read_dir(root).ok()?.flatten().filter(|entry| entry.file_type().is_ok_and(|t| t.is_dir()));
    directories.map(|entry| entry.path()).find_map(|path| {
        if path.file_name().is_some_and(|file| file == name) { Some(path) } else { group(&path, name) }
    })
}
