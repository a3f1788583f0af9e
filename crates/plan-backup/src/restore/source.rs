//! Which backup is restored, and whether it may be.

use super::damage;
use super::input::RestoreInput;
use crate::backup::proven::{self, Wanted};
use crate::objects::list;
use crate::store::{ResolvedStore, is_of_namespace};
use crate::target::Target;
use berth_api::backup::{EtcdBackup, EtcdBackupStatus, Manifest, StoreRef, Subject, phase};
use berth_api::conditions::Reason;
use berth_api::restore::{BackupOf, EtcdRestore, FoundSnapshot};
use berth_api::version::Version;
use berth_api::{Cluster, EtcdCluster, labels, names};
use berth_plan::model::State;
use berth_plan::observed::Observed;
use berth_render::Kind;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube_core::ResourceExt;

/// What is restored: a backup, or a snapshot in a store that may have no `EtcdBackup`.
#[derive(Clone, Debug)]
pub(super) struct Source {
    /// Of the `EtcdBackup`. None: the spec names a snapshot by its key.
    pub(super) name: Option<String>,
    /// What it is a backup of.
    pub(super) of: BackupOf,
    /// Where it is.
    pub(super) store: StoreRef,
    /// What is known of it. Until a key was checked, nothing but that.
    pub(super) status: EtcdBackupStatus,
}

impl Source {
    /// Key and SHA-256 of the snapshot.
    pub(super) fn snapshot(&self) -> (String, String) {
        (self.status.key.clone().unwrap_or_default(), self.status.sha256.clone().unwrap_or_default())
    }
}

impl From<EtcdBackup> for Source {
    fn from(backup: EtcdBackup) -> Self {
        // What people read of what is lost is not by a node's clock alone.
        let taken_at = proven::taken(&backup).map(Time);
        Self {
            of: proven::subject(&backup),
            status: EtcdBackupStatus { taken_at, ..backup.status.unwrap_or_default() },
            name: backup.metadata.name,
            store: backup.spec.store,
        }
    }
}

/// What is restored: the backup on record, or the one that the spec means now. None: there is none yet.
pub(super) fn choose(restore: &EtcdRestore, observed: &Observed) -> Option<Source> {
    in_store(restore).or_else(|| backup(restore, observed).map(Source::from))
}

fn backup(restore: &EtcdRestore, observed: &Observed) -> Option<EtcdBackup> {
    let namespace = restore.namespace().unwrap_or_default();
    let recorded = restore.status.as_ref().and_then(|s| s.backup.as_ref());
    let mut all = list::<EtcdBackup>(observed, Kind::EtcdBackup, &namespace);
    if let Some(name) = recorded.or(restore.spec.source.backup.as_ref()) {
        return all.find(|b| b.metadata.name.as_ref() == Some(name));
    }
    let all: Vec<EtcdBackup> = all.collect();
    let of = whose(restore);
    if restore.spec.source.latest_before.is_some() {
        return proven::newest(&all, &latest(restore, observed, &of)?).cloned();
    }
    // A member that is left may be far behind. Revisions of one epoch, and of one identity, are of one history.
    let name = names::restore_survivors(&restore.name_any());
    let fit = || all.iter().filter(|b| proven::subject(b) == of && proven::is_good(b));
    let left = fit().find(|b| b.metadata.name.as_ref() == Some(&name))?;
    let data = |b: &EtcdBackup| (proven::identity(b).map(str::to_owned), proven::furthest(b).0);
    let history = fit().filter(|b| proven::counts(b) && data(b) == data(left));
    history.max_by_key(|b| (proven::furthest(b), b.metadata.name.as_ref() == Some(&name))).cloned()
}

/// What `latestBefore` means. None: it is not known yet whose data that is.
pub(super) fn latest<'a>(restore: &'a EtcdRestore, observed: &'a Observed, of: &'a BackupOf) -> Option<Wanted<'a>> {
    let source = &restore.spec.source;
    let identity = match source.of {
        // It may be gone.
        Some(_) => None,
        None => Some(observed.get(&Target::from(restore).etcd)?.pointer("/status/identity")?.as_str()?),
    };
    Some(Wanted { of, identity, until: source.latest_before.as_ref().map(|at| at.0) })
}

/// What the backup has to be of.
pub(super) fn whose(restore: &EtcdRestore) -> BackupOf {
    restore.spec.source.of.clone().unwrap_or_else(|| own_subject(restore))
}

/// What is restored.
pub(super) fn own_subject(restore: &EtcdRestore) -> BackupOf {
    let spec = &restore.spec;
    BackupOf { cluster_ref: spec.cluster_ref.clone(), etcd_cluster_ref: spec.etcd_cluster_ref.clone() }
}

/// A snapshot that the spec names by its key.
fn in_store(restore: &EtcdRestore) -> Option<Source> {
    let at = restore.spec.source.key.as_ref()?;
    let own = restore.status.clone().unwrap_or_default();
    let mut status = EtcdBackupStatus { phase: Some(phase::VERIFIED.into()), ..EtcdBackupStatus::default() };
    (status.key, status.taken_at) = (Some(at.key.clone()), own.taken_at);
    if let Some(found) = own.snapshot {
        (status.sha256, status.identity) = (Some(found.sha256), Some(found.identity));
        (status.epoch, status.etcd_version) = (Some(found.epoch), Some(found.etcd_version));
        (status.kubernetes_version, status.encryption_key) = (found.kubernetes_version, found.encryption_key);
    }
    Some(Source { name: None, of: whose(restore), store: at.store.clone(), status })
}

/// What is recorded of a snapshot that has no `EtcdBackup`.
pub(super) fn found(manifest: &Manifest) -> (Option<FoundSnapshot>, Option<(String, Option<Time>)>) {
    let of = manifest.of.clone();
    let found = FoundSnapshot {
        sha256: manifest.sha256.clone(),
        identity: of.identity,
        epoch: of.epoch,
        etcd_version: manifest.etcd_version.clone(),
        kubernetes_version: of.kubernetes_version,
        encryption_key: of.encryption_key,
    };
    (Some(found), Some((String::new(), manifest.taken_at.parse().ok().map(Time))))
}

/// Whether a key is one of this namespace's: a store has the backups of all. That the manifest says so, too, is for the Job to see.
pub(super) fn key(input: RestoreInput<'_>, store: &ResolvedStore, source: &Source) -> Result<(), State> {
    let Some(at) = &input.object.spec.source.key else {
        // Where its store began then is not known any more.
        let key = source.status.key.as_deref().unwrap_or_default();
        if is_of_namespace(key, input.namespace()) {
            return Ok(());
        }
        return Err(refused(format!(
            "EtcdBackup {}/{}: status.key {key} is not that of a backup of this namespace",
            input.namespace(),
            source.name.as_deref().unwrap_or_default()
        )));
    };
    let parts: Vec<&str> = [&*store.prefix, input.namespace()].into_iter().filter(|p| !p.is_empty()).collect();
    let prefix = format!("{}/", parts.join("/"));
    let is_plain = at.key.split('/').all(|part| !["", ".", ".."].contains(&part));
    if is_plain && at.key.starts_with(&prefix) {
        return Ok(());
    }
    Err(refused(format!(
        "spec.source.key: {} does not begin with {prefix}, and only backups of this namespace can be restored here",
        at.key
    )))
}

/// What the snapshot has to be a backup of, as far as that is known before its manifest is read.
pub(super) fn subject(input: RestoreInput<'_>, known: Option<String>, own: &str) -> Subject {
    let source = &input.object.spec.source;
    let identity = if source.of.is_some() { known.unwrap_or_default() } else { own.to_owned() };
    let mut subject = Subject { identity, ..Subject::default() };
    if source.key.is_some() {
        let BackupOf { cluster_ref, etcd_cluster_ref } = whose(input.object);
        subject.name = cluster_ref.or(etcd_cluster_ref).map(|of| of.name).unwrap_or_default();
        input.namespace().clone_into(&mut subject.namespace);
    }
    subject
}

/// Why none is chosen yet.
fn awaited(input: RestoreInput<'_>) -> State {
    let source = &input.object.spec.source;
    match (&source.backup, &source.latest_before) {
        (None, None) => State::waiting("the backup of the surviving members to be verified"),
        (Some(name), _) => State::waiting(format!(
            "EtcdBackup {}/{name} (spec.source.backup), which does not exist",
            input.namespace()
        )),
        (None, Some(until)) => State::waiting(format!(
            "a verified EtcdBackup of this etcd in namespace {} from {} or earlier (spec.source.latestBefore){}",
            input.namespace(),
            until.0,
            why_none(input)
        )),
    }
}

/// What is restored, if it is of this etcd and fit for it, as far as the `EtcdBackup` says so.
pub(super) fn find(input: RestoreInput<'_>, etcd: &EtcdCluster, cluster: Option<&Cluster>) -> Result<Source, State> {
    let source = &input.object.spec.source;
    let found = choose(input.object, input.observed).ok_or_else(|| awaited(input))?;
    let name = match &source.key {
        Some(at) => at.key.clone(),
        None => format!("EtcdBackup {}/{}", input.namespace(), found.name.as_deref().unwrap_or_default()),
    };
    let status = &found.status;
    let is_damaged = proven::damage(status).is_some();
    if is_damaged && !damage::is_over(input) {
        return Err(State::blocked(Reason::BackupDamaged, damage::known(input, etcd, &name, &found)));
    }
    let is_recorded = input.object.status.as_ref().is_some_and(|s| s.backup == found.name);
    match status.phase.as_deref() {
        // What is known of a key alone is known once it was checked.
        Some(phase::VERIFIED) if source.key.is_some() && status.sha256.is_none() => {
            return stands_alone(input, etcd).map(|()| found);
        }
        Some(phase::VERIFIED) if status.key.is_some() && status.sha256.is_some() => {}
        // Somebody deletes it, and it stays until this one has ended.
        Some(phase::DELETING) if is_recorded && status.verified_at.is_some() && status.sha256.is_some() => {}
        // What is on the volume was whole when it was read.
        Some(phase::FAILED) if is_damaged => {}
        Some(phase::FAILED) => return Err(never(format!("{name} failed, so there is nothing to restore"))),
        _ => return Err(State::waiting(format!("{name} to be verified"))),
    }
    let identity = etcd.status.as_ref().and_then(|s| s.identity.clone());
    if source.of.is_some() {
        stands_alone(input, etcd)?;
        is_as_named(input, &name, &found)?;
    } else if status.identity != identity {
        return Err(never(format!(
            "{name} is of an etcd with identity {}, and this one's is {}: it holds other data and is never restored here. To look into it, restore it into a new stand-alone EtcdCluster, with spec.source.of",
            status.identity.as_deref().unwrap_or_default(),
            identity.unwrap_or_default()
        )));
    }
    can_read(input, &name, status, etcd, cluster).map(|()| found)
}

/// Whether what runs can read it.
fn can_read(
    input: RestoreInput<'_>,
    name: &str,
    taken_with: &EtcdBackupStatus,
    etcd: &EtcdCluster,
    cluster: Option<&Cluster>,
) -> Result<(), State> {
    let minor = |text: &str| text.parse().ok().map(|v: Version| v.minor());
    let newer = |was: &str, is: &str| minor(was).zip(minor(is)).is_some_and(|(was, is)| was > is);
    let runs = etcd.status.as_ref().and_then(|s| s.version.as_deref()).unwrap_or(&etcd.spec.version);
    if let Some(was) = taken_with.etcd_version.as_ref().filter(|was| newer(was, runs)) {
        return Err(refused(format!("{name} was taken with etcd {was}, and {runs} runs, which cannot read it")));
    }
    let serves = cluster.and_then(|c| c.status.as_ref()?.version.as_deref()).unwrap_or_default();
    if let Some(was) = taken_with.kubernetes_version.as_ref().filter(|was| newer(was, serves)) {
        return Err(refused(format!(
            "{name} was taken with Kubernetes {was}, and {serves} runs, which may not read all of it. Set spec.version of the Cluster to {was} first"
        )));
    }
    match (&taken_with.encryption_key, input.target().encryption_key(input.observed)) {
        (Some(then), Some(now)) if *then != now => Err(refused(format!(
            "the Secrets in {name} are encrypted with the key with SHA-256 {then}, and the tenant has {now}. Restore Secret {} of that time first",
            names::APISERVER_ENCRYPTION
        ))),
        _ => Ok(()),
    }
}

/// Data of another etcd is put into none that a tenant uses: clients there would see another world.
fn stands_alone(input: RestoreInput<'_>, etcd: &EtcdCluster) -> Result<(), State> {
    if input.object.spec.source.of.is_none() || !etcd.labels().contains_key(labels::CLUSTER_NAME) {
        return Ok(());
    }
    Err(refused(format!(
        "spec.source.of: {} belongs to a Cluster, and data of another etcd goes into a stand-alone EtcdCluster only. Create one",
        input.target().etcd
    )))
}

/// The last epoch of another etcd that is believed: what is more is no work of Berth.
const MOST_EPOCHS: i64 = 1_000_000;

/// The backup is of the etcd that the spec names.
fn is_as_named(input: RestoreInput<'_>, name: &str, source: &Source) -> Result<(), State> {
    let say = |of: &BackupOf| match (&of.cluster_ref, &of.etcd_cluster_ref) {
        (Some(cluster), _) => format!("Cluster {}", cluster.name),
        (None, of) => format!("EtcdCluster {}", of.as_ref().map_or("", |of| &of.name)),
    };
    let wanted = whose(input.object);
    if source.of != wanted {
        return Err(refused(format!("{name} is of {}, and spec.source.of names {}", say(&source.of), say(&wanted))));
    }
    let epoch = source.status.epoch.unwrap_or_default();
    if !(0..=MOST_EPOCHS).contains(&epoch) {
        return Err(refused(format!("{name} says that its data is of epoch {epoch}, which no etcd of Berth had")));
    }
    Ok(())
}

/// Why `latestBefore` finds none, if that is not for there being none at all.
fn why_none(input: RestoreInput<'_>) -> String {
    let of = whose(input.object);
    let all: Vec<EtcdBackup> = list(input.observed, Kind::EtcdBackup, input.namespace()).collect();
    let why = latest(input.object, input.observed, &of).and_then(|wanted| proven::why_none(&all, &wanted));
    why.map(|why| {
        format!(
            ". There is none: EtcdBackup {why}. To restore another one, name it in spec.source.backup of another EtcdRestore"
        )
    })
    .unwrap_or_default()
}

/// What cannot come to be right, and would keep others waiting.
fn never(message: String) -> State {
    State::blocked(Reason::BackupFailed, message)
}

fn refused(message: String) -> State {
    State::blocked(Reason::RestoreFailed, message)
}
