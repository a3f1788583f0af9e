//! Who may open a connection to whom in a control-plane namespace. What is not in this table is denied.

use super::ends::{Allow, End, Port, allow};
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

/// The table. `backups`: whether a store is configured.
pub(super) fn all(backups: bool) -> impl Iterator<Item = &'static Allow> {
    let backups = BACKUPS.iter().filter(move |_| backups);
    ALL.iter().flat_map(|c| c.connections).chain(&ETCD).chain(backups)
}

/// Pods of these make up a tenant.
pub(super) fn pods() -> impl Iterator<Item = End> {
    [End::Etcd, End::Backup].into_iter().chain(ALL.iter().map(|c| End::Component(c.binary)))
}
