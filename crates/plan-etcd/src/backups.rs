//! Backups of this etcd, as far as what goes on with it looks at them.

use crate::subject::Subject;
use berth_api::EtcdBackup;
use berth_api::backup::BackupRef;
use berth_api::restore::BackupOf;
use berth_plan::etcd_home::Home;
use berth_plan_backup::backup::proven::{self, Wanted};
use berth_render::Kind;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::de::DeserializeOwned;

/// The newest proven backup of this data, and the store that a backup of what is left goes to.
pub(crate) fn newest_and_store(s: &Subject<'_>) -> (Option<(EtcdBackup, Time)>, Option<String>) {
    let newest = newest(s);
    let store = store(s, newest.as_ref().map(|(backup, _)| backup));
    (newest, store)
}

fn newest(s: &Subject<'_>) -> Option<(EtcdBackup, Time)> {
    let Home { namespace, field, name } = Home::of(s.etcd);
    let of = |wanted: &str| (field == wanted).then(|| BackupRef { name: name.to_owned() });
    let of = BackupOf { cluster_ref: of("clusterRef"), etcd_cluster_ref: of("etcdClusterRef") };
    let wanted = Wanted { of: &of, identity: Some(&s.record.bootstrap.cluster_uid), until: None };
    let backups: Vec<EtcdBackup> = all(s, Kind::EtcdBackup, namespace).collect();
    let newest = proven::newest(&backups, &wanted)?;
    Some((newest.clone(), Time(proven::taken(newest)?)))
}

/// Where the newest one is, or the first that it may use.
fn store(s: &Subject<'_>, newest: Option<&EtcdBackup>) -> Option<String> {
    let Home { namespace, field, .. } = Home::of(s.etcd);
    let backups = &s.settings.backups;
    let stands_alone_in = (field == "etcdClusterRef").then_some(namespace);
    let may = backups.stores.iter().filter(|store| store.serves(stands_alone_in) && !backups.image.is_empty());
    let known = may.clone().find(|store| newest.is_some_and(|newest| newest.spec.store.name == store.name));
    known.or_else(|| may.clone().next()).map(|store| store.name.clone())
}

pub(crate) fn all<'a, T: DeserializeOwned>(s: &Subject<'a>, kind: Kind, namespace: &'a str) -> impl Iterator<Item = T> {
    s.observed.of_kind(kind, namespace).filter_map(|(_, o)| serde_json::from_value(o.clone()).ok())
}
