//! `kubectl berth` to download: an archive for each platform, and the manifest by which krew finds them.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::Context as _;

use super::DOWNLOADS;
use super::pack::{Entry, tar_gz};
use super::platforms::{Built, CLI, Platform};
use crate::root;
use crate::shell::Result;

/// An archive that was written.
#[derive(Clone, Debug)]
pub(super) struct Archive {
    platform: Platform,
    name: String,
    sha256: String,
}

/// Writes the archive of a platform.
pub(super) fn archive(dir: &Path, built: &Built, version: &str) -> Result<Archive> {
    let platform = built.platform;
    let program = built.program(CLI).with_context(|| format!("{CLI} was not built for {}", platform.name()))?;
    let read = |file: &Path| fs::read(file).with_context(|| format!("cannot read {}", file.display()));
    let packed = tar_gz(&[
        Entry { path: "LICENSE".into(), content: read(&root().join("LICENSE"))?, mode: 0o644 },
        Entry { path: platform.file(CLI), content: read(&program)?, mode: 0o755 },
    ])?;
    let name = format!("{CLI}_{version}_{}_{}.tar.gz", platform.os, platform.arch);
    super::write(&dir.join(&name), &packed)?;
    Ok(Archive { platform, name, sha256: berth_oci::sha256(&packed) })
}

/// The manifest.
pub(super) fn manifest(archives: &[Archive], version: &str) -> String {
    let mut text = format!(
        "apiVersion: krew.googlecontainertools.github.com/v1alpha2
kind: Plugin
metadata:
  name: berth
spec:
  version: v{version}
  homepage: https://github.com/berth-dev/berth
  shortDescription: Hosted Kubernetes control planes
  description: |
    Shows the state of hosted control planes (Clusters of Berth) and the next step, merges their kubeconfigs into yours, and shows
    what Berth would change before it does.
  platforms:
"
    );
    for Archive { platform, name, sha256 } in archives {
        let _ = write!(
            text,
            "    - selector: {{matchLabels: {{os: {os}, arch: {arch}}}}}
      uri: {DOWNLOADS}{version}/{name}
      sha256: {sha256}
      bin: {bin}
      files: [{{from: {bin}, to: .}}, {{from: LICENSE, to: .}}]
",
            os = platform.os,
            arch = platform.arch,
            bin = platform.file(CLI),
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[test]
    fn the_manifest_names_what_lies_beside_it() {
        let archives: Vec<Archive> = Platform::chosen(&["linux/arm64".into(), "windows/amd64".into()])
            .unwrap()
            .into_iter()
            .map(|platform| Archive { platform, name: format!("{}.tar.gz", platform.os), sha256: "ab".into() })
            .collect();
        let manifest: Value = serde_saphyr::from_str(&manifest(&archives, "1.2.3")).unwrap();
        assert_eq!(manifest["spec"]["version"], "v1.2.3");
        let platforms = &manifest["spec"]["platforms"];
        assert_eq!(platforms[0]["selector"]["matchLabels"], serde_json::json!({"os": "linux", "arch": "arm64"}));
        assert_eq!((&platforms[0]["bin"], &platforms[1]["bin"]), (&CLI.into(), &format!("{CLI}.exe").into()));
        assert!(platforms[1]["uri"].as_str().unwrap().ends_with("/v1.2.3/windows.tar.gz"));
        assert_eq!(platforms.as_array().unwrap().len(), 2);
    }
}
