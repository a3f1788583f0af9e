//! FROM-scratch images: one layer, made of static binaries.

use std::{
    collections::BTreeSet,
    fs::File,
    io::{self, BufWriter, Seek, Write},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, anyhow, bail};
use ring::digest;
use serde_json::{Value, json};

use crate::{MANIFEST, described, descriptor, header, hex};

/// An image to write.
#[derive(Clone, Debug, Default)]
pub struct ImageSpec {
    /// The name under which pods ask for it, for example `registry.k8s.io/pause:3.10.1`. A layout has no names, only a tag.
    pub reference: String,
    /// The entry point; empty for images that, like upstream's `kube-apiserver`, want a `command` in the pod.
    pub entrypoint: Vec<String>,
    /// Arguments of the entry point for pods that give none.
    pub arguments: Vec<String>,
    /// Files of this machine and their paths in the image. All are executable and owned by root.
    pub files: Vec<(PathBuf, String)>,
    /// Symbolic links: their paths in the image, and what each leads to.
    pub links: Vec<(String, String)>,
    /// `user` or `user:group` to run as, by number; empty for root.
    pub user: String,
    /// Whose machine code it is, in Go's words; empty: this machine's.
    pub architecture: String,
}

impl ImageSpec {
    pub(crate) fn architecture(&self) -> &str {
        if self.architecture.is_empty() { host_architecture() } else { &self.architecture }
    }
}

/// What an image consists of.
#[derive(Debug)]
pub(crate) struct Image {
    /// A file without a name, which is read from its beginning.
    pub(crate) layer: File,
    pub(crate) layer_digest: String,
    pub(crate) layer_size: u64,
    pub(crate) config: Vec<u8>,
    pub(crate) manifest: Vec<u8>,
    /// The manifest's, with the platform.
    pub(crate) descriptor: Value,
}

impl Image {
    /// Makes it; the layer is kept in a file of `directory` while it is needed.
    pub(crate) fn make(spec: &ImageSpec, directory: &Path) -> Result<Self> {
        let mut layer = tempfile::tempfile_in(directory)
            .with_context(|| format!("cannot make a temporary file in {}", directory.display()))?;
        let layer_digest = write_layer(&mut layer, spec)?;
        let layer_size = layer.stream_position()?;
        let config = serde_json::to_vec(&config(spec, &layer_digest))?;
        let manifest = serde_json::to_vec(&json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": described("application/vnd.oci.image.config.v1+json", &config),
            "layers": [descriptor("application/vnd.oci.image.layer.v1.tar", &layer_digest, layer_size)],
        }))?;
        let mut descriptor = described(MANIFEST, &manifest);
        descriptor["platform"] = json!({"architecture": spec.architecture(), "os": "linux"});
        layer.rewind()?;
        Ok(Self { layer, layer_digest, layer_size, config, manifest, descriptor })
    }
}

/// Writes the layer's tar; gives its digest.
fn write_layer(out: &mut File, spec: &ImageSpec) -> Result<String> {
    let hashing = Hashing { out: BufWriter::new(out), context: digest::Context::new(&digest::SHA256) };
    let mut layer = Layer { archive: tar::Builder::new(hashing), directories: BTreeSet::new() };
    for (source, target) in &spec.files {
        let target = layer.make_room(target, &source.display().to_string())?;
        let file = File::open(source).with_context(|| format!("cannot read {} for an image", source.display()))?;
        let size = file.metadata()?.len();
        layer
            .archive
            .append_data(&mut header(0o755, size), target, file)
            .with_context(|| format!("cannot add {} to an image", source.display()))?;
    }
    for (path, target) in &spec.links {
        let path = layer.make_room(path, target)?;
        let mut header = header(0o777, 0);
        header.set_entry_type(tar::EntryType::Symlink);
        layer.archive.append_link(&mut header, path, target)?;
    }
    let mut hashing = layer.archive.into_inner()?;
    hashing.flush()?;
    Ok(hex(hashing.context.finish().as_ref()))
}

struct Layer<W: Write> {
    archive: tar::Builder<W>,
    directories: BTreeSet<PathBuf>,
}

impl<W: Write> Layer<W> {
    /// The directories above a path of the image; the path as a tar has it. `what` goes there.
    fn make_room<'a>(&mut self, path: &'a str, what: &str) -> Result<&'a Path> {
        let path = Path::new(path.trim_start_matches('/'));
        if path.as_os_str().is_empty() {
            bail!("{what} has no path in the image");
        }
        let mut parents: Vec<_> = path.ancestors().skip(1).filter(|p| !p.as_os_str().is_empty()).collect();
        parents.reverse();
        for parent in parents {
            if self.directories.insert(parent.to_owned()) {
                let mut header = header(0o755, 0);
                header.set_entry_type(tar::EntryType::Directory);
                self.archive.append_data(&mut header, parent, io::empty())?;
            }
        }
        Ok(path)
    }
}

fn config(image: &ImageSpec, layer_digest: &str) -> Value {
    let mut config = json!({"Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]});
    if !image.entrypoint.is_empty() {
        config["Entrypoint"] = json!(image.entrypoint);
    }
    if !image.arguments.is_empty() {
        config["Cmd"] = json!(image.arguments);
    }
    if !image.user.is_empty() {
        config["User"] = json!(image.user);
    }
    json!({
        "architecture": image.architecture(),
        "os": "linux",
        "config": config,
        "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{layer_digest}")]},
    })
}

/// This machine's architecture in Go's words.
fn host_architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
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
