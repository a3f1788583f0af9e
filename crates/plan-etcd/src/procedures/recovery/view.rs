//! What a decision about a recovery is made from, as it was observed.

use super::decide::{Attempt, HOUR, Loss, Newest, Others, QUEUED_FOR, RecoveryView};
use crate::backups::{all, newest_and_store};
use crate::health::Health;
use crate::subject::{Subject, children};
use crate::{services, volumes};
use berth_api::backup::{BackupRef, EtcdBackup};
use berth_api::conditions::{self, ConditionType};
use berth_api::etcd_bootstrap::{BootstrapState, MemberStage, OperationKind, Phase};
use berth_api::etcd_cluster::{EtcdCluster, EtcdEndpoint};
use berth_api::etcd_recovery::{Recovery, RecoveryStatus};
use berth_api::restore::EtcdRestore;
use berth_plan::etcd_home::Home;
use berth_plan::observed::Observed;
use berth_plan::workload::{has_lost_its_data, pod_problem};
use berth_plan_backup::backup::proven;
use berth_render::{Kind, ObjectKey};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::Value;

/// Whether restores, backups and other etcds have to be read for a plan, and of which namespace: a person is told what there is, too.
pub fn recovers(etcd: &EtcdCluster, observed: &Observed) -> Option<String> {
    if etcd.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let status = etcd.status.as_ref().filter(|_| etcd.spec.recovery == Recovery::Automatic);
    let goes_on = status.and_then(|s| s.recovery.as_ref()).is_some_and(RecoveryStatus::goes_on);
    let any = |kind, is: fn(&Value) -> bool| children(etcd, observed, kind).any(|(_, object)| is(object));
    let lost = any(Kind::Pod, has_lost_its_data) || any(Kind::PersistentVolumeClaim, volumes::is_lost);
    (goes_on || lost).then(|| Home::of(etcd).namespace.to_owned())
}

/// The view of a reconcile.
pub(crate) fn view_recovery(s: &Subject<'_>, health: &Health) -> RecoveryView {
    let Home { namespace, name, .. } = Home::of(s.etcd);
    let (newest, store) = newest_and_store(s);
    let status = s.etcd.status.as_ref();
    let old = status.and_then(|s| s.recovery.clone());
    let attempts = attempts(s, namespace);
    let goes_on = old.as_ref().is_some_and(|old| old.begun.is_some() && old.goes_on());
    RecoveryView {
        now: s.now,
        is_wanted: s.etcd.spec.recovery == Recovery::Automatic && s.acts(),
        within: s.namespace.to_owned(),
        of: name.to_owned(),
        identity: s.record.bootstrap.cluster_uid.clone(),
        epoch: s.record.bootstrap.epoch,
        loss: if s.is_restored() { stopped(s, &attempts).filter(|_| goes_on) } else { lost(s, health) },
        serves: health.quorum == Some(true) && !has_stopped(s),
        is_restored: s.is_restored(),
        store,
        newest: newest.and_then(|(backup, taken_at)| Some(Newest { name: backup.metadata.name?, taken_at })),
        others: others(s, old.as_ref().and_then(|old| old.queued.clone())),
        most: s.settings.recoveries_per_hour,
        attempts,
        old,
    }
}

/// Whether these references are to what is restored.
fn is_of(of: &Home<'_>, cluster: Option<&BackupRef>, etcd: Option<&BackupRef>) -> bool {
    let named = if of.field == "clusterRef" { cluster } else { etcd };
    named.is_some_and(|r| r.name == of.name)
}

fn attempts(s: &Subject<'_>, namespace: &str) -> Vec<Attempt> {
    let of = Home::of(s.etcd);
    let ours = all::<EtcdRestore>(s, Kind::EtcdRestore, namespace)
        .filter(|r| is_of(&of, r.spec.cluster_ref.as_ref(), r.spec.etcd_cluster_ref.as_ref()));
    let attempt = |r: EtcdRestore| {
        let has_ended = r.has_ended();
        let status = r.status.unwrap_or_default();
        let backup = status.backup.or(r.spec.source.backup);
        let key = backup.as_ref().map(|name| ObjectKey::namespaced(Kind::EtcdBackup, namespace, name));
        let live = key.and_then(|key| serde_json::from_value::<EtcdBackup>(s.observed.get(&key)?.clone()).ok());
        let taken_at = status.taken_at.or_else(|| live.as_ref().and_then(proven::taken).map(Time));
        let ready = conditions::find(&status.conditions, ConditionType::Ready);
        let found = ready.is_some_and(|c| c.reason == conditions::Reason::BackupDamaged.as_str());
        let is_damaged = has_ended && (found || live.as_ref().is_some_and(proven::is_damaged));
        Attempt {
            namespace: namespace.to_owned(),
            name: r.metadata.name.unwrap_or_default(),
            has_ended,
            says: ready.map(|c| c.message.clone()).unwrap_or_default(),
            backup,
            is_damaged,
            taken_at,
            restored_at: status.restored_at,
        }
    };
    ours.map(attempt).collect()
}

/// A restore has stopped its members, or does so now.
fn has_stopped(s: &Subject<'_>) -> bool {
    s.record.under_way(OperationKind::Restore).is_some_and(|o| o.phase != Phase::WaitingForClients)
}

/// A restore of ours failed, or is gone, after it had stopped etcd and begun a new epoch.
fn stopped(s: &Subject<'_>, attempts: &[Attempt]) -> Option<Loss> {
    let operation = s.record.operation.as_ref()?;
    let request = crate::procedures::restore::request(s.etcd);
    let works = |r: &berth_api::restore::RestoreRequest| attempts.iter().any(|a| a.name == r.name && !a.has_ended);
    let left = operation.phase == Phase::Restore && !request.as_ref().is_some_and(works);
    left.then(Loss::default)
}

/// Members whose data is lost, if so many that there can be no quorum any more, whoever of those votes whose change is under way.
fn lost(s: &Subject<'_>, health: &Health) -> Option<Loss> {
    // Somebody mixes volumes up.
    let held = |m: &String| s.pod(m).and_then(pod_problem).is_some_and(|(r, _)| r == conditions::Reason::ForeignData);
    let foreign = s.members().iter().any(held)
        || health.data.as_ref().is_some_and(|(r, _)| *r == conditions::Reason::ForeignData);
    if health.quorum == Some(true) || s.record.bootstrap.state != BootstrapState::Established || foreign {
        return None;
    }
    let is_lost = |name: &String| volumes::has_lost(s, name);
    let journal = &s.record.bootstrap.members;
    let stage = |stage: MemberStage| journal.iter().filter(move |m| m.stage == stage).map(|m| m.name.clone());
    let certain: Vec<String> = if journal.is_empty() { s.members() } else { stage(MemberStage::Voter).collect() };
    let (leaving, joining) = (stage(MemberStage::Leaving), stage(MemberStage::Joining));
    let (leaving, joining): (Vec<String>, Vec<String>) = (leaving.collect(), joining.collect());
    let lost: Vec<String> = certain.iter().filter(|m| is_lost(m)).cloned().collect();
    // Whoever may vote, and has data, may be what makes a quorum.
    let unsure = leaving.iter().chain(&joining).filter(|m| !is_lost(m)).count();
    if lost.is_empty() || lost.len() * 2 < certain.len() + unsure {
        return None;
    }
    let recorded = s.cluster_id();
    let answers = |name: &String| s.said(name).is_some_and(|a| recorded.is_none_or(|r| r == a.cluster_id));
    let left = certain.iter().chain(&leaving).filter(|m| !lost.contains(m) && !is_lost(m));
    Some(Loss { left: left.map(|m| (m.clone(), answers(m))).collect(), lost })
}

/// Where the members are that are left: also those that clients were not told of yet, or not any more.
pub(crate) fn left(s: &Subject<'_>, view: &RecoveryView) -> Vec<EtcdEndpoint> {
    let Some(loss) = &view.loss else { return vec![] };
    let mut all = services::endpoints(s.etcd, s.observed, s.addressed());
    all.retain(|endpoint| loss.left.iter().any(|(name, _)| *name == endpoint.name));
    // One without an address would be left out of the backup.
    if all.len() == loss.left.len() { all } else { vec![] }
}

/// The namespace in which the recoveries of a stand-alone etcd are counted: who runs one can lose its data on purpose, and keeps nobody else
/// waiting. None: a tenant's, all of which are counted together, since nobody but the platform can lose theirs.
fn counted_in(etcd: &EtcdCluster) -> Option<&str> {
    let Home { namespace, field, .. } = Home::of(etcd);
    (field == "etcdClusterRef").then_some(namespace)
}

/// Recoveries of other etcds that count together with this one's.
fn others(s: &Subject<'_>, queued: Option<Time>) -> Others {
    let own = (queued, s.key(Kind::EtcdCluster, s.name));
    let mut out = Others::default();
    for (key, o) in s.observed.objects.iter().filter(|(key, _)| key.kind == Kind::EtcdCluster && **key != own.1) {
        let Ok(etcd) = serde_json::from_value::<EtcdCluster>(o.clone()) else { continue };
        if counted_in(&etcd) != counted_in(s.etcd) {
            continue;
        }
        let acts = etcd.spec.recovery == Recovery::Automatic
            && !etcd.spec.paused
            && etcd.metadata.deletion_timestamp.is_none();
        let Some(other) = etcd.status.and_then(|s| s.recovery) else { continue };
        match (other.begun, other.queued) {
            (Some(begun), _) => out.begun += usize::from(s.now.duration_since(begun.0) < HOUR),
            (None, Some(queued)) if acts && s.now.duration_since(queued.0) < QUEUED_FOR => {
                out.queued += 1;
                out.earlier |= (Some(queued), key.clone()) < own;
            }
            _ => {}
        }
    }
    out
}
