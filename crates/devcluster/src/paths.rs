//! Where things lie: the cache of builds (outside of any checkout) and the state of clusters.

use std::{env, path::PathBuf};

/// The cache of binaries and images: `$BERTH_CACHE`, else `$XDG_CACHE_HOME/berth`, else `~/.cache/berth`.
///
/// It is keyed by version, so several checkouts share it.
pub fn cache() -> PathBuf {
    from_env("BERTH_CACHE")
        .or_else(|| from_env("XDG_CACHE_HOME").map(|dir| dir.join("berth")))
        .unwrap_or_else(|| from_env("HOME").unwrap_or_else(|| PathBuf::from("/root")).join(".cache/berth"))
}

/// The state of clusters: `$BERTH_STATE`, else `/var/lib/berth/devcluster`. One directory per cluster, by name.
///
/// Keep it short: containerd's and kubelet's sockets lie in it, and a Unix socket's path ends at 107 bytes.
pub fn state() -> PathBuf {
    from_env("BERTH_STATE").unwrap_or_else(|| PathBuf::from("/var/lib/berth/devcluster"))
}

/// The register of address slots. It belongs to the machine, not to `$BERTH_STATE`: addresses must not overlap
/// between clusters of two state directories either.
pub(crate) fn slots() -> PathBuf {
    PathBuf::from("/var/lib/berth/slots")
}

/// Where `ip netns` keeps its named namespaces.
pub const NETNS_DIR: &str = "/run/netns";

fn from_env(name: &str) -> Option<PathBuf> {
    env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from)
}
