//! Where images come from.

use crate::Binary;
use berth_api::version::Version;

/// Upstream's public registry.
pub const UPSTREAM_REGISTRY: &str = "registry.k8s.io";

/// The image of a component at a version. `registry` (such as `mirror.example.com/k8s`) replaces upstream's public
/// registry and keeps its names and tags; empty: upstream.
pub fn image(registry: &str, component: Binary, version: Version) -> String {
    let registry = if registry.is_empty() { UPSTREAM_REGISTRY } else { registry.trim_end_matches('/') };
    format!("{registry}/{}:{}", component.name(), component.tag(version))
}

/// Another image of that kind of registry: the last part of its name, with tag and digest, in `registry`.
pub fn relocated(registry: &str, image: &str) -> String {
    let name = image.rsplit('/').next().unwrap_or(image);
    format!("{}/{name}", registry.trim_end_matches('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        let of = |registry, component, version: &str| image(registry, component, version.parse().unwrap());
        assert_eq!(of("", Binary::ApiServer, "1.36.3"), "registry.k8s.io/kube-apiserver:v1.36.3");
        assert_eq!(of("", Binary::Etcd, "3.6.16"), "registry.k8s.io/etcd:3.6.16-0");
        assert_eq!(of("reg:5000/k8s/", Binary::Scheduler, "1.34.4"), "reg:5000/k8s/kube-scheduler:v1.34.4");
        assert_eq!(relocated("reg:5000/k8s", "ghcr.io/b/agent:1@sha256:ab"), "reg:5000/k8s/agent:1@sha256:ab");
    }
}
