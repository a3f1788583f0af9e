//! The templates of this build, and the one set of them that a tenant is pinned to.
//!
//! A tenant keeps the set that it was last rolled out with in an immutable ConfigMap, so that a new operator never restarts it.
//! [`FORMAT`] covers what the templates do not: see [`crate::finish`].

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::LazyLock,
};

use berth_api::version::{Minor, Version};
use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::{
    Binary,
    error::TemplateSetError,
    folders::{Files, Folders},
    reads::Reads,
};

static BUILTIN: LazyLock<Catalog> = LazyLock::new(|| Catalog::from_folders(Folders::builtin()));

/// The contract between templates and this crate: values, and the final pass. It grows when the same template and values would
/// render something else than before, and then the pass keeps doing for older formats what it did.
///
/// - 1: every container is as Pod Security `restricted` has it.
/// - 2: a container that states its `securityContext` keeps it. Only sets of a Kubernetes minor have need of it.
/// - 3: a ConfigMap that a component reads as its configuration has the digest of its texts in its name, so pods that run never see another
///   one. Only sets of a Kubernetes minor have need of it.
pub const FORMAT: u32 = 3;

/// Of sets that every build renders the same.
const FIRST_FORMAT: u32 = 1;

const FORMAT_KEY: &str = "format";
const NAME_KEY: &str = "name";
const VERSIONS: &str = "versions.yaml";
/// What paths of templates of objects inside tenants begin with, within a minor.
const TENANT: &str = "tenant/";
/// What paths of templates of add-ons begin with, within a minor.
const ADDONS: &str = "addons/";
/// Beside `versions.yaml`, of which earlier builds take no further keys.
const ADDON_VERSIONS: &str = "addons/versions.yaml";
/// Keys of a ConfigMap cannot hold `/`.
const SEPARATOR: &str = "__";

/// All template sets that are built in.
#[derive(Debug)]
pub struct Catalog {
    kubernetes: BTreeMap<Minor, TemplateSet>,
    tenant: BTreeMap<Minor, TemplateSet>,
    etcd: BTreeMap<Minor, TemplateSet>,
}

/// The templates of one Kubernetes minor (with those that all minors share), or of one etcd minor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateSet {
    name: String,
    format: u32,
    texts: BTreeMap<String, String>,
    versions: Versions,
    digest: String,
    reads: Reads,
}

/// `versions.yaml` of a set: the versions of other parts that go with it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Versions {
    /// The etcd version for a new tenant of a Kubernetes minor.
    etcd_default: Option<Version>,
    /// The etcd minors that the Kubernetes minor may run on, oldest first.
    #[serde(default)]
    etcd_minors: Vec<Minor>,
}

impl Catalog {
    /// The catalog of this build.
    pub fn builtin() -> &'static Self {
        &BUILTIN
    }

    fn from_folders(folders: Folders) -> Self {
        let texts = |files: Files| files.into_iter().map(|(path, file)| (path, file.text));
        let (mut kubernetes, mut tenant) = (vec![], vec![]);
        for (minor, files) in folders.kubernetes {
            let (inside, pinned) = texts(files).partition(|(path, _)| path.starts_with(TENANT));
            kubernetes.push((minor, TemplateSet::new(format!("v{minor}"), FORMAT, pinned)));
            tenant.push((minor, TemplateSet::new(format!("tenant-v{minor}"), FIRST_FORMAT, inside)));
        }
        let etcd = folders.etcd.into_iter().map(|(minor, files)| {
            let set = TemplateSet::new(format!("etcd-v{minor}"), FIRST_FORMAT, texts(files).collect());
            (minor, set)
        });
        // A malformed versions.yaml cannot be shipped: a test parses every one.
        let good = |(minor, set): (Minor, Result<TemplateSet, TemplateSetError>)| Some((minor, set.ok()?));
        let [kubernetes, tenant] = [kubernetes, tenant].map(|sets| sets.into_iter().filter_map(good).collect());
        Self { kubernetes, tenant, etcd: etcd.filter_map(good).collect() }
    }

    /// The Kubernetes minors, oldest first: `1.34`, `1.35`, …
    pub fn minors(&self) -> Vec<Minor> {
        self.kubernetes.keys().copied().collect()
    }

    /// The etcd minors, oldest first: `3.5`, `3.6`, …
    pub fn etcd_minors(&self) -> Vec<Minor> {
        self.etcd.keys().copied().collect()
    }

    /// The templates of a Kubernetes minor. They do for every patch version of it: flags do not change within a minor.
    pub fn kubernetes(&self, minor: Minor) -> Option<&TemplateSet> {
        self.kubernetes.get(&minor)
    }

    /// The templates of what Berth keeps inside tenants of a Kubernetes minor. They restart nothing, so no tenant is pinned to them: they
    /// follow the operator. A change of those of the add-on api-proxy restarts its pods, on one node after the other.
    pub fn tenant(&self, minor: Minor) -> Option<&TemplateSet> {
        self.tenant.get(&minor)
    }

    /// The templates of an etcd minor.
    pub fn etcd(&self, minor: Minor) -> Option<&TemplateSet> {
        self.etcd.get(&minor)
    }
}

impl TemplateSet {
    fn new(name: String, format: u32, texts: BTreeMap<String, String>) -> Result<Self, TemplateSetError> {
        let malformed = |reason: String| TemplateSetError::Malformed(format!("{name}/{VERSIONS}: {reason}"));
        let versions = match texts.get(VERSIONS) {
            None => Versions::default(),
            Some(text) => {
                let documents = crate::yaml::documents(text).map_err(|error| malformed(error.to_string()))?;
                let document = documents.first().cloned().unwrap_or_default();
                serde_json::from_value(document).map_err(|error| malformed(error.to_string()))?
            }
        };
        let reads = Reads::of(&texts);
        let mut set = Self { name, format, texts, versions, digest: String::new(), reads };
        // Asked for many times in every reconcile.
        set.digest = set.compute_digest();
        Ok(set)
    }

    /// `v1.36` or `etcd-v3.6`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The contract that the set was written for, see [`FORMAT`].
    pub fn format(&self) -> u32 {
        self.format
    }

    /// The etcd version for new tenants of this Kubernetes minor; none for sets of etcd.
    pub fn default_etcd(&self) -> Option<Version> {
        self.versions.etcd_default
    }

    /// The etcd minors that this Kubernetes minor may run on, oldest first; empty for sets of etcd.
    pub fn etcd_minors(&self) -> &[Minor] {
        &self.versions.etcd_minors
    }

    /// What add-ons are rendered from, small enough to be kept for a tenant. None: the set is older than add-ons.
    pub fn addons(&self) -> Option<Self> {
        let texts = self.texts.iter().filter(|(path, _)| path.starts_with(ADDONS));
        let texts: BTreeMap<_, _> = texts.map(|(path, text)| (path.clone(), text.clone())).collect();
        let Self { name, format, .. } = self;
        (!texts.is_empty()).then(|| Self::new(name.clone(), *format, texts).ok())?
    }

    /// The version of CoreDNS that goes with this Kubernetes minor. None: the set is older than add-ons.
    pub fn coredns(&self) -> Option<Version> {
        let documents = crate::yaml::documents(self.texts.get(ADDON_VERSIONS)?).ok()?;
        documents.first()?["coreDNS"].as_str()?.parse().ok()
    }

    /// SHA-256 over format, names and texts, in hex: two sets with the same digest render the same.
    pub fn digest(&self) -> String {
        self.digest.clone()
    }

    fn compute_digest(&self) -> String {
        let mut hash = Sha256::new();
        for (key, text) in self.to_data() {
            for part in [key, text] {
                hash.update((part.len() as u64).to_be_bytes());
                hash.update(part);
            }
        }
        format!("{:x}", hash.finalize())
    }

    /// The set as the `data` of a ConfigMap (some tens of KiB).
    pub fn to_data(&self) -> BTreeMap<String, String> {
        let texts = self.texts.iter().map(|(path, text)| (path.replace('/', SEPARATOR), text.clone()));
        let head = [(FORMAT_KEY, self.format.to_string()), (NAME_KEY, self.name.clone())];
        texts.chain(head.map(|(key, value)| (key.to_owned(), value))).collect()
    }

    /// Reads what [`Self::to_data`] wrote.
    pub fn from_data(mut data: BTreeMap<String, String>) -> Result<Self, TemplateSetError> {
        let missing = |key: &str| TemplateSetError::Malformed(format!("key {key} is missing"));
        let found = data.remove(FORMAT_KEY).ok_or_else(|| missing(FORMAT_KEY))?;
        let name = data.remove(NAME_KEY).ok_or_else(|| missing(NAME_KEY))?;
        match found.parse::<u32>() {
            Ok(format) if (1..=FORMAT).contains(&format) => {
                let texts = data.into_iter().map(|(key, text)| (key.replace(SEPARATOR, "/"), text)).collect();
                Self::new(name, format, texts)
            }
            _ => Err(TemplateSetError::UnknownFormat { found, known: FORMAT }),
        }
    }

    /// Whether the templates of a folder read a value. Where they do not, the value has no effect.
    pub fn reads(&self, folder: &str, value: &str) -> bool {
        self.reads.contains(folder, value)
    }

    /// Whether a template of that component writes that label or annotation.
    pub fn writes(&self, component: Binary, name: &str) -> bool {
        self.folder(component.folder()).any(|(.., text)| text.contains(name))
    }

    /// The values that templates read, as (folder, value), for tests.
    pub fn values(&self) -> impl Iterator<Item = (&str, &str)> {
        self.reads.iter()
    }

    /// The templates directly in a folder, by path: `apiserver` has `apiserver/deployment.yaml.j2` but not what is under
    /// `apiserver/files`.
    pub(crate) fn folder(&self, folder: &str) -> impl Iterator<Item = (&str, &str, &str)> {
        let prefix = format!("{folder}/");
        self.texts.iter().filter_map(move |(path, text)| {
            let name = path.strip_prefix(&prefix)?.strip_suffix(".j2")?;
            (!name.contains('/')).then_some((path.as_str(), name, text.as_str()))
        })
    }

    /// Paths of all files, for tests that compare sets.
    pub fn paths(&self) -> BTreeSet<&str> {
        self.texts.keys().map(String::as_str).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minors() {
        assert_eq!(Minor::list(&Catalog::builtin().minors()), "1.34, 1.35, 1.36");
        assert_eq!(Minor::list(&Catalog::builtin().etcd_minors()), "3.5, 3.6");
    }

    #[test]
    fn every_minor_has_the_same_files_and_a_known_etcd() {
        let catalog = Catalog::builtin();
        for sets in [&catalog.kubernetes, &catalog.tenant, &catalog.etcd] {
            // No minor has a file more or less than another yet: one whose name is misspelled would be both.
            let mut file_sets: Vec<_> = sets.values().map(TemplateSet::paths).collect();
            file_sets.dedup();
            assert_eq!(file_sets.len(), 1);
        }
        for set in catalog.kubernetes.values() {
            let default = set.default_etcd().expect("an etcd for new tenants");
            assert!(set.etcd_minors().contains(&default.minor()), "{}: {default}", set.name());
            assert!(set.etcd_minors().iter().all(|minor| catalog.etcd(*minor).is_some()), "{}", set.name());
        }
    }

    #[test]
    fn pinned_data_comes_back_the_same() {
        for set in Catalog::builtin().kubernetes.values().chain(Catalog::builtin().etcd.values()) {
            let data = set.to_data();
            assert!(data.values().map(String::len).sum::<usize>() < 200_000, "{} must fit a ConfigMap", set.name());
            assert!(data.keys().all(|key| key.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._".contains(&b))));
            let back = TemplateSet::from_data(data).unwrap();
            assert_eq!((&back, back.digest()), (set, set.digest()));
        }
        let mut newer = Catalog::builtin().kubernetes("1.36".parse().unwrap()).unwrap().to_data();
        newer.insert(FORMAT_KEY.to_owned(), "99".to_owned());
        TemplateSet::from_data(newer).unwrap_err();
        TemplateSet::from_data(BTreeMap::new()).unwrap_err();
    }
}
