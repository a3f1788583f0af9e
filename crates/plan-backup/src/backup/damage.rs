//! Writes into each `EtcdBackup` of a snapshot that it is damaged, whoever read it.

use super::proven;
use super::status::damaged;
use berth_api::backup::{Damage, EtcdBackup, EtcdBackupSpec, EtcdBackupStatus};
use berth_plan::model::Action;
use berth_plan::observed::Observed;
use berth_render::{Kind, ObjectKey};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::Value;

/// A snapshot that was read, and is not what was proven.
pub(crate) struct Found<'a> {
    /// Of a backup in the same store.
    pub(crate) store: &'a EtcdBackupSpec,
    /// Its key.
    pub(crate) key: &'a str,
    /// What its SHA-256 was. Empty: it was named by its key, and no sum was known. Then a manifest that somebody changed may be what is wrong.
    pub(crate) sha256: &'a str,
    /// What read it, such as `EtcdRestore back`.
    pub(crate) by: &'a str,
    /// What is wrong.
    pub(crate) message: &'a str,
}

impl Found<'_> {
    /// Of each `EtcdBackup` of this snapshot that does not say so yet. Another one may have taken its name since the Job began.
    pub(crate) fn marks(&self, observed: &Observed, namespace: &str, now: Timestamp) -> Vec<(ObjectKey, Action)> {
        let mark = |(key, live): (&ObjectKey, &Value)| {
            let backup: EtcdBackup = serde_json::from_value(live.clone()).ok()?;
            if !same_store(self.store, &backup.spec) || !self.is(&backup) || proven::is_damaged(&backup) {
                return None;
            }
            let damage = Damage { at: Time(now), by: self.by.to_owned(), message: self.message.to_owned() };
            let action = Action::MarkDamaged {
                key: key.clone(),
                uid: backup.metadata.uid.clone().unwrap_or_default(),
                resource_version: backup.metadata.resource_version.clone().unwrap_or_default(),
                status: serde_json::to_value(damaged(&backup, damage, now)).unwrap_or_default(),
            };
            Some((key.clone(), action))
        };
        observed.of_kind(Kind::EtcdBackup, namespace).filter_map(mark).collect()
    }

    fn is(&self, backup: &EtcdBackup) -> bool {
        let of =
            |field: fn(&EtcdBackupStatus) -> &Option<String>| backup.status.as_ref().and_then(|s| field(s).as_deref());
        of(|s| &s.key) == Some(self.key) && of(|s| &s.sha256) == Some(self.sha256)
    }
}

/// Whether both are kept in one store.
pub(crate) fn same_store(one: &EtcdBackupSpec, other: &EtcdBackupSpec) -> bool {
    let store = |spec: &EtcdBackupSpec| (spec.store.clone(), spec.secret_ref.clone(), spec.claim_ref.clone());
    store(one) == store(other)
}
