//! One visit: reads what a tenant's people are to have and what is recorded, writes the record first, then what differs in the tenant.

use super::tenant::Inside;
use crate::context::Context;
use crate::users::table::{Due, Visited};
use berth_api::cluster_access::AccessState;
use berth_api::{ClusterAccess, labels, names};
use berth_kubeio::{ErrorKind, IoError};
use berth_plan::fleet::TenantId;
use berth_plan::object_meta::deleting;
use berth_plan_cluster::users::{
    AccessId, Answers, Asked, Judged, Outcome, Record, Roles, Verdict, custom, done, first, judge, judge_unread,
    looked_for, outcomes, read, settles, steps, without_answer,
};
use berth_render::{Kind, Object, ObjectKey};
use futures::future::join_all;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Why nothing is done in a tenant.
const ASLEEP: &str = "the tenant sleeps; it is done when it wakes";
const NO_ANSWER: &str = "the API of the tenant does not answer";

/// What those wait for that give nothing there yet.
const PAUSED: &str = "spec.paused of the Cluster to be false";
const DELETED: &str = "the end of the Cluster, which is being deleted: nothing new is given there";

/// What is there of `ClusterAccess`es, as it was read. None: it is not there.
type Found = BTreeMap<ObjectKey, Result<Option<Value>, IoError>>;

pub(super) async fn visit(ctx: &Context, due: &Due) -> Result<Visited, IoError> {
    let Due { id, facts, selecting, recorded } = due;
    if selecting.is_empty() && !recorded {
        return Ok(nothing());
    }
    let cluster = ctx.io.get(&ObjectKey::namespaced(Kind::Cluster, &*id.namespace, &*id.name)).await?;
    let Some(cluster) = cluster.filter(|live| !(facts.ends && deleting(live))) else {
        return Ok(nothing());
    };
    let stored = match (facts.target.is_some(), recorded) {
        // Before there is a control plane, nobody may read there.
        (false, false) => Stored::default(),
        _ => Stored::read(ctx, id).await?,
    };
    let record = match Record::read(&stored.text) {
        Ok(record) => record,
        Err(why) => return Ok(unreadable(selecting, ctx, id, &why)),
    };
    let mut reads = Reads { failed: false };
    let judged = judged(ctx, due, &cluster, &record, &mut reads).await;
    let until = judged.iter().filter_map(|one| one.until).min();
    let inside = match &facts.target {
        None => Err(if facts.asleep { ASLEEP.to_owned() } else { NO_ANSWER.to_owned() }),
        Some(target) => Inside::open(ctx, target).await.map_err(|why| format!("{NO_ANSWER}: {why}")),
    };
    let mut inside = match inside {
        Ok(inside) => inside,
        Err(why) => {
            let again = facts.target.is_some() || reads.failed;
            let outcomes = without_answer(&record, &judged, &why);
            return Ok(Visited { recorded: Some(record.given_by()), outcomes, until, again });
        }
    };
    // What is written is recorded first: the process may end at any moment.
    let begun = first(&record, &judged, facts.epoch, ctx.now());
    let stored = if begun == record { stored } else { stored.write(ctx, id, &begun).await? };
    inside.look(&looked_for(&begun, &judged, facts.epoch)).await;
    inside.carry_out(steps(&begun, &judged, &inside.seen)).await?;
    let Inside { seen, failed, unsure, left, .. } = &inside;
    let answers = Answers { seen, failed, unsure: unsure.as_ref(), epoch: facts.epoch, now: ctx.now() };
    let mut ended = done(&begun, &judged, answers);
    let outcomes = if let Some(why) = &inside.no_answer {
        without_answer(&ended, &judged, &format!("{NO_ANSWER}: {why}"))
    } else {
        let failed = left.iter().chain(failed).map(|(key, why)| (key.clone(), why.clone())).collect();
        outcomes(&ended, &judged, &failed)
    };
    let is_known = !reads.failed && inside.no_answer.is_none() && left.is_empty();
    let opens = settles(&mut ended, (&judged, &outcomes), (facts.wakes.filter(|_| is_known), facts.epoch));
    if ended != begun {
        stored.write(ctx, id, &ended).await?;
    }
    let is_looked_for = ended.was_looked_for(facts.epoch);
    let opens = opens || (is_looked_for && !begun.was_looked_for(facts.epoch));
    if opens || (facts.wakes.is_some() && ended.objects.is_empty() && !begun.objects.is_empty()) {
        // Whoever is held at the gateway waits for it.
        ctx.rouse(vec![id.clone()]);
    }
    let is_done = |outcome: &Outcome| outcome.state == AccessState::Granted || outcome.message.starts_with("spec.");
    // What a restore brought back is judged the next time.
    let is_judged = |id: &AccessId| judged.iter().any(|one| one.id == *id);
    let again = reads.failed
        || !left.is_empty()
        || !is_looked_for
        || !ended.given_by().iter().all(is_judged)
        || !outcomes.values().all(is_done);
    Ok(Visited { recorded: Some(ended.given_by()), outcomes, until, again })
}

fn nothing() -> Visited {
    Visited { recorded: Some(BTreeSet::new()), ..Visited::default() }
}

struct Reads {
    /// Something could not be read, and is to be read again.
    failed: bool,
}

/// What each `ClusterAccess` is to come to: those that mean the tenant, and those by which something is recorded.
async fn judged(ctx: &Context, due: &Due, cluster: &Value, record: &Record, told: &mut Reads) -> Vec<Judged> {
    let given = record.given_by();
    let key = |id: &AccessId| ObjectKey::namespaced(Kind::ClusterAccess, &*id.namespace, &*id.name);
    let keys: BTreeSet<ObjectKey> = due.selecting.iter().cloned().chain(given.iter().map(key)).collect();
    let reads = keys.into_iter().map(|key| async move { (ctx.io.get(&key).await, key) });
    let found: Found = join_all(reads).await.into_iter().map(|(live, key)| (key, live)).collect();
    let all: BTreeMap<&ObjectKey, ClusterAccess> =
        found.iter().filter_map(|(key, found)| Some((key, read(found.as_ref().ok()?.as_ref()?).ok()?))).collect();
    let roles = roles(ctx, all.values(), told).await;
    let labels: BTreeMap<String, String> =
        serde_json::from_value(cluster["metadata"]["labels"].clone()).unwrap_or_default();
    let platform = ctx.settings.service_account.as_ref().map(|(namespace, _)| namespace.as_str());
    let nothing_new = match (deleting(cluster), &cluster["spec"]["paused"]) {
        (true, _) => Some(DELETED),
        (false, paused) => (paused == true).then_some(PAUSED),
    };
    let asked = Asked {
        of: &due.id,
        labels: &labels,
        nothing_new,
        platform,
        writers: &ctx.settings.writers,
        roles: &roles,
        now: ctx.now(),
    };
    let mut judged: Vec<Judged> = all.values().map(|access| judge(access, asked, record)).collect();
    for id in given.into_iter().filter(|id| judged.iter().all(|one| one.id != *id)).collect::<Vec<_>>() {
        let ends = |id| Judged { id, verdict: Verdict::Ends, until: None };
        judged.push(match found.get(&key(&id)) {
            Some(Err(error)) => {
                told.failed = true;
                let verdict = Verdict::Stays(format!("the ClusterAccess, which cannot be read: {error}"));
                Judged { id, verdict, until: None }
            }
            Some(Ok(Some(live))) if live["metadata"]["uid"] == *id.uid => judge_unread(id, live, ctx.now()),
            _ => ends(id),
        });
    }
    judged
}

/// The platform's own roles that these name.
async fn roles<'a>(ctx: &Context, all: impl Iterator<Item = &'a ClusterAccess>, reads: &mut Reads) -> Roles {
    let names: BTreeSet<&str> = all.filter_map(|access| custom(&access.spec.role)).collect();
    let mut roles = Roles::new();
    for name in names {
        match ctx.io.get(&ObjectKey::cluster(Kind::ClusterRole, name)).await {
            Ok(live) => drop(roles.insert(name.to_owned(), live)),
            Err(error) => {
                ctx.failed(&error);
                reads.failed = true;
            }
        }
    }
    roles
}

/// The record as it is stored.
#[derive(Default)]
struct Stored {
    text: String,
    uid: Option<String>,
    resource_version: Option<String>,
}

fn key_of_record(id: &TenantId) -> ObjectKey {
    let home = names::control_plane_namespace(&id.namespace, &id.name);
    ObjectKey::namespaced(Kind::ConfigMap, home, names::USERS_RECORD)
}

impl Stored {
    async fn read(ctx: &Context, id: &TenantId) -> Result<Self, IoError> {
        Ok(ctx.io.get(&key_of_record(id)).await?.map(|live| Self::of(&live)).unwrap_or_default())
    }

    fn of(live: &Value) -> Self {
        let text = |pointer: &str| live.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        Self {
            text: text("/data/record").unwrap_or_default(),
            uid: text("/metadata/uid"),
            resource_version: text("/metadata/resourceVersion"),
        }
    }

    /// As it was read: another one of that name, or a newer one, is not written over.
    async fn write(self, ctx: &Context, id: &TenantId, record: &Record) -> Result<Self, IoError> {
        let key = key_of_record(id);
        let mut object = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {
                "name": key.name, "namespace": key.namespace,
                "annotations": {"kubernetes.io/description": "what ClusterAccesses gave in the tenant; Berth takes back only what is listed here"},
            },
            "data": {"record": record.to_json()},
        });
        for (field, value) in [("uid", self.uid), ("resourceVersion", self.resource_version)] {
            if let Some(value) = value {
                object["metadata"][field] = value.into();
            }
        }
        let object = Object::new(object).map_err(|message| IoError {
            kind: ErrorKind::Other,
            what: format!("apply {key}"),
            message,
            in_tenant: false,
        })?;
        Ok(Self::of(&ctx.io.apply(&object, labels::MANAGER_USERS).await?))
    }
}

/// Nothing is done with what is not known.
fn unreadable(selecting: &BTreeSet<ObjectKey>, ctx: &Context, id: &TenantId, why: &str) -> Visited {
    let message = format!("{} cannot be read: {why}", key_of_record(id));
    let of = |key: &ObjectKey| {
        let uid = ctx.users.uid(key)?;
        let id = AccessId { namespace: key.namespace.clone().unwrap_or_default(), name: key.name.clone(), uid };
        Some((id, Outcome { state: AccessState::Failed, message: message.clone() }))
    };
    let outcomes = selecting.iter().filter_map(of).collect();
    // Whoever is deleted stays until somebody has looked.
    Visited { recorded: None, outcomes, until: None, again: true }
}
