//! Secrets for pulling images that the platform has for all tenants: read once, copied into each control-plane namespace. Of their content
//! plans know a digest.

use crate::digest::sha256;
use berth_api::names;
use std::collections::BTreeMap;

/// Types of Secrets with which kubelets pull images, each with the key that it reads.
const FORMS: [(&str, &str); 2] =
    [("kubernetes.io/dockerconfigjson", ".dockerconfigjson"), ("kubernetes.io/dockercfg", ".dockercfg")];

/// The longest name: a copy has it as the value of a label.
pub const LONGEST: usize = 63;

/// A pull Secret of the platform, as it was read last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PullSecret {
    /// There is none of that name.
    Missing,
    /// There is one of this type, with which no kubelet pulls.
    OtherType(String),
    /// It is there.
    Found {
        /// Its type.
        type_: &'static str,
        /// The one key that counts.
        key: &'static str,
        /// SHA-256 of what that key holds, in hexadecimal.
        digest: String,
    },
}

impl PullSecret {
    /// What a Secret of that type holds.
    pub fn read(type_: &str, data: &BTreeMap<String, Vec<u8>>) -> Self {
        let form = FORMS.into_iter().find(|(known, _)| *known == type_);
        let found = form.and_then(|(type_, key)| Some((type_, key, data.get(key)?)));
        found.map_or_else(
            || Self::OtherType(type_.to_owned()),
            |(type_, key, bytes)| Self::Found { type_, key, digest: sha256(bytes) },
        )
    }
}

/// Whether kubelets pull images with Secrets of that type.
pub fn pulls(type_: &str) -> bool {
    FORMS.iter().any(|(known, _)| *known == type_)
}

/// Whether it can be the name of a pull Secret of the platform.
pub fn may_be_named(name: &str) -> bool {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    name.len() <= LONGEST
        && name.starts_with(inner)
        && name.ends_with(inner)
        && name.chars().all(|c| inner(c) || c == '-' || c == '.')
}

/// Secrets that Berth makes in each control-plane namespace.
const BERTHS: [&str; 7] = [
    names::APISERVER_ENCRYPTION,
    names::APISERVER_PKI,
    names::CONTROLLER_MANAGER_PKI,
    names::SCHEDULER_PKI,
    names::APPROVER_PKI,
    names::ADMIN_KUBECONFIG,
    names::BREAK_GLASS_KUBECONFIG,
];

/// How names of its others there begin: of etcd, of Jobs of backups and restores, and of audit webhooks.
const BERTHS_BEGIN: [&str; 4] = ["etcd-", "backup-", "restore-", "kube-apiserver-audit-"];

/// Whether Berth keeps that name for a Secret of its own in every control-plane namespace.
pub fn is_reserved(name: &str) -> bool {
    BERTHS.contains(&name) || BERTHS_BEGIN.iter().any(|first| name.starts_with(first))
}

/// Whether Berth keeps that name for a Secret of its own in the control-plane namespace of a `Cluster` of that name.
pub fn is_reserved_in(cluster: &str, name: &str) -> bool {
    let own = [names::ca, names::proxy_ca, names::service_account, names::kubeconfig];
    is_reserved(name) || own.iter().any(|of| of(cluster) == name)
}

/// The command with which a person makes such a Secret.
pub fn how_to_create(namespace: &str, name: &str) -> String {
    format!(
        "kubectl -n {namespace} create secret docker-registry {name} --docker-server=REGISTRY --docker-username=USER --docker-password=PASSWORD"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_kubelets_pull_with_is_taken_and_shown_as_a_digest() {
        let data = |key: &str| BTreeMap::from([(key.to_owned(), b"s3cr3t".to_vec())]);
        for (type_, key) in FORMS {
            let read = PullSecret::read(type_, &data(key));
            assert_eq!(read, PullSecret::Found { type_, key, digest: sha256(b"s3cr3t") });
            assert!(!format!("{read:?}").contains("s3cr3t"));
            assert_eq!(PullSecret::read("Opaque", &data(key)), PullSecret::OtherType("Opaque".into()));
        }
    }

    #[test]
    fn names_of_berths_own_secrets_are_kept_for_them() {
        for (name, everywhere, in_harbor) in [
            ("kube-apiserver-encryption", true, true),
            ("break-glass-kubeconfig", true, true),
            ("etcd-peer-ca", true, true),
            ("etcd-client-backup", true, true),
            ("backup-nightly", true, true),
            ("restore-one-check", true, true),
            ("kube-apiserver-audit-0123456789ab", true, true),
            ("harbor-ca", false, true),
            ("harbor-proxy", false, true),
            ("harbor-sa", false, true),
            ("harbor-kubeconfig", false, true),
            ("acme-proxy", false, false),
            ("harbor", false, false),
            ("etcd", false, false),
            ("backups", false, false),
        ] {
            assert_eq!((is_reserved(name), is_reserved_in("harbor", name)), (everywhere, in_harbor), "{name}");
        }
    }

    #[test]
    fn names_fit_into_a_label() {
        for (name, fits) in
            [("reg", true), ("a.b-c", true), ("", false), ("-a", false), ("a.", false), ("A", false), ("a_b", false)]
        {
            assert_eq!(may_be_named(name), fits, "{name}");
        }
        assert!(may_be_named(&"a".repeat(63)) && !may_be_named(&"a".repeat(64)));
    }
}
