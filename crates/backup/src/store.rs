//! Where backups are kept: a bucket, or a volume. Memory is bounded by a part, whatever the size of an object.

use crate::problem::Problem;
use crate::s3::Bucket;
use crate::volume::Volume;
use berth_contract::backup::{At, Store};
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::Duration;

/// What is sent and read at once. S3 takes parts of 5 MiB or more, and at most 10 000 of them: 80 GB.
pub(crate) const PART: usize = 8 << 20;

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

/// A store.
#[derive(Debug)]
pub struct Remote(Kind);

#[derive(Debug)]
enum Kind {
    Bucket(Box<Bucket>),
    Volume(Volume),
}

impl Remote {
    /// Reads the credentials, if it is a server, and asks it nothing. Each request to a server may take so long.
    pub fn open(store: &Store, credentials: &Path, timeout: Duration) -> Result<Self, Problem> {
        if store.directory.is_empty() {
            return Bucket::open(store, credentials, timeout).map(|bucket| Self(Kind::Bucket(Box::new(bucket))));
        }
        Volume::open(store).map(|volume| Self(Kind::Volume(volume)))
    }

    /// Whether something is there under that key.
    pub fn exists(&self, key: &str) -> Result<bool, Problem> {
        match &self.0 {
            Kind::Bucket(bucket) => bucket.exists(key),
            Kind::Volume(volume) => volume.exists(key),
        }
    }

    /// Sends a file, and overwrites nothing.
    pub fn put_file(&self, key: &str, file: &Path) -> Result<(), Problem> {
        match &self.0 {
            Kind::Bucket(bucket) => bucket.put_file(key, file),
            Kind::Volume(volume) => volume.put_file(key, file),
        }
    }

    /// Creates an object, and overwrites none.
    pub fn create(&self, key: &str, bytes: Vec<u8>) -> Result<(), Problem> {
        match &self.0 {
            Kind::Bucket(bucket) => bucket.create(key, bytes),
            Kind::Volume(volume) => volume.create(key, &bytes),
        }
    }

    /// Reads an object of at most so many bytes into a file; its SHA-256 and size.
    pub fn read_back(&self, key: &str, most: u64, into: &Path) -> Result<(String, u64), Problem> {
        match &self.0 {
            Kind::Bucket(bucket) => bucket.read_back(key, most, into),
            Kind::Volume(volume) => volume.read_back(key, most, into),
        }
    }

    /// An object that fits into memory.
    pub fn read(&self, key: &str) -> Result<Vec<u8>, Problem> {
        match &self.0 {
            Kind::Bucket(bucket) => bucket.read(key),
            Kind::Volume(volume) => volume.read(key),
        }
    }

    /// Deletes an object. Gone already is as good.
    pub fn delete(&self, key: &str) -> Result<(), Problem> {
        match &self.0 {
            Kind::Bucket(bucket) => bucket.delete(key),
            Kind::Volume(volume) => volume.delete(key),
        }
    }
}

/// The next part of a file. Empty: there is none.
pub(crate) fn part(file: &mut File) -> Result<Vec<u8>, Problem> {
    let mut bytes = vec![];
    let read = Read::by_ref(file).take(PART as u64).read_to_end(&mut bytes);
    read.map_err(|e| Problem::file("the snapshot", &e))?;
    Ok(bytes)
}

/// Lower-case hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// SHA-256 and size of a file.
pub(crate) fn digest(file: &Path) -> Result<(String, u64), Problem> {
    let mut open = File::open(file).map_err(|e| Problem::file("the snapshot", &e))?;
    let (mut hash, mut size) = (Sha256::new(), 0);
    loop {
        let bytes = part(&mut open)?;
        if bytes.is_empty() {
            return Ok((hex(&hash.finalize()), size));
        }
        size += bytes.len() as u64;
        hash.update(&bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_is_beside_its_snapshot() {
        assert_eq!(manifest_key("a/b/c.db"), "a/b/c.json");
    }
}
