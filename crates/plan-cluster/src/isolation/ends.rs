//! Ends of connections, and from which to which one is allowed.

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
    /// Pods that install apps, where there are any.
    Apps,
    /// The registries of charts.
    Registries,
    /// Berth's operator.
    Operator,
    /// The meta cluster's DNS.
    Dns,
    /// Whoever may read metrics, from the chart's values.
    Monitoring,
    /// Everybody.
    Anyone,
    /// The platform's gateway, where all clients come through it.
    Gateway,
    /// Every address but those of the meta cluster and of cloud metadata, and what the chart's values add.
    Outside,
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
    /// The ports of the registries.
    Registries,
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

/// The end that a tenant's admin can have dial whatever he likes.
pub(super) const API: End = End::Component(Binary::ApiServer);
