//! What is loaded into the cluster: upstream's images as devcluster makes them, and Berth's own.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::SystemTime,
};

use anyhow::{Context, Result, anyhow, ensure};
use berth_devcluster::{
    Cluster, binaries,
    images::{self, ImageSpec, write_oci},
    versions,
};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::paths;

/// Repository of Berth's images, as charts have it.
const REPOSITORY: &str = "ghcr.io/berth-dev";

/// What a devcluster brings for tenants goes, so that it is pulled or is not there.
pub fn forget(cluster: &Cluster) -> Result<()> {
    let ctr = |more: &[&str]| -> Result<String> {
        let mut ctr = Command::new(binaries::path("containerd", versions::CONTAINERD, "ctr")?);
        ctr.arg("--address").arg(cluster.containerd_socket()).args(["--namespace", "k8s.io", "images"]).args(more);
        let output = ctr.output().context("cannot run ctr")?;
        ensure!(output.status.success(), "ctr {more:?}: {}", String::from_utf8_lossy(&output.stderr).trim());
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let ours = |line: &&str| ["/kube-", "/etcd:", "/berth-dev/"].iter().any(|part| line.contains(part));
    // Name, type, digest. Kubelet's side has a second name for each, which is the digest of its configuration.
    let listed = ctr(&["ls"])?;
    let rows = || listed.lines().map(|l| l.split_whitespace().collect::<Vec<_>>()).filter(|row| row.len() > 2);
    let digests: BTreeSet<&str> = rows().filter(|row| ours(&row[0])).map(|row| row[2]).collect();
    let names: Vec<&str> = rows().filter(|row| digests.contains(row[2])).map(|row| row[0]).collect();
    if !names.is_empty() {
        ctr(&[&["rm", "--sync"], &names[..]].concat())?;
    }
    let left = ctr(&["ls", "--quiet"])?;
    ensure!(!left.lines().any(|l| ours(&l)), "{left}");
    Ok(())
}

/// What these pods run, and mount as volumes.
pub fn of_pods(pods: &[Value]) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for pod in pods {
        let spec = &pod["spec"];
        let containers = ["containers", "initContainers"].iter().filter_map(|l| spec[*l].as_array()).flatten();
        all.extend(containers.filter_map(|c| c["image"].as_str()).map(str::to_owned));
        let volumes = spec["volumes"].as_array().into_iter().flatten();
        all.extend(volumes.filter_map(|v| v["image"]["reference"].as_str()).map(str::to_owned));
    }
    all
}

/// Loads every image of upstream's that is built and that the cluster has not got in that state.
pub fn load_upstream(cluster: &Cluster) -> Result<()> {
    load(cluster, &images::all_built()?)
}

/// Packs and loads an image of Berth's (`operator` or `agent`) with its program, and others as they were built; its tag, which has a
/// digest of the content, so that a tag never changes its meaning.
pub fn load_own(cluster: &Cluster, name: &str, content: &[u8], others: &[&str]) -> Result<String> {
    let (tag, archive) = pack_own(cluster, name, content, others)?;
    load(cluster, &[archive])?;
    Ok(tag)
}

/// Packs and loads the image of `berth-apps`, which has Helm 4 in it; its tag.
pub fn load_apps(cluster: &Cluster) -> Result<String> {
    let (tag, archive) = pack_apps(cluster)?;
    load(cluster, &[archive])?;
    Ok(tag)
}

/// The same, and nothing is loaded. The tag, and the archive.
pub fn pack_apps(cluster: &Cluster) -> Result<(String, PathBuf)> {
    let (program, helm) = (paths::program("berth-apps")?, binaries::helm4()?);
    let digest = Sha256::new().chain_update(fs::read(&program)?).chain_update(fs::read(&helm)?).finalize();
    let tag = digest.iter().take(6).fold("e2e-".to_owned(), |tag, byte| format!("{tag}{byte:02x}"));
    let archive = cluster.dir().join(format!("e2e-apps-{tag}.tar"));
    if !archive.exists() {
        let image = ImageSpec {
            reference: format!("{REPOSITORY}/apps:{tag}"),
            entrypoint: vec!["/berth-apps".to_owned()],
            files: vec![(program, "/berth-apps".to_owned()), (helm, "/helm".to_owned())],
            user: "65532:65532".to_owned(),
            ..ImageSpec::default()
        };
        write_oci(&archive, &image)?;
    }
    Ok((tag, archive))
}

/// The same for machines beside the cluster: nothing is loaded. The tag, and the archive.
pub fn pack_own(cluster: &Cluster, name: &str, content: &[u8], others: &[&str]) -> Result<(String, PathBuf)> {
    let program = format!("/berth-{name}");
    let mut digest = Sha256::new_with_prefix(&program).chain_update(content);
    for other in others {
        digest = digest.chain_update(built(other)?);
    }
    let digest = digest.finalize();
    let tag = digest.iter().take(6).fold("e2e-".to_owned(), |tag, byte| format!("{tag}{byte:02x}"));
    let binary = cluster.dir().join(format!("e2e-{name}-{tag}"));
    let archive = binary.with_extension("tar");
    if !archive.exists() {
        fs::write(&binary, content)?;
        let mut files = vec![(binary.clone(), program.clone())];
        for other in others {
            let other = format!("berth-{other}");
            files.push((paths::program(&other)?, format!("/{other}")));
        }
        let image = ImageSpec {
            reference: format!("{REPOSITORY}/{name}:{tag}"),
            entrypoint: vec![program],
            files,
            user: "65532:65532".to_owned(),
            ..ImageSpec::default()
        };
        write_oci(&archive, &image)?;
        fs::remove_file(&binary)?;
    }
    Ok((tag, archive))
}

/// One of Berth's programs, as it was built.
pub fn built(name: &str) -> Result<Vec<u8>> {
    let path = paths::program(&format!("berth-{name}"))?;
    fs::read(&path).with_context(|| path.display().to_string())
}

fn load(cluster: &Cluster, archives: &[PathBuf]) -> Result<()> {
    let record = cluster.dir().join("e2e-images.json");
    let mut loaded: BTreeMap<PathBuf, u64> =
        fs::read(&record).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default();
    let mut missing = vec![];
    for archive in archives {
        let seconds = modified(archive)?;
        if loaded.insert(archive.clone(), seconds) != Some(seconds) {
            missing.push(archive.clone());
        }
    }
    if !missing.is_empty() {
        println!("    loading {} images", missing.len());
        cluster.load_images(&missing)?;
        fs::write(&record, serde_json::to_vec(&loaded)?)?;
    }
    Ok(())
}

/// Seconds since 1970.
fn modified(path: &Path) -> Result<u64> {
    let time = path.metadata().and_then(|m| m.modified()).with_context(|| path.display().to_string())?;
    time.duration_since(SystemTime::UNIX_EPOCH).map(|d| d.as_secs()).map_err(|e| anyhow!(e))
}

#[cfg(test)]
mod tests {
    use berth_devcluster::versions::{KUBERNETES, KUBERNETES_OLDER};
    use berth_render::images::TESTED;
    use std::collections::BTreeSet;

    #[test]
    fn what_is_said_to_be_tested_is_tested() {
        let ours: BTreeSet<_> =
            KUBERNETES_OLDER.iter().chain([&KUBERNETES]).map(|v| v.trim_start_matches('v')).collect();
        assert_eq!(ours, TESTED.into_iter().collect());
    }
}
