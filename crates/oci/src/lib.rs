//! Images and other artifacts as the OCI has them, made without any tool. The same input gives the same bytes.
//!
//! - [`write_archive`]: one image for this machine, which `ctr images import` reads.
//! - [`Layout`]: a folder with one artifact under a tag, for several architectures, which `crane push`, `skopeo copy` and `oras cp`
//!   read.

mod archive;
mod image;
mod layout;

pub use archive::write_archive;
pub use image::{ImageSpec, parse_file};
pub use layout::Layout;

use ring::digest;
use serde_json::{Value, json};

const OCI_LAYOUT: &[u8] = br#"{"imageLayoutVersion":"1.0.0"}"#;
const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

/// SHA-256 in hexadecimal digits.
pub fn sha256(bytes: &[u8]) -> String {
    hex(digest::digest(&digest::SHA256, bytes).as_ref())
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn descriptor(media_type: &str, digest: &str, size: u64) -> Value {
    json!({"mediaType": media_type, "digest": format!("sha256:{digest}"), "size": size})
}

fn described(media_type: &str, bytes: &[u8]) -> Value {
    descriptor(media_type, &sha256(bytes), bytes.len() as u64)
}

fn blob_path(digest: &str) -> String {
    format!("blobs/sha256/{digest}")
}

/// A header without anything of this machine or moment: no names, no owner, no time.
pub fn header(mode: u32, size: u64) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.set_mode(mode);
    header.set_size(size);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header
}
