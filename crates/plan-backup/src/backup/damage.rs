//! Writes into each `EtcdBackup` of a snapshot that it is damaged, whoever read it.

use super::proven;
use super::status::damaged;
use berth_api::backup::{Damage, EtcdBackup, EtcdBackupStatus, StoreRef};
use berth_plan::Input;
use berth_plan::model::{Action, Stage, State};
use berth_render::Kind;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube_core::Resource;

/// A snapshot that was read, and is not what was proven.
pub(crate) struct Found<'a> {
    /// Of a backup in the same store.
    pub(crate) store: &'a StoreRef,
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
    /// Marks each `EtcdBackup` of this snapshot that does not say so yet; what is awaited then. Another one may have taken its name since the
    /// Job began.
    pub(crate) fn mark<K: Resource>(&self, input: &Input<'_, K>, stage: &mut Stage) -> Option<State> {
        let mut first = None;
        for (key, live) in input.observed.of_kind(Kind::EtcdBackup, input.namespace()) {
            let Ok(backup) = serde_json::from_value::<EtcdBackup>(live.clone()) else { continue };
            if *self.store != backup.spec.store || !self.is(&backup) || proven::is_damaged(&backup) {
                continue;
            }
            let damage = Damage { at: Time(input.now), by: self.by.to_owned(), message: self.message.to_owned() };
            stage.actions.push(Action::MarkDamaged {
                key: key.clone(),
                uid: backup.metadata.uid.clone().unwrap_or_default(),
                resource_version: backup.metadata.resource_version.clone().unwrap_or_default(),
                status: serde_json::to_value(damaged(&backup, damage, input.now)).unwrap_or_default(),
            });
            first.get_or_insert_with(|| State::waiting(format!("{key} to be marked as damaged")));
        }
        first
    }

    fn is(&self, backup: &EtcdBackup) -> bool {
        let of =
            |field: fn(&EtcdBackupStatus) -> &Option<String>| backup.status.as_ref().and_then(|s| field(s).as_deref());
        of(|s| &s.key) == Some(self.key) && of(|s| &s.sha256) == Some(self.sha256)
    }
}
