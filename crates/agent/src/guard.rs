//! May this etcd member start on this volume? A pure decision.
//!
//! A member that lost its data must never come back empty under its old identity: it would have forgotten what it voted for and
//! acknowledged. So an empty volume starts only in its bootstrap epoch and only until its member was seen in the cluster, and a
//! volume that holds something starts only if the marker on it says that it belongs to this member of this cluster.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What the operator says, from the ConfigMap `<cluster>-bootstrap`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct Bootstrap {
    /// UID of the `EtcdCluster`.
    #[serde(rename = "clusterUID")]
    pub(crate) cluster_uid: String,
    /// Grows with each bootstrap or restore.
    pub(crate) epoch: i64,
    /// Whether all members were ever seen together in this epoch.
    pub(crate) state: State,
    /// Members that were seen as part of a quorum before all of them were.
    #[serde(default)]
    pub(crate) joined: Vec<String>,
}

/// How far the cluster is in its epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(crate) enum State {
    /// Not yet all members: those that were never seen start empty.
    Bootstrapping,
    /// All members: an empty volume is lost data.
    Established,
}

/// What is written beside the data directory before etcd's first start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Marker {
    #[serde(rename = "clusterUID")]
    pub(crate) cluster_uid: String,
    pub(crate) epoch: i64,
    pub(crate) member: String,
}

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
    Hold(Reason),
}

/// Why a member is held. Its text is read from the pod's status by the operator, which looks at the word before the colon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// The volume should hold the member's data and does not.
    DataLost { member: String, epoch: i64 },
    /// The volume holds something that is not this member's.
    ForeignData { member: String, epoch: i64, found: String },
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DataLost { member, epoch } => write!(
                f,
                "DataLost: the volume of etcd member {member} is empty, but its cluster has had a quorum in epoch {epoch}; \
                 etcd is not started, since the member would have forgotten what it acknowledged"
            ),
            Self::ForeignData { member, epoch, found } => write!(
                f,
                "ForeignData: the volume of etcd member {member} (epoch {epoch}) holds {found}; etcd is not started and \
                 nothing is touched"
            ),
        }
    }
}

/// An empty volume starts only until its member was seen in the cluster, and one with data only under its own marker.
pub(crate) fn decide(bootstrap: &Bootstrap, member: &str, found: &Found, data: Data) -> Decision {
    let expected =
        Marker { cluster_uid: bootstrap.cluster_uid.clone(), epoch: bootstrap.epoch, member: member.to_owned() };
    let lost = || Reason::DataLost { member: member.to_owned(), epoch: bootstrap.epoch };
    let foreign = |found: String| Reason::ForeignData { member: member.to_owned(), epoch: bootstrap.epoch, found };
    let joined = bootstrap.state == State::Established || bootstrap.joined.iter().any(|name| name == member);
    let hold = match found {
        Found::Garbage => foreign("a marker that cannot be read".to_owned()),
        Found::Marker(marker) if *marker != expected => foreign(format!(
            "the data of member {} of cluster {} in epoch {}",
            marker.member, marker.cluster_uid, marker.epoch
        )),
        Found::Nothing if data != Data::Empty => foreign("data that no marker vouches for".to_owned()),
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
        let (boot, est) = (State::Bootstrapping, State::Established);
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
            let all = said(State::Established, &[], &found, data);
            assert_eq!(said(state, &["e-1", "e-0"], &found, data), all, "{found:?} {data:?} {state:?}");
        }
    }

    /// What is decided for `e-0`, in a word.
    fn said(state: State, joined: &[&str], found: &Found, data: Data) -> String {
        let joined = joined.iter().map(|name| (*name).to_owned()).collect();
        let bootstrap = Bootstrap { cluster_uid: "u".to_owned(), epoch: 2, state, joined };
        match decide(&bootstrap, "e-0", found, data) {
            Decision::Start => "start".to_owned(),
            Decision::MarkAndStart(written) => {
                assert_eq!(written, marker("u", 2, "e-0"));
                "mark".to_owned()
            }
            Decision::Hold(reason) => reason.to_string().split(':').next().unwrap_or_default().to_owned(),
        }
    }
}
