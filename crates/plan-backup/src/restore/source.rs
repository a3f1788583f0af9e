//! Which backup is restored, and whether it may be.

use super::damage;
use super::input::{RestoreInput, backups};
use crate::backup::proven::{self, Wanted};
use crate::backup::store::{Kept, is_of_namespace};
use berth_api::backup::{EtcdBackup, EtcdBackupSpec, EtcdBackupStatus, Manifest, Subject, phase};
use berth_api::conditions::Reason;
use berth_api::restore::{BackupOf, EtcdRestore, FoundSnapshot};
use berth_api::version::Version;
use berth_api::{Cluster, EtcdCluster, labels, names};
use berth_plan::model::State;
use berth_plan::observed::Observed;
use berth_render::{Kind, ObjectKey};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// The backup that is restored: the one on record, or the one that the spec means now. None: there is none yet.
pub(super) fn choose(restore: &EtcdRestore, observed: &Observed) -> Option<EtcdBackup> {
    let mut chosen = meant(restore, observed)?;
    // What people read of what is lost is not by a node's clock alone.
    let taken = proven::taken(&chosen);
    if let Some(status) = chosen.status.as_mut() {
        status.taken_at = taken.map(Time);
    }
    Some(chosen)
}

fn meant(restore: &EtcdRestore, observed: &Observed) -> Option<EtcdBackup> {
    if let Some(snapshot) = in_store(restore) {
        return Some(snapshot);
    }
    let namespace = restore.metadata.namespace.as_deref().unwrap_or_default();
    let recorded = restore.status.as_ref().and_then(|s| s.backup.as_ref());
    let all = backups(observed, namespace);
    if let Some(name) = recorded.or(restore.spec.source.backup.as_ref()) {
        return all.into_iter().find(|b| b.metadata.name.as_ref() == Some(name));
    }
    let all: Vec<EtcdBackup> = all.collect();
    let of = whose(restore);
    if restore.spec.source.latest_before.is_some() {
        return proven::newest(&all, &latest(restore, observed, &of)?).cloned();
    }
    // A member that is left may be far behind. Revisions of one epoch, and of one identity, are of one history.
    let name = names::restore_survivors(restore.metadata.name.as_deref().unwrap_or_default());
    let fit = || all.iter().filter(|b| proven::of(b) == of && proven::is_good(b));
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
        None => Some(observed.get(&super::asks(restore).etcd)?.pointer("/status/identity")?.as_str()?),
    };
    Some(Wanted { of, identity, until: source.latest_before.as_ref().map(|at| at.0) })
}

/// What the backup has to be of.
pub(super) fn whose(restore: &EtcdRestore) -> BackupOf {
    let spec = &restore.spec;
    let own = || BackupOf { cluster_ref: spec.cluster_ref.clone(), etcd_cluster_ref: spec.etcd_cluster_ref.clone() };
    spec.source.of.clone().unwrap_or_else(own)
}

/// A snapshot that the spec names by its key, as an `EtcdBackup` would say it: until it was checked, nothing but where it is.
fn in_store(restore: &EtcdRestore) -> Option<EtcdBackup> {
    let at = restore.spec.source.key.as_ref()?;
    let BackupOf { cluster_ref, etcd_cluster_ref } = whose(restore);
    let spec = EtcdBackupSpec {
        cluster_ref,
        etcd_cluster_ref,
        store: at.store.clone(),
        secret_ref: at.secret_ref.clone(),
        claim_ref: at.claim_ref.clone(),
        ..EtcdBackupSpec::default()
    };
    let own = restore.status.clone().unwrap_or_default();
    let mut status = EtcdBackupStatus { phase: Some(phase::VERIFIED.into()), ..EtcdBackupStatus::default() };
    (status.key, status.taken_at) = (Some(at.key.clone()), own.taken_at);
    if let Some(found) = own.snapshot {
        (status.sha256, status.identity) = (Some(found.sha256), Some(found.identity));
        (status.epoch, status.etcd_version) = (Some(found.epoch), Some(found.etcd_version));
        (status.kubernetes_version, status.encryption_key) = (found.kubernetes_version, found.encryption_key);
    }
    Some(EtcdBackup { spec, status: Some(status), ..EtcdBackup::default() })
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
pub(super) fn key(input: RestoreInput<'_>, store: &Kept, backup: &EtcdBackup) -> Result<(), State> {
    let Some(at) = &input.object.spec.source.key else {
        // Where its store began then is not known any more.
        let key = backup.status.as_ref().and_then(|s| s.key.as_deref()).unwrap_or_default();
        if is_of_namespace(key, input.namespace()) {
            return Ok(());
        }
        return Err(refused(format!(
            "EtcdBackup {}/{}: status.key {key} is not that of a backup of this namespace",
            input.namespace(),
            backup.metadata.name.as_deref().unwrap_or_default()
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
pub(super) fn subject(input: RestoreInput<'_>, backup: &EtcdBackup, own: &str) -> Subject {
    let source = &input.object.spec.source;
    let known = backup.status.as_ref().and_then(|s| s.identity.clone());
    let identity = if source.of.is_some() { known.unwrap_or_default() } else { own.to_owned() };
    let mut subject = Subject { identity, ..Subject::default() };
    if source.key.is_some() {
        let BackupOf { cluster_ref, etcd_cluster_ref } = whose(input.object);
        subject.name = cluster_ref.or(etcd_cluster_ref).map(|of| of.name).unwrap_or_default();
        input.namespace().clone_into(&mut subject.namespace);
    }
    subject
}

/// The backup, if it is one of this etcd and fit for it, as far as the `EtcdBackup` says so.
pub(super) fn find(
    input: RestoreInput<'_>,
    etcd: &EtcdCluster,
    cluster: Option<&Cluster>,
) -> Result<EtcdBackup, State> {
    let source = &input.object.spec.source;
    let Some(backup) = choose(input.object, input.observed) else {
        return Err(match (&source.backup, &source.latest_before) {
            (None, None) => State::waiting("the backup of the members that are left to be verified"),
            (Some(name), _) => State::waiting(format!(
                "EtcdBackup {}/{name} (spec.source.backup), which does not exist",
                input.namespace()
            )),
            (None, Some(until)) => State::waiting(format!(
                "a verified EtcdBackup of this etcd in namespace {} whose snapshot was taken until {} (spec.source.latestBefore){}",
                input.namespace(),
                until.0,
                why_none(input)
            )),
        });
    };
    let name = match &source.key {
        Some(at) => at.key.clone(),
        None => format!("EtcdBackup {}/{}", input.namespace(), backup.metadata.name.clone().unwrap_or_default()),
    };
    let status = backup.status.clone().unwrap_or_default();
    if proven::is_damaged(&backup) && !damage::is_over(input) {
        return Err(State::blocked(Reason::BackupDamaged, damage::known(input, etcd, &name, &backup)));
    }
    let is_recorded = input.object.status.as_ref().is_some_and(|s| s.backup == backup.metadata.name);
    match status.phase.as_deref() {
        // What is known of a key alone is known once it was checked.
        Some(phase::VERIFIED) if source.key.is_some() && status.sha256.is_none() => {
            return stands_alone(input, etcd).map(|()| backup);
        }
        Some(phase::VERIFIED) if status.key.is_some() && status.sha256.is_some() => {}
        // Somebody deletes it, and it stays until this one has ended.
        Some(phase::DELETING) if is_recorded && status.verified_at.is_some() && status.sha256.is_some() => {}
        // What is on the volume was whole when it was read.
        Some(phase::FAILED) if proven::is_damaged(&backup) && damage::is_over(input) => {}
        Some(phase::FAILED) => return Err(never(format!("{name} failed, so there is nothing to restore"))),
        _ => return Err(State::waiting(format!("{name} to be verified"))),
    }
    let identity = etcd.status.as_ref().and_then(|s| s.identity.clone());
    if source.of.is_some() {
        stands_alone(input, etcd)?;
        is_as_named(input, &name, &backup)?;
    } else if status.identity != identity {
        return Err(never(format!(
            "{name} is of an etcd with identity {}, and this one's is {}: it holds other data, and is restored here never. To look into it, restore it into a new stand-alone EtcdCluster, with spec.source.of",
            status.identity.unwrap_or_default(),
            identity.unwrap_or_default()
        )));
    }
    let newer = |was: Option<&String>, is: Option<&str>| {
        let minor = |text: &str| text.parse().ok().map(|v: Version| v.minor());
        Some(minor(was?)? > minor(is?)?)
    };
    let runs = etcd.status.as_ref().and_then(|s| s.version.as_deref()).unwrap_or(&etcd.spec.version);
    if newer(status.etcd_version.as_ref(), Some(runs)) == Some(true) {
        let was = status.etcd_version.unwrap_or_default();
        return Err(refused(format!("{name} was taken with etcd {was}, and {runs} runs, which cannot read it")));
    }
    let serves = cluster.and_then(|c| c.status.as_ref()?.version.as_deref());
    if newer(status.kubernetes_version.as_ref(), serves) == Some(true) {
        let was = status.kubernetes_version.unwrap_or_default();
        return Err(refused(format!(
            "{name} was taken with Kubernetes {was}, and {} runs, which may not read all of it. Set spec.version of the Cluster to {was} first",
            serves.unwrap_or_default()
        )));
    }
    let own = cluster.and_then(|_| {
        let namespace = etcd.metadata.namespace.as_deref()?;
        let key = ObjectKey::namespaced(Kind::Secret, namespace, names::APISERVER_ENCRYPTION);
        input.observed.secrets.get(&key)?.digests.get("encryption.yaml").cloned()
    });
    match (status.encryption_key, own) {
        (Some(then), Some(now)) if then != now => Err(refused(format!(
            "the Secrets in {name} are encrypted with the key with SHA-256 {then}, and the tenant has {now}. Restore Secret {} of that time first",
            names::APISERVER_ENCRYPTION
        ))),
        _ => Ok(backup),
    }
}

/// Data of another etcd is put into none that a tenant uses: clients there would see another world.
fn stands_alone(input: RestoreInput<'_>, etcd: &EtcdCluster) -> Result<(), State> {
    let is_tenants = etcd.metadata.labels.as_ref().is_some_and(|own| own.contains_key(labels::CLUSTER_NAME));
    match input.object.spec.source.of {
        Some(_) if is_tenants => Err(refused(format!(
            "spec.source.of: EtcdCluster {}/{} is that of a Cluster, and data of another etcd goes into a stand-alone EtcdCluster only. Create one",
            etcd.metadata.namespace.as_deref().unwrap_or_default(),
            etcd.metadata.name.as_deref().unwrap_or_default()
        ))),
        _ => Ok(()),
    }
}

/// The last epoch of another etcd that is believed: what is more is no work of Berth.
const MOST_EPOCHS: i64 = 1_000_000;

/// The backup is of the etcd that the spec names.
fn is_as_named(input: RestoreInput<'_>, name: &str, backup: &EtcdBackup) -> Result<(), State> {
    let say = |of: BackupOf| {
        let (kind, name) = match (of.cluster_ref, of.etcd_cluster_ref) {
            (Some(cluster), _) => ("Cluster", cluster.name),
            (None, of) => ("EtcdCluster", of.map(|of| of.name).unwrap_or_default()),
        };
        format!("{kind} {name}")
    };
    let (is, wanted) = (proven::of(backup), whose(input.object));
    if is != wanted {
        return Err(refused(format!("{name} is of {}, and spec.source.of names {}", say(is), say(wanted))));
    }
    let epoch = backup.status.as_ref().and_then(|s| s.epoch).unwrap_or_default();
    if !(0..=MOST_EPOCHS).contains(&epoch) {
        return Err(refused(format!("{name} says that its data is of epoch {epoch}, which no etcd of Berth had")));
    }
    Ok(())
}

/// Why `latestBefore` finds none, if that is not for there being none at all.
fn why_none(input: RestoreInput<'_>) -> String {
    let of = whose(input.object);
    let all: Vec<EtcdBackup> = backups(input.observed, input.namespace()).collect();
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
