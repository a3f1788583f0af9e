//! What to expect before it is there: minutes of building, megabytes of a file. Pure.

use super::catalog::Artifact;
use crate::versions::KUBERNETES_PREVIOUS_PATCH;

/// Seconds that building what is missing of an artifact takes on two cores with cold caches, as measured; roughly.
pub(super) fn seconds(artifact: &Artifact) -> u64 {
    let missing = artifact.binaries.iter().map(|(name, _)| *name).filter(|name| !artifact.binary(name).exists());
    missing.map(|name| of_program(artifact, name)).sum()
}

fn of_program(artifact: &Artifact, name: &str) -> u64 {
    // Its sources are those of the newest: it is only linked.
    if artifact.version == KUBERNETES_PREVIOUS_PATCH {
        return 10;
    }
    match name {
        "s3s-fs" => 180,
        "kube-apiserver" | "e2e.test" => 480,
        "kube-controller-manager" => 120,
        "coredns" => 160,
        "helm" | "helm4" => 144,
        "containerd" | "descheduler" | "kube-router" | "metrics-server" => 100,
        "agnhost" | "otelcol" => 90,
        "etcd" | "health" | "kwok" | "crane" => 40,
        "pause" => 5,
        _ => 20,
    }
}

/// For people: `some 20 s` or `some 8 min`.
pub(super) fn span(seconds: u64) -> String {
    if seconds < 90 { format!("some {seconds} s") } else { format!("some {} min", (seconds + 30) / 60) }
}

/// For people: `86 MB`, and of less than one `12 kB`.
pub(super) fn size(bytes: u64) -> String {
    if bytes < 1_000_000 { format!("{} kB", bytes.div_ceil(1000)) } else { format!("{} MB", bytes / 1_000_000) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_expected_is_said_roughly() {
        assert_eq!([5, 89, 90, 480].map(span), ["some 5 s", "some 89 s", "some 2 min", "some 8 min"]);
        assert_eq!([1, 999_999, 1_000_000, 105_398_434].map(size), ["1 kB", "1000 kB", "1 MB", "105 MB"]);
    }
}
