//! The mounts that kubelet and containerd make below the cluster's directories.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, anyhow};
use nix::{
    errno::Errno,
    mount::{MntFlags, umount2},
};

/// One line of /proc/self/mountinfo.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Mount {
    /// The part of the file system that is mounted; for a bind mount, the path of its source in that file system.
    pub(crate) root: PathBuf,
    pub(crate) target: PathBuf,
}

/// The mounts of this machine, in the order in which they were made.
pub(crate) fn all() -> Result<Vec<Mount>> {
    let text = fs::read_to_string("/proc/self/mountinfo").context("cannot read /proc/self/mountinfo")?;
    Ok(parse(&text))
}

/// The mount points at or below any of these directories.
pub(crate) fn below(directories: &[&Path]) -> Result<Vec<PathBuf>> {
    Ok(all()?.into_iter().map(|m| m.target).filter(|t| directories.iter().any(|d| t.starts_with(d))).collect())
}

/// Unmounts everything at or below these directories, the newest first.
pub(crate) fn unmount_below(directories: &[&Path]) -> Result<()> {
    for target in below(directories)?.iter().rev() {
        match umount2(target, MntFlags::MNT_DETACH) {
            // A propagated copy may have gone with the one before.
            Ok(()) | Err(Errno::EINVAL | Errno::ENOENT) => {}
            Err(e) => return Err(anyhow!(e).context(format!("cannot unmount {}", target.display()))),
        }
    }
    Ok(())
}

/// Whether a directory, or something below it, is the source of a bind mount: kubelet mounts a volume into its own tree
/// for each pod that uses it.
pub(crate) fn is_source(directory: &Path) -> Result<bool> {
    Ok(all()?.iter().any(|mount| comes_from(&mount.root, directory)))
}

/// A mount's root is a path in its file system, which may itself be mounted anywhere: compare the ends of the paths.
fn comes_from(root: &Path, directory: &Path) -> bool {
    root.ancestors()
        .filter_map(|ancestor| ancestor.strip_prefix("/").ok())
        .filter(|ancestor| ancestor.components().count() > 1)
        .any(|ancestor| directory.ends_with(ancestor))
}

fn parse(text: &str) -> Vec<Mount> {
    text.lines()
        .filter_map(|line| {
            let mut fields = line.split(' ').skip(3);
            Some(Mount { root: unescape(fields.next()?), target: unescape(fields.next()?) })
        })
        .collect()
}

/// Blank, tab, newline and backslash are octal in mountinfo.
fn unescape(field: &str) -> PathBuf {
    let field = field.replace("\\040", " ").replace("\\011", "\t").replace("\\012", "\n");
    PathBuf::from(field.replace("\\134", "\\"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mountinfo_lines_are_read() {
        let text = "36 35 98:0 /mnt1 /mnt\\0402 rw,noatime master:1 - ext3 /dev/root rw\n";
        assert_eq!(parse(text), [Mount { root: "/mnt1".into(), target: "/mnt 2".into() }]);
    }

    #[test]
    fn the_source_of_a_bind_mount_is_found_wherever_its_file_system_is_mounted() {
        let volume = Path::new("/var/lib/berth/demo/volumes/local-01");
        let check = |root: &str, expected| assert_eq!(comes_from(Path::new(root), volume), expected, "{root}");
        check("/var/lib/berth/demo/volumes/local-01", true);
        check("/berth/demo/volumes/local-01/sub/path", true);
        check("/var/lib/berth/demo/volumes/local-011", false);
        check("/var/lib/berth/other/volumes/local-01", false);
        check("/", false);
    }
}
