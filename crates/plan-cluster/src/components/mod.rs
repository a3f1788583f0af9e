//! The components of the control plane: one table, and a file for each.
//!
//! Certificates, roots, isolation, validation, status, pruning and the command line go through [`ALL`]. To add one: a file here
//! with its row, the row's name in [`ALL`], its part of the spec, and its binary in `berth_render` with a folder of templates.

mod apiserver;
mod controller_manager;
mod scheduler;
mod slots;
mod soak;
mod stage;
mod workloads;

use super::ClusterPlan;
use super::isolation::allows::Allow;
use super::subject::Tenant;
use berth_api::ClusterSpec;
use berth_api::common::{Arg, Placement, Resources};
use berth_plan::model::{Stage, State};
use berth_plan::secrets::Content;
use berth_render::values::Workload;
use berth_render::{Binary, Object, RenderError, TemplateSet};

pub(super) use stage::stage;
pub(super) use workloads::Workloads;

/// Everything in which components differ.
pub struct Component {
    /// The binary. Its name is that of the container, the Deployment, the image and the label's value.
    pub binary: Binary,
    /// What that part asks for.
    pub asked: for<'a> fn(&'a ClusterSpec) -> Asked<'a>,
    /// The Secret with its certificates.
    pub secret: &'static str,
    /// What that Secret holds; None while something for it, such as an address, is awaited.
    pub(super) certificates: fn(&Tenant<'_>) -> Option<Vec<Content>>,
    /// Connections that its pods take part in, beside those of etcd.
    pub(super) connections: &'static [Allow],
    /// Changes of it wait until this one is rolled out.
    pub(super) after: Option<Binary>,
    /// Its objects, from the workload that all components have in common.
    pub(super) objects: fn(&Tenant<'_>, &TemplateSet, Workload) -> Prepared,
}

/// In the order in which changes are made.
pub static ALL: [&Component; 3] = [&apiserver::COMPONENT, &controller_manager::COMPONENT, &scheduler::COMPONENT];

/// What the spec asks of one component.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// Pods; None: `spec.replicas`.
    pub replicas: Option<i32>,
    /// Requests and limits.
    pub resources: Option<&'a Resources>,
    /// Where its pods may run.
    pub placement: &'a Placement,
    /// Flags of the user.
    pub extra_args: &'a [Arg],
}

impl<'a> From<&'a berth_api::cluster::ComponentSpec> for Asked<'a> {
    fn from(spec: &'a berth_api::cluster::ComponentSpec) -> Self {
        let berth_api::cluster::ComponentSpec { replicas, resources, placement, extra_args } = spec;
        Self { replicas: *replicas, resources: resources.as_ref(), placement, extra_args }
    }
}

/// A component's objects, or what is missing for them.
pub(super) type Prepared = Result<Result<Rendered, RenderError>, State>;

/// A component's objects as they are to be now.
#[derive(Clone, Debug, Default)]
pub(super) struct Rendered {
    /// What is written where it differs.
    pub(super) objects: Vec<Object>,
    /// What the rest waits for, which stays as it is meanwhile.
    pub(super) left: Option<String>,
}

impl From<Vec<Object>> for Rendered {
    fn from(objects: Vec<Object>) -> Self {
        Self { objects, left: None }
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

/// The stages of all components.
pub(super) fn stages(t: &Tenant<'_>, out: &ClusterPlan) -> Vec<Stage> {
    ALL.iter().fold(vec![], |mut stages, component| {
        let stage = stage(t, component, &out.plan, &stages);
        stages.push(stage);
        stages
    })
}

impl std::fmt::Debug for Component {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_binary_but_etcd_is_in_the_table_and_no_name_is_used_twice() {
        let all: Vec<_> = ALL.iter().map(|c| c.binary).chain([Binary::Etcd]).collect();
        assert_eq!(BTreeSet::from_iter(all), BTreeSet::from(Binary::ALL));
        for of in [Component::name, Component::field, |c: &Component| c.secret] {
            assert_eq!(ALL.iter().map(|c| of(c)).collect::<BTreeSet<_>>().len(), ALL.len());
        }
        let before = |c: &Component, first| ALL.iter().take_while(|o| o.binary != c.binary).any(|o| o.binary == first);
        assert!(ALL.iter().all(|c| c.after.is_none_or(|first| before(c, first))), "what changes first comes first");
    }
}
