//! The platform's pull Secrets: a copy of each in the control-plane namespace, and the ServiceAccount from which pods without a list of their
//! own have it when they are admitted. So no pod template has them, and nothing restarts where they change.
//!
//! What Berth wrote is on record: a copy carries its own name as a label, and the namespace has the names that are in the ServiceAccount.

use crate::ours::is_ours;
use crate::subject::Tenant;
use berth_api::{labels, names};
use berth_plan::Observed;
use berth_plan::meta_cluster::pull_secrets::{PullSecret, how_to_create, is_reserved_in, pulls};
use berth_plan::model::{Action, SecretEntry, SecretPlan, Stage, State};
use berth_plan::object_meta::{annotation, deleting, label, version_of};
use berth_plan::workload::missing_pull_secrets;
use berth_render::{Kind, Object, ObjectKey};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// The chart value that names them.
const FIELD: &str = "tenants.pullSecrets";

/// Whether the ServiceAccount of a control-plane namespace has to be read: pull Secrets are to be there, or to be taken back. `observed`: the
/// namespace, and Secrets in it.
pub fn reads_service_account(wanted: &[String], namespace: &ObjectKey, observed: &Observed) -> bool {
    let has_copies = || {
        let mut all = observed.of_kind(Kind::Secret, &namespace.name);
        all.any(|(_, secret)| label(secret, labels::PULL_SECRET).is_some())
    };
    let recorded = || observed.get(namespace).and_then(|live| annotation(live, labels::PULL_SECRETS)).is_some();
    !wanted.is_empty() || recorded() || has_copies()
}

/// What the namespace records: what is to be in the ServiceAccount, and what Berth put there before, as long as it may be.
pub(super) fn record(t: &Tenant<'_>) -> Option<String> {
    let account = t.get(Kind::ServiceAccount, names::DEFAULT_SERVICE_ACCOUNT);
    let listed = account.map(listed);
    let stays = |name: &&str| listed.as_ref().is_none_or(|listed| listed.contains(*name));
    let all: BTreeSet<&str> = recorded(t).into_iter().filter(stays).chain(wanted(t)).collect();
    let all: Vec<&str> = all.into_iter().collect();
    (!all.is_empty()).then(|| all.join(" "))
}

/// Puts what is to be done into the stage of the namespace: before the first pod, whose list of Secrets nobody changes afterwards.
pub(super) fn follow(t: &Tenant<'_>, stage: &mut Stage) {
    for name in wanted(t) {
        if let Some(action) = copy(t, name) {
            put(stage, action);
        }
    }
    if let Some(account) = account(t) {
        return put(stage, Action::Apply(account));
    }
    // Only now does no new pod have them.
    for (key, live) in copies(t) {
        if !wanted(t).any(|name| name == key.name) && !deleting(live) {
            put(stage, Action::delete(key, live, None));
        }
    }
}

/// What is wrong with the Secrets that pods are to pull with, and the way out.
pub(super) fn problem(t: &Tenant<'_>) -> Option<String> {
    t.live_namespace()?;
    let wrong = |name| taken(t, name).or_else(|| wrong_source(t, name)).or_else(|| foreign(t, name));
    let of_platform = named(t).filter_map(wrong);
    let of_spec = t.cluster.spec.images.pull_secrets.iter().filter(|name| !awaited(t, name));
    let of_spec = missing_pull_secrets(t.observed, &t.cp_namespace, of_spec, "spec.images.pullSecrets")
        .map(|missing| format!("{missing}. Or the platform team names one in its own namespace in the chart value {FIELD}, and Berth copies it"));
    let all: Vec<String> = of_platform.chain(of_spec).collect();
    (!all.is_empty()).then(|| all.join("; "))
}

/// Those that the platform names.
fn named<'a>(t: &Tenant<'a>) -> impl Iterator<Item = &'a str> + use<'a> {
    t.settings.pull_secrets.iter().map(String::as_str)
}

/// Those of them that the tenant is to have: not under a name of Berth's own Secrets, also where that one is not there yet.
fn wanted<'a>(t: &Tenant<'a>) -> impl Iterator<Item = &'a str> + use<'a> {
    let cluster = t.name;
    named(t).filter(move |name| !is_reserved_in(cluster, name))
}

/// What Berth put into the ServiceAccount: by its record, and by the copies that are there, of which an older build leaves no record.
fn recorded<'t>(t: &'t Tenant<'_>) -> BTreeSet<&'t str> {
    let noted = t.live_namespace().and_then(|namespace| annotation(namespace, labels::PULL_SECRETS));
    let copies = copies(t).map(|(key, _)| &*key.name);
    noted.unwrap_or_default().split_whitespace().chain(copies).collect()
}

fn copies<'t>(t: &'t Tenant<'_>) -> impl Iterator<Item = (&'t ObjectKey, &'t Value)> {
    t.observed.of_kind(Kind::Secret, &t.cp_namespace).filter(|(key, live)| is_copy(t, key, live))
}

fn source(t: &Tenant<'_>, name: &str) -> ObjectKey {
    ObjectKey::namespaced(Kind::Secret, &*t.settings.backups.namespace, name)
}

/// The platform has it, or it is not known yet whether it does: what is wrong with it is said once.
fn awaited(t: &Tenant<'_>, name: &str) -> bool {
    named(t).any(|named| named == name)
}

/// Made by Berth from the platform's Secret of the same name.
fn is_copy(t: &Tenant<'_>, key: &ObjectKey, live: &Value) -> bool {
    is_ours(live)
        && !is_reserved_in(t.name, &key.name)
        && label(live, labels::PULL_SECRET) == Some(&key.name)
        && t.labels().iter().all(|(k, v)| label(live, k) == Some(v))
}

fn put(stage: &mut Stage, action: Action) {
    if stage.state.is_done() {
        stage.state = State::waiting(format!("Berth to {}", action.describe()));
    }
    stage.actions.push(action);
}

/// Brings the copy to what the platform's is. Nothing where that is not there or not known: what was copied stays.
fn copy(t: &Tenant<'_>, name: &str) -> Option<Action> {
    let PullSecret::Found { type_, key, digest } = t.observed.meta.pull_secrets.get(name)? else { return None };
    let secret = t.secret(name);
    let mut all = t.labels();
    all.insert(labels::PULL_SECRET.into(), name.into());
    let plan = |existing, entries| {
        Some(Action::Secret(SecretPlan {
            key: secret.clone(),
            type_: (*type_).into(),
            labels: all.clone(),
            existing,
            entries,
        }))
    };
    let entry = SecretEntry::copy(*key, source(t, name));
    match t.observed.get(&secret) {
        None => plan(None, vec![entry]),
        Some(live) if !is_copy(t, &secret, live) || deleting(live) => None,
        // A Secret's type is for ever.
        Some(live) if live["type"] != *type_ => Some(Action::delete(&secret, live, None)),
        Some(_) if holds(t, &secret, key, digest) => None,
        Some(live) => plan(Some(version_of(live)), vec![entry]),
    }
}

fn holds(t: &Tenant<'_>, secret: &ObjectKey, key: &str, digest: &str) -> bool {
    t.observed.secrets.get(secret).is_some_and(|facts| facts.digests.get(key).is_some_and(|held| held == digest))
}

fn listed(account: &Value) -> BTreeSet<String> {
    let all = account["imagePullSecrets"].as_array().into_iter().flatten();
    all.filter_map(|secret| secret["name"].as_str()).map(str::to_owned).collect()
}

/// The ServiceAccount, if it is to be written. What others put there stays, and so that it does, it has to be as it was observed.
fn account(t: &Tenant<'_>) -> Option<Object> {
    let live = t.get(Kind::ServiceAccount, names::DEFAULT_SERVICE_ACCOUNT);
    let has = live.map(listed).unwrap_or_default();
    let berths: BTreeSet<&str> = recorded(t).into_iter().chain(wanted(t)).collect();
    let others = has.iter().map(String::as_str).filter(|name| !berths.contains(name));
    let wanted: Vec<&str> = wanted(t).chain(others).collect();
    if has == wanted.iter().map(|name| (*name).to_owned()).collect() {
        return None;
    }
    let list: Vec<Value> = wanted.iter().map(|name| json!({"name": name})).collect();
    let object = Object::new(json!({
        "apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"name": names::DEFAULT_SERVICE_ACCOUNT, "namespace": t.cp_namespace},
        "imagePullSecrets": list,
    }));
    let object = object.ok()?;
    Some(match live {
        Some(live) => object.with_resource_version(&version_of(live).1),
        None => object,
    })
}

fn wrong_source(t: &Tenant<'_>, name: &str) -> Option<String> {
    let at = &t.settings.backups.namespace;
    match t.observed.meta.pull_secrets.get(name)? {
        PullSecret::Missing => Some(format!(
            "{} (chart value {FIELD}), with which pods pull images, does not exist. The platform team creates it: {}",
            source(t, name),
            how_to_create(at, name)
        )),
        PullSecret::OtherType(type_) => Some(format!(
            "{} (chart value {FIELD}) is of type {type_}, with which no image is pulled. The type of a Secret cannot be changed. The platform team deletes it, and then: {}",
            source(t, name),
            how_to_create(at, name)
        )),
        PullSecret::Found { .. } => None,
    }
}

/// A Secret of Berth's own has, or is to have, that name, and may hold what cannot be made again.
fn taken(t: &Tenant<'_>, name: &str) -> Option<String> {
    let secret = t.secret(name);
    let is_berths = |live: &Value| is_ours(live) && !is_copy(t, &secret, live);
    (is_reserved_in(t.name, name) || t.observed.get(&secret).is_some_and(is_berths)).then(|| {
        format!(
            "{} (chart value {FIELD}) is not copied: {secret} is a Secret of Berth's own. Give the platform's another name, and change {FIELD}",
            source(t, name)
        )
    })
}

/// Somebody else's Secret of that name, which holds something else: pods use it as it is.
fn foreign(t: &Tenant<'_>, name: &str) -> Option<String> {
    let PullSecret::Found { key, digest, .. } = t.observed.meta.pull_secrets.get(name)? else { return None };
    let secret = t.secret(name);
    let live = t.observed.get(&secret).filter(|live| !is_copy(t, &secret, live))?;
    if pulls(live["type"].as_str().unwrap_or_default()) && holds(t, &secret, key, digest) {
        return None;
    }
    Some(format!(
        "{secret} is not Berth's and holds something else than {} (chart value {FIELD}), so Berth leaves it alone, and pods pull with it. To have the platform's copied: kubectl -n {} delete secret {name}",
        source(t, name),
        t.cp_namespace
    ))
}
