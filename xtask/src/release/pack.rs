//! Archives with the same bytes for the same content.

use std::fs;
use std::io::Write as _;
use std::path::Path;

use anyhow::Context as _;
use flate2::{Compression, GzBuilder};

use crate::shell::Result;

/// A file in an archive.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) path: String,
    pub(super) content: Vec<u8>,
    pub(super) mode: u32,
}

/// A `.tar.gz` with these files, in this order.
pub(super) fn tar_gz(entries: &[Entry]) -> Result<Vec<u8>> {
    // Neither a name nor a time.
    let mut archive = tar::Builder::new(GzBuilder::new().write(vec![], Compression::best()));
    for entry in entries {
        let mut header = berth_oci::header(entry.mode, entry.content.len() as u64);
        archive.append_data(&mut header, &entry.path, entry.content.as_slice())?;
    }
    let mut gzip = archive.into_inner()?;
    gzip.flush()?;
    Ok(gzip.finish()?)
}

/// Paths of all files in a folder, sorted: the order of a folder is not the same everywhere.
pub(super) fn below(folder: &Path) -> Result<Vec<String>> {
    fn walk(root: &Path, folder: &Path, found: &mut Vec<String>) -> Result<()> {
        for entry in fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))? {
            let path = entry?.path();
            if path.is_dir() {
                walk(root, &path, found)?;
            } else {
                found.push(path.strip_prefix(root)?.to_string_lossy().into_owned());
            }
        }
        Ok(())
    }
    let mut found = vec![];
    walk(folder, folder, &mut found)?;
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_in_comes_out_and_the_bytes_depend_on_nothing_else() {
        let entry = |path: &str, mode| Entry { path: path.into(), content: path.as_bytes().to_vec(), mode };
        let entries = [entry("a/b.txt", 0o644), entry("program", 0o755)];
        let packed = tar_gz(&entries).unwrap();
        assert_eq!(packed, tar_gz(&entries).unwrap());
        assert_eq!(&packed[4..8], [0; 4], "a time");
        let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(packed.as_slice()));
        let found: Vec<_> = archive
            .entries()
            .unwrap()
            .map(|e| {
                let e = e.unwrap();
                let header = e.header();
                let zeros = (header.mtime().unwrap(), header.uid().unwrap(), header.gid().unwrap());
                (e.path().unwrap().display().to_string(), header.mode().unwrap(), zeros)
            })
            .collect();
        assert_eq!(found, [("a/b.txt".into(), 0o644, (0, 0, 0)), ("program".into(), 0o755, (0, 0, 0))]);
    }
}
