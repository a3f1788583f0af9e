//! Where images come from.

use crate::{Binary, Catalog};
use berth_api::version::Version;
use std::collections::BTreeSet;

/// Upstream's public registry.
pub const UPSTREAM_REGISTRY: &str = "registry.k8s.io";

/// Where Berth's own images are, unless somebody mirrors them.
pub const OWN_REGISTRY: &str = "ghcr.io/berth-dev";

/// The Kubernetes version of each minor that this Berth is tested with. Tenants may run any patch version.
pub const TESTED: [&str; 3] = ["1.34.4", "1.35.4", "1.36.3"];

/// Berth's own images, at a version of Berth.
pub fn own(berth: &str) -> [String; 3] {
    ["operator", "agent", "backup"].map(|name| format!("{OWN_REGISTRY}/{name}:{berth}"))
}

/// Upstream's images for a new tenant of a Kubernetes version. None: the version is not supported.
pub fn upstream(kubernetes: Version) -> Option<Vec<String>> {
    let etcd = Catalog::builtin().kubernetes(kubernetes.minor())?.default_etcd()?;
    let version = |component| if component == Binary::Etcd { etcd } else { kubernetes };
    let components = Binary::ALL.map(|component| image("", component, version(component)));
    let coredns = Catalog::builtin().kubernetes(kubernetes.minor())?.coredns()?;
    Some(components.into_iter().chain([self::coredns("", coredns), kube_proxy("", kubernetes)]).collect())
}

/// All images of a version of Berth and of tenants with [`TESTED`] versions: each once.
pub fn all(berth: &str) -> Vec<String> {
    let upstream: BTreeSet<String> = TESTED.iter().filter_map(|v| upstream(v.parse().ok()?)).flatten().collect();
    own(berth).into_iter().chain(upstream).collect()
}

/// The image of a component at a version. `registry` (such as `mirror.example.com/k8s`) replaces upstream's public
/// registry and keeps its names and tags; empty: upstream.
pub fn image(registry: &str, component: Binary, version: Version) -> String {
    let registry = if registry.is_empty() { UPSTREAM_REGISTRY } else { registry.trim_end_matches('/') };
    format!("{registry}/{}:{}", component.name(), component.tag(version))
}

/// The image of CoreDNS. A mirror has no folder for it, as with kubeadm.
pub fn coredns(registry: &str, version: Version) -> String {
    match registry.trim_end_matches('/') {
        "" => format!("{UPSTREAM_REGISTRY}/coredns/coredns:v{version}"),
        registry => format!("{registry}/coredns:v{version}"),
    }
}

/// The image of kube-proxy.
pub fn kube_proxy(registry: &str, version: Version) -> String {
    let registry = if registry.is_empty() { UPSTREAM_REGISTRY } else { registry.trim_end_matches('/') };
    format!("{registry}/kube-proxy:v{version}")
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
    fn what_a_tenant_needs_is_listed_for_each_minor() {
        let versions: Vec<Version> = TESTED.iter().map(|v| v.parse().unwrap()).collect();
        let minors: Vec<_> = versions.iter().map(|v| v.minor()).collect();
        assert_eq!(minors, Catalog::builtin().minors());
        let all = all("0.1.0");
        assert_eq!(all[..2], ["ghcr.io/berth-dev/operator:0.1.0", "ghcr.io/berth-dev/agent:0.1.0"]);
        for version in versions {
            let upstream = upstream(version).unwrap();
            assert_eq!(upstream.len(), 6);
            assert!(upstream.iter().all(|image| all.contains(image)));
        }
        assert_eq!(all.iter().filter(|image| image.contains("/etcd:")).count(), 1, "{all:?}");
        assert_eq!(upstream("1.20.0".parse().unwrap()), None);
    }

    #[test]
    fn names() {
        let of = |registry, component, version: &str| image(registry, component, version.parse().unwrap());
        assert_eq!(of("", Binary::ApiServer, "1.36.3"), "registry.k8s.io/kube-apiserver:v1.36.3");
        assert_eq!(of("", Binary::Etcd, "3.6.16"), "registry.k8s.io/etcd:3.6.16-0");
        assert_eq!(of("reg:5000/k8s/", Binary::Scheduler, "1.34.4"), "reg:5000/k8s/kube-scheduler:v1.34.4");
        let version = "1.14.2".parse().unwrap();
        assert_eq!(coredns("", version), "registry.k8s.io/coredns/coredns:v1.14.2");
        assert_eq!(coredns("reg:5000/k8s/", version), "reg:5000/k8s/coredns:v1.14.2");
        assert_eq!(relocated("reg:5000/k8s", "ghcr.io/b/agent:1@sha256:ab"), "reg:5000/k8s/agent:1@sha256:ab");
    }
}
