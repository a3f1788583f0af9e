//! Who may open a connection to whom in a control-plane namespace. What is not in this table is denied.

/// One end of an allowed connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// Members of etcd.
    Etcd,
    /// kube-apiserver.
    ApiServer,
    /// kube-controller-manager.
    ControllerManager,
    /// kube-scheduler.
    Scheduler,
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
    pub(super) const PODS: [Self; 4] = [Self::Etcd, Self::ApiServer, Self::ControllerManager, Self::Scheduler];
}

/// To which port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Port {
    /// TCP.
    Tcp(u16),
    /// UDP and TCP 53.
    Dns,
    /// Every port.
    Any,
}

/// A row.
#[derive(Clone, Copy, Debug)]
pub(super) struct Allow {
    pub(super) from: End,
    pub(super) to: End,
    pub(super) port: Port,
}

const fn allow(from: End, to: End, port: Port) -> Allow {
    Allow { from, to, port }
}

/// The table.
pub(super) static ALLOWS: [Allow; 11] = [
    allow(End::ApiServer, End::Etcd, Port::Tcp(2379)),
    // Health, alarms, members.
    allow(End::Operator, End::Etcd, Port::Tcp(2379)),
    allow(End::Etcd, End::Etcd, Port::Tcp(2380)),
    allow(End::Monitoring, End::Etcd, Port::Tcp(2381)),
    // Clients come through Services and load balancers, which may hide their addresses. Who they are is for the API server to judge.
    allow(End::Anyone, End::ApiServer, Port::Tcp(6443)),
    allow(End::ControllerManager, End::ApiServer, Port::Tcp(6443)),
    allow(End::Scheduler, End::ApiServer, Port::Tcp(6443)),
    allow(End::Monitoring, End::ControllerManager, Port::Tcp(10257)),
    allow(End::Monitoring, End::Scheduler, Port::Tcp(10259)),
    // Names of webhooks, issuers and aggregated APIs. The parts of a tenant find each other by host aliases (ADR 2).
    allow(End::ApiServer, End::Dns, Port::Dns),
    // Nodes, webhooks, issuers: a tenant's admin chooses what is dialled.
    allow(End::ApiServer, End::Outside, Port::Any),
];
