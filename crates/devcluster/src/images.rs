//! Images under upstream's names, made of the binaries that were built, and cached in [`paths::cache`]`/images`.

mod catalog;
mod conformance;
mod machine;

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};

pub use berth_oci::{ImageSpec, parse_file, write_archive as write_oci};
pub use catalog::of_catalog;
pub use conformance::conformance;

use crate::{
    binaries, files, paths,
    versions::{
        AGNHOST, CONTAINERD, COREDNS, ETCD, ETCD_OLDER, KUBERNETES, KUBERNETES_OLDER, KUBERNETES_PREVIOUS_PATCH, PAUSE,
    },
};

/// An image with a shell that looks up names and opens connections: what a test asks from a pod.
pub const SHELL: &str = "devcluster.local/shell:1";

/// The images without which no pod and no cluster DNS starts.
pub(crate) fn essential() -> Result<Vec<PathBuf>> {
    Ok(vec![pause()?, coredns(COREDNS)?])
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

/// What the nodes of a tenant of [`KUBERNETES`] run of Berth's add-ons, beside what every machine has.
pub fn addons() -> Result<Vec<PathBuf>> {
    Ok(vec![kube_proxy(KUBERNETES)?])
}

/// What the nodes of a tenant need for the demo and for tests: add-ons, and [agnhost](https://pkg.go.dev/k8s.io/kubernetes/test/images/agnhost)
/// where it is built.
pub fn of_nodes() -> Result<Vec<PathBuf>> {
    let mut all = addons()?;
    if binaries::path("agnhost", AGNHOST, "agnhost").is_ok() {
        all.push(agnhost()?);
    }
    Ok(all)
}

fn agnhost() -> Result<PathBuf> {
    cached(&ImageSpec {
        reference: format!("registry.k8s.io/e2e-test-images/agnhost:{AGNHOST}"),
        entrypoint: vec!["/agnhost".to_owned()],
        files: vec![(binaries::path("agnhost", AGNHOST, "agnhost")?, "/agnhost".to_owned())],
        ..ImageSpec::default()
    })
}

/// kube-proxy with the `nft` that it calls, as upstream's image has it. Of the modes it does nftables alone.
fn kube_proxy(version: &str) -> Result<PathBuf> {
    let mut files =
        vec![(binaries::path("kubernetes", version, "kube-proxy")?, "/usr/local/bin/kube-proxy".to_owned())];
    files.extend(machine::nft()?);
    let image = ImageSpec { reference: format!("registry.k8s.io/kube-proxy:{version}"), files, ..ImageSpec::default() };
    // Beside the one without `nft`, which has the same name.
    cached_as(&format!("kube-proxy-nft_{version}"), &image)
}

/// The image [`SHELL`]: `bash`, which opens connections by itself, and `getent`, which looks up names.
pub fn shell() -> Result<PathBuf> {
    cached(&ImageSpec {
        reference: SHELL.to_owned(),
        files: machine::with_libraries(&["bash", "getent"])?,
        ..ImageSpec::default()
    })
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

fn coredns(version: &str) -> Result<PathBuf> {
    cached(&ImageSpec {
        reference: format!("registry.k8s.io/coredns/coredns:v{version}"),
        entrypoint: vec!["/coredns".to_owned()],
        files: vec![(binaries::path("coredns", version, "coredns")?, "/coredns".to_owned())],
        ..ImageSpec::default()
    })
}

/// Writes an image to the cache unless it is there and newer than its files.
fn cached(image: &ImageSpec) -> Result<PathBuf> {
    cached_as(&image.reference.replace(['/', ':'], "_"), image)
}

fn cached_as(name: &str, image: &ImageSpec) -> Result<PathBuf> {
    let directory = paths::cache().join("images");
    let file = directory.join(format!("{name}.tar"));
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
