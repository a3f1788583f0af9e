//! May this etcd member start on this volume? A pure decision.
//!
//! A member that lost its data must never come back empty under its old identity: it would have forgotten what it voted for and
//! acknowledged. So an empty volume starts only in its bootstrap epoch and only until its member was seen in the cluster, and a
//! volume that holds something starts only if the marker on it says that it belongs to this member of this cluster.

use berth_contract::{Bootstrap, BootstrapState, Hold, HoldReason, Marker};

/// What was found in place of a marker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Nothing,
    Marker(Marker),
    /// A file that is no marker; markers are written atomically, so this is none of ours.
    Garbage,
}

/// What is in the data directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Data {
    /// Nothing, or no directory.
    Empty,
    /// Something, but no write-ahead log: etcd would start as a new member (it looks for the log, too).
    Partial,
    /// A write-ahead log: etcd would go on where it stopped.
    Present,
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// Etcd may start.
    Start,
    /// Etcd may start once this marker is safely on the volume.
    MarkAndStart(Marker),
    /// Etcd must not start.
    Hold(Hold),
}

/// An empty volume starts only until its member was seen in the cluster, and one with data only under its own marker.
pub(crate) fn decide(bootstrap: &Bootstrap, member: &str, found: &Found, data: Data) -> Decision {
    let expected = bootstrap.marker(member);
    let epoch = bootstrap.epoch;
    let lost = || Hold {
        reason: HoldReason::DataLost,
        why: format!(
            "the volume of etcd member {member} is empty, but its cluster has had a quorum in epoch {epoch}; \
             etcd is not started, since the member would have forgotten what it acknowledged"
        ),
    };
    let foreign = |found: String| Hold {
        reason: HoldReason::ForeignData,
        why: format!(
            "the volume of etcd member {member} (epoch {epoch}) holds {found}; etcd is not started and nothing is touched"
        ),
    };
    let joined = bootstrap.state == BootstrapState::Established || bootstrap.joined.iter().any(|name| name == member);
    let hold = match found {
        Found::Garbage => foreign("a marker that cannot be read".to_owned()),
        // Cut off: kubelet keeps the last 4 KiB of a termination message, and the reason is at its beginning.
        Found::Marker(marker) if *marker != expected => foreign(format!(
            "the data of member {:.63} of cluster {:.63} in epoch {}",
            marker.member, marker.cluster_uid, marker.epoch
        )),
        Found::Nothing if data != Data::Empty => {
            foreign("data without Berth's marker, so it is unknown whose it is".to_owned())
        }
        Found::Marker(_) if data == Data::Present => return Decision::Start,
        // From here on the member is ours, or new, and there is nothing that etcd could go on with.
        Found::Marker(_) | Found::Nothing if joined => lost(),
        Found::Marker(_) => return Decision::Start,
        Found::Nothing => return Decision::MarkAndStart(expected),
    };
    Decision::Hold(hold)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marker(cluster_uid: &str, epoch: i64, member: &str) -> Marker {
        Marker { cluster_uid: cluster_uid.to_owned(), epoch, member: member.to_owned() }
    }

    #[test]
    fn table() {
        let ours = Found::Marker(marker("u", 2, "e-0"));
        let (boot, est) = (BootstrapState::Bootstrapping, BootstrapState::Established);
        let cases = [
            (Found::Nothing, Data::Empty, boot, "mark"),
            (Found::Nothing, Data::Empty, est, "DataLost"),
            (Found::Nothing, Data::Partial, boot, "ForeignData"),
            (Found::Nothing, Data::Present, boot, "ForeignData"),
            (Found::Nothing, Data::Present, est, "ForeignData"),
            (ours.clone(), Data::Present, boot, "start"),
            (ours.clone(), Data::Present, est, "start"),
            (ours.clone(), Data::Empty, boot, "start"),
            (ours.clone(), Data::Partial, boot, "start"),
            (ours.clone(), Data::Empty, est, "DataLost"),
            (ours, Data::Partial, est, "DataLost"),
            (Found::Marker(marker("other", 2, "e-0")), Data::Present, est, "ForeignData"),
            (Found::Marker(marker("u", 1, "e-0")), Data::Present, est, "ForeignData"),
            (Found::Marker(marker("u", 1, "e-0")), Data::Empty, boot, "ForeignData"),
            (Found::Marker(marker("u", 2, "e-1")), Data::Present, est, "ForeignData"),
            (Found::Garbage, Data::Present, est, "ForeignData"),
            (Found::Garbage, Data::Empty, boot, "ForeignData"),
        ];
        for (found, data, state, expected) in cases {
            assert_eq!(said(state, &["e-1"], &found, data), expected, "{found:?} {data:?} {state:?}");
            // What was seen in the cluster is as if all were.
            let all = said(BootstrapState::Established, &[], &found, data);
            assert_eq!(said(state, &["e-1", "e-0"], &found, data), all, "{found:?} {data:?} {state:?}");
        }
    }

    /// What is decided for `e-0`, in a word.
    fn said(state: BootstrapState, joined: &[&str], found: &Found, data: Data) -> String {
        let joined = joined.iter().map(|name| (*name).to_owned()).collect();
        let bootstrap = Bootstrap { cluster_uid: "u".to_owned(), epoch: 2, state, joined };
        match decide(&bootstrap, "e-0", found, data) {
            Decision::Start => "start".to_owned(),
            Decision::MarkAndStart(written) => {
                assert_eq!(written, marker("u", 2, "e-0"));
                "mark".to_owned()
            }
            Decision::Hold(hold) => hold.reason.as_str().to_owned(),
        }
    }
}
