//! Which backup is restored, and whether it may be.

use super::{Input, backups};
use crate::model::State;
use crate::observed::Observed;
use berth_api::backup::{EtcdBackup, phase};
use berth_api::conditions::Reason;
use berth_api::restore::EtcdRestore;
use berth_api::version::Version;
use berth_api::{Cluster, EtcdCluster, names};
use berth_render::{Kind, ObjectKey};

/// The backup that is restored: the one on record, or the one that the spec means now. None: there is none yet.
pub(super) fn choose(restore: &EtcdRestore, observed: &Observed) -> Option<EtcdBackup> {
    let namespace = restore.metadata.namespace.as_deref().unwrap_or_default();
    let recorded = restore.status.as_ref().and_then(|s| s.backup.as_ref());
    let all = backups(observed, namespace);
    if let Some(name) = recorded.or(restore.spec.source.backup.as_ref()) {
        return all.into_iter().find(|b| b.metadata.name.as_ref() == Some(name));
    }
    let spec = &restore.spec;
    let same =
        |b: &EtcdBackup| b.spec.cluster_ref == spec.cluster_ref && b.spec.etcd_cluster_ref == spec.etcd_cluster_ref;
    let fit = all.filter(|b| same(b) && b.metadata.deletion_timestamp.is_none() && is_verified(b));
    if let Some(until) = &spec.source.latest_before {
        return fit.filter(|b| taken(b).is_some_and(|at| at <= until)).max_by_key(|b| taken(b).cloned());
    }
    // A member that is left may be far behind. Revisions of one epoch, and of one identity, are of one history.
    let name = names::restore_survivors(restore.metadata.name.as_deref().unwrap_or_default());
    let fit: Vec<EtcdBackup> = fit.collect();
    let left = fit.iter().find(|b| b.metadata.name.as_ref() == Some(&name))?.status.clone()?;
    let of = |b: &EtcdBackup| b.status.as_ref().map(|s| (s.identity.clone(), s.epoch));
    let history = fit.into_iter().filter(|b| of(b) == Some((left.identity.clone(), left.epoch)));
    history.max_by_key(|b| (b.status.as_ref().and_then(|s| s.revision), b.metadata.name.as_ref() == Some(&name)))
}

pub(crate) fn taken(backup: &EtcdBackup) -> Option<&k8s_openapi::apimachinery::pkg::apis::meta::v1::Time> {
    backup.status.as_ref()?.taken_at.as_ref()
}

pub(crate) fn is_verified(backup: &EtcdBackup) -> bool {
    backup.status.as_ref().and_then(|s| s.phase.as_deref()) == Some(phase::VERIFIED)
}

/// The backup, if it is one of this etcd and fit for it, as far as the `EtcdBackup` says so.
pub(super) fn find(input: Input<'_>, etcd: &EtcdCluster, cluster: Option<&Cluster>) -> Result<EtcdBackup, State> {
    let source = &input.restore.spec.source;
    let Some(backup) = choose(input.restore, input.observed) else {
        return Err(match (&source.backup, &source.latest_before) {
            (None, None) => State::waiting("the backup of the members that are left to be verified"),
            (Some(name), _) => State::waiting(format!(
                "EtcdBackup {}/{name} (spec.source.backup), which does not exist",
                input.namespace()
            )),
            (None, until) => State::waiting(format!(
                "a verified EtcdBackup of this etcd in namespace {} whose snapshot was taken until {} (spec.source.latestBefore)",
                input.namespace(),
                until.as_ref().map(|t| t.0.to_string()).unwrap_or_default()
            )),
        });
    };
    let name = format!("EtcdBackup {}/{}", input.namespace(), backup.metadata.name.clone().unwrap_or_default());
    let status = backup.status.clone().unwrap_or_default();
    match status.phase.as_deref() {
        Some(phase::VERIFIED) if status.key.is_some() && status.sha256.is_some() => {}
        Some(phase::FAILED) => return Err(refused(format!("{name} failed, so there is nothing to restore"))),
        _ => return Err(State::waiting(format!("{name} to be verified"))),
    }
    let identity = etcd.status.as_ref().and_then(|s| s.identity.clone());
    if status.identity != identity {
        return Err(refused(format!(
            "{name} is of an etcd with identity {}, and this one's is {}: it holds other data",
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

fn refused(message: String) -> State {
    State::blocked(Reason::RestoreFailed, message)
}
