//! Whether those that an `App` selects no more lose it at once. A typing error in a selector could otherwise take it, and its data, from the whole
//! fleet: what deselects many at once waits for a person.

use super::rollout::Place;
use super::tenant::named;
use berth_api::app::{AppState, OnRemoval};
use berth_api::{App, AppInstallation, labels};
use berth_plan::Input;
use berth_plan::digest::sha256;
use berth_plan::object_meta::{deleting, uid};
use berth_render::ObjectKey;
use kube_core::ResourceExt as _;

/// Those that are to lose it.
#[derive(Clone, Copy, Debug)]
struct Leaving<'a> {
    /// All, but for those that are being uninstalled, and those whose `Cluster` is gone.
    count: usize,
    /// Those of them whose tenant answers: in others nothing is uninstalled yet.
    awake: usize,
    /// So many a person has confirmed.
    confirmed: usize,
    /// What confirms that these may go, and none that leave at another time.
    code: &'a str,
    /// So many may go at once without.
    at_once: usize,
    /// What a person confirms now.
    says: Option<&'a str>,
}

/// What becomes of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Removal {
    /// Those that keep it in this reconcile.
    pub(super) stays: Vec<ObjectKey>,
    /// They wait for a person, who confirms it by this.
    pub(super) asks: Option<String>,
    /// So many may go on losing it: on record before the first of them does.
    pub(super) confirmed: usize,
}

#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Goes { confirmed: usize },
    Recorded,
    Held,
}

impl Leaving<'_> {
    fn judge(self) -> Verdict {
        let news = self.awake.min(self.count.saturating_sub(self.confirmed));
        if news <= self.at_once {
            return Verdict::Goes { confirmed: self.confirmed.min(self.count) };
        }
        match self.says {
            Some(says) if says.trim() == self.code => Verdict::Recorded,
            _ => Verdict::Held,
        }
    }
}

/// Of all places, in the order of their `Cluster`s.
pub(super) fn judge<'a>(
    input: Input<'_, App>,
    all: impl Iterator<Item = (&'a ObjectKey, &'a Place, Option<&'a AppInstallation>)>,
) -> Removal {
    let app = input.object;
    // To delete the App is to ask for it by name, and what stays there can be taken up again.
    if input.is_deleted() || app.spec.on_removal == OnRemoval::Keep {
        return Removal::default();
    }
    let leaves = |(key, place, there): (&'a ObjectKey, &'a Place, Option<&AppInstallation>)| {
        let of = there.filter(|_| !place.wanted && place.there.is_some_and(|is| is.state != AppState::Deleting))?;
        let live = input.observed.get(key)?;
        (!deleting(live) && uid(live) == of.spec.cluster.uid).then(|| (key, place, of.uid().unwrap_or_default()))
    };
    let all: Vec<_> = all.filter_map(leaves).collect();
    let code = code(all.iter().map(|(.., uid)| &**uid), app.metadata.generation.unwrap_or_default());
    // What was confirmed of a spec says nothing of another one.
    let status = app.status.as_ref().filter(|status| status.observed_generation == app.metadata.generation);
    let status = status.and_then(|status| status.confirmed).unwrap_or_default();
    let leaving = Leaving {
        count: all.len(),
        awake: all.iter().filter(|(_, place, _)| !place.is_away).count(),
        code: &code,
        confirmed: usize::try_from(status).unwrap_or_default(),
        at_once: usize::try_from(app.spec.max_concurrent).unwrap_or(1).max(1),
        says: app.annotations().get(labels::CONFIRM_REMOVAL).map(String::as_str),
    };
    let stays = || all.iter().map(|(key, ..)| (*key).clone()).collect();
    match leaving.judge() {
        Verdict::Goes { confirmed } => Removal { confirmed, ..Removal::default() },
        Verdict::Recorded => Removal { stays: stays(), asks: None, confirmed: leaving.count },
        Verdict::Held => Removal { stays: stays(), asks: Some(code), confirmed: 0 },
    }
}

/// What a person writes for installations with these UIDs at that generation of the spec: their number, and what says which they are. An annotation that is
/// left confirms nothing later.
fn code<'a>(uids: impl Iterator<Item = &'a str>, generation: i64) -> String {
    let mut all: Vec<&str> = uids.collect();
    all.sort_unstable();
    format!("{}-{}", all.len(), &sha256(format!("{generation} {}", all.join(" ")).as_bytes())[..6])
}

/// What is said of those that wait. None: nobody does.
pub(super) fn said(input: Input<'_, App>, removal: &Removal) -> Option<String> {
    let count = removal.stays.len();
    let names = named(removal.stays.iter());
    removal.asks.as_ref().map(|code| {
        format!(
            "{count} Clusters are not selected any more, which is more than spec.maxConcurrent at once, so nothing is uninstalled before that is confirmed: {names}. If it is a mistake, correct spec.clusterSelector, spec.clusterRefs or the labels of these Clusters. If it is meant: kubectl annotate app {} -n {} {}={code} --overwrite",
            input.name(),
            input.namespace(),
            labels::CONFIRM_REMOVAL
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(count: usize, awake: usize, confirmed: usize, says: Option<&str>) -> Verdict {
        Leaving { count, awake, confirmed, at_once: 10, code: "11-abcdef", says }.judge()
    }

    #[test]
    fn many_at_once_wait_for_a_person_who_names_them() {
        let goes = |confirmed| Verdict::Goes { confirmed };
        assert_eq!(of(0, 0, 0, None), goes(0));
        assert_eq!(of(10, 10, 0, None), goes(0));
        assert_eq!(of(11, 11, 0, None), Verdict::Held);
        assert_eq!(of(500, 10, 0, None), goes(0), "the others sleep: what is put back is not uninstalled there");
        for says in ["11", "", "yes", "11-abcde", "11-abcdeg", "12-abcdef"] {
            assert_eq!(of(11, 11, 0, Some(says)), Verdict::Held, "{says}");
        }
        assert_eq!(of(11, 11, 0, Some(" 11-abcdef ")), Verdict::Recorded);
    }

    #[test]
    fn what_confirms_some_confirms_no_others_of_that_number() {
        let of = |uids: &[&str], generation| code(uids.iter().copied(), generation);
        assert_eq!(of(&["a", "b"], 1), of(&["b", "a"], 1));
        assert!(of(&["a", "b"], 1).starts_with("2-") && of(&["a", "b"], 1).len() == 8);
        assert_ne!(of(&["a", "b"], 1), of(&["a", "c"], 1));
        assert_ne!(of(&["a", "b"], 1), of(&["a", "b"], 2), "it selects others by then");
    }

    /// The annotation stays as it was while they become fewer.
    #[test]
    fn what_is_confirmed_goes_on_to_its_end_and_counts_for_nothing_later() {
        let mut confirmed = 500;
        for count in (0..=500).rev().step_by(10) {
            let Verdict::Goes { confirmed: left } = of(count, count, confirmed, Some("500-abcdef")) else {
                panic!("{count}")
            };
            assert_eq!(left, count);
            confirmed = left;
        }
        assert_eq!(of(499, 499, confirmed, Some("500-abcdef")), Verdict::Held);
        assert_eq!(of(40, 40, 30, Some("500-abcdef")), Verdict::Goes { confirmed: 30 }, "a few more meanwhile");
        assert_eq!(of(41, 41, 30, Some("500-abcdef")), Verdict::Held);
    }
}
