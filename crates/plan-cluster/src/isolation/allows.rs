//! Who may open a connection to whom in a control-plane namespace. What is not in this table is denied.

use crate::components;
use berth_render::Binary;

/// One end of an allowed connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Members of etcd.
    Etcd,
    /// Pods of a component of the control plane.
    Component(Binary),
    /// Pods that take backups, where a store is configured.
    Backup,
    /// The stores of backups.
    Stores,
    /// Berth's operator.
    Operator,
    /// The meta cluster's DNS.
    Dns,
    /// Whoever may read metrics, from the chart's values.
    Monitoring,
    /// Everybody.
    Anyone,
    /// Every address but those of the meta cluster and of cloud metadata, and what the chart's values add.
    Outside,
}

impl End {
    /// Pods of these make up a tenant.
    pub(super) fn pods() -> impl Iterator<Item = Self> {
        [Self::Etcd, Self::Backup].into_iter().chain(components::ALL.iter().map(|c| Self::Component(c.binary)))
    }
}

/// To which port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Port {
    /// TCP.
    Tcp(u16),
    /// UDP and TCP 53.
    Dns,
    /// Every port.
    Any,
    /// The ports of the stores' endpoints.
    Stores,
}

/// A row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allow {
    pub(super) from: End,
    pub(super) to: End,
    pub(super) port: Port,
}

pub(crate) const fn allow(from: End, to: End, port: Port) -> Allow {
    Allow { from, to, port }
}

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
    components::ALL.iter().flat_map(|c| c.connections).chain(&ETCD).chain(backups)
}
