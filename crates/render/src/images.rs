//! Where images come from.

use crate::{Binary, Catalog};
pub use berth_api::common::Layout;
use berth_api::version::Version;
use std::collections::BTreeSet;

/// Upstream's public registry.
pub const UPSTREAM_REGISTRY: &str = "registry.k8s.io";

/// Where Berth's own images are, unless somebody mirrors them.
pub const OWN_REGISTRY: &str = "ghcr.io/berth-dev";

/// The Kubernetes version of each minor that this Berth is tested with. Tenants may run any patch version.
pub const TESTED: [&str; 3] = ["1.34.4", "1.35.4", "1.36.3"];

/// Berth's own images, at a version of Berth.
pub fn own(berth: &str) -> [String; 7] {
    ["operator", "agent", "backup", "gateway", "access", "api-proxy", "apps"]
        .map(|name| format!("{OWN_REGISTRY}/{name}:{berth}"))
}

/// Upstream's images for a new tenant of a Kubernetes version. None: the version is not supported.
pub fn upstream(kubernetes: Version) -> Option<Vec<String>> {
    let etcd = Catalog::builtin().kubernetes(kubernetes.minor())?.default_etcd()?;
    let version = |component| if component == Binary::Etcd { etcd } else { kubernetes };
    let components = Binary::ALL.map(|component| image("", component, version(component)));
    let coredns = Catalog::builtin().kubernetes(kubernetes.minor())?.coredns()?;
    Some(components.into_iter().chain([self::coredns("", Layout::Flat, coredns), kube_proxy("", kubernetes)]).collect())
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

/// The image of CoreDNS, the only one of upstream's in a folder. A flat mirror has no folder for it, as with kubeadm.
pub fn coredns(registry: &str, layout: Layout, version: Version) -> String {
    mirrored(registry, layout, &format!("{UPSTREAM_REGISTRY}/coredns/coredns:v{version}"))
}

/// An image in a registry that has upstream's. Empty: it stays where it is. Berth's own images are under the last part of their names.
pub fn mirrored(registry: &str, layout: Layout, image: &str) -> String {
    let path = image.strip_prefix(UPSTREAM_REGISTRY).filter(|_| layout == Layout::Upstream);
    match (registry.trim_end_matches('/'), path) {
        ("", _) => image.to_owned(),
        (registry, Some(path)) => format!("{registry}{path}"),
        (registry, None) => relocated(registry, image),
    }
}

/// The image of a component that is named on its own, at a version. `tag`: upstream's of that version, for a name without one. None: the name
/// has a tag of another version.
pub fn overridden(name: &str, tag: &str, version: Version) -> Option<String> {
    match tag_of(name) {
        None => Some(format!("{name}:{tag}")),
        Some(own) => is_of(own, version).then(|| name.to_owned()),
    }
}

/// The tag of an image.
pub fn tag_of(image: &str) -> Option<&str> {
    let (name, _) = image.split_once('@').unwrap_or((image, ""));
    // A colon before the last slash is a port's.
    name.rsplit('/').next()?.split_once(':').map(|(_, tag)| tag)
}

/// Whether a tag is of that version: `v1.36.3`, `1.36.3-0` and `v1.36.3-acme.1` are of 1.36.3.
pub fn is_of(tag: &str, version: Version) -> bool {
    let rest = tag.strip_prefix('v').unwrap_or(tag).strip_prefix(&version.to_string());
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', '_', '.']))
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
    fn a_name_of_its_own_is_of_one_version() {
        let digest = format!("@sha256:{}", "ab".repeat(32));
        for (name, image) in [
            ("reg:5000/k8s/api", Some("reg:5000/k8s/api:v1.36.3")),
            ("reg/api:v1.36.3", Some("reg/api:v1.36.3")),
            ("reg:5000/api:1.36.3", Some("reg:5000/api:1.36.3")),
            ("reg/api:v1.36.3-acme.1", Some("reg/api:v1.36.3-acme.1")),
            ("reg/api:v1.36.30", None),
            ("reg/api:v1.36.2", None),
            ("reg/api:latest", None),
        ] {
            assert_eq!(overridden(name, "v1.36.3", "1.36.3".parse().unwrap()).as_deref(), image, "{name}");
            let pinned = format!("{name}{digest}");
            let wanted = image.filter(|_| tag_of(name).is_some()).map(|image| format!("{image}{digest}"));
            if tag_of(name).is_some() {
                assert_eq!(overridden(&pinned, "v1.36.3", "1.36.3".parse().unwrap()), wanted, "{pinned}");
            }
        }
    }

    #[test]
    fn names() {
        let of = |registry, component, version: &str| image(registry, component, version.parse().unwrap());
        assert_eq!(of("", Binary::ApiServer, "1.36.3"), "registry.k8s.io/kube-apiserver:v1.36.3");
        assert_eq!(of("", Binary::Etcd, "3.6.16"), "registry.k8s.io/etcd:3.6.16-0");
        assert_eq!(of("reg:5000/k8s/", Binary::Scheduler, "1.34.4"), "reg:5000/k8s/kube-scheduler:v1.34.4");
        let version = "1.14.2".parse().unwrap();
        for (registry, layout, name) in [
            ("", Layout::Flat, "registry.k8s.io/coredns/coredns:v1.14.2"),
            ("", Layout::Upstream, "registry.k8s.io/coredns/coredns:v1.14.2"),
            ("reg:5000/k8s/", Layout::Flat, "reg:5000/k8s/coredns:v1.14.2"),
            ("reg:5000/k8s/", Layout::Upstream, "reg:5000/k8s/coredns/coredns:v1.14.2"),
        ] {
            assert_eq!(coredns(registry, layout, version), name);
        }
        assert_eq!(mirrored("reg:5000/k8s", Layout::Upstream, "ghcr.io/b/agent:1"), "reg:5000/k8s/agent:1");
        assert_eq!(mirrored("r", Layout::Upstream, "registry.k8s.io/etcd:3.6.16-0"), "r/etcd:3.6.16-0");
        assert_eq!(relocated("reg:5000/k8s", "ghcr.io/b/agent:1@sha256:ab"), "reg:5000/k8s/agent:1@sha256:ab");
    }
}
