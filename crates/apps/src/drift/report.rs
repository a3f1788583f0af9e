//! What is told of drift: no more than a termination message holds, and first what was known before. Pure.

use berth_contract::apps::{Checked, Drifted, Known, What};

/// Bytes that the list may have: a termination message holds 4096.
const ROOM: usize = 3500;
/// Bytes of a field's path, and of what more there is to say.
const PATH: usize = 100;
const MESSAGE: usize = 200;

/// Fields as they are told, and remembered.
pub(super) fn told(paths: Vec<String>) -> Vec<String> {
    paths.into_iter().take(Checked::PATHS).map(|path| cut(path, PATH)).collect()
}

pub(super) fn cut(mut text: String, longest: usize) -> String {
    if text.len() > longest {
        text.truncate(text.floor_char_boundary(longest - '…'.len_utf8()));
        text.push('…');
    }
    text
}

/// Whether it was set back before. Such are told of first: else another one each time would be, and none be known as one that somebody keeps changing.
pub(super) fn is_known(one: &Drifted, known: &[Known]) -> bool {
    known.iter().any(|it| it.object == one.object)
}

/// Which are set back: not those of which it was done often enough, nor what cannot be. If all that can be told of are left, nobody knows of the others
/// how often it was, and they are, too.
pub(super) fn to_mend(all: &[&Drifted], known: &[Known]) -> Vec<bool> {
    let is_left = |one: &Drifted| known.iter().any(|it| it.leave && it.object == one.object && it.paths == one.paths);
    // As long as they may become.
    let listed = fitting(all.iter().map(|one| Drifted { mended: true, ..(*one).clone() }));
    let is_cut = listed.len() == Checked::LISTED || listed.len() < all.len();
    let is_full = is_cut && listed.iter().all(is_left);
    let can_be = |one: &Drifted| matches!(one.what, What::Missing | What::Changed);
    all.iter().map(|one| can_be(one) && !is_full && !is_left(one)).collect()
}

/// The outcome.
pub(super) fn checked(all: Vec<Drifted>) -> Checked {
    let count = all.iter().filter(|one| !one.mended).count();
    let objects = fitting(all.into_iter());
    Checked { count: i64::try_from(count).unwrap_or(i64::MAX), objects, ..Checked::default() }
}

/// Of those the first that can be told.
fn fitting(all: impl Iterator<Item = Drifted>) -> Vec<Drifted> {
    let mut objects: Vec<Drifted> = all.take(Checked::LISTED).collect();
    for one in &mut objects {
        one.message = cut(std::mem::take(&mut one.message), MESSAGE);
    }
    while serde_json::to_string(&objects).is_ok_and(|text| text.len() > ROOM) {
        objects.pop();
    }
    objects
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_contract::apps::{Object, Outcome};

    fn one(name: &str) -> Drifted {
        let object = Object { kind: "ConfigMap".into(), namespace: "shop".into(), name: name.into() };
        Drifted { object, what: What::Changed, paths: vec!["/data/a".into()], ..Drifted::default() }
    }

    fn left(of: &Drifted, leave: bool) -> Known {
        Known { object: of.object.clone(), paths: of.paths.clone(), leave }
    }

    #[test]
    fn whatever_drifted_fits_into_a_termination_message() {
        let long = |n: usize| Drifted {
            object: Object {
                kind: "K".repeat(63), namespace: "n".repeat(63), name: format!("{n}{}", "é".repeat(120))
            },
            paths: told((0..9).map(|n| format!("/{n}/{}", "ü".repeat(300))).collect()),
            message: "\u{1}".repeat(1000),
            ..Drifted::default()
        };
        let checked = checked((0..200).map(long).collect());
        assert_eq!((checked.count, checked.objects[0].paths.len()), (200, Checked::PATHS));
        assert!(serde_json::to_string(&Outcome::Checked(checked)).unwrap().len() <= 4096);
        let short = super::checked((0..40).map(|n| one(&n.to_string())).collect());
        assert_eq!((short.count, short.objects.len()), (40, Checked::LISTED));
    }

    /// Else those that are never told of would be set back for ever.
    #[test]
    fn if_all_that_fits_is_left_the_rest_is_too() {
        let long = |n: usize| Drifted {
            paths: told((0..3).map(|p| format!("/{p}/{}", "x".repeat(200))).collect()),
            ..one(&format!("{n:02}"))
        };
        let all: Vec<Drifted> = (0..20).map(long).collect();
        let listed = checked(all.iter().map(|one| Drifted { mended: true, ..one.clone() }).collect()).objects.len();
        assert!(listed < Checked::LISTED, "{listed}");
        let known: Vec<Known> = all[..listed].iter().map(|one| left(one, true)).collect();
        let mend = |known: &[Known]| to_mend(&all.iter().collect::<Vec<_>>(), known);
        assert!(mend(&known).iter().all(|mend| !mend));
        assert!(mend(&known[1..])[listed..].iter().all(|mend| *mend));
    }

    #[test]
    fn what_somebody_keeps_changing_is_left_and_the_rest_is_set_back() {
        let mut all: Vec<Drifted> = (0..40).map(|n| one(&format!("{n:02}"))).collect();
        let known = [left(&one("39"), true), left(&one("38"), false)];
        all.sort_by_key(|one| !is_known(one, &known));
        assert_eq!((&*all[0].object.name, &*all[1].object.name, &*all[2].object.name), ("38", "39", "00"));
        let mend = to_mend(&all.iter().collect::<Vec<_>>(), &known);
        assert_eq!((mend[0], mend[1], mend[2..].iter().all(|mend| *mend)), (true, false, true));
        all[1].paths = vec!["/data/b".into()];
        assert!(to_mend(&all.iter().collect::<Vec<_>>(), &known)[1], "something else of it was changed");
        all[0].what = What::Taken;
        assert!(!to_mend(&all.iter().collect::<Vec<_>>(), &known)[0], "it is somebody else's");
    }

    #[test]
    fn where_more_than_can_be_told_of_are_kept_changing_nothing_is_set_back_for_ever() {
        let all: Vec<Drifted> = (0..40).map(|n| one(&format!("{n:02}"))).collect();
        let mut times = std::collections::BTreeMap::new();
        let mut writes = 0;
        for _ in 0..20 {
            let known: Vec<Known> =
                all.iter().filter_map(|it| times.get(&it.object.name).map(|times| left(it, *times >= 3))).collect();
            let mut found = all.clone();
            found.sort_by_key(|one| !is_known(one, &known));
            let mend = to_mend(&found.iter().collect::<Vec<_>>(), &known);
            for (one, mend) in found.iter_mut().zip(mend) {
                one.mended = mend;
            }
            writes = found.iter().filter(|one| one.mended).count();
            for one in super::checked(found).objects.iter().filter(|one| one.mended) {
                *times.entry(one.object.name.clone()).or_insert(0) += 1;
            }
        }
        assert_eq!(writes, 0);
    }
}
