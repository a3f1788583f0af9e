//! What a release needs, by what Helm has recorded of it. Pure.

use serde::Deserialize;

/// One revision of a release.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Revision {
    /// Its number.
    pub revision: i64,
    /// Helm's word for how it is.
    pub status: String,
    /// Helm's sentence on what made it.
    #[serde(default)]
    pub description: String,
}

impl Revision {
    /// Whether it was installed to its end.
    fn was_whole(&self) -> bool {
        matches!(&*self.status, "deployed" | "superseded")
    }

    /// The revision that it was rolled back to.
    fn back_to(&self) -> Option<i64> {
        self.description.strip_prefix("Rollback to ")?.trim().parse().ok()
    }
}

/// Whose a release is, and what it was made from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// Name of the `AppInstallation`.
    pub installation: String,
    /// Digest of the chart, shortened.
    pub chart: String,
    /// Digest of the values, shortened.
    pub values: String,
}

/// What is next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// It is somebody else's.
    Refuse,
    /// It is as it is to be.
    Nothing,
    /// There is none.
    Install,
    /// It is to be another one.
    Upgrade,
    /// Whoever changed it last died amid that: back to this revision. If none ever was whole, it is the last one that ended, or the one that did
    /// not: what is there may hold data, so nothing is uninstalled for it.
    RollBack(i64),
    /// It is half gone.
    Purge,
}

/// The step. `history`: from the oldest; empty, if there is no release. `has`: marks of the newest. `made`: the revision that was made with these.
/// `adopt`: it may be somebody else's.
pub fn decide(history: &[Revision], has: &Marks, made: Option<i64>, wanted: &Marks, adopt: bool) -> Step {
    let Some(newest) = history.last() else { return Step::Install };
    let is_ours = has.installation == wanted.installation;
    if !is_ours && !adopt {
        return Step::Refuse;
    }
    match &*newest.status {
        "deployed" if has == wanted && made == Some(origin(history)) && is_complete(history, newest) => Step::Nothing,
        status if is_pending(status) => {
            let newest_of = |fits: fn(&Revision) -> bool| history.iter().rev().find(|revision| fits(revision));
            let ended = || newest_of(|revision| !is_pending(&revision.status));
            Step::RollBack(newest_of(Revision::was_whole).or_else(ended).unwrap_or(newest).revision)
        }
        // Half gone, or kept by somebody as a memory.
        "uninstalling" | "uninstalled" => Step::Purge,
        // Deployed otherwise, failed, superseded.
        _ => Step::Upgrade,
    }
}

pub(crate) fn is_pending(status: &str) -> bool {
    matches!(status, "pending-install" | "pending-upgrade" | "pending-rollback")
}

/// The revision whose content the newest has: that which it was rolled back to, if it was. 0: there is none.
pub(crate) fn origin(history: &[Revision]) -> i64 {
    let mut origin = history.last().map_or(0, |newest| newest.revision);
    // From the newest: each was rolled back to one before it.
    for revision in history.iter().rev() {
        if revision.revision == origin {
            origin = revision.back_to().unwrap_or(origin);
        }
    }
    origin
}

/// Whether all of it was done. One that was rolled back to what never was whole lacks what hooks do.
fn is_complete(history: &[Revision], deployed: &Revision) -> bool {
    let was_whole = |to| history.iter().any(|revision| revision.revision == to && revision.was_whole());
    deployed.back_to().is_none_or(was_whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history(of: &[&str]) -> Vec<Revision> {
        let one = |(revision, status): (i64, &&str)| {
            let (status, description) = status.split_once(", ").unwrap_or((status, ""));
            Revision { revision, status: status.to_owned(), description: description.to_owned() }
        };
        (1..).zip(of).map(one).collect()
    }

    fn marks(chart: &str) -> Marks {
        Marks { installation: "ours".into(), chart: chart.into(), values: "v".into() }
    }

    #[test]
    fn each_state_of_a_release_has_its_step() {
        let of = |statuses: &[&str], has: &Marks| {
            let history = history(statuses);
            decide(&history, has, Some(origin(&history)), &marks("new"), false)
        };
        let (old, new) = (marks("old"), marks("new"));
        for (statuses, has, wanted) in [
            (&[][..], &Marks::default(), Step::Install),
            (&["deployed"], &new, Step::Nothing),
            (&["superseded", "deployed"], &old, Step::Upgrade),
            // The labels are those of what failed: it is no reason to count as done.
            (&["superseded", "failed"], &new, Step::Upgrade),
            (&["failed"], &new, Step::Upgrade),
            (&["pending-install"], &new, Step::RollBack(1)),
            (&["pending-install", "deployed, Rollback to 1"], &new, Step::Upgrade),
            (&["superseded", "pending-upgrade", "deployed, Rollback to 1"], &new, Step::Nothing),
            (&["deployed", "pending-upgrade"], &new, Step::RollBack(1)),
            (&["superseded", "failed", "deployed", "pending-upgrade"], &new, Step::RollBack(3)),
            (&["failed", "pending-upgrade"], &new, Step::RollBack(1)),
            (&["failed", "pending-upgrade", "deployed, Rollback to 1"], &new, Step::Upgrade),
            (&["superseded", "deployed", "pending-rollback"], &new, Step::RollBack(2)),
            (&["superseded", "failed", "pending-rollback"], &new, Step::RollBack(1)),
            (&["uninstalling"], &new, Step::Purge),
            (&["superseded", "uninstalled"], &new, Step::Purge),
        ] {
            assert_eq!(of(statuses, has), wanted, "{statuses:?}");
        }
    }

    /// Helm hands Berth's labels on to it.
    #[test]
    fn what_somebody_upgraded_by_hand_is_upgraded() {
        let of = |statuses: &[&str], made| decide(&history(statuses), &marks("new"), made, &marks("new"), false);
        assert_eq!(of(&["superseded", "deployed"], Some(2)), Step::Nothing);
        assert_eq!(of(&["superseded", "deployed"], Some(1)), Step::Upgrade);
        assert_eq!(of(&["superseded", "deployed"], None), Step::Upgrade, "nobody knows");
        assert_eq!(of(&["superseded", "superseded", "deployed, Rollback to 1"], Some(1)), Step::Nothing);
        assert_eq!(of(&["superseded", "superseded", "deployed, Rollback to 2"], Some(1)), Step::Upgrade);
        assert_eq!(of(&["superseded", "failed", "deployed"], Some(1)), Step::Upgrade);
    }

    #[test]
    fn somebody_elses_release_is_left_alone_unless_it_is_adopted() {
        let others = Marks::default();
        for statuses in [&["deployed"][..], &["deployed", "pending-upgrade"], &["uninstalling"]] {
            assert_eq!(decide(&history(statuses), &others, None, &marks("new"), false), Step::Refuse, "{statuses:?}");
        }
        assert_eq!(decide(&history(&["deployed"]), &others, None, &marks("new"), true), Step::Upgrade);
        assert_eq!(decide(&history(&["pending-install"]), &others, None, &marks("new"), true), Step::RollBack(1));
    }

    /// Whatever is found, it is as it is to be after a few steps, if each does what it says.
    #[test]
    fn it_ends() {
        let statuses = [
            "deployed",
            "failed",
            "superseded",
            "pending-install",
            "pending-upgrade",
            "pending-rollback",
            "uninstalling",
            "strange",
        ];
        for first in statuses {
            for second in statuses {
                let (mut history, mut has, mut made) = (history(&[first, second]), marks("old"), None);
                let mut steps = 0;
                loop {
                    steps += 1;
                    assert!(steps <= 4, "{first} {second}");
                    let next = i64::try_from(history.len()).unwrap() + 1;
                    let whole =
                        |description: String| Revision { revision: next, status: "deployed".to_owned(), description };
                    match decide(&history, &has, made, &marks("new"), false) {
                        Step::Nothing => break,
                        Step::Refuse => panic!("{first} {second}"),
                        Step::Install | Step::Upgrade => {
                            history.push(whole("Upgrade complete".to_owned()));
                            (has, made) = (marks("new"), Some(next));
                        }
                        Step::RollBack(to) => {
                            history.push(whole(format!("Rollback to {to}")));
                            // Its labels are those of what it goes back to.
                            (has, made) = if to == 2 { (marks("new"), Some(2)) } else { (marks("old"), None) };
                        }
                        Step::Purge => history.clear(),
                    }
                }
            }
        }
    }
}
