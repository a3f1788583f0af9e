//! Where backups are kept: a bucket, or a volume. Memory is bounded by a part, whatever the size of an object.

use crate::problem::Problem;
use berth_contract::backup::{At, Kept};
use jiff::Timestamp;
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// What is sent and read at once. S3 takes parts of 5 MiB or more, and at most 10 000 of them: 80 GB.
pub const PART: usize = 8 << 20;

/// No snapshot is larger, in bytes: a database of etcd has 8 GiB at most, and somewhat more where it was full. A store that gives more
/// fills no node.
pub(crate) const LARGEST: u64 = 10 << 30;

/// A store has more than there was to be.
pub(crate) fn too_large(key: &str, has: u64, most: u64) -> Problem {
    Problem::lasting(
        At::Proof,
        format!("{key}: the store has {has} bytes or more, and the snapshot had {most} at most"),
    )
}

/// The key of the manifest of a snapshot.
pub fn manifest_key(key: &str) -> String {
    format!("{}.json", key.strip_suffix(".db").unwrap_or(key))
}

/// Something in a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its key.
    pub key: String,
    /// When it was written, by the store's clock.
    pub at: Timestamp,
}

/// What became of a deletion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deletion {
    /// It is gone.
    Gone,
    /// The store keeps it, whoever deletes it.
    Kept(Kept),
}

/// A store. Nothing in it is overwritten.
pub trait Remote {
    /// Whether something is there under that key.
    fn exists(&self, key: &str) -> Result<bool, Problem>;
    /// Sends a file.
    fn put_file(&self, key: &str, file: &Path) -> Result<(), Problem>;
    /// Creates an object.
    fn create(&self, key: &str, bytes: Vec<u8>) -> Result<(), Problem>;
    /// Reads an object of at most so many bytes into a file; its SHA-256 and size.
    fn read_back(&self, key: &str, most: u64, into: &Path) -> Result<(String, u64), Problem>;
    /// An object that fits into memory.
    fn read(&self, key: &str) -> Result<Vec<u8>, Problem>;
    /// Deletes an object. Gone already is as good.
    fn delete(&self, key: &str) -> Result<Deletion, Problem>;
    /// What is in a folder, without that of folders in it.
    fn list(&self, folder: &str) -> Result<Vec<Found>, Problem>;
}

/// The next part of a file. Empty: there is none.
pub(crate) fn part(file: &mut File) -> Result<Vec<u8>, Problem> {
    let mut bytes = vec![];
    let read = Read::by_ref(file).take(PART as u64).read_to_end(&mut bytes);
    read.map_err(|e| Problem::file("the snapshot", &e))?;
    Ok(bytes)
}

/// SHA-256 and size of a file.
pub fn digest(file: &Path) -> Result<(String, u64), Problem> {
    let mut hash = Sha256::new();
    let size = File::open(file).and_then(|mut file| io::copy(&mut file, &mut hash));
    let size = size.map_err(|e| Problem::file("the snapshot", &e))?;
    Ok((format!("{:x}", hash.finalize()), size))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_is_beside_its_snapshot() {
        assert_eq!(manifest_key("a/b/c.db"), "a/b/c.json");
    }
}
