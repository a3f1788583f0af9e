//! Charts as Helm packs them, but with the same bytes each time, and as the artifact that `helm push` makes of them.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, ensure};
use berth_oci::Layout;
use serde_json::Value;

use super::pack::{Entry, below, tar_gz};
use crate::root;
use crate::shell::Result;

/// Helm's media types.
const CONFIG: &str = "application/vnd.cncf.helm.config.v1+json";
const CHART: &str = "application/vnd.cncf.helm.chart.content.v1.tar+gzip";

/// Packs a chart of the checkout, with the release's version, and the digests of its images.
pub(super) fn write(dir: &Path, name: &str, version: &str, digests: &[(&str, String)]) -> Result<()> {
    let (entries, metadata) = files(&root().join("charts").join(name), name, version, digests)?;
    let packed = tar_gz(&entries)?;
    super::write(&dir.join("charts").join(format!("{name}-{version}.tgz")), &packed)?;
    let layout = Layout::create(&dir.join("oci/charts").join(name))?;
    let config = serde_json::to_vec(&metadata)?;
    layout.artifact((CONFIG, &config), (CHART, &packed), version, &super::annotations(name, version)).map(|_| ())
}

/// The files of a chart, Chart.yaml first, and what that says.
fn files(folder: &Path, name: &str, version: &str, digests: &[(&str, String)]) -> Result<(Vec<Entry>, Value)> {
    let mut paths = below(folder)?;
    // Editors' own.
    paths.retain(|path| !path.split('/').any(|part| part.starts_with('.')));
    let about = fs::read_to_string(folder.join("Chart.yaml")).with_context(|| format!("chart {name}"))?;
    let about = released(&about, version, digests)?;
    let metadata: Value = serde_saphyr::from_str(&about).with_context(|| format!("Chart.yaml of {name}"))?;
    ensure!(metadata["version"] == version && metadata["appVersion"] == version, "Chart.yaml of {name}: {metadata}");
    let entry = |path: &str, content| Entry { path: format!("{name}/{path}"), content, mode: 0o644 };
    let mut entries = vec![entry("Chart.yaml", about.into_bytes())];
    for path in paths.iter().filter(|p| *p != "Chart.yaml") {
        entries.push(entry(path, fs::read(folder.join(path))?));
    }
    Ok((entries, metadata))
}

/// Chart.yaml with another version. The digests are annotations, which the chart's templates take where no tag is set: a value would
/// also pin the image of whoever sets another tag.
fn released(about: &str, version: &str, digests: &[(&str, String)]) -> Result<String> {
    ensure!(!about.contains("\nannotations:"), "Chart.yaml has annotations already");
    let mut text = String::new();
    for line in about.lines() {
        match line.split_once(": ") {
            Some((key @ ("version" | "appVersion"), _)) => writeln!(text, "{key}: \"{version}\"")?,
            _ => writeln!(text, "{line}")?,
        }
    }
    if !digests.is_empty() {
        text += "annotations:\n";
    }
    for (name, digest) in digests {
        writeln!(text, "  berth.dev/{name}-digest: \"{digest}\"")?;
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_released_chart_has_the_releases_version_and_digests() {
        let digests = [("operator", "sha256:aa".to_owned()), ("agent", "sha256:bb".to_owned())];
        let chart = root().join("charts/berth");
        let (entries, metadata) = files(&chart, "berth", "7.8.9-rc.1", &digests).unwrap();
        assert_eq!(entries[0].path, "berth/Chart.yaml");
        assert_eq!(metadata["annotations"]["berth.dev/agent-digest"], "sha256:bb");
        assert_eq!(metadata["kubeVersion"], ">=1.34.0-0");
        let paths: Vec<_> = entries.iter().map(|e| e.path.as_str()).collect();
        for path in ["berth/values.yaml", "berth/values.schema.json", "berth/files/alerts.yaml"] {
            assert_eq!(paths.iter().filter(|p| **p == path).count(), 1, "{paths:?}");
        }
        // The order of a folder is not the same everywhere.
        assert!(paths[1..].is_sorted());
    }

    #[test]
    fn both_charts_are_written_the_same_twice() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["berth", "berth-crds"] {
            let packed = ["a", "b"].map(|place| {
                write(&dir.path().join(place), name, "1.2.3", &[]).unwrap();
                let layout = dir.path().join(place).join("oci/charts").join(name);
                let index = fs::read_to_string(layout.join("index.json")).unwrap();
                (fs::read(dir.path().join(place).join(format!("charts/{name}-1.2.3.tgz"))).unwrap(), index)
            });
            assert_eq!(packed[0], packed[1], "{name}");
        }
    }
}
