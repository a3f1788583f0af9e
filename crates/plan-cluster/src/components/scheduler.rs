//! kube-scheduler.

use super::api_client::api_client;
use super::component::Component;
use crate::isolation::ends::{Allow, End, Port, allow};
use crate::pki::certificates;
use berth_api::names;
use berth_render::Binary;

/// The row.
pub(super) static COMPONENT: Component = Component {
    binary: Binary::Scheduler,
    asked: |spec| (&spec.scheduler).into(),
    secret: names::SCHEDULER_PKI,
    certificates: |t| Some(certificates::api_client(t, Binary::Scheduler.name())),
    connections: &CONNECTIONS,
    reads: &[],
    objects: |t, templates, workload| api_client(t, templates, &COMPONENT, workload, vec![]),
};

const THIS: End = End::Component(Binary::Scheduler);

const CONNECTIONS: [Allow; 2] =
    [allow(THIS, End::Component(Binary::ApiServer), Port::Tcp(6443)), allow(End::Monitoring, THIS, Port::Tcp(10259))];
