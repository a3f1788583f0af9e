//! What components differ in.

use crate::isolation::ends::Allow;
use crate::subject::Tenant;
use berth_api::ClusterSpec;
use berth_api::autoscaling::Autoscaling;
use berth_api::common::{Arg, Placement, Resources};
use berth_plan::model::SecretEntry;
use berth_plan::model::State;
use berth_render::values::Workload;
use berth_render::{Binary, Object, TemplateSet};

/// Everything in which components differ.
#[derive(Debug)]
pub struct Component {
    /// The binary. Its name is that of the container, the Deployment, the image and the label's value.
    pub binary: Binary,
    /// What that part asks for.
    pub asked: for<'a> fn(&'a ClusterSpec) -> Asked<'a>,
    /// The Secret with its certificates.
    pub secret: &'static str,
    /// What that Secret holds; None while something for it, such as an address, is awaited.
    pub(crate) certificates: fn(&Tenant<'_>) -> Option<Vec<SecretEntry>>,
    /// Connections that its pods take part in, beside those of etcd.
    pub(crate) connections: &'static [Allow],
    /// Fields of the spec, beside its own part, that become values of its templates: (field, value).
    pub(crate) reads: &'static [(&'static str, &'static str)],
    /// Its objects, from the workload that all components have in common.
    pub(crate) objects: fn(&Tenant<'_>, &TemplateSet, Workload) -> Prepared,
}

/// What the spec asks of one component.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// Pods; None: `spec.replicas`.
    pub replicas: Option<i32>,
    /// Requests and limits.
    pub resources: Option<&'a Resources>,
    /// Whether requests of its pods follow what they use.
    pub autoscaling: &'a Autoscaling,
    /// Where its pods may run.
    pub placement: &'a Placement,
    /// Flags of the user.
    pub extra_args: &'a [Arg],
}

impl<'a> From<&'a berth_api::cluster::ComponentSpec> for Asked<'a> {
    fn from(spec: &'a berth_api::cluster::ComponentSpec) -> Self {
        let berth_api::cluster::ComponentSpec { replicas, resources, autoscaling, placement, extra_args } = spec;
        Self { replicas: *replicas, resources: resources.as_ref(), autoscaling, placement, extra_args }
    }
}

impl Component {
    /// Its name in Kubernetes.
    pub fn name(&self) -> &'static str {
        self.binary.name()
    }

    /// Its part of the spec: `spec.<field>`.
    pub fn field(&self) -> &'static str {
        self.binary.field()
    }
}

/// A component's objects, or what is missing for them.
pub(crate) type Prepared = Result<Rendered, State>;

/// A component's objects as they are to be now.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rendered {
    /// What is written where it differs.
    pub(crate) objects: Vec<Object>,
    /// What the rest waits for, which stays as it is meanwhile.
    pub(crate) left: Option<String>,
}

impl From<Vec<Object>> for Rendered {
    fn from(objects: Vec<Object>) -> Self {
        Self { objects, left: None }
    }
}
