//! Finds out whether a backup can be restored, before anything stops for it: an etcd of the members' version has to run with it.

use crate::place::Place;
use crate::problem::Problem;
use crate::store::{LARGEST, Remote, manifest_key};
use crate::take::{empty, restored};
use berth_contract::backup::{At, Check, Manifest, Subject};
use std::path::Path;

/// Checks a backup. Its manifest, if nothing is wrong with it.
pub fn run(task: &Check, place: &Place) -> Result<Manifest, Problem> {
    let remote = place.open(&task.store)?;
    let programs = place.programs();
    empty(&place.scratch)?;
    let manifest = manifest_of(&*remote, &task.key)?;
    if let Some(why) = unfit(task, &manifest) {
        return Err(Problem::lasting(At::Proof, why));
    }
    let snapshot = place.scratch.join("snapshot.db");
    fetch(&*remote, &task.key, &manifest.sha256, &snapshot)?;
    let now = restored(&programs, place, &snapshot, manifest.revision)?;
    if (now.keys, now.hash) != (manifest.keys, manifest.hash) {
        let why = format!(
            "restored, etcd has {} keys with hash {}, and the manifest says {} with {}",
            now.keys, now.hash, manifest.keys, manifest.hash
        );
        return Err(Problem::lasting(At::Proof, why));
    }
    println!("{} can be restored", task.key);
    empty(&place.scratch)?;
    Ok(manifest)
}

fn manifest_of(remote: &dyn Remote, snapshot: &str) -> Result<Manifest, Problem> {
    let key = manifest_key(snapshot);
    serde_json::from_slice(&remote.read(&key)?)
        .map_err(|e| Problem::lasting(At::Proof, format!("{key} is no manifest: {e}")))
}

/// Reads a snapshot into a file, if it is the one with this SHA-256.
///
/// Another one is read again: what was changed on its way is not changed so twice. And only beside its own manifest it is a damaged one;
/// else this may be another store.
pub(crate) fn fetch(remote: &dyn Remote, key: &str, sha256: &str, into: &Path) -> Result<(), Problem> {
    println!("reading {key}");
    let first = remote.read_back(key, LARGEST, into)?;
    if first.0 == sha256 {
        return Ok(());
    }
    println!("reading {key} again: it has SHA-256 {}, and should have {sha256}", first.0);
    let again = remote.read_back(key, LARGEST, into)?;
    if again.0 == sha256 {
        return Ok(());
    }
    let manifest = manifest_of(remote, key).ok().filter(|m| (m.key.as_str(), m.sha256.as_str()) == (key, sha256));
    let (read, length) = &again;
    Err(match manifest {
        Some(manifest) if again == first => Problem::lasting(
            At::Damaged,
            format!(
                "the snapshot in the store is cut or changed ({length} of {} bytes), so it cannot be restored: {key} has SHA-256 {read}, and had {sha256}",
                manifest.size
            ),
        ),
        _ => Problem::brief(
            At::Proof,
            format!("{key}: the store gives {length} bytes with SHA-256 {read}, and the backup had {sha256}"),
        ),
    })
}

/// Why a backup may not be restored into that etcd.
fn unfit(task: &Check, manifest: &Manifest) -> Option<String> {
    let Manifest { key, sha256, of, .. } = manifest;
    let Subject { identity, encryption_key, namespace, name, .. } = &task.into;
    let differs = |wanted: &String, is: &String| !wanted.is_empty() && wanted != is;
    if *key != task.key || differs(&task.sha256, sha256) {
        return Some(format!("the manifest is of {key} with SHA-256 {sha256}, and the EtcdBackup is another one"));
    }
    if differs(namespace, &of.namespace) || differs(name, &of.name) {
        return Some(format!(
            "it is a backup of {}/{}, and one of {namespace}/{} was asked for",
            of.namespace,
            of.name,
            if name.is_empty() { "…" } else { name }
        ));
    }
    if differs(identity, &of.identity) {
        return Some(format!(
            "it is a backup of {}/{} with identity {}, and this etcd's is {identity}: it holds another tenant's data",
            of.namespace, of.name, of.identity
        ));
    }
    match (&of.encryption_key, encryption_key) {
        (Some(then), Some(now)) if then != now => Some(format!(
            "its Secrets are encrypted with the key with SHA-256 {then}, and the tenant has {now}: restore Secret kube-apiserver-encryption first"
        )),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_contract::backup::Store;

    #[test]
    fn what_is_of_another_is_not_restored() {
        let of = |identity: &str, key: Option<&str>| Subject {
            identity: identity.into(),
            encryption_key: key.map(str::to_owned),
            ..Subject::default()
        };
        let manifest = Manifest {
            key: "a.db".into(),
            sha256: "ab".into(),
            size: 1,
            revision: 1,
            keys: 1,
            hash: 1,
            cluster_id: String::new(),
            etcd_version: "3.6.16".into(),
            taken_at: String::new(),
            verified_at: String::new(),
            of: Subject { namespace: "team-a".into(), name: "acme".into(), ..of("id", Some("k")) },
        };
        let check = |key: &str, into: Subject| {
            unfit(&Check { store: Store::default(), key: key.into(), sha256: "ab".into(), into }, &manifest)
        };
        assert_eq!(check("a.db", of("id", Some("k"))), None);
        assert_eq!(check("a.db", of("id", None)), None, "a stand-alone etcd encrypts nothing");
        let whose = |namespace: &str, name: &str| Subject {
            namespace: namespace.into(),
            name: name.into(),
            ..Subject::default()
        };
        assert_eq!(check("a.db", Subject::default()), None, "nobody says what it has to be of");
        assert_eq!(check("a.db", whose("team-a", "acme")), None);
        for (key, into, word) in [
            ("a.db", whose("team-b", ""), "team-a/acme"),
            ("a.db", whose("team-a", "other"), "team-a/other was asked for"),
            ("b.db", of("id", Some("k")), "another one"),
            ("a.db", of("other", Some("k")), "another tenant"),
            ("a.db", of("id", Some("l")), "kube-apiserver-encryption"),
        ] {
            assert!(check(key, into).is_some_and(|why| why.contains(word)), "{word}");
        }
    }
}
