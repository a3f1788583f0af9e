//! What agents of earlier builds wrote, word for word: their pods run on under newer operators.

use crate::marker::{FoundData, Marker};

/// What the guard found, by its words. A name that is longer than 63 characters was cut, and is none of ours.
pub(crate) fn found(why: &str) -> Option<FoundData> {
    let (_, found) = why.split_once(" holds the data of ")?;
    if let Some(id) = found.strip_prefix("the ID ") {
        return FoundData::of_id(id.split_once(", which ")?.0);
    }
    let (member, rest) = found.strip_prefix("member ")?.split_once(" of cluster ")?;
    let (cluster, rest) = rest.split_once(" in epoch ")?;
    let epoch = rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()?;
    Some(FoundData::Of(Marker { cluster_uid: cluster.to_owned(), epoch, member: member.to_owned(), id: None }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hold::{Hold, HoldReason};

    #[test]
    fn what_earlier_agents_write_is_understood() {
        let earlier = [
            (
                "DataLost: the volume of etcd member etcd-0 is empty, but its cluster has had a quorum in epoch 1; etcd is not started, since the member would have forgotten what it acknowledged",
                HoldReason::DataLost,
            ),
            (
                "ForeignData: the volume of etcd member etcd-0 (epoch 1) holds a marker that cannot be read; etcd is not started and nothing is touched",
                HoldReason::ForeignData,
            ),
            (
                "ForeignData: the volume of etcd member etcd-0 (epoch 2) holds the data of member etcd-1 of cluster 6f1c-9 in epoch 1; etcd is not started and nothing is touched",
                HoldReason::ForeignData,
            ),
            (
                "ForeignData: the volume of etcd member etcd-0 (epoch 1) holds data that no marker vouches for; etcd is not started and nothing is touched",
                HoldReason::ForeignData,
            ),
        ];
        for (message, reason) in earlier {
            let hold = Hold::of(42, &format!("{message}\n")).unwrap();
            assert_eq!((hold.reason, hold.to_string().as_str()), (reason, message));
            assert_eq!(Hold::of(1, message), None, "only the exit code says that it is held");
        }
    }

    /// The operator takes up data that is newer than its record by these words.
    #[test]
    fn what_a_guard_found_is_read_from_its_words() {
        let found = |why: &str| Hold::of(42, &format!("ForeignData: {why}")).unwrap().found;
        let of = |cluster: &str, epoch, member: &str| {
            Some(FoundData::Of(Marker { cluster_uid: cluster.into(), epoch, member: member.into(), id: None }))
        };
        let volume = "the volume of etcd member etcd-0 (epoch 1) holds";
        let rest = "etcd is not started and nothing is touched";
        let said = format!("{volume} the data of member etcd-1 of cluster 6f1c-9 in epoch 12; {rest}");
        assert_eq!(found(&said), of("6f1c-9", 12, "etcd-1"));
        let said = format!("{volume} the data of the ID 8e9e05c52164694d, which is not this member's any more; {rest}");
        assert_eq!(found(&said), Some(FoundData::Id("8e9e05c52164694d".into())));
        for other in [
            "the data of the ID that it was formed with, which is not this member's any more",
            "the data of member etcd-1 of cluster 6f1c-9 in epoch -1",
            "a marker that cannot be read",
            "data without Berth's marker, so it is unknown whose it is",
        ] {
            assert_eq!(found(&format!("{volume} {other}; {rest}")), None, "{other}");
        }
    }
}
