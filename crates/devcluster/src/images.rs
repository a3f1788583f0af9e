//! Images under upstream's names, made of the binaries that were built, and cached in [`paths::cache`]`/images`.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};

pub use berth_oci::{ImageSpec, parse_file, write_archive as write_oci};

use crate::{
    binaries, files, paths,
    versions::{CONTAINERD, COREDNS, ETCD, ETCD_OLDER, KUBERNETES, KUBERNETES_OLDER, KUBERNETES_PREVIOUS_PATCH, PAUSE},
};

/// The images without which no pod and no cluster DNS starts.
pub(crate) fn essential() -> Result<Vec<PathBuf>> {
    Ok(vec![pause()?, coredns()?])
}

/// The three control-plane images of a Kubernetes version, as cached archives.
pub fn control_plane(version: &str) -> Result<Vec<PathBuf>> {
    ["kube-apiserver", "kube-controller-manager", "kube-scheduler"]
        .iter()
        .map(|name| kubernetes(name, version))
        .collect()
}

/// One image of Kubernetes, as a cached archive: `kubernetes("kube-proxy", "v1.36.3")`.
pub fn kubernetes(name: &str, version: &str) -> Result<PathBuf> {
    let binary = binaries::path("kubernetes", version, name)?;
    cached(&ImageSpec {
        reference: format!("registry.k8s.io/{name}:{version}"),
        files: vec![(binary, format!("/usr/local/bin/{name}"))],
        ..ImageSpec::default()
    })
}

/// The etcd image of a version, as a cached archive. Upstream adds an image revision to the tag: `3.6.16-0`.
pub fn etcd(version: &str) -> Result<PathBuf> {
    let binaries = ["etcd", "etcdctl", "etcdutl"]
        .iter()
        .map(|name| Ok((binaries::path("etcd", version, name)?, format!("/usr/local/bin/{name}"))))
        .collect::<Result<_>>()?;
    cached(&ImageSpec {
        reference: format!("registry.k8s.io/etcd:{}-0", version.trim_start_matches('v')),
        files: binaries,
        ..ImageSpec::default()
    })
}

/// The images of every version that is built: the newest ones first.
pub fn all_built() -> Result<Vec<PathBuf>> {
    let mut all = Vec::new();
    for version in [KUBERNETES, KUBERNETES_PREVIOUS_PATCH].iter().chain(&KUBERNETES_OLDER) {
        if binaries::path("kubernetes", version, "kube-scheduler").is_ok() {
            all.extend(control_plane(version)?);
        }
    }
    for version in [ETCD, ETCD_OLDER] {
        if binaries::path("etcd", version, "etcdutl").is_ok() {
            all.push(etcd(version)?);
        }
    }
    all.push(kubernetes("kube-proxy", KUBERNETES)?);
    Ok(all)
}

fn pause() -> Result<PathBuf> {
    cached(&ImageSpec {
        reference: format!("registry.k8s.io/pause:{PAUSE}"),
        entrypoint: vec!["/pause".to_owned()],
        files: vec![(binaries::path("pause", PAUSE, "pause")?, "/pause".to_owned())],
        user: "65535:65535".to_owned(),
        ..ImageSpec::default()
    })
}

fn coredns() -> Result<PathBuf> {
    cached(&ImageSpec {
        reference: format!("registry.k8s.io/coredns/coredns:v{COREDNS}"),
        entrypoint: vec!["/coredns".to_owned()],
        files: vec![(binaries::path("coredns", COREDNS, "coredns")?, "/coredns".to_owned())],
        ..ImageSpec::default()
    })
}

/// Writes an image to the cache unless it is there and newer than its files.
fn cached(image: &ImageSpec) -> Result<PathBuf> {
    let directory = paths::cache().join("images");
    let file = directory.join(format!("{}.tar", image.reference.replace(['/', ':'], "_")));
    if is_newer(&file, &image.files) {
        return Ok(file);
    }
    let _lock = files::Lock::acquire(&paths::cache().join("locks/images"), "images")?;
    if !is_newer(&file, &image.files) {
        files::create_dir(&directory)?;
        write_oci(&file, image)?;
    }
    Ok(file)
}

fn is_newer(file: &Path, sources: &[(PathBuf, String)]) -> bool {
    let modified = |path: &Path| path.metadata().and_then(|meta| meta.modified()).ok();
    let Some(made) = modified(file) else { return false };
    sources.iter().all(|(source, _)| modified(source).is_some_and(|source| source <= made))
}

/// Imports archives into a running containerd.
pub(crate) fn import(socket: &Path, archives: &[PathBuf]) -> Result<()> {
    let ctr = binaries::path("containerd", CONTAINERD, "ctr")?;
    for archive in archives {
        // ctr hands the path on to containerd, which wants it absolute.
        let archive = archive.canonicalize().with_context(|| format!("there is no image {}", archive.display()))?;
        let output = Command::new(&ctr)
            .arg("--address")
            .arg(socket)
            .args(["--namespace", "k8s.io", "images", "import", "--local"])
            .arg(&archive)
            .output()
            .with_context(|| format!("cannot run {}", ctr.display()))?;
        if !output.status.success() {
            let message = String::from_utf8_lossy(&output.stderr);
            bail!("cannot import the image {}: {}", archive.display(), message.trim());
        }
    }
    Ok(())
}
