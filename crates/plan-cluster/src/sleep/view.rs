//! What a decision about a tenant's sleep is made from, as it was observed.

use super::backup;
use super::by_itself::{carried, events, facts, problem};
use super::by_time::Schedules;
use super::decide::{Next, SleepView, asked, decide_sleep};
use super::hindrance::hindrance;
use super::record::recorded;
use super::state::Sleep;
use super::wish::{Wish, latest};
use crate::endpoint::is_closed;
use crate::planned::Input;
use crate::subject::Tenant;
use berth_api::cluster::TurnState;
use berth_api::conditions::{ConditionType, find};
use berth_api::etcd_bootstrap::Phase;
use berth_api::etcd_cluster::EtcdClusterStatus;
use berth_api::hibernation::{SleepRecord, SleepRequest, SleepState};
use berth_api::{EtcdCluster, labels, names};
use berth_plan::observed::ApiProbe;
use berth_plan::{run_level, workload};
use berth_render::Binary;
use jiff::Timestamp;
use kube_core::ResourceExt;

/// The tenant, with its sleep.
pub(crate) fn tenant(input: Input<'_>) -> Tenant<'_> {
    let mut t = Tenant::new(input);
    t.sleep = judge(&t);
    t.run_level = t.run_level.max(t.sleep.next.level);
    t
}

/// Whether it begins to fall asleep, as far as is known: its webhooks are looked at then, and at no other time.
pub fn falls_asleep(input: Input<'_>) -> bool {
    let sleep = tenant(input).sleep;
    let begins = sleep.next.write.is_some_and(|next| next.state == SleepState::FallingAsleep);
    begins && sleep.record.is_none_or(|record| record.state != SleepState::FallingAsleep)
}

/// What the control plane consists of.
fn programs(t: &Tenant<'_>) -> impl Iterator<Item = Binary> {
    t.distribution.programs.iter().map(|(binary, _)| *binary)
}

/// Judges the sleep of a tenant of which the rest is known.
fn judge(t: &Tenant<'_>) -> Sleep {
    let record = t.live_namespace().and_then(recorded);
    let told = events(&facts(t, record.as_ref()));
    let mut wishes: Vec<_> = asked_by_a_person(t).into_iter().collect();
    wishes.extend(told.events.iter().map(|(_, wish)| wish.clone()));
    let note = problem(t).or(told.note);
    let asked_for = &t.cluster.spec.hibernation;
    let enabled = asked_for.enabled;
    let (schedules, wrong) = match Schedules::read(&asked_for.schedules, t.uid, t.now) {
        Ok(schedules) => (schedules, None),
        Err(why) => (Schedules::default(), Some(why)),
    };
    match &record {
        // It stays as it is until they can be read.
        Some(record) if wrong.is_some() => wishes.push(Wish::of_record(record)),
        _ => wishes.extend(schedules.wishes(first(t, record.as_ref()), t.now)),
    }
    let change = |sleeps: bool| schedules.next(!sleeps, t.now).filter(|_| !enabled && t.acts());
    // Most are never asked to.
    if record.is_none() && wishes.is_empty() && !enabled {
        let next = Next { until: told.until, ..Next::default() };
        return Sleep { next, change: change(false), wrong, unfit: backup::unfit(t, None), note, ..Sleep::default() };
    }
    let counts = latest(&wishes, t.now).filter(|_| !enabled);
    let by = told.events.iter().find(|(_, wish)| counts == Some(wish)).map(|(what, wish)| (*what, wish.at));
    let stopped = |api: bool| {
        let mut all = programs(t).filter(|binary| (*binary == t.distribution.api()) == api);
        all.all(|binary| {
            let is_left =
                workload::pods_of(t.observed, &t.cp_namespace, labels::COMPONENT, binary.name()).next().is_some();
            !is_left && t.workloads(binary).live().all(run_level::has_stopped)
        })
    };
    let unfit = backup::unfit(t, record.as_ref());
    let view = SleepView {
        now: t.now,
        enabled,
        wishes,
        record: record.as_ref(),
        obstacle: unfit.clone().or_else(|| obstacle(t)),
        workers_stopped: stopped(false),
        api_stopped: stopped(true),
        backup: backup::seen(t, record.as_ref()),
        backup_name: record.as_ref().map(|record| backup::key(t, record).name),
        hindrance: hindrance(t),
        etcd_sleeps: t.etcd.as_ref().is_some_and(etcd_sleeps),
        etcd_is_free: t.etcd.as_ref().is_none_or(etcd_is_free),
        is_up: is_up(t) && !is_closed(t, record.as_ref()),
    };
    let (change, mut next) = (change(asked(&view).0), decide_sleep(&view));
    next.until = next.until.into_iter().chain(told.until).min();
    next.write = next.write.map(|write| carried(record.as_ref(), write, by, (&t.observed.heard.uses, t.now)));
    Sleep { record, next, change, wrong, unfit, note }
}

/// From when on times of schedules count: a new tenant comes up first. One that slept has, whenever its `Cluster` was created anew.
fn first(t: &Tenant<'_>, record: Option<&SleepRecord>) -> Timestamp {
    let created = || t.cluster.metadata.creation_timestamp.as_ref().map_or(t.now, |at| at.0);
    if record.is_some() { Timestamp::MIN } else { created() }
}

/// What a person asked for last.
fn asked_by_a_person(t: &Tenant<'_>) -> Option<Wish> {
    let request = SleepRequest::parse(t.cluster.annotations().get(labels::HIBERNATE)?)?;
    // Nobody can ask for later: a clock that is ahead is heard now.
    let cause = format!("annotation berth.dev/hibernate: {request}");
    Some(Wish { at: request.at.min(t.now), sleep: request.sleep, cause })
}

fn etcd_sleeps(etcd: &EtcdCluster) -> bool {
    let sleep = etcd.status.as_ref().and_then(EtcdClusterStatus::sleep);
    etcd.spec.hibernation.enabled && sleep.is_some_and(|sleep| sleep.phase == Phase::Asleep)
}

fn etcd_is_free(etcd: &EtcdCluster) -> bool {
    etcd.status.as_ref().is_none_or(|status| status.operation.as_ref() == status.sleep())
}

/// All components run, and the API answers: what kept it from changing is over.
fn is_up(t: &Tenant<'_>) -> bool {
    let runs = |binary: Binary| t.workloads(binary).rollout().is_some_and(|r| r.settled && r.desired > 0);
    let etcd = t.etcd.as_ref().and_then(|etcd| etcd.status.as_ref());
    let etcd_is_up = etcd.is_some_and(|status| status.operation.is_none());
    etcd_is_up && programs(t).all(runs) && matches!(t.observed.api, ApiProbe::Answered { .. })
}

/// Why it does not begin to sleep: what goes on comes to its end first, and what is not well is not left alone.
fn obstacle(t: &Tenant<'_>) -> Option<String> {
    let status = t.status();
    if status.version.is_none() {
        return Some("the tenant to come up for the first time".into());
    }
    if let Some(rollout) = &status.rollout {
        return Some(format!("the rollout of revision {} to end", rollout.revision));
    }
    if status.turn.as_ref().is_some_and(|turn| turn.state == TurnState::Running) {
        return Some("the change of the version to end".into());
    }
    let unsettled = programs(t).find(|binary| t.workloads(*binary).rollout().is_none_or(|r| !r.settled));
    if let Some(binary) = unsettled {
        return Some(format!("all pods of {} to be ready", binary.name()));
    }
    let etcd = t.etcd.as_ref().and_then(|etcd| etcd.status.clone()).unwrap_or_default();
    if let Some(operation) = &etcd.operation {
        return Some(format!("EtcdCluster etcd to end what is under way ({:?} {})", operation.kind, operation.target));
    }
    let ready = find(&etcd.conditions, ConditionType::Ready);
    if let Some(ready) = ready.filter(|ready| ready.status != "True") {
        return Some(format!("EtcdCluster etcd to be ready: {}", ready.message));
    }
    let available = find(&status.conditions, ConditionType::Available);
    if available.is_none_or(|available| available.status != "True") {
        return Some("the API to answer".into());
    }
    let backup = t.pod_at_work(names::ETCD_BACKUP);
    let backup = backup.map(|pod| format!("the backup or the restore to end that pod {pod} is at work for"));
    backup.or_else(|| Some(format!("the Job of an app to end that pod {} is at work for", t.pod_at_work(names::APPS)?)))
}
