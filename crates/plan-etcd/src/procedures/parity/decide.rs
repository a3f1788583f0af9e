//! Decides when members are compared, and what that came to.

use crate::subject::Subject;
use crate::way_back;
use berth_api::etcd_bootstrap::{MemberStage, OperationKind};
use berth_api::etcd_upkeep::HashCheck;
use berth_api::version::Version;
use berth_plan::model::{EtcdCall, KvHash, Maintenance};
use berth_plan::observed::RaisedAlarm;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use std::collections::BTreeMap;

/// From one comparison to the next, while all is well.
const EVERY: SignedDuration = SignedDuration::from_hours(24);
/// Members differ: a person may have done something. Or one did not answer in time.
const AGAIN: SignedDuration = SignedDuration::from_mins(10);
/// From this version on a hash is the same wherever the data are.
const SOUND: &str = "3.5.18";
/// A change of the version begins so long after a comparison at most.
pub(crate) const FRESH: SignedDuration = SignedDuration::from_mins(5);

/// What was told in this reconcile. None: nothing; Some(None): not all have answered.
#[expect(clippy::option_option)]
fn asked(s: &Subject<'_>) -> Option<Option<(i64, Vec<String>)>> {
    s.observed.told.iter().rev().find_map(|told| match &told.call {
        EtcdCall::Maintain(Maintenance::CompareHashes { revision }) => {
            Some(differing(&told.hashes).map(|differing| (*revision, differing)))
        }
        _ => None,
    })
}

/// When one was tried last that came to nothing.
pub(crate) fn failed(s: &Subject<'_>) -> Option<Time> {
    match asked(s) {
        Some(Some(_)) => None,
        Some(None) => Some(Time(s.now)),
        None => s.etcd.status.as_ref()?.hashes_failed_at.clone(),
    }
}

/// Whether members may be asked now.
pub(crate) fn may_ask(s: &Subject<'_>) -> bool {
    asked(s).is_none() && failed(s).is_none_or(|at| s.now.duration_since(at.0) >= AGAIN)
}

/// The last comparison: of this reconcile, or what the status says.
pub(crate) fn last(s: &Subject<'_>) -> Option<HashCheck> {
    let of = |(revision, differing): (i64, Vec<String>)| HashCheck {
        checked_at: Time(s.now),
        revision,
        serial: s.record.bootstrap.serial,
        is_confirmed: is_confirmed(
            s.etcd.status.as_ref().and_then(|s| s.hashes.as_ref()),
            s.record.bootstrap.serial,
            &differing,
        ) || are_alarmed(s, &differing),
        differing,
    };
    asked(s).flatten().map(of).or_else(|| s.etcd.status.as_ref()?.hashes.clone())
}

/// Whether etcd itself says of all of them that their data differ.
fn are_alarmed(s: &Subject<'_>, differing: &[String]) -> bool {
    let is_alarmed = |member: &String| corrupt(s).any(|alarm| alarm.member == *member);
    !differing.is_empty() && differing.iter().all(is_alarmed)
}

fn corrupt<'a>(s: &Subject<'a>) -> impl Iterator<Item = &'a RaisedAlarm> {
    s.alarms().iter().filter(|alarm| alarm.kind == RaisedAlarm::CORRUPT)
}

/// Whether an alarm holds up changes of members. Not one of the member that is replaced for it, or was.
pub(crate) fn holds_up(s: &Subject<'_>, alarm: &RaisedAlarm) -> bool {
    let is_gone = s.listed().is_some_and(|list| list.iter().all(|m| m.id != alarm.id));
    alarm.kind != RaisedAlarm::CORRUPT || !(is_gone || is_odd(s, &alarm.member))
}

/// Whether the comparison before found the same, with the same members.
fn is_confirmed(before: Option<&HashCheck>, serial: i64, differing: &[String]) -> bool {
    !differing.is_empty() && before.is_some_and(|before| before.serial == serial && before.differing == differing)
}

/// Whether a member has other data than the majority, and was found so twice: its data is of no use, and is replaced by a copy. What the
/// status says counts, and not what was heard in this reconcile, in which the record may have changed since.
pub(crate) fn is_odd(s: &Subject<'_>, member: &str) -> bool {
    let last = s.etcd.status.as_ref().and_then(|status| status.hashes.as_ref());
    let Some(check) = last.filter(|check| check.is_confirmed && is_minority(s, check) && are_sound(s)) else {
        return false;
    };
    let is_leaving = s.record.under_way(OperationKind::Replace).is_some_and(|o| o.target == member)
        && s.record.bootstrap.member(member).is_some_and(|m| m.stage == MemberStage::Leaving);
    let is_of_these = s.record.operation.is_none() && check.serial == s.record.bootstrap.serial;
    (is_leaving || is_of_these) && check.differing.iter().any(|name| name == member)
}

/// Whether different hashes mean different data. Earlier ones of 3.5 give another hash after a compaction that ended at a deleted key:
/// <https://github.com/etcd-io/etcd/pull/18274>.
fn are_sound(s: &Subject<'_>) -> bool {
    SOUND.parse().is_ok_and(|sound: Version| s.record.release().version >= sound)
}

fn is_minority(s: &Subject<'_>, check: &HashCheck) -> bool {
    check.differing.len() * 2 < s.members().len()
}

/// The comparison that is due; `is_well`: all members are, and nothing else is to be done to them.
pub(crate) fn due(s: &Subject<'_>, is_well: bool) -> Option<Maintenance> {
    // etcd says that they differ: which one?
    let is_alarmed =
        corrupt(s).next().is_some() && last(s).is_none_or(|last| s.now.duration_since(last.checked_at.0) >= AGAIN);
    let is_due = || is_alarmed || is_due(last(s).as_ref(), born(s), s.record.bootstrap.serial, s.now);
    (is_well && s.record.replicas > 1 && may_ask(s) && is_due()).then(|| compare(s))?
}

/// The call.
pub(crate) fn compare(s: &Subject<'_>) -> Option<Maintenance> {
    let revision = s.answers().map(|m| m.progress.revision).min()?;
    Some(Maintenance::CompareHashes { revision })
}

fn born(s: &Subject<'_>) -> Option<Timestamp> {
    s.etcd.metadata.creation_timestamp.as_ref().map(|at| at.0)
}

fn is_due(last: Option<&HashCheck>, born: Option<Timestamp>, serial: i64, now: Timestamp) -> bool {
    let since = |at: Timestamp| now.duration_since(at);
    match last {
        Some(last) if !last.differing.is_empty() => last.serial != serial || since(last.checked_at.0) >= AGAIN,
        Some(last) => last.serial != serial || since(last.checked_at.0) >= EVERY,
        None => serial > 0 || born.is_some_and(|at| since(at) >= EVERY),
    }
}

/// Who has other data than the majority; all, if there is none. None: not all answered, or one was compacted meanwhile.
fn differing(hashes: &[KvHash]) -> Option<Vec<String>> {
    let said: Vec<_> = hashes.iter().map(|h| Some((&h.member, h.said.as_ref().ok()?))).collect::<Option<_>>()?;
    let (_, (_, compacted)) = said.first()?;
    if said.iter().any(|(_, (_, other))| other != compacted) {
        return None;
    }
    let mut by_hash: BTreeMap<u32, Vec<&String>> = BTreeMap::new();
    for (member, (hash, _)) in &said {
        by_hash.entry(*hash).or_default().push(member);
    }
    let majority = by_hash.values().find(|members| members.len() * 2 > said.len());
    let is_of = |member: &&String| majority.is_some_and(|members| members.contains(member));
    Some(said.iter().map(|(member, _)| *member).filter(|m| !is_of(m)).cloned().collect())
}

/// What it means that members differ, and what helps.
pub(crate) fn problem(s: &Subject<'_>) -> Option<String> {
    let check = last(s).filter(|check| !check.differing.is_empty())?;
    let HashCheck { revision, differing, .. } = &check;
    let of = s.members().len();
    let who = differing.join(", ");
    let (said, help) = if is_minority(s, &check) {
        let said = format!("{who} differs from the majority of the {of} members");
        let claims: Vec<_> = differing.iter().map(|member| format!("data-{member}")).collect();
        let help = if !s.can_join() || !are_sound(s) {
            format!(
                "Berth changes nothing of this etcd, since an earlier Berth made it, or it runs less than {SOUND}, whose hashes can differ for the same data. {}",
                way_back::differing(s)
            )
        } else if check.is_confirmed {
            format!(
                "Berth replaces it by an empty member, which copies the data from the others, once a quorum of them is well; its own data stays on {}, set aside",
                claims.join(", ")
            )
        } else {
            "Berth compares them again in 10 minutes. If it still differs, Berth replaces it by an empty member, which copies the data from the others"
                .to_owned()
        };
        (said, help)
    } else {
        (
            format!("the {of} members have different data, and no majority agrees"),
            format!("Berth changes nothing of this etcd. {}", way_back::differing(s)),
        )
    };
    Some(format!("the members' data differ at revision {revision}: {said}. {help}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A member, and what it said.
    type Said<'a> = (&'a str, Result<(u32, i64), String>);

    fn said(all: &[Said<'_>]) -> Vec<KvHash> {
        all.iter().map(|(member, said)| KvHash { member: (*member).to_owned(), said: said.clone() }).collect()
    }

    #[test]
    fn who_differs_from_a_majority() {
        let of = |all: &[(u32, i64)]| {
            let names = ["etcd-0", "etcd-1", "etcd-2", "etcd-3", "etcd-4"];
            differing(&said(&names.into_iter().zip(all.iter().map(|h| Ok(*h))).collect::<Vec<_>>()))
        };
        let who = |names: &[&str]| Some(names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>());
        assert_eq!(of(&[(1, 5), (1, 5), (1, 5)]), who(&[]));
        assert_eq!(of(&[(1, 5), (2, 5), (1, 5)]), who(&["etcd-1"]));
        assert_eq!(of(&[(1, 5), (2, 5), (3, 5)]), who(&["etcd-0", "etcd-1", "etcd-2"]), "no majority");
        assert_eq!(of(&[(1, 5), (2, 5)]), who(&["etcd-0", "etcd-1"]), "half is no majority");
        assert_eq!(of(&[(2, 5), (1, 5), (1, 5), (1, 5), (3, 5)]), who(&["etcd-0", "etcd-4"]));
        assert_eq!(of(&[(1, 5), (2, 6), (1, 5)]), None, "compacted elsewhere");
        assert_eq!(differing(&said(&[("etcd-0", Ok((1, 5))), ("etcd-1", Err("refused".into()))])), None);
        assert_eq!(differing(&[]), None);
    }

    #[test]
    fn once_a_day_and_after_each_change() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let now = at("2026-01-02T12:00:00Z");
        let check = |checked: &str, serial, differing: &[&str]| HashCheck {
            checked_at: Time(at(checked)),
            revision: 7,
            serial,
            differing: differing.iter().map(|m| (*m).to_owned()).collect(),
            is_confirmed: false,
        };
        let due =
            |last: Option<HashCheck>, serial| is_due(last.as_ref(), Some(at("2026-01-02T11:00:00Z")), serial, now);
        assert!(!due(None, 0), "it is an hour old");
        assert!(is_due(None, Some(at("2026-01-01T12:00:00Z")), 0, now));
        assert!(due(None, 3), "its members were changed");
        assert!(!due(Some(check("2026-01-01T12:00:01Z", 3, &[])), 3));
        assert!(due(Some(check("2026-01-01T12:00:00Z", 3, &[])), 3), "a day");
        assert!(due(Some(check("2026-01-02T11:59:00Z", 3, &[])), 4), "a change");
        assert!(!due(Some(check("2026-01-02T11:59:00Z", 3, &["etcd-1"])), 3));
        assert!(due(Some(check("2026-01-02T11:59:00Z", 3, &["etcd-1"])), 4), "it was replaced");
        assert!(due(Some(check("2026-01-02T11:50:00Z", 3, &["etcd-1"])), 3));
    }
}
