//! One image in a tar.

use std::{
    io::{BufWriter, Write},
    path::Path,
};

use anyhow::{Context, Result, bail};
use serde_json::json;

use crate::{INDEX, OCI_LAYOUT, blob_path, header, image::Image, image::ImageSpec, sha256};

/// Writes an image as an OCI archive that `ctr images import` and `docker load` read.
pub fn write_archive(out: &Path, spec: &ImageSpec) -> Result<()> {
    if !spec.reference.rsplit('/').next().is_some_and(|last| last.contains(':')) {
        bail!("the image name `{}` has no tag: write NAME:TAG", spec.reference);
    }
    let directory = out.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
    let mut image = Image::make(spec, directory)?;
    let mut entry = image.descriptor.clone();
    entry["annotations"] = json!({
        "io.containerd.image.name": spec.reference,
        "org.opencontainers.image.ref.name": spec.reference.rsplit(':').next(),
    });
    let index = serde_json::to_vec(&json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": [entry]}))?;
    write(out, directory, &mut image, &index)
        .with_context(|| format!("cannot write the image {} to {}", spec.reference, out.display()))
}

/// Under another name first, so that nobody sees half of it.
fn write(out: &Path, directory: &Path, image: &mut Image, index: &[u8]) -> Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    let everybody = std::fs::Permissions::from_mode(0o644);
    let file = tempfile::Builder::new().prefix(".image-").permissions(everybody).tempfile_in(directory)?;
    let mut archive = tar::Builder::new(BufWriter::new(file));
    let mut append =
        |path: &str, content: &[u8]| archive.append_data(&mut header(0o644, content.len() as u64), path, content);
    append("oci-layout", OCI_LAYOUT)?;
    append("index.json", index)?;
    for blob in [&image.config, &image.manifest] {
        append(&blob_path(&sha256(blob)), blob)?;
    }
    archive.append_data(&mut header(0o644, image.layer_size), blob_path(&image.layer_digest), &mut image.layer)?;
    let mut file = archive.into_inner()?;
    file.flush()?;
    file.into_inner()?.persist(out)?;
    Ok(())
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
            write_archive(&out, &image).unwrap();
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
    fn a_link_and_the_folders_above_it_are_in_the_layer_once() {
        let dir = tempfile::tempdir().unwrap();
        let binary = dir.path().join("busybox");
        std::fs::write(&binary, "#!ELF").unwrap();
        let image = ImageSpec {
            reference: "busybox:1".to_owned(),
            files: vec![(binary, "/bin/busybox".to_owned())],
            links: vec![("/bin/sh".to_owned(), "busybox".to_owned())],
            ..ImageSpec::default()
        };
        let out = dir.path().join("out.tar");
        write_archive(&out, &image).unwrap();
        let bytes = std::fs::read(out).unwrap();
        let mut archive = tar::Archive::new(bytes.as_slice());
        let mut layer = Vec::new();
        for entry in archive.entries().unwrap() {
            layer.clear();
            std::io::Read::read_to_end(&mut entry.unwrap(), &mut layer).unwrap();
        }
        let mut seen = Vec::new();
        for entry in tar::Archive::new(layer.as_slice()).entries().unwrap() {
            let entry = entry.unwrap();
            let link = entry.link_name().unwrap().map(|to| to.to_string_lossy().into_owned());
            seen.push((entry.path().unwrap().to_string_lossy().into_owned(), link));
        }
        assert_eq!(
            seen,
            [("bin".into(), None), ("bin/busybox".into(), None), ("bin/sh".into(), Some("busybox".into()))]
        );
    }

    #[test]
    fn a_name_without_a_tag_is_refused() {
        let image = ImageSpec { reference: "localhost:5000/program".to_owned(), ..ImageSpec::default() };
        assert!(write_archive(Path::new("/nowhere/x.tar"), &image).unwrap_err().to_string().contains("has no tag"));
    }
}
