//! kube-controller-manager.

use super::api_client::{api_client, root};
use super::component::{Component, Prepared};
use crate::isolation::ends::{Allow, End, Port, allow};
use crate::pki::certificates;
use crate::subject::Tenant;
use berth_api::names;
use berth_render::values::Workload;
use berth_render::{Binary, TemplateSet};

/// The row.
pub(super) static COMPONENT: Component = Component {
    binary: Binary::ControllerManager,
    asked: |spec| (&spec.controller_manager).into(),
    secret: names::CONTROLLER_MANAGER_PKI,
    certificates: |t| Some(certificates::api_client(t, Binary::ControllerManager.name())),
    connections: &CONNECTIONS,
    reads: &[("network.serviceCIDRs", "service_cidrs"), ("network.podCIDRs", "pod_cidrs")],
    objects,
};

const THIS: End = End::Component(Binary::ControllerManager);

const CONNECTIONS: [Allow; 2] =
    [allow(THIS, End::Component(Binary::ApiServer), Port::Tcp(6443)), allow(End::Monitoring, THIS, Port::Tcp(10257))];

fn objects(t: &Tenant<'_>, templates: &TemplateSet, workload: Workload) -> Prepared {
    // It signs tokens with a key that it reads only when it starts.
    api_client(t, templates, &COMPONENT, workload, vec![root("service-account", names::service_account(t.name))])
}
