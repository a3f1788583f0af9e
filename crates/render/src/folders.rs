//! The folders of templates that are built in.
//!
//! A minor's folder holds only the files that differ from the minor before; all others come from there. The oldest minor's folder is
//! complete. An empty file is in no minor: it takes away what the minor before has, or it keeps a folder in git in which nothing differs.

use std::{collections::BTreeMap, path::Path};

use berth_api::version::Minor;
use include_dir::{Dir, include_dir};

static EMBEDDED: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../../templates");

/// What folders of Kubernetes minors begin with.
const KUBERNETES: &str = "v";
/// What folders of etcd minors begin with.
const ETCD: &str = "etcd/v";
/// The folder that all Kubernetes minors share. It is part of the path in a set.
const COMMON: &str = "common/";

/// The files of a minor, by path in the set.
pub type Files = BTreeMap<String, File>;

/// A file of a minor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Where it lies in `templates`: in the minor's own folder, in that of a minor before, or in the one that all share.
    pub source: String,
    /// Its text.
    pub text: String,
}

/// Each minor with all of its files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Folders {
    /// Of Kubernetes, with what is inside tenants and what all minors share.
    pub kubernetes: BTreeMap<Minor, Files>,
    /// Of etcd.
    pub etcd: BTreeMap<Minor, Files>,
}

impl Folders {
    /// What is built in.
    pub fn builtin() -> Self {
        Self::of(&embedded())
    }

    /// Of files by their path in `templates`.
    fn of(files: &BTreeMap<String, String>) -> Self {
        let file = |source: &String, text: &String| File { source: source.clone(), text: text.clone() };
        let common = files.iter().filter(|(path, _)| path.starts_with(COMMON));
        let common: Files = common.map(|(path, text)| (path.clone(), file(path, text))).collect();
        let mut kubernetes = whole(&own(files, KUBERNETES));
        for set in kubernetes.values_mut() {
            set.extend(common.clone());
        }
        Self { kubernetes, etcd: whole(&own(files, ETCD)) }
    }
}

/// What lies in the folder of each minor, by path within it.
fn own(files: &BTreeMap<String, String>, prefix: &str) -> BTreeMap<Minor, Files> {
    let mut folders: BTreeMap<Minor, Files> = BTreeMap::new();
    for (source, text) in files {
        let parts = source.strip_prefix(prefix).and_then(|rest| rest.split_once('/'));
        if let Some((minor, path)) = parts.and_then(|(minor, path)| Some((minor.parse().ok()?, path))) {
            let file = File { source: source.clone(), text: text.clone() };
            folders.entry(minor).or_default().insert(path.to_owned(), file);
        }
    }
    folders
}

/// Each minor with what it has from the minor before, oldest first.
fn whole(folders: &BTreeMap<Minor, Files>) -> BTreeMap<Minor, Files> {
    let mut files = Files::new();
    let with_inherited = |(minor, own): (&Minor, &Files)| {
        files.extend(own.clone());
        files.retain(|_, file| !file.text.is_empty());
        (*minor, files.clone())
    };
    folders.iter().map(with_inherited).collect()
}

/// Every embedded file by its path.
fn embedded() -> BTreeMap<String, String> {
    fn walk(dir: &Dir<'_>, out: &mut BTreeMap<String, String>) {
        for file in dir.files() {
            if let Some(text) = file.contents_utf8() {
                out.insert(unix(file.path()), text.to_owned());
            }
        }
        for dir in dir.dirs() {
            walk(dir, out);
        }
    }
    let mut out = BTreeMap::new();
    walk(&EMBEDDED, &mut out);
    out
}

fn unix(path: &Path) -> String {
    path.components().map(|part| part.as_os_str().to_string_lossy()).collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{collections::BTreeSet, path::PathBuf};

    fn files(all: &[(&str, &str)]) -> BTreeMap<String, String> {
        all.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect()
    }

    /// Paths, sources and texts of a minor.
    fn listed<'f>(folders: &'f BTreeMap<Minor, Files>, minor: &str) -> Vec<(&'f str, &'f str, &'f str)> {
        let set = &folders[&minor.parse().unwrap()];
        set.iter().map(|(path, file)| (path.as_str(), file.source.as_str(), file.text.as_str())).collect()
    }

    /// Files of a folder that the minor would have, or not have, without them, too.
    fn needless(files: &BTreeMap<String, String>) -> Vec<String> {
        let mut found = vec![];
        for folders in [own(files, KUBERNETES), own(files, ETCD)] {
            let whole = whole(&folders);
            for (minor, own) in &folders {
                let before = whole.range(..minor).next_back().map(|(_, files)| files);
                for (path, file) in own {
                    let needed = match before.and_then(|files| files.get(path)) {
                        Some(inherited) => file.text != inherited.text,
                        None => !file.text.is_empty() || own.len() == 1,
                    };
                    if !needed {
                        found.push(file.source.clone());
                    }
                }
            }
        }
        found
    }

    #[test]
    fn what_a_folder_does_not_hold_comes_from_the_nearest_minor_before() {
        let all = files(&[
            ("common/s", "all"),
            ("v1.9/a", "a9"),
            ("v1.9/dir/b", "b9"),
            ("v1.10/a", "a10"),
            ("v1.11/dir/b", "b11"),
            ("etcd/v3.5/a", "e"),
            ("etcd/v3.6/a", "f"),
            ("other/a", "nobody's"),
        ]);
        let folders = Folders::of(&all);
        let common = ("common/s", "common/s", "all");
        assert_eq!(
            listed(&folders.kubernetes, "1.10"),
            [("a", "v1.10/a", "a10"), common, ("dir/b", "v1.9/dir/b", "b9")]
        );
        assert_eq!(
            listed(&folders.kubernetes, "1.11"),
            [("a", "v1.10/a", "a10"), common, ("dir/b", "v1.11/dir/b", "b11")]
        );
        assert_eq!(listed(&folders.etcd, "3.6"), [("a", "etcd/v3.6/a", "f")]);
        assert_eq!((folders.kubernetes.len(), folders.etcd.len()), (3, 2));
        assert_eq!(needless(&all), [""; 0]);
    }

    #[test]
    fn an_empty_file_is_in_no_minor_and_one_that_changes_nothing_is_found() {
        let all = files(&[
            ("etcd/v3.5/a", "a"),
            ("etcd/v3.5/b", "b"),
            ("etcd/v3.6/same", ""),
            ("etcd/v3.7/a", ""),
            ("etcd/v3.8/b", "b"),
            ("etcd/v3.9/a", ""),
            ("etcd/v3.9/b", "c"),
            ("etcd/v3.10/a", "a"),
        ]);
        let folders = Folders::of(&all).etcd;
        let (a, b) = (("a", "etcd/v3.5/a", "a"), ("b", "etcd/v3.5/b", "b"));
        assert_eq!(listed(&folders, "3.6"), [a, b]);
        assert_eq!(listed(&folders, "3.7"), [b]);
        assert_eq!(listed(&folders, "3.10"), [("a", "etcd/v3.10/a", "a"), ("b", "etcd/v3.9/b", "c")]);
        assert_eq!(needless(&all), ["etcd/v3.8/b", "etcd/v3.9/a"]);
    }

    #[test]
    fn a_folder_holds_only_what_differs_from_the_minor_before() {
        let needless = needless(&embedded());
        assert!(needless.is_empty(), "remove what the minor before gives anyway: {needless:?}");
    }

    #[test]
    fn embedded_is_what_is_on_disk() {
        fn walk(dir: &Path, root: &Path, out: &mut BTreeSet<String>) {
            for entry in std::fs::read_dir(dir).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    walk(&path, root, out);
                } else {
                    out.insert(unix(path.strip_prefix(root).unwrap()));
                }
            }
        }
        let root = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap()).join("../../templates");
        let mut disk = BTreeSet::new();
        walk(&root, &root, &mut disk);
        assert_eq!(embedded().into_keys().collect::<BTreeSet<_>>(), disk);
    }
}
