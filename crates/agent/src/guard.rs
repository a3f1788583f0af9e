//! May this etcd member start on this volume? A pure decision.
//!
//! A member that lost its data must never come back empty under its old identity: it would have forgotten what it voted for and
//! acknowledged. So an empty volume starts only in its bootstrap epoch and only until its member was seen in the cluster, or where its
//! member joins a running cluster under an ID of its own; and a volume that holds something starts only if the marker on it says that it
//! belongs to this member of this cluster. Data of an ID that was removed, or of an epoch that a restore has ended, never runs again: it is
//! set aside where the member joins anew.

use berth_contract::{Bootstrap, BootstrapState, FoundData, Hold, HoldReason, Marker, MemberRecord, MemberStage};

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
    /// Etcd may start as a member that a running cluster waits for.
    Join(Join),
    /// Etcd must not start.
    Hold(Hold),
}

/// How a member joins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Join {
    /// What is in the data directory is of an earlier ID, and goes aside first.
    pub(crate) set_aside: bool,
    /// To be written before etcd starts; None: it is on the volume.
    pub(crate) marker: Option<Marker>,
    /// etcd's `--initial-cluster`.
    pub(crate) initial_cluster: String,
    /// etcd's `--initial-advertise-peer-urls`.
    pub(crate) peer_url: String,
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
        found: None,
    };
    let foreign = |what: String, found: Option<FoundData>| Hold {
        reason: HoldReason::ForeignData,
        why: format!(
            "the volume of etcd member {member} (epoch {epoch}) holds {what}; etcd is not started and nothing is touched"
        ),
        found,
    };
    let joined = bootstrap.state == BootstrapState::Established || bootstrap.joined.iter().any(|name| name == member);
    let record = bootstrap.member(member);
    let joins = record.is_some_and(|r| r.stage == MemberStage::Joining && !r.id.is_empty());
    // A restore has ended the epoch of its data, and it copies that of the new one.
    let is_superseded = |marker: &Marker| {
        let at_its_epoch = Marker { epoch: marker.epoch, ..expected.clone() };
        bootstrap.restored && joins && marker.epoch < epoch && marker.is_of_the_same_member(&at_its_epoch)
    };
    let hold = match found {
        Found::Garbage => foreign("a marker that cannot be read".to_owned(), None),
        // Cut off: kubelet keeps the last 4 KiB of a termination message, and the reason is at its beginning.
        Found::Marker(marker) if !marker.is_of_the_same_member(&expected) && !is_superseded(marker) => {
            let [member, cluster_uid] = [&marker.member, &marker.cluster_uid].map(|name| format!("{name:.63}"));
            let what = format!("the data of member {member} of cluster {cluster_uid} in epoch {}", marker.epoch);
            foreign(what, Some(FoundData::Of(Marker { cluster_uid, epoch: marker.epoch, member, id: None })))
        }
        Found::Nothing if data != Data::Empty => {
            foreign("data without Berth's marker, so it is unknown whose it is".to_owned(), None)
        }
        _ if let Some(record) = record.filter(|_| joins) => {
            return Decision::Join(join(bootstrap, record, found, data));
        }
        Found::Marker(Marker { id, .. })
            if data == Data::Present && record.is_some_and(|r| is_of_another(r, id.as_deref())) =>
        {
            let id = id.as_ref().map(|id| format!("{id:.63}"));
            let found = id.as_deref().and_then(FoundData::of_id);
            let id = id.as_deref().unwrap_or("that it was formed with");
            foreign(format!("the data of the ID {id}, which is not this member's any more"), found)
        }
        Found::Marker(_) if data == Data::Present => return Decision::Start,
        // From here on the member is ours, or new, and there is nothing that etcd could go on with.
        Found::Marker(_) | Found::Nothing if joined => lost(),
        Found::Marker(_) => return Decision::Start,
        Found::Nothing => return Decision::MarkAndStart(expected),
    };
    Decision::Hold(hold)
}

/// Whether data of that ID is not of the member on record. Who was there from the beginning has no ID in its marker.
fn is_of_another(record: &MemberRecord, id: Option<&str>) -> bool {
    !record.id.is_empty() && id.map_or(record.added, |id| record.id != id)
}

/// A member that joins is new: nobody counts on its data before it votes. What another ID left on the volume is none of its own.
fn join(bootstrap: &Bootstrap, record: &MemberRecord, found: &Found, data: Data) -> Join {
    let marker = Marker { id: Some(record.id.clone()), ..bootstrap.marker(&record.name) };
    let is_written = matches!(found, Found::Marker(found) if *found == marker);
    Join {
        set_aside: data != Data::Empty && !is_written,
        marker: (!is_written).then_some(marker),
        initial_cluster: bootstrap.initial_cluster(),
        peer_url: record.peer_url.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marker(cluster_uid: &str, epoch: i64, member: &str) -> Marker {
        Marker { cluster_uid: cluster_uid.to_owned(), epoch, member: member.to_owned(), id: None }
    }

    /// Where `e-1` joins under the ID `b`, or was added under it and votes by now.
    #[test]
    fn a_member_that_joins() {
        let ours = |id: Option<&str>| Found::Marker(Marker { id: id.map(ToOwned::to_owned), ..marker("u", 2, "e-1") });
        let (joining, voter) = (MemberStage::Joining, MemberStage::Voter);
        let cases = [
            (joining, Found::Nothing, Data::Empty, "join, marked"),
            (joining, ours(Some("b")), Data::Empty, "join"),
            (joining, ours(Some("b")), Data::Present, "join"),
            (joining, ours(None), Data::Empty, "join, marked"),
            (joining, ours(None), Data::Present, "join, aside, marked"),
            (joining, ours(Some("a")), Data::Partial, "join, aside, marked"),
            (joining, ours(Some("a")), Data::Present, "join, aside, marked"),
            (joining, Found::Nothing, Data::Present, "ForeignData"),
            (joining, Found::Marker(marker("other", 2, "e-1")), Data::Present, "ForeignData"),
            (joining, Found::Marker(marker("u", 2, "e-2")), Data::Empty, "ForeignData"),
            (joining, Found::Garbage, Data::Empty, "ForeignData"),
            (voter, ours(Some("b")), Data::Present, "start"),
            (voter, ours(None), Data::Present, "ForeignData"),
            (voter, ours(Some("a")), Data::Present, "ForeignData"),
            (voter, ours(Some("b")), Data::Empty, "DataLost"),
            (voter, Found::Nothing, Data::Empty, "DataLost"),
            (MemberStage::Adding, ours(Some("a")), Data::Present, "start"),
            (MemberStage::Adding, Found::Nothing, Data::Empty, "DataLost"),
            (MemberStage::Leaving, Found::Nothing, Data::Empty, "DataLost"),
            (MemberStage::Other, Found::Nothing, Data::Empty, "DataLost"),
        ];
        for (stage, found, data, expected) in cases {
            let record = |name: &str, id: &str, stage| MemberRecord {
                name: name.to_owned(),
                id: id.to_owned(),
                peer_url: format!("https://{name}"),
                stage,
                added: name == "e-1",
            };
            let id = if stage == MemberStage::Adding { "" } else { "b" };
            let bootstrap = Bootstrap {
                cluster_uid: "u".to_owned(),
                epoch: 2,
                state: BootstrapState::Established,
                serial: 1,
                members: vec![record("e-0", "f", voter), record("e-1", id, stage)],
                ..Bootstrap::default()
            };
            let said = match decide(&bootstrap, "e-1", &found, data) {
                Decision::Start => "start".to_owned(),
                Decision::MarkAndStart(_) => "mark".to_owned(),
                Decision::Join(join) => {
                    assert_eq!(join.initial_cluster, "e-0=https://e-0,e-1=https://e-1");
                    assert_eq!(join.peer_url, "https://e-1");
                    let marked = join.marker.is_some_and(|m| m.id.as_deref() == Some("b"));
                    let word = |is: bool, word: &'static str| if is { word } else { "" };
                    format!("join{}{}", word(join.set_aside, ", aside"), word(marked, ", marked"))
                }
                Decision::Hold(hold) => hold.reason.as_str().to_owned(),
            };
            assert_eq!(said, expected, "{stage:?} {found:?} {data:?}");
        }
    }

    /// The operator reads what was found: it may be newer than the record.
    #[test]
    fn what_it_finds_is_read_by_the_operator() {
        let record =
            MemberRecord { name: "e-1".to_owned(), id: "a".to_owned(), added: true, ..MemberRecord::default() };
        let told = Bootstrap {
            cluster_uid: "u".to_owned(),
            epoch: 2,
            state: BootstrapState::Established,
            members: vec![record],
            ..Bootstrap::default()
        };
        let said = |found: Marker| match decide(&told, "e-1", &Found::Marker(found), Data::Present) {
            Decision::Hold(hold) => Hold::of(42, &hold.message()).and_then(|hold| hold.found),
            decision => panic!("{decision:?}"),
        };
        let newer = marker("u", 3, "e-1");
        assert_eq!(said(newer.clone()), Some(FoundData::Of(newer)));
        let other = Marker { id: Some("8e9e".to_owned()), ..marker("u", 2, "e-1") };
        assert_eq!(said(other), Some(FoundData::Id("8e9e".to_owned())));
    }

    /// Its marker was written before there were IDs on record.
    #[test]
    fn a_member_that_was_there_from_the_beginning_starts() {
        let record =
            |added| MemberRecord { name: "e-1".to_owned(), id: "b".to_owned(), added, ..MemberRecord::default() };
        let told = |added| Bootstrap {
            cluster_uid: "u".to_owned(),
            epoch: 2,
            state: BootstrapState::Established,
            members: vec![record(added)],
            ..Bootstrap::default()
        };
        let first = Found::Marker(marker("u", 2, "e-1"));
        assert_eq!(decide(&told(false), "e-1", &first, Data::Present), Decision::Start);
        // The volume that it lost came back after it was replaced.
        let Decision::Hold(hold) = decide(&told(true), "e-1", &first, Data::Present) else { panic!("it starts") };
        assert!(hold.reason == HoldReason::ForeignData && hold.why.contains("that it was formed with"), "{hold}");
    }

    /// Where a restore began epoch 2, and `e-1` joins under the ID `b` or is not to come yet.
    #[test]
    fn data_of_an_epoch_that_a_restore_has_ended() {
        let of = |cluster: &str, epoch, member: &str| Found::Marker(marker(cluster, epoch, member));
        let (joining, adding, voter) = (MemberStage::Joining, MemberStage::Adding, MemberStage::Voter);
        let cases = [
            (true, Some(joining), of("u", 1, "e-1"), Data::Present, "join, aside"),
            (true, Some(joining), of("u", 1, "e-1"), Data::Empty, "join"),
            (true, Some(joining), of("u", 2, "e-1"), Data::Present, "join, aside"),
            (true, Some(joining), of("u", 3, "e-1"), Data::Present, "ForeignData"),
            (true, Some(joining), of("v", 1, "e-1"), Data::Present, "ForeignData"),
            (true, Some(joining), of("u", 1, "e-0"), Data::Present, "ForeignData"),
            (true, Some(adding), of("u", 1, "e-1"), Data::Present, "ForeignData"),
            (true, Some(voter), of("u", 1, "e-1"), Data::Present, "ForeignData"),
            (true, None, of("u", 1, "e-1"), Data::Present, "ForeignData"),
            (true, None, of("u", 2, "e-1"), Data::Present, "start"),
            (true, None, of("u", 2, "e-1"), Data::Empty, "DataLost"),
            (true, None, Found::Nothing, Data::Empty, "DataLost"),
            (false, Some(joining), of("u", 1, "e-1"), Data::Present, "ForeignData"),
        ];
        for (restored, stage, found, data, expected) in cases {
            let record = |stage| MemberRecord {
                name: "e-1".to_owned(),
                id: if stage == adding { String::new() } else { "b".to_owned() },
                peer_url: "https://e-1".to_owned(),
                stage,
                added: true,
            };
            let bootstrap = Bootstrap {
                cluster_uid: "u".to_owned(),
                epoch: 2,
                state: BootstrapState::Established,
                restored,
                serial: 1,
                members: stage.map(record).into_iter().collect(),
                ..Bootstrap::default()
            };
            let said = match decide(&bootstrap, "e-1", &found, data) {
                Decision::Start => "start",
                Decision::MarkAndStart(_) => "mark",
                Decision::Join(join) if join.set_aside => "join, aside",
                Decision::Join(_) => "join",
                Decision::Hold(hold) => hold.reason.as_str(),
            };
            assert_eq!(said, expected, "{restored} {stage:?} {found:?} {data:?}");
        }
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
        let bootstrap = Bootstrap { cluster_uid: "u".to_owned(), epoch: 2, state, joined, ..Bootstrap::default() };
        match decide(&bootstrap, "e-0", found, data) {
            Decision::Start => "start".to_owned(),
            Decision::MarkAndStart(written) => {
                assert_eq!(written, marker("u", 2, "e-0"));
                "mark".to_owned()
            }
            Decision::Join(join) => panic!("{join:?}"),
            Decision::Hold(hold) => hold.reason.as_str().to_owned(),
        }
    }
}
