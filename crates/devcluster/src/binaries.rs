//! The binaries that a cluster needs: where they lie in the cache, and how they get there. `BERTH_BINARIES` says whether they are
//! fetched from their publishers, fetched from another cache, or built from Go modules, and one from a crate.
//!
//! Layout under [`paths::cache`]`/bin`: `kubernetes/<v1.x.y>/<name>`, `etcd/<v3.x.y>/<name>`,
//! `tools/<name>-<x.y.z>/<name>`. A file that is there is complete: each is made under a temporary name and renamed.

mod build;
mod catalog;
mod check;
mod download;
mod expected;
mod fetch;
mod go_module;
mod list;
mod provide;
mod proxy;
mod sources;
mod sums;

use std::path::PathBuf;

use anyhow::{Result, bail};

pub use catalog::{Artifact, Selection};
pub use list::write_sums;
pub use provide::{build, cross};

use crate::paths;

/// The path of one built binary, for example `path("kubernetes", "v1.36.3", "kube-apiserver")`,
/// `path("etcd", "v3.6.16", "etcdctl")` or `path("helm", "3.22.0", "helm")`. An error says how to build it.
pub fn path(component: &str, version: &str, name: &str) -> Result<PathBuf> {
    let path = directory(component, version).join(name);
    if !path.exists() {
        bail!("{name} {version} is not built ({} is missing): run `devcluster build`", path.display());
    }
    Ok(path)
}

/// The directory with the binaries of one component and version, whether or not they are built yet.
pub fn directory(component: &str, version: &str) -> PathBuf {
    let bin = paths::cache().join("bin");
    match component {
        "kubernetes" | "etcd" => bin.join(component).join(version),
        tool => bin.join("tools").join(format!("{tool}-{version}")),
    }
}

/// `kubectl` of the meta cluster's version.
pub fn kubectl() -> Result<PathBuf> {
    path("kubernetes", crate::versions::KUBERNETES, "kubectl")
}

/// `crane`, which copies images between registries and serves one. Only `make test-all` needs it: [`build`] makes it.
pub fn crane() -> Result<PathBuf> {
    path("crane", crate::versions::CRANE, "crane")
}

/// `s3s-fs`, an S3 server on a directory.
pub fn s3_server() -> Result<PathBuf> {
    path("s3s-fs", crate::versions::S3S_FS, "s3s-fs")
}

/// Helm 4, which `berth-apps` calls. Few tests need it: [`build`] makes it.
pub fn helm4() -> Result<PathBuf> {
    path("helm4", crate::versions::HELM_NEXT, "helm4")
}

/// `helm`, in the version that charts are tested with.
pub fn helm() -> Result<PathBuf> {
    path("helm", crate::versions::HELM, "helm")
}
