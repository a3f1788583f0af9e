//! One artifact in a folder: an image of several architectures, or something else that registries keep, such as a chart.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::{INDEX, MANIFEST, OCI_LAYOUT, blob_path, described, image::Image, image::ImageSpec, sha256};

/// An OCI image layout.
#[derive(Debug)]
pub struct Layout {
    dir: PathBuf,
}

impl Layout {
    /// An empty one, in a folder that is not there yet.
    pub fn create(dir: &Path) -> Result<Self> {
        let making = || -> io::Result<()> {
            fs::create_dir_all(dir.join("blobs/sha256"))?;
            fs::write(dir.join("oci-layout"), OCI_LAYOUT)
        };
        making().with_context(|| format!("cannot make {}", dir.display()))?;
        Ok(Self { dir: dir.to_owned() })
    }

    /// An image of each architecture, under a tag; the digest by which all of them are pulled.
    pub fn images(&self, specs: &[ImageSpec], tag: &str, annotations: &Value) -> Result<String> {
        let mut manifests = vec![];
        for spec in specs {
            let mut image = Image::make(spec, &self.dir)?;
            self.blob(&image.config)?;
            self.blob(&image.manifest)?;
            io::copy(&mut image.layer, &mut File::create(self.dir.join(blob_path(&image.layer_digest)))?)?;
            manifests.push(image.descriptor);
        }
        let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests, "annotations": annotations});
        let index = serde_json::to_vec(&index)?;
        self.blob(&index)?;
        self.tag(described(INDEX, &index), tag)
    }

    /// A manifest of a configuration and one file, under a tag; its digest.
    pub fn artifact(
        &self,
        config: (&str, &[u8]),
        file: (&str, &[u8]),
        tag: &str,
        annotations: &Value,
    ) -> Result<String> {
        let manifest = serde_json::to_vec(&json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": described(config.0, config.1),
            "layers": [described(file.0, file.1)],
            "annotations": annotations,
        }))?;
        for blob in [config.1, file.1, &manifest] {
            self.blob(blob)?;
        }
        self.tag(described(MANIFEST, &manifest), tag)
    }

    fn tag(&self, mut entry: Value, tag: &str) -> Result<String> {
        let digest = entry["digest"].as_str().unwrap_or_default().to_owned();
        entry["annotations"] = json!({"org.opencontainers.image.ref.name": tag});
        let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": [entry]});
        let file = self.dir.join("index.json");
        fs::write(&file, serde_json::to_vec(&index)?).with_context(|| format!("cannot write {}", file.display()))?;
        Ok(digest)
    }

    fn blob(&self, content: &[u8]) -> Result<()> {
        let file = self.dir.join(blob_path(&sha256(content)));
        fs::write(&file, content).with_context(|| format!("cannot write {}", file.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every blob that is named is there, with its size and digest; how many there are.
    fn follow(dir: &Path, descriptor: &Value, seen: &mut Vec<String>) {
        let digest = descriptor["digest"].as_str().unwrap().strip_prefix("sha256:").unwrap();
        let content = fs::read(dir.join("blobs/sha256").join(digest)).unwrap();
        assert_eq!((sha256(&content).as_str(), Some(content.len() as u64)), (digest, descriptor["size"].as_u64()));
        seen.push(digest.to_owned());
        if !descriptor["mediaType"].as_str().unwrap().ends_with("+json") {
            return;
        }
        let value: Value = serde_json::from_slice(&content).unwrap();
        let lists = ["manifests", "layers"].iter().filter_map(|l| value[*l].as_array()).flatten();
        lists.chain(value.get("config").filter(|c| c["digest"].is_string())).for_each(|d| follow(dir, d, seen));
    }

    fn entry(dir: &Path) -> Value {
        let index: Value = serde_json::from_slice(&fs::read(dir.join("index.json")).unwrap()).unwrap();
        assert_eq!(index["manifests"].as_array().unwrap().len(), 1, "crane pushes a layout with one entry");
        index["manifests"][0].clone()
    }

    #[test]
    fn a_layout_has_each_blob_that_it_names_and_no_other() {
        let dir = tempfile::tempdir().unwrap();
        let spec = |architecture: &str| {
            let binary = dir.path().join(architecture);
            fs::write(&binary, architecture).unwrap();
            ImageSpec {
                files: vec![(binary, "/program".into())],
                architecture: architecture.into(),
                ..ImageSpec::default()
            }
        };
        let specs = [spec("amd64"), spec("arm64")];
        let digests: Vec<String> = ["a", "b"]
            .map(|name| {
                let layout = dir.path().join(name);
                let digest = Layout::create(&layout).unwrap().images(&specs, "1.0.0", &json!({})).unwrap();
                let entry = entry(&layout);
                assert_eq!(entry["annotations"]["org.opencontainers.image.ref.name"], "1.0.0");
                assert_eq!(entry["digest"], digest.as_str());
                let mut seen = vec![];
                follow(&layout, &entry, &mut seen);
                seen.sort();
                let mut there: Vec<_> = fs::read_dir(layout.join("blobs/sha256")).unwrap().flatten().collect();
                there.sort_by_key(fs::DirEntry::file_name);
                let there: Vec<_> = there.iter().map(|f| f.file_name().into_string().unwrap()).collect();
                // An index, and for each architecture a manifest, a configuration and a layer.
                assert_eq!((there.len(), &there), (7, &seen));
                digest
            })
            .to_vec();
        assert_eq!(digests[0], digests[1]);
    }

    #[test]
    fn an_artifact_has_its_own_media_types() {
        let dir = tempfile::tempdir().unwrap();
        let layout = Layout::create(dir.path()).unwrap();
        layout
            .artifact(("application/x.config+json", b"{}"), ("application/x.file", b"text"), "1", &json!({}))
            .unwrap();
        let mut seen = vec![];
        follow(dir.path(), &entry(dir.path()), &mut seen);
        assert_eq!(seen.len(), 3);
    }
}
