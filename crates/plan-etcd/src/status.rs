//! What the `EtcdCluster` says of itself: one pure function, called when all went well and when it did not.

use super::record;
use super::sizes;
use super::subject::is_ours;
use crate::health::Member;
use crate::planned::EtcdPlan;
use crate::subject::Input;
use berth_api::cluster::CertificatesStatus;
use berth_api::common::SecretRef;
use berth_api::conditions::{self, ConditionType, Reason, Verdict};
use berth_api::etcd_bootstrap::{BootstrapState, Operation, OperationKind, Phase, Record};
use berth_api::etcd_cluster::{EtcdClientStatus, EtcdClusterStatus, EtcdMember, PinnedTemplates};
use berth_api::names;
use berth_plan::etcd_home::{Home, name_of};
use berth_plan::failure::Failure;
use berth_plan::model::{LASTING, Plan, Stage, StageId, State};
use berth_plan::observed::Progress;
use berth_plan::verdicts;
use berth_plan_backup::schedule;
use berth_render::{Kind, ObjectKey};
use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// A member may be away this long before the cluster counts as degraded.
const DEGRADED_AFTER: SignedDuration = SignedDuration::from_mins(2);

/// What is said of the members of one that sleeps.
const ASLEEP: &str = "it sleeps, and has no pods";

/// A member that does not come, for whatever reason.
const DISTURBED: [Reason; 2] = [Reason::PodsNotReady, Reason::MembersChanging];

/// The new status. `input.observed` is what was observed, with the answers to this reconcile's writes in it.
pub fn status(input: Input<'_>, planned: &EtcdPlan, failure: Option<&Failure>) -> EtcdClusterStatus {
    let Input { object: etcd, observed, now, .. } = input;
    let old = etcd.status.clone().unwrap_or_default();
    let generation = etcd.metadata.generation.unwrap_or_default();
    let health = &planned.health;
    let verdicts = verdicts(input, planned, failure);
    let phase = phase(input, planned, &verdicts, &old).to_owned();
    let mut status = EtcdClusterStatus {
        observed_generation: Some(generation),
        phase: Some(phase),
        version: health.version.clone().filter(|_| old.version.is_none() || health.all_ready()).or(old.version.clone()),
        clients: clients(input),
        ..old.clone()
    };
    if planned.record.is_some() {
        status.ready_members = Some(format!("{}/{}", health.ready(), health.members.len()));
        status.members = members(input, planned, &old);
        status.upkeep.clone_from(&planned.upkeep);
        status.recovery.clone_from(&planned.recovery);
        status.hashes.clone_from(&planned.hashes);
        status.hashes_failed_at.clone_from(&planned.hashes_failed_at);
    }
    // Who could not look does not know whether they are still away; who did not look has to see it anew.
    if planned.record.is_some() || failure.is_none() {
        status.absent_nodes.clone_from(&planned.absent_nodes);
    }
    // Recorded once it is written beside the members, too; until then the spec may still change.
    if let Some(record) = record::written(etcd, observed) {
        take_up(&mut status, record, health.cluster_id.as_ref());
    }
    if !planned.endpoints.is_empty() {
        status.endpoints.clone_from(&planned.endpoints);
    }
    if let Some(at) = planned.certificates.next_expiry {
        status.certificates = Some(CertificatesStatus { next_expiry: Some(Time(at)) });
    }
    status.conditions = verdicts::publish(&old.conditions, verdicts, generation, now, etcd.spec.paused);
    status
}

/// What is on record of the members.
fn take_up(status: &mut EtcdClusterStatus, record: Record, cluster_id: Option<&String>) {
    let known = |o: &Operation| o.kind != OperationKind::Other && o.phase != Phase::Other;
    status.operation = record.operation.filter(known);
    // Empty: the StatefulSet is not there yet, so that nothing is pinned. What the version is changed to replaces what is.
    if !record.agent_image.is_empty()
        && (status.templates.is_none() || status.cluster_id.is_none() || record.bootstrap.serial > 0)
    {
        status.templates = Some(PinnedTemplates {
            digest: record.templates,
            agent_image: record.agent_image,
            agent_delivery: record.agent_delivery,
            helper_resources: record.helper_resources,
        });
    }
    // That of an epoch that has ended is no more.
    status.cluster_id.take_if(|_| status.epoch.is_some_and(|epoch| epoch < record.bootstrap.epoch));
    if status.cluster_id.is_none() && record.bootstrap.state == BootstrapState::Established {
        status.cluster_id = cluster_id.cloned();
    }
    status.identity.get_or_insert(record.bootstrap.cluster_uid);
    status.epoch = status.epoch.max(Some(record.bootstrap.epoch));
}

/// Bytes, roughly: as long as they do not differ by a fifth, and 8 MiB, they stay as they were, so that nothing is written at rest.
fn roughly(old: Option<i64>, now: i64) -> Option<i64> {
    const MIB: i64 = 1024 * 1024;
    let now = (now > 0).then(|| now.saturating_add(MIB - 1) / MIB * MIB);
    match (old, now) {
        (Some(old), Some(now)) if (now - old).abs() <= (old / 5).max(8 * MIB) => Some(old),
        _ => now.or(old),
    }
}

fn members(input: Input<'_>, planned: &EtcdPlan, old: &EtcdClusterStatus) -> Vec<EtcdMember> {
    let probe = input.observed.etcd.as_ref();
    let said =
        |name: &str| probe.and_then(|p| p.members.get(name)?.as_ref().ok()).map(|m| m.progress).unwrap_or_default();
    let former = |name: &str| old.members.iter().find(|m| m.name == name).cloned().unwrap_or_default();
    let known = |name: &str| old.members.iter().find(|m| m.name == name).and_then(|m| m.id.clone());
    let sizes = |old: &EtcdMember, new: &Progress| {
        let rough = (roughly(old.db_size, new.db_size), roughly(old.db_size_in_use, new.db_size_in_use));
        // No more is in use than there is: one of them is of before the other became smaller.
        let cannot_be = matches!(rough, (Some(size), Some(used)) if used > size);
        let exact = || (roughly(None, new.db_size).or(rough.0), roughly(None, new.db_size_in_use).or(rough.1));
        if cannot_be { exact() } else { rough }
    };
    let member = |m: &Member| {
        let (former, said) = (former(&m.name), said(&m.name));
        let (db_size, db_size_in_use) = sizes(&former, &said);
        EtcdMember {
            name: m.name.clone(),
            id: m.id.clone().or_else(|| known(&m.name)),
            ready: m.problem.is_none(),
            state: Some(m.state),
            db_size,
            db_size_in_use,
            quota_backend_bytes: Some(said.quota).filter(|q| *q > 0).or(former.quota_backend_bytes),
            message: m.problem.clone(),
        }
    };
    planned.health.members.iter().map(member).collect()
}

/// Clients whose certificate is there.
fn clients(input: Input<'_>) -> Vec<EtcdClientStatus> {
    let (name, namespace) = name_of(input.object);
    let issued = |secret: &str| {
        let key = ObjectKey::namespaced(Kind::Secret, namespace, secret);
        let ours = input.observed.get(&key).is_some_and(|o| is_ours(o, name));
        let whole = input.observed.secrets.get(&key).is_some_and(|f| f.digests.contains_key("ca.crt"));
        ours && whole && matches!(input.observed.pair(&key, "tls"), Some(Ok(_)))
    };
    let named = input.object.spec.clients.iter().map(|c| (c.name.clone(), names::etcd::client(name, &c.name)));
    named
        .filter(|(client, secret)| client != "ca" && issued(secret))
        .map(|(name, secret)| EtcdClientStatus { name, secret_ref: SecretRef { name: secret } })
        .collect()
}

/// What is most worth saying: a sick etcd before a wish that was refused.
fn problem(plan: &Plan) -> Option<(Reason, String)> {
    let order = [StageId::Etcd, StageId::Pki, StageId::Endpoint, StageId::Spec, StageId::Deletion];
    let blocked = |c: &StageId| plan.stage(*c).filter(|s| matches!(s.state, State::Blocked { .. }));
    let stage = order.iter().find_map(blocked).or_else(|| plan.lasting());
    let stage = stage.or_else(|| plan.stages.iter().find(|s| !s.state.is_done()));
    stage.and_then(sentence)
}

fn verdicts(input: Input<'_>, planned: &EtcdPlan, failure: Option<&Failure>) -> Vec<Verdict> {
    let plan = &planned.plan;
    let deleting = input.is_deleted();
    let available = available(planned, deleting);
    let problem = failure.map(|f| (f.reason, f.message.clone())).or_else(|| problem(plan));
    let mut ready =
        verdicts::ready(&available, problem.as_ref(), planned.unread.as_ref(), input.object.spec.paused, deleting);
    if let (Some((reason, message)), Some(true)) = (sizes::note(input), ready.status) {
        (ready.reason, ready.message) = (reason, message);
    }
    if let (Some((Reason::Asleep, message)), Reason::Asleep) = (&planned.sleep, ready.reason) {
        (ready.status, ready.message) = (Some(true), message.clone());
    }
    let waiting = plan.stages.iter().find(|s| s.state.goes_on()).and_then(sentence);
    let progressing = verdicts::progressing(waiting, input.object.spec.paused, deleting);
    let status = input.object.status.as_ref();
    let was_up = status.is_some_and(|s| s.cluster_id.is_some() || s.epoch.is_some_and(|epoch| epoch > 1));
    let old = status.map_or(&[][..], |s| &s.conditions);
    let degraded = verdicts::beside(&available, degraded(input, planned, failure), was_up, old, input.now);
    let (name, namespace) = name_of(input.object);
    let home = Home { namespace, field: "etcdClusterRef", name };
    let etcd = serde_json::to_value(input.object).ok();
    let backup = schedule::ready::verdict(input.observed, home, etcd.as_ref(), input.now);
    let backup = backup.filter(|_| !deleting);
    let all = [
        ready,
        available,
        progressing,
        input.observed.meta.add_to(degraded, input.settings.leaf_lifetime),
        verdicts::pki(plan, "CAs and certificates are in order"),
        members_ready(planned, deleting),
    ];
    all.into_iter().chain(backup).collect()
}

/// Whether clients are served.
fn available(planned: &EtcdPlan, deleting: bool) -> Verdict {
    use ConditionType as T;
    let health = &planned.health;
    let no = |reason, message: String| Verdict::new(T::Available, Some(false), reason, message);
    let formed = planned.record.as_ref().is_some_and(|r| r.bootstrap.state == BootstrapState::Established);
    let why = health.members.iter().find_map(Member::trouble);
    let why = why.unwrap_or_else(|| "no member runs yet".into());
    match health.quorum {
        _ if deleting => no(Reason::Deleting, "being deleted".into()),
        Some(true) if health.corrupt() => {
            no(Reason::EtcdAlarm, format!("etcd refuses requests: alarm {}", health.raised()))
        }
        Some(true) => Verdict::new(T::Available, Some(true), Reason::AsExpected, "a quorum of members answers"),
        _ if let Some((Reason::Asleep, _)) = &planned.sleep => no(Reason::Asleep, ASLEEP.into()),
        _ if let Some((reason, message)) = &planned.sleep => no(*reason, message.clone()),
        _ if restores(planned) => {
            no(Reason::Restoring, "etcd is being restored from a backup, and serves nobody meanwhile".into())
        }
        _ => match (&health.data, &health.pods) {
            (Some((reason, message)), _) => no(*reason, message.clone()),
            (None, Some((reason, message))) if !formed => no(*reason, message.clone()),
            _ if formed => {
                let (up, of) = (health.ready(), health.members.len());
                no(Reason::QuorumLost, format!("no quorum: {up} of {of} members are ready; {why}"))
            }
            _ => no(Reason::Waiting, format!("the members have not formed a cluster yet; {why}")),
        },
    }
}

fn restores(planned: &EtcdPlan) -> bool {
    planned.record.as_ref().is_some_and(|record| record.under_way(OperationKind::Restore).is_some())
}

/// Things that do not get better by waiting.
fn degraded(input: Input<'_>, planned: &EtcdPlan, failure: Option<&Failure>) -> Verdict {
    use ConditionType as T;
    let yes = |reason, message: String| Verdict::new(T::Degraded, Some(true), reason, message);
    if let Some(f) = failure {
        return yes(f.reason, f.message.clone());
    }
    let blocked = planned.plan.blocked().is_some();
    match problem(&planned.plan) {
        Some((reason, message)) if blocked || LASTING.contains(&reason) => yes(reason, message),
        Some((reason, message)) if recovers(planned) => yes(reason, message),
        Some((reason, message)) if DISTURBED.contains(&reason) && long_down(input) => yes(reason, message),
        _ if planned.certificates.warnings.is_empty() && planned.unread.is_none() && planned.pull_secrets.is_some() => {
            yes(Reason::PullSecretUnavailable, planned.pull_secrets.clone().unwrap_or_default())
        }
        _ => {
            let note = planned.plan.notes().map(|note| (Reason::ForeignFields, note));
            verdicts::degraded(&planned.certificates.warnings, planned.unread.as_ref(), note)
        }
    }
}

/// Its data is lost, and Berth restores it.
fn recovers(planned: &EtcdPlan) -> bool {
    planned.recovery.as_ref().is_some_and(berth_api::etcd_recovery::RecoveryStatus::goes_on)
}

/// A member that restarts takes its time; one that stays away is a loss of redundancy.
fn long_down(input: Input<'_>) -> bool {
    let status = input.object.status.as_ref();
    let since = status.and_then(|s| conditions::find(&s.conditions, ConditionType::MembersReady));
    since.is_some_and(|c| c.status == "False" && input.now.duration_since(c.last_transition_time.0) >= DEGRADED_AFTER)
}

fn members_ready(planned: &EtcdPlan, deleting: bool) -> Verdict {
    use ConditionType as T;
    let health = &planned.health;
    let (up, of) = (health.ready(), health.members.len());
    if deleting {
        return Verdict::new(T::MembersReady, Some(false), Reason::Deleting, "being deleted");
    }
    if of == 0 {
        return Verdict::new(T::MembersReady, None, Reason::NotYetObserved, "not checked yet");
    }
    if health.all_ready() {
        return Verdict::new(
            T::MembersReady,
            Some(true),
            Reason::AsExpected,
            format!("{up} of {of} members are ready"),
        );
    }
    if let Some((reason, message)) = &planned.sleep {
        let message = if *reason == Reason::Asleep { ASLEEP } else { message };
        return Verdict::new(T::MembersReady, Some(false), *reason, message);
    }
    let found = health.data.as_ref().or(health.pods.as_ref()).map_or(Reason::PodsNotReady, |(r, _)| *r);
    let message = format!("{up} of {of} members are ready; {}", health.troubles());
    Verdict::new(T::MembersReady, Some(false), found, message)
}

fn phase(input: Input<'_>, planned: &EtcdPlan, verdicts: &[Verdict], old: &EtcdClusterStatus) -> &'static str {
    let is = |t: ConditionType| verdicts.iter().find(|v| v.type_ == t).and_then(|v| v.status) == Some(true);
    if input.is_deleted() {
        "Deleting"
    } else if input.object.spec.paused {
        "Paused"
    } else if is(ConditionType::Ready) {
        if is(ConditionType::Available) { "Ready" } else { "Asleep" }
    } else if planned.record.is_none() {
        "Pending"
    } else if is(ConditionType::Available) {
        if is(ConditionType::Degraded) {
            "Degraded"
        } else if old.cluster_id.is_some() {
            "Updating"
        } else {
            "Forming"
        }
    } else if old.cluster_id.is_some() {
        "Unavailable"
    } else {
        "Forming"
    }
}

/// What a stage is not done with, as the status says it: the members' own stage needs no name in an `EtcdCluster`.
pub(crate) fn sentence(stage: &Stage) -> Option<(Reason, String)> {
    match stage.id {
        StageId::Etcd => stage.state.sentence(),
        StageId::Endpoint => stage.state.sentence().map(|(reason, text)| (reason, format!("services: {text}"))),
        _ => stage.sentence(),
    }
}
