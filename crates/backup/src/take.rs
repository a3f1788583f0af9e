//! Takes a snapshot, and says that it is a backup only once an etcd ran with what the store gave back.

use crate::etcd::{Contents, Ctl, MemberStatus, NewMember, Programs, ports};
use crate::giver::{acknowledged, giver, leader};
use crate::keep::keep;
use crate::place::Place;
use crate::problem::Problem;
use crate::store::{Remote, digest};
use berth_contract::backup::{At, Manifest, Take};
use jiff::{Timestamp, Zoned, tz::TimeZone};
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

/// Nobody can give a snapshot that is whole.
const NO_GIVER: &str = "no voting member of etcd answers that has a leader";

/// How often a snapshot is taken anew because etcd was compacted before its contents were known.
const ATTEMPTS: usize = 3;

/// Takes a snapshot and proves it. The manifest is what is kept beside it.
pub fn run(task: &Take, place: &Place) -> Result<Manifest, Problem> {
    let remote = place.open(&task.store)?;
    let programs = place.programs();
    let ctl = Ctl { programs: programs.clone(), pki: Some(place.etcd_pki.clone()) };
    empty(&place.scratch)?;
    // Before etcd is asked for anything: whether the store answers at all.
    remote.exists(&format!("{}/any.json", task.prefix))?;
    let members = ctl.members(&task.members, At::Etcd)?;
    if task.all && members.len() < task.members.len() {
        return Err(Problem::brief(At::Etcd, unanswered(task, &members)));
    }
    let mut from = giver(&members, task.without_quorum).ok_or_else(|| Problem::brief(At::Etcd, NO_GIVER))?;

    let snapshot = place.scratch.join("snapshot.db");
    let mut attempt = 0;
    let (revision, contents, taken_at) = loop {
        attempt += 1;
        println!("taking a snapshot of {}", from.url);
        let taken_at = Timestamp::now();
        ctl.save(&from.url, &snapshot)?;
        let revision = programs.revision_of(&snapshot)?;
        if let Some(problem) = lacks(revision, &members, from) {
            // A follower may be a moment behind. The leader is not.
            from = leader(&members).filter(|_| attempt < ATTEMPTS).ok_or(problem)?;
            fs::remove_file(&snapshot).map_err(|e| Problem::file("the snapshot", &e))?;
            continue;
        }
        match ctl.contents(&from.url, revision, At::Etcd) {
            Ok(contents) => break (revision, contents, taken_at),
            // Compacted beyond it meanwhile.
            Err(_) if attempt < ATTEMPTS => {
                fs::remove_file(&snapshot).map_err(|e| Problem::file("the snapshot", &e))?;
            }
            Err(problem) => return Err(problem),
        }
    };
    let (sha256, size) = digest(&snapshot)?;
    let key = key(&task.prefix, taken_at, revision)?;
    println!("revision {revision}, {size} bytes: writing {key}");
    let manifest = keep(&*remote, &key, &snapshot, || {
        fs::remove_file(&snapshot).map_err(|e| Problem::file("the snapshot", &e))?;
        println!("reading {key} back");
        read_again(&*remote, &key, (&sha256, size), &snapshot)?;
        prove(&programs, place, &snapshot, revision, contents)?;
        Ok(Manifest {
            key: key.clone(),
            sha256: sha256.clone(),
            size,
            revision,
            keys: contents.keys,
            hash: contents.hash,
            cluster_id: from.cluster_id.clone(),
            etcd_version: from.version.clone(),
            taken_at: taken_at.to_string(),
            verified_at: Timestamp::now().to_string(),
            of: task.of.clone(),
        })
    })?;
    println!("verified: {}", manifest.key);
    empty(&place.scratch)?;
    Ok(manifest)
}

/// Reads a snapshot back, which has to be what was sent.
pub fn read_again(remote: &dyn Remote, key: &str, (sha256, size): (&str, u64), into: &Path) -> Result<(), Problem> {
    let (read, length) = remote.read_back(key, size, into)?;
    if (&*read, length) == (sha256, size) {
        return Ok(());
    }
    let message =
        format!("{key}: the store gives back {length} bytes with SHA-256 {read}, and was given {size} with {sha256}");
    Err(Problem::brief(At::Proof, message))
}

/// Why a snapshot that ends at that revision is not whole: it lacks what was acknowledged before it was taken.
fn lacks(revision: i64, members: &[MemberStatus], from: &MemberStatus) -> Option<Problem> {
    let acknowledged = acknowledged(members);
    (revision < acknowledged).then(|| {
        let message = format!(
            "the snapshot of {} ends at revision {revision}, and etcd was at {acknowledged} before: that member is behind",
            from.url
        );
        Problem::brief(At::Etcd, message)
    })
}

/// Who does not answer.
fn unanswered(task: &Take, members: &[MemberStatus]) -> String {
    let silent = task.members.iter().filter(|url| !members.iter().any(|m| m.url == **url));
    let silent: Vec<&str> = silent.map(String::as_str).collect();
    format!("{} does not answer, and may hold what the others do not have", silent.join(", "))
}

/// Restores it and compares what an etcd then holds.
fn prove(programs: &Programs, place: &Place, snapshot: &Path, revision: i64, taken: Contents) -> Result<(), Problem> {
    let restored = restored(programs, place, snapshot, revision)?;
    differs(taken, restored).map_or(Ok(()), Err)
}

/// What an etcd holds that starts with the snapshot, which ends at that revision.
pub(crate) fn restored(
    programs: &Programs,
    place: &Place,
    snapshot: &Path,
    revision: i64,
) -> Result<Contents, Problem> {
    let (ports, peer) = ports()?;
    let data = place.scratch.join("proof");
    programs.restore(snapshot, &data, &NewMember::proof(&peer))?;
    println!("starting etcd with what was restored");
    let etcd = programs.start(&data, &place.scratch.join("proof.log"), ports)?;
    let now = etcd.revision()?;
    if now != revision {
        return Err(Problem::lasting(
            At::Proof,
            format!("restored, etcd is at revision {now}, and the snapshot at {revision}"),
        ));
    }
    etcd.contents(revision)
}

fn differs(taken: Contents, restored: Contents) -> Option<Problem> {
    if taken.keys != restored.keys {
        let message =
            format!("restored, etcd has {} keys, and had {} when the snapshot was taken", restored.keys, taken.keys);
        return Some(Problem::lasting(At::Proof, message));
    }
    if taken.compacted != restored.compacted {
        return Some(Problem::brief(
            At::Proof,
            "etcd was compacted while the snapshot was taken, so hashes cannot be compared",
        ));
    }
    (taken.hash != restored.hash).then(|| {
        let message =
            format!("restored, etcd's hash is {}, and was {} when the snapshot was taken", restored.hash, taken.hash);
        Problem::lasting(At::Proof, message)
    })
}

/// A key that no other try has: many backups of a quiet etcd may have one second and one revision. Keys sort by time, also among those of an
/// earlier Berth, which end with the revision.
fn key(prefix: &str, at: Timestamp, revision: i64) -> Result<String, Problem> {
    let mut own = [0; 4];
    let read = File::open("/dev/urandom").and_then(|mut random| random.read_exact(&mut own));
    read.map_err(|e| Problem::brief(At::Other, format!("no random number for the key: {e}")))?;
    let time = Zoned::new(at, TimeZone::UTC).strftime("%Y%m%dT%H%M%SZ");
    Ok(format!("{prefix}/{time}-{revision}-{:08x}.db", u32::from_be_bytes(own)))
}

/// What another try left goes. The directory itself is a mount.
pub(crate) fn empty(scratch: &Path) -> Result<(), Problem> {
    let failed = |e| Problem::file("scratch", &e);
    fs::create_dir_all(scratch).map_err(failed)?;
    for entry in fs::read_dir(scratch).map_err(failed)?.flatten() {
        let path = entry.path();
        if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }.map_err(failed)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_one_backups_alone_and_sorts_by_time() {
        let of = |at: &str| key("prod/team-a/acme/id", at.parse().unwrap(), 3414).unwrap();
        let (one, other) = (of("2026-01-02T03:04:05.6Z"), of("2026-01-02T03:04:05.6Z"));
        assert_ne!(one, other, "of one second and revision");
        let begins = "prod/team-a/acme/id/20260102T030405Z-3414";
        assert!(one.starts_with(&format!("{begins}-")) && one.len() == begins.len() + 12, "{one}");
        let earlier = |second: u8| format!("prod/team-a/acme/id/20260102T0304{second:02}Z-9999.db");
        assert!(earlier(4) < one && one < earlier(6), "among those of an earlier Berth");
    }

    #[test]
    fn a_snapshot_that_lacks_what_was_acknowledged_is_not_taken() {
        let of = |url: &str, leads, revision| MemberStatus {
            url: url.to_owned(),
            cluster_id: "1".into(),
            version: "3.6.0".into(),
            revision,
            leads,
            has_leader: true,
            learner: false,
            applied: 5_000,
        };
        let members = [of("https://etcd-0:2379", true, 9), of("https://etcd-1:2379", false, 7)];
        let why =
            |revision| lacks(revision, &members, &members[1]).map(|problem| (problem.failure.message, problem.lasting));
        let said =
            "the snapshot of https://etcd-1:2379 ends at revision 8, and etcd was at 9 before: that member is behind";
        assert_eq!(why(8), Some((said.to_owned(), false)), "another try may");
        assert_eq!((why(9), why(10)), (None, None));
    }

    #[test]
    fn each_difference_is_told() {
        let taken = Contents { hash: 1, compacted: 2, keys: 3 };
        assert_eq!(differs(taken, taken), None);
        for (restored, lasting) in [
            (Contents { keys: 4, ..taken }, true),
            (Contents { compacted: 4, ..taken }, false),
            (Contents { hash: 4, ..taken }, true),
        ] {
            assert_eq!(differs(taken, restored).map(|p| p.lasting), Some(lasting), "{restored:?}");
        }
    }
}
