//! The images that every node is given while the cluster comes up.

use std::{
    fs,
    path::PathBuf,
    slice,
    sync::mpsc::Sender,
    thread,
    time::{Instant, UNIX_EPOCH},
};

use anyhow::{Context, Result, anyhow};

use super::{Config, ready};
use crate::{
    files, images,
    layout::{Layout, RunDir},
    node::Node,
    versions,
};

/// Imports the images that the nodes do not have; says when they can start, since their first pods have theirs.
pub(super) fn import(
    layout: &Layout,
    run: &RunDir,
    nodes: &[Node],
    config: &Config,
    deadline: Instant,
    essential: &Sender<()>,
) -> Result<()> {
    for node in nodes {
        ready::wait_for_socket(layout, run, &run.containerd_socket(node.number), deadline)?;
        import_missing(node, run, &images::essential()?)?;
    }
    // Nobody listens any more when the API server has failed; that error is the one to report.
    let _ = essential.send(());
    let mut others = images::control_plane(versions::KUBERNETES)?;
    others.push(images::etcd(versions::ETCD)?);
    others.extend(config.images.iter().cloned());
    // An import waits for the disk half of the time, so nodes do it side by side; each needs what the others need.
    thread::scope(|scope| {
        let imports: Vec<_> = nodes.iter().map(|node| scope.spawn(|| import_missing(node, run, &others))).collect();
        imports.into_iter().try_for_each(|one| one.join().map_err(|_| anyhow!("the import of images panicked"))?)
    })
}

/// Imports archives, except for those that were imported before: containerd keeps images over stop and start.
fn import_missing(node: &Node, run: &RunDir, archives: &[PathBuf]) -> Result<()> {
    let record = node.imported();
    let mut imported = files::read_optional(&record)?.unwrap_or_default();
    for archive in archives {
        let modified = fs::metadata(archive).and_then(|meta| meta.modified());
        let modified = modified.with_context(|| format!("there is no image {}", archive.display()))?;
        let line = format!("{} {:?}", archive.display(), modified.duration_since(UNIX_EPOCH)?);
        if !imported.lines().any(|known| known == line) {
            images::import(&run.containerd_socket(node.number), slice::from_ref(archive))?;
            imported += &line;
            imported.push('\n');
            files::write(&record, &imported)?;
        }
    }
    Ok(())
}
