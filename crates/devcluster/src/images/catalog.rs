//! What the Apps of `examples/apps` run on nodes, under upstream's names.

use std::path::PathBuf;

use anyhow::Result;
use berth_oci::ImageSpec;

use super::{cached, machine};
use crate::{
    binaries,
    versions::{CNI_PLUGINS, DESCHEDULER, KUBE_ROUTER, METRICS_SERVER},
};

/// These images, as cached archives.
///
/// # Errors
///
/// If `kube-router`, `metrics-server` or `descheduler` is not built.
pub fn of_catalog() -> Result<Vec<PathBuf>> {
    Ok(vec![
        kube_router()?,
        program("metrics-server", METRICS_SERVER, "/metrics-server")?,
        program("descheduler", DESCHEDULER, "/bin/descheduler")?,
    ])
}

/// With the plugins that it puts on nodes, where upstream's image has them, and what it calls.
fn kube_router() -> Result<PathBuf> {
    let program = binaries::path("kube-router", KUBE_ROUTER, "kube-router")?;
    let mut files = vec![(program, "/usr/local/bin/kube-router".to_owned())];
    for plugin in ["bridge", "host-local", "loopback", "portmap"] {
        files.push((binaries::path("cni-plugins", CNI_PLUGINS, plugin)?, format!("/usr/libexec/cni/{plugin}")));
    }
    files.extend(machine::network()?);
    cached(&ImageSpec {
        reference: format!("docker.io/cloudnativelabs/kube-router:v{KUBE_ROUTER}"),
        entrypoint: vec!["/usr/local/bin/kube-router".to_owned()],
        files,
        ..ImageSpec::default()
    })
}

/// One program that stands alone.
fn program(name: &str, version: &str, path: &str) -> Result<PathBuf> {
    cached(&ImageSpec {
        reference: format!("registry.k8s.io/{name}/{name}:v{}", version.trim_start_matches('v')),
        entrypoint: vec![path.to_owned()],
        files: vec![(binaries::path(name, version, name)?, path.to_owned())],
        user: "65534:65534".to_owned(),
        ..ImageSpec::default()
    })
}
