//! What is written and taken back in a tenant, and what that comes to.

use super::judge::{Judged, Verdict};
use super::record::{AccessId, Entry, MOST, Record, SHARE};
use super::room::objects;
use super::wanted::{SET, emptied};
use berth_api::cluster_access::AccessState;
use berth_api::labels;
use berth_plan::object_meta::{deleting, label, uid};
use berth_render::{Kind, Object, ObjectKey};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// What there is in the tenant, of what was looked for. None: it is not there.
pub type Seen = BTreeMap<ObjectKey, Option<Value>>;

/// What could not be done, by object: whether that only waits, and for what, or why it failed.
pub type Failed = BTreeMap<ObjectKey, (AccessState, String)>;

/// Something to do in the tenant.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Write it; one with a UID only if that is there still.
    Apply(Object),
    /// Delete it, if it has that UID still, and look whether it is gone.
    Delete {
        /// Which.
        key: ObjectKey,
        /// Its UID, as it was seen.
        uid: String,
    },
}

impl Step {
    /// Which object it is about.
    pub fn key(&self) -> &ObjectKey {
        match self {
            Self::Apply(object) => object.key(),
            Self::Delete { key, .. } => key,
        }
    }
}

/// How far one is in a tenant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// How far.
    pub state: AccessState,
    /// What it waits for, or what went wrong. Empty: it is given.
    pub message: String,
}

/// What a visit came to.
#[derive(Clone, Copy, Debug)]
pub struct Answers<'a> {
    /// What there is, with the answers to what was done.
    pub seen: &'a Seen,
    /// What could not be done.
    pub failed: &'a Failed,
    /// Of what was to be written nobody said whether it was.
    pub unsure: Option<&'a ObjectKey>,
    /// The epoch of the tenant's etcd.
    pub epoch: i64,
    /// The time.
    pub now: Timestamp,
}

/// So long after it was sent a write may be carried out that was not answered: kube-apiserver ends a request after a minute.
const LATE: SignedDuration = SignedDuration::from_secs(90);

/// What is not there may come yet.
const UNSURE: &str = "the tenant did not answer whether it was written, so it may come yet; it is looked at again";

/// What keeps it is none of Berth's.
const DELETED: &str = "it is being deleted in the tenant, which a finalizer there holds up; it gives nothing meanwhile";

/// By whom nothing is changed.
fn stays(judged: &[Judged]) -> BTreeSet<&AccessId> {
    judged.iter().filter(|one| matches!(one.verdict, Verdict::Stays(_))).map(|one| &one.id).collect()
}

/// The record that is stored before anything is written: with what is about to be. `epoch`: of the tenant's etcd.
pub fn first(record: &Record, judged: &[Judged], epoch: i64, now: Timestamp) -> Record {
    let mut next = record.clone();
    let known: BTreeSet<ObjectKey> = record.objects.iter().filter_map(Entry::key).collect();
    for (key, (_, of)) in objects(record, judged).into_iter().filter(|(key, _)| !known.contains(key)) {
        next.revoked.retain(|entry| entry.key().as_ref() != Some(&key));
        let mut entry = Entry::new(&key, of.cloned());
        // A role gives nothing by itself.
        entry.begun = of.map(|_| now);
        entry.epoch = epoch;
        next.objects.push(entry);
    }
    next.forget_the_oldest();
    next
}

/// What Berth made. A binding is by its name, which has a UID of the meta cluster's: whoever makes it anew in the tenant, without Berth's label,
/// wants to keep it. A role is as recorded, or has Berth's label: a restore brings one with a UID that was forgotten.
fn is_ours(live: &Value, entry: &Entry) -> bool {
    entry.of.is_some()
        || entry.uid.as_deref().is_some_and(|recorded| recorded == uid(live))
        || label(live, labels::TENANT_SET) == Some(SET)
}

/// Whether it is otherwise than it is to be. What somebody adds to subjects or rules allows more.
fn differs(live: &Value, object: &Object) -> bool {
    let wanted = object.value();
    deleting(live)
        || label(live, labels::TENANT_SET) != Some(SET)
        || ["subjects", "roleRef", "rules"].iter().any(|field| live[field] != wanted[field])
        || !live["aggregationRule"].is_null()
}

/// Whether writing it changes nothing: a binding's role is not changed, and what somebody has a role gather from others stays theirs.
fn stays_as_it_is(live: &Value, object: &Object) -> bool {
    let is_other = !live["roleRef"].is_null() && live["roleRef"] != object.value()["roleRef"];
    is_other || !live["aggregationRule"].is_null()
}

/// Deletes it. What a finalizer in the tenant keeps gives nothing first.
fn taken_back(key: ObjectKey, live: &Value) -> impl Iterator<Item = Step> {
    let finalizers = live.pointer("/metadata/finalizers").and_then(Value::as_array);
    let is_kept = deleting(live) || finalizers.is_some_and(|all| !all.is_empty());
    let gives = live["subjects"].as_array().is_some_and(|all| !all.is_empty());
    let empty = (is_kept && gives).then(|| emptied(&key, live)).flatten().map(Step::Apply);
    empty.into_iter().chain([Step::Delete { uid: uid(live).to_owned(), key }])
}

/// What to do, in this order: what ends first, then what begins; roles before bindings, and away after them. `record`: as it is stored, with
/// what is to be written. `seen`: what [`Record::looked_for`] names.
pub fn steps(record: &Record, judged: &[Judged], seen: &Seen) -> Vec<Step> {
    let (wanted, stays) = (objects(record, judged), stays(judged));
    let (mut away, mut roles_away, mut begin) = (vec![], vec![], vec![]);
    let left = |entry: &Entry| entry.of.as_ref().is_some_and(|of| stays.contains(of));
    for entry in record.objects.iter().chain(&record.revoked) {
        let Some(key) = entry.key().filter(|key| !wanted.contains_key(key)) else { continue };
        let is_role = key.kind == Kind::ClusterRole;
        // What stays may need any role that is there.
        if left(entry) || (is_role && !stays.is_empty()) {
            continue;
        }
        if let Some(Some(live)) = seen.get(&key)
            && is_ours(live, entry)
        {
            let list = if is_role { &mut roles_away } else { &mut away };
            list.extend(taken_back(key, live));
        }
    }
    for (key, (object, _)) in wanted {
        match seen.get(&key) {
            None => continue,
            Some(Some(live)) if !differs(live, object) => continue,
            Some(Some(live)) if stays_as_it_is(live, object) => begin.extend(taken_back(key, live)),
            // Once it is deleted, what comes late makes no new one.
            Some(Some(live)) => {
                begin.push(Step::Apply(object.clone().with_uid(uid(live))));
                continue;
            }
            Some(None) => {}
        }
        begin.push(Step::Apply(object.clone()));
    }
    away.into_iter().chain(begin).chain(roles_away).collect()
}

/// The record after that: with UIDs, and without what was seen to be gone. What a restore brought back, and what is there still, is there again.
pub fn done(record: &Record, judged: &[Judged], answers: Answers<'_>) -> Record {
    let Answers { seen, failed, unsure, epoch, now } = answers;
    let (wanted, stays) = (objects(record, judged), stays(judged));
    let mut next = Record { woke: record.woke, objects: vec![], revoked: vec![] };
    for entry in &record.revoked {
        let mut entry = entry.clone();
        match entry.key().filter(|_| entry.epoch != epoch).and_then(|key| seen.get(&key)) {
            Some(Some(live)) if is_ours(live, &entry) => {
                (entry.uid, entry.epoch) = (Some(uid(live).to_owned()), epoch);
                next.objects.push(entry);
                continue;
            }
            Some(_) => entry.epoch = epoch,
            None => {}
        }
        next.revoked.push(entry);
    }
    for entry in &record.objects {
        let Some(key) = entry.key() else { continue };
        let mut entry = entry.clone();
        let live = seen.get(&key);
        if live.is_some() {
            entry.epoch = epoch;
        }
        let is_left = entry.of.as_ref().is_some_and(|of| stays.contains(of));
        match (wanted.get(&key), live) {
            (Some((object, _)), Some(Some(live))) => {
                entry.uid = Some(uid(live).to_owned());
                entry.digest = (!differs(live, object)).then(|| object.digest());
                entry.begun = None;
                next.objects.push(entry);
            }
            (None, Some(None)) if entry.begun.is_some_and(|at| now.duration_since(at) < LATE) => {
                next.objects.push(entry);
            }
            (None, Some(live)) if !is_left && live.as_ref().is_none_or(|live| !is_ours(live, &entry)) => {
                // A role gives nothing by itself, and what never was there no restore brings.
                let may_have_been = entry.uid.is_some() || entry.begun.is_some();
                if key.kind != Kind::ClusterRole && may_have_been {
                    (entry.digest, entry.begun) = (None, None);
                    next.revoked.push(entry);
                }
            }
            _ => {
                entry.begun = match unsure {
                    Some(of) if *of == key => entry.of.as_ref().map(|_| now),
                    _ => entry.begun.filter(|_| !failed.contains_key(&key)),
                };
                next.objects.push(entry);
            }
        }
    }
    next.forget_the_oldest();
    next
}

/// How far each is. `record`: after all was done. Those of which nothing is to be said are left out.
pub fn outcomes(record: &Record, judged: &[Judged], failed: &Failed) -> BTreeMap<AccessId, Outcome> {
    let why = |keys: Vec<ObjectKey>| {
        let found = keys.iter().filter_map(|key| failed.get(key).map(|(state, why)| (*state, format!("{key}: {why}"))));
        found.min_by_key(|(state, _)| *state)
    };
    let written: BTreeMap<ObjectKey, Option<&str>> =
        record.objects.iter().filter_map(|entry| Some((entry.key()?, entry.digest.as_deref()))).collect();
    let of = |one: &Judged| {
        let recorded: Vec<ObjectKey> = record.of(&one.id).filter_map(Entry::key).collect();
        let outcome = |state, message: String| Some(Outcome { state, message });
        match &one.verdict {
            Verdict::Given(grant) => {
                let keys: Vec<ObjectKey> = grant.objects().map(|object| object.key().clone()).collect();
                let is_there =
                    |object: &Object| written.get(object.key()).is_some_and(|at| *at == Some(&*object.digest()));
                let has_no_room = keys.iter().any(|key| !written.contains_key(key));
                let extra: Vec<ObjectKey> = recorded.iter().filter(|key| !keys.contains(key)).cloned().collect();
                if !extra.is_empty() {
                    let why = why(extra).map_or_else(|| DELETED.into(), |(_, why)| why);
                    return outcome(AccessState::NotRevoked, why);
                }
                if grant.objects().all(is_there) {
                    return outcome(AccessState::Granted, String::new());
                }
                match why(keys) {
                    Some((state, why)) => outcome(state, why),
                    None if has_no_room => outcome(
                        AccessState::Failed,
                        format!(
                            "a tenant has {MOST} objects of ClusterAccesses at the most, and {SHARE} of one namespace's. Name fewer spec.namespaces, or delete ClusterAccesses of namespace {}",
                            one.id.namespace
                        ),
                    ),
                    None => outcome(AccessState::Waiting, "what is there to be written".into()),
                }
            }
            Verdict::Ends | Verdict::Refused(_) if !recorded.is_empty() => {
                let otherwise = if record.of(&one.id).any(|entry| entry.begun.is_some()) { UNSURE } else { DELETED };
                let why = why(recorded).map_or_else(|| otherwise.into(), |(_, why)| why);
                outcome(AccessState::NotRevoked, why)
            }
            Verdict::Ends => None,
            Verdict::Refused(why) => outcome(AccessState::Failed, why.clone()),
            Verdict::Stays(what) => outcome(AccessState::Waiting, what.clone()),
        }
    };
    judged.iter().filter_map(|one| Some((one.id.clone(), of(one)?))).collect()
}

/// How far each is in a tenant that does not answer, for that reason.
pub fn without_answer(record: &Record, judged: &[Judged], why: &str) -> BTreeMap<AccessId, Outcome> {
    let mut all = outcomes(record, judged, &Failed::new());
    for outcome in all.values_mut() {
        match outcome.state {
            AccessState::Granted => {}
            AccessState::NotRevoked => why.clone_into(&mut outcome.message),
            AccessState::Failed | AccessState::Waiting if outcome.message.starts_with("spec.") => {}
            _ => *outcome = Outcome { state: AccessState::Waiting, message: why.to_owned() },
        }
    }
    all
}
