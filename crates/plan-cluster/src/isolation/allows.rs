//! Who may open a connection to whom in a control-plane namespace. What is not in this table is denied.

use super::ends::{API, Allow, End, Port, allow};
use crate::components::ALL;

/// Those of etcd; each component of the control plane says its own.
const ETCD: [Allow; 3] = [
    // Health, alarms, members.
    allow(End::Operator, End::Etcd, Port::Tcp(2379)),
    allow(End::Etcd, End::Etcd, Port::Tcp(2380)),
    allow(End::Monitoring, End::Etcd, Port::Tcp(2381)),
];

/// Those of Jobs that take backups.
const BACKUPS: [Allow; 3] = [
    allow(End::Backup, End::Etcd, Port::Tcp(2379)),
    allow(End::Backup, End::Dns, Port::Dns),
    allow(End::Backup, End::Stores, Port::Stores),
];

/// Those of Jobs that install apps.
const APPS: [Allow; 3] = [
    allow(End::Apps, API, Port::Tcp(6443)),
    allow(End::Apps, End::Dns, Port::Dns),
    allow(End::Apps, End::Registries, Port::Registries),
];

/// The table, for those that are there.
pub(super) fn all(there: There) -> impl Iterator<Item = &'static Allow> {
    let backups = BACKUPS.iter().filter(move |_| there.backups);
    let apps = APPS.iter().filter(move |_| there.apps);
    ALL.iter().flat_map(|c| c.connections).chain(&ETCD).chain(backups).chain(apps)
}

/// What not each tenant has.
#[derive(Clone, Copy, Debug)]
pub(super) struct There {
    /// A store is configured.
    pub(super) backups: bool,
    /// There are apps in it.
    pub(super) apps: bool,
}

impl There {
    /// Whether pods of that end may be there.
    pub(super) fn has(self, end: End) -> bool {
        match end {
            End::Backup => self.backups,
            End::Apps => self.apps,
            _ => true,
        }
    }
}

/// Pods of these make up a tenant.
pub(super) fn pods() -> impl Iterator<Item = End> {
    [End::Etcd, End::Backup, End::Apps].into_iter().chain(ALL.iter().map(|c| End::Component(c.binary)))
}
