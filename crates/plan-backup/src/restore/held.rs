//! What members hold, and what of it a restore gives up: it begins without a confirmation only if that is nothing.

use super::validate::answers;
use berth_api::EtcdCluster;
use berth_api::backup::StoreRef;
use berth_api::conditions::{self, ConditionType, Reason};
use berth_api::etcd_cluster::MemberState;
use berth_api::restore::RestoreSource;
use berth_plan::etcd_home::command;
use jiff::Timestamp;

/// Members of an etcd, by what is known of their data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// It is lost.
    pub lost: Vec<String>,
    /// They do not answer, and it is not known to be lost.
    pub away: Vec<String>,
    /// They answer.
    pub answer: Vec<String>,
}

impl Held {
    /// As the etcd says it. Of whom it says nothing, nothing is known to be lost.
    pub fn of(etcd: &EtcdCluster) -> Self {
        let mut held = Self::default();
        for member in etcd.status.iter().flat_map(|s| &s.members) {
            let list = match member.state {
                Some(MemberState::DataLost) => &mut held.lost,
                Some(MemberState::Answers) => &mut held.answer,
                Some(MemberState::Away) | None => &mut held.away,
            };
            list.push(member.name.clone());
        }
        held
    }

    /// Nobody has anything any more, and that is proven of each.
    fn is_nothing(&self) -> bool {
        !self.lost.is_empty() && self.away.is_empty() && self.answer.is_empty()
    }

    /// So many have lost their data that no quorum can ever be again.
    fn is_quorum_lost(&self) -> bool {
        !self.lost.is_empty() && self.lost.len() * 2 >= self.lost.len() + self.away.len() + self.answer.len()
    }

    /// Members that are waited for before what is left is backed up.
    pub(super) fn awaited(&self, without: &[String]) -> Vec<String> {
        self.away.iter().filter(|m| !without.contains(m)).cloned().collect()
    }
}

/// Whether it does not serve, for this reason.
fn says(etcd: &EtcdCluster, reason: Reason) -> bool {
    let conditions = etcd.status.as_ref().map(|s| s.conditions.as_slice()).unwrap_or_default();
    let available = conditions::find(conditions, ConditionType::Available);
    available.is_some_and(|c| c.status == "False" && c.reason == reason.as_str())
}

/// What `spec.confirm` has to be: its cluster ID; where its status was lost, and no quorum tells that, the beginning of its identity, as hex digits.
/// None: it has never served, so there is nothing to lose.
pub fn confirmation_id(etcd: &EtcdCluster) -> Option<String> {
    let status = etcd.status.as_ref()?;
    let lost = [Reason::QuorumLost, Reason::DataLost, Reason::ForeignData, Reason::EtcdAlarm];
    let is_lost = || lost.into_iter().any(|reason| says(etcd, reason));
    let identity = || Some(status.identity.as_ref()?.chars().filter(char::is_ascii_hexdigit).take(16).collect());
    status.cluster_id.clone().or_else(|| identity().filter(|_| is_lost()))
}

/// What is restored.
#[derive(Clone, Copy, Debug)]
pub struct Intent<'a> {
    /// `spec.source`.
    pub source: &'a RestoreSource,
    /// `spec.withoutMembers`.
    pub without: &'a [String],
    /// When the backup was taken, if that is known.
    pub taken: Option<Timestamp>,
    /// What restores what is left instead, if that can be: see [`of_what_is_left`].
    pub instead: &'a str,
}

/// The command that restores what members hold that are left; the store of its backup is to be named.
pub fn of_what_is_left(etcd: &EtcdCluster) -> String {
    format!("{} --survivors STORE", command(etcd, "restore"))
}

/// Where a backup goes to, as `kubectl berth etcd restore --survivors` takes it.
pub(super) fn flags(store: &StoreRef) -> String {
    match (&store.secret_ref, &store.claim_ref) {
        (Some(secret), _) => format!("--secret {}", secret.name),
        (None, Some(claim)) => format!("--claim {}", claim.name),
        (None, None) => store.name.clone(),
    }
}

/// What a restore gives up of what members hold: a sentence without its point, and then, if there is one, a way that keeps it. None: nothing.
pub fn gives_up(etcd: &EtcdCluster, intent: Intent<'_>) -> Option<String> {
    let instead = intent.instead;
    let meta = &etcd.metadata;
    let of = format!(
        "EtcdCluster {}/{}",
        meta.namespace.as_deref().unwrap_or_default(),
        meta.name.as_deref().unwrap_or_default()
    );
    let written = match intent.taken {
        Some(at) => format!("data written since {at}"),
        None => "data written since the backup".to_owned(),
    };
    let does = if answers(etcd) { "answers" } else { "does not answer" };
    if intent.source.of.is_some() {
        return Some(format!("{of} {does}, and all its data will be replaced by data of another etcd"));
    }
    if answers(etcd) {
        return Some(format!("{of} answers, and {written} will be lost"));
    }
    let held = Held::of(etcd);
    if confirmation_id(etcd).is_none() || held.is_nothing() {
        return None;
    }
    if says(etcd, Reason::EtcdAlarm) {
        return Some(format!(
            "the members of {of} have different data (alarm CORRUPT), and all of it will be replaced. To keep it, back up each member first: the condition Ready of {of} has the commands"
        ));
    }
    let list = |names: &[String]| names.join(", ");
    let (answer, away) = (list(&held.answer), list(&held.away));
    let back = match held.away.as_slice() {
        [] => "no member is known to have lost its data".to_owned(),
        [one] => format!("{one} does not answer, and its data is not lost"),
        _ => format!("{away} do not answer, and their data is not lost"),
    };
    if intent.source.survivors.is_some() {
        let given_up: Vec<String> =
            intent.without.iter().filter(|m| held.away.contains(m) || held.answer.contains(m)).cloned().collect();
        return if !held.is_quorum_lost() {
            Some(format!(
                "{back}, so {of} serves again once its members run; what is not in the backup of the others will be lost. To keep it, have them run"
            ))
        } else if given_up.is_empty() {
            None
        } else {
            let given_up = list(&given_up);
            Some(format!(
                "what only {given_up} of {of} holds will be lost. To keep it, have {given_up} run, and restore what is left with it"
            ))
        };
    }
    let without: Vec<_> = held.away.iter().map(|m| format!(" --without {m}")).collect();
    let without = without.concat();
    Some(if !held.answer.is_empty() && held.is_quorum_lost() {
        let (run, rest) = if held.away.is_empty() {
            (String::new(), String::new())
        } else {
            (format!("have {away} run, and "), format!(". If that cannot be, leave it out: {instead}{without}"))
        };
        format!(
            "{of} has no quorum, but {answer} answers and may hold more than the backup: {written} will be lost. To keep it, {run}restore what is left instead: {instead}{rest}"
        )
    } else if held.is_quorum_lost() {
        format!(
            "{back}, so it may hold more than the backup: {written} will be lost. To keep it, have it run, and restore what is left instead: {instead}"
        )
    } else {
        let rest = if held.answer.is_empty() {
            String::new()
        } else {
            format!(". If that cannot be, restore what {answer} may hold and the backup does not: {instead}{without}")
        };
        format!(
            "{of} has no quorum, but {back}, so it serves again once its members run: {written} will be lost. To keep it, have them run{rest}"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn etcd(states: &[&str], available: &str) -> EtcdCluster {
        let members: Vec<Value> = states
            .iter()
            .enumerate()
            .map(|(i, state)| json!({"name": format!("etcd-{i}"), "ready": false, "state": Some(state).filter(|s| !s.is_empty())}))
            .collect();
        let condition = json!({"type": "Available", "status": available, "reason": "X", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"});
        let object = json!({
            "apiVersion": "berth.dev/v1alpha1", "kind": "EtcdCluster", "metadata": {"name": "etcd", "namespace": "n"},
            "spec": {"version": "3.6.16"}, "status": {"clusterId": "c1", "members": members, "conditions": [condition]},
        });
        serde_json::from_value(object).unwrap()
    }

    fn said(states: &[&str], available: &str, source: &Value, without: &[&str]) -> Option<String> {
        let source: RestoreSource = serde_json::from_value(source.clone()).unwrap();
        let without: Vec<String> = without.iter().map(|m| (*m).to_owned()).collect();
        gives_up(&etcd(states, available), Intent { source: &source, without: &without, taken: None, instead: "that" })
    }

    const LOST: &str = "DataLost";
    const AWAY: &str = "Away";
    const ANSWERS: &str = "Answers";

    #[test]
    fn a_backup_needs_no_confirmation_only_where_every_member_lost_its_data() {
        let backup = json!({"backup": "b"});
        for (states, word) in [
            (&[LOST, LOST, LOST][..], None),
            (&[LOST], None),
            (&[LOST, LOST, ANSWERS], Some("etcd-2 answers and may hold more than the backup")),
            (&[LOST, LOST, AWAY], Some("etcd-2 does not answer, and its data is not lost")),
            (&[AWAY, AWAY, ANSWERS], Some("etcd-0, etcd-1 do not answer, and their data is not lost")),
            (&[AWAY, AWAY, AWAY], Some("serves again once its members run")),
            // Of an earlier Berth, and of one that nobody could ask.
            (&["", "", ""], Some("their data is not lost")),
            (&[], Some("no member is known to have lost")),
        ] {
            let said = said(states, "False", &backup, &[]);
            assert_eq!(said.is_some(), word.is_some(), "{states:?}: {said:?}");
            assert!(word.is_none_or(|word| said.as_ref().unwrap().contains(word)), "{states:?}: {said:?}");
            assert!(said.is_none_or(|said| said.contains("will be lost")), "{states:?}");
        }
        assert!(said(&[ANSWERS; 3], "True", &backup, &[]).unwrap().contains("answers, and data written"));
        let anothers = json!({"backup": "b", "of": {"etcdClusterRef": {"name": "o"}}});
        assert!(said(&[LOST], "False", &anothers, &[]).unwrap().contains("replaced by data of another"));
    }

    #[test]
    fn what_is_left_needs_none_where_the_loss_of_the_quorum_is_proven_and_nobody_is_left_out() {
        let left = json!({"survivors": {"store": "main"}});
        for (states, without, word) in [
            (&[LOST, LOST, ANSWERS][..], &[][..], None),
            (&[LOST, LOST, AWAY], &[], None),
            (&[LOST, ANSWERS, AWAY], &["etcd-2"], Some("serves again")),
            (&[LOST, LOST, ANSWERS, AWAY], &["etcd-3"], Some("what only etcd-3 of EtcdCluster n/etcd holds")),
            (&[LOST, LOST, ANSWERS, AWAY], &["etcd-0"], None),
            (&[AWAY, AWAY, ANSWERS], &[], Some("serves again once its members run")),
        ] {
            let said = said(states, "False", &left, without);
            assert_eq!(said.is_some(), word.is_some(), "{states:?}: {said:?}");
            assert!(word.is_none_or(|word| said.unwrap().contains(word)), "{states:?}");
        }
    }

    #[test]
    fn where_members_differ_or_the_status_was_lost_nothing_begins_by_itself() {
        let of = |cluster_id: Option<&str>, reason: &str, source: &Value| {
            let mut etcd = etcd(&[ANSWERS, AWAY, AWAY], "False");
            let status = etcd.status.as_mut().unwrap();
            status.cluster_id = cluster_id.map(str::to_owned);
            status.identity = Some("0f1e2d3c-aaaa-bbbb-cccc-000000000000".into());
            status.conditions[0].reason = reason.into();
            let source: RestoreSource = serde_json::from_value(source.clone()).unwrap();
            gives_up(&etcd, Intent { source: &source, without: &[], taken: None, instead: "that" })
        };
        let backup = json!({"backup": "b"});
        for source in [&backup, &json!({"survivors": {"store": "main"}})] {
            let said = of(Some("c1"), "EtcdAlarm", source).unwrap();
            assert!(said.contains("different data") && !said.contains("quorum"), "{said}");
        }
        assert!(
            of(None, "QuorumLost", &backup).unwrap().contains("will be lost"),
            "as after a restore of the meta cluster"
        );
        assert_eq!(of(None, "Waiting", &backup), None, "it was never formed");
        let mut etcd = etcd(&[AWAY], "False");
        assert_eq!(confirmation_id(&etcd).as_deref(), Some("c1"));
        let status = etcd.status.as_mut().unwrap();
        (status.cluster_id, status.identity) = (None, Some("0f1e2d3c-aaaa-4bbb-8ccc-000000000000".into()));
        assert_eq!(confirmation_id(&etcd), None, "it is restored, or was never formed");
        etcd.status.as_mut().unwrap().conditions[0].reason = "QuorumLost".into();
        assert_eq!(confirmation_id(&etcd).as_deref(), Some("0f1e2d3caaaa4bbb"));
    }

    #[test]
    fn whoever_is_away_is_waited_for_unless_left_out_by_name() {
        let held = Held::of(&etcd(&[LOST, ANSWERS, AWAY, AWAY], "False"));
        assert_eq!(held.awaited(&[]), ["etcd-2", "etcd-3"]);
        assert_eq!(held.awaited(&["etcd-3".into()]), ["etcd-2"]);
    }
}
