//! FROM-scratch images: an OCI archive with one layer, made of static binaries. The same input gives the same bytes.

use std::{
    fs::File,
    io::{self, BufWriter, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, anyhow, bail};
use ring::digest;
use serde_json::json;

use crate::files;

const OCI_LAYOUT: &[u8] = br#"{"imageLayoutVersion":"1.0.0"}"#;

/// An image to write.
#[derive(Clone, Debug, Default)]
pub struct ImageSpec {
    /// The name under which pods ask for it, for example `registry.k8s.io/pause:3.10.1`.
    pub reference: String,
    /// The entry point; empty for images that, like upstream's `kube-apiserver`, want a `command` in the pod.
    pub entrypoint: Vec<String>,
    /// Files of this machine and their paths in the image. All are executable and owned by root.
    pub files: Vec<(PathBuf, String)>,
    /// `user` or `user:group` to run as, by number; empty for root.
    pub user: String,
}

/// Writes an image as an OCI archive that `ctr images import` and `docker load` read.
pub fn write_oci(out: &Path, image: &ImageSpec) -> Result<()> {
    if !image.reference.rsplit('/').next().is_some_and(|last| last.contains(':')) {
        bail!("the image name `{}` has no tag: write NAME:TAG", image.reference);
    }
    let directory = out.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
    let mut layer = tempfile::tempfile_in(directory)
        .with_context(|| format!("cannot make a temporary file in {}", directory.display()))?;
    let layer_digest = write_layer(&mut layer, &image.files)?;
    let layer_size = layer.stream_position()?;
    let config = serde_json::to_vec(&config(image, &layer_digest))?;
    let manifest = serde_json::to_vec(&json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": descriptor("application/vnd.oci.image.config.v1+json", &sha256(&config), config.len() as u64),
        "layers": [descriptor("application/vnd.oci.image.layer.v1.tar", &layer_digest, layer_size)],
    }))?;
    let mut entry = descriptor("application/vnd.oci.image.manifest.v1+json", &sha256(&manifest), manifest.len() as u64);
    entry["platform"] = json!({"architecture": architecture(), "os": "linux"});
    entry["annotations"] = json!({
        "io.containerd.image.name": image.reference,
        "org.opencontainers.image.ref.name": image.reference.rsplit(':').next(),
    });
    let index = serde_json::to_vec(&json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [entry],
    }))?;

    let temporary = files::temporary_beside(out)?;
    let result = (|| {
        let file = File::create(&temporary)?;
        let mut archive = tar::Builder::new(BufWriter::new(file));
        append(&mut archive, "oci-layout", 0o644, OCI_LAYOUT, OCI_LAYOUT.len() as u64)?;
        append(&mut archive, "index.json", 0o644, index.as_slice(), index.len() as u64)?;
        for blob in [&config, &manifest] {
            append(&mut archive, &blob_path(&sha256(blob)), 0o644, blob.as_slice(), blob.len() as u64)?;
        }
        layer.seek(SeekFrom::Start(0))?;
        append(&mut archive, &blob_path(&layer_digest), 0o644, &mut layer, layer_size)?;
        archive.into_inner()?.flush()?;
        std::fs::rename(&temporary, out)
    })();
    if result.is_err() {
        files::remove(&temporary)?;
    }
    result.with_context(|| format!("cannot write the image {} to {}", image.reference, out.display()))
}

/// Writes the layer's tar; gives its digest.
fn write_layer(out: &mut File, contents: &[(PathBuf, String)]) -> Result<String> {
    let mut archive =
        tar::Builder::new(Hashing { out: BufWriter::new(out), context: digest::Context::new(&digest::SHA256) });
    let mut directories: Vec<&Path> = Vec::new();
    for (source, target) in contents {
        let target = Path::new(target.trim_start_matches('/'));
        if target.as_os_str().is_empty() {
            bail!("{} has no path in the image", source.display());
        }
        let mut parents: Vec<_> = target.ancestors().skip(1).filter(|p| !p.as_os_str().is_empty()).collect();
        parents.reverse();
        for parent in parents {
            if !directories.contains(&parent) {
                let mut header = header(0o755, 0);
                header.set_entry_type(tar::EntryType::Directory);
                archive.append_data(&mut header, parent, io::empty())?;
                directories.push(parent);
            }
        }
        let file = File::open(source).with_context(|| format!("cannot read {} for an image", source.display()))?;
        let size = file.metadata()?.len();
        append(&mut archive, &target.to_string_lossy(), 0o755, file, size)
            .with_context(|| format!("cannot add {} to an image", source.display()))?;
    }
    let mut hashing = archive.into_inner()?;
    hashing.flush()?;
    Ok(hex(hashing.context.finish().as_ref()))
}

fn append(
    archive: &mut tar::Builder<impl Write>,
    path: &str,
    mode: u32,
    content: impl Read,
    size: u64,
) -> io::Result<()> {
    archive.append_data(&mut header(mode, size), path, content)
}

/// A header without anything of this machine or moment: no names, no owner, no time.
fn header(mode: u32, size: u64) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.set_mode(mode);
    header.set_size(size);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header
}

fn config(image: &ImageSpec, layer_digest: &str) -> serde_json::Value {
    let mut config = json!({"Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]});
    if !image.entrypoint.is_empty() {
        config["Entrypoint"] = json!(image.entrypoint);
    }
    if !image.user.is_empty() {
        config["User"] = json!(image.user);
    }
    json!({
        "architecture": architecture(),
        "os": "linux",
        "config": config,
        "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{layer_digest}")]},
    })
}

fn descriptor(media_type: &str, digest: &str, size: u64) -> serde_json::Value {
    json!({"mediaType": media_type, "digest": format!("sha256:{digest}"), "size": size})
}

fn blob_path(digest: &str) -> String {
    format!("blobs/sha256/{digest}")
}

/// This machine's architecture in Go's words.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

fn sha256(bytes: &[u8]) -> String {
    hex(digest::digest(&digest::SHA256, bytes).as_ref())
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

struct Hashing<W> {
    out: W,
    context: digest::Context,
}

impl<W: Write> Write for Hashing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.context.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Parses `SRC:DST`.
pub fn parse_file(argument: &str) -> Result<(PathBuf, String)> {
    let (source, target) =
        argument.rsplit_once(':').ok_or_else(|| anyhow!("`{argument}` is not SOURCE:PATH-IN-IMAGE"))?;
    Ok((PathBuf::from(source), target.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_input_gives_the_same_bytes() {
        let dir = tempfile::tempdir().unwrap();
        let binary = dir.path().join("program");
        std::fs::write(&binary, "#!ELF").unwrap();
        let image = ImageSpec {
            reference: "example.com/program:v1".to_owned(),
            entrypoint: vec!["/usr/local/bin/program".to_owned()],
            files: vec![(binary.clone(), "/usr/local/bin/program".to_owned())],
            ..ImageSpec::default()
        };
        let write = |name: &str| {
            let out = dir.path().join(name);
            write_oci(&out, &image).unwrap();
            std::fs::read(out).unwrap()
        };
        let first = write("a.tar");
        std::fs::write(&binary, "#!ELF").unwrap();
        assert!(first == write("b.tar"));
        let mut names = Vec::new();
        for entry in tar::Archive::new(first.as_slice()).entries().unwrap() {
            names.push(entry.unwrap().path().unwrap().to_string_lossy().into_owned());
        }
        assert_eq!(names[..2], ["oci-layout", "index.json"]);
        assert_eq!(names.len(), 5);
    }

    #[test]
    fn a_name_without_a_tag_is_refused() {
        let image = ImageSpec { reference: "localhost:5000/program".to_owned(), ..ImageSpec::default() };
        assert!(write_oci(Path::new("/nowhere/x.tar"), &image).unwrap_err().to_string().contains("has no tag"));
    }
}
