//! Whether a tenant can be made.

use super::component::{audit_policy, authenticators, etcd_timing, extra_args, files, own_files, resources};
use super::networks::{NETWORK_IS_IMMUTABLE, can_serve};
use crate::components::ALL;
use berth_api::ClusterSpec;
use berth_api::conditions::Reason;
use berth_api::etcd_cluster::LEAST_STORAGE;
use berth_api::quantity;
use berth_plan::model::State;

/// Whether a tenant of which nothing is made yet can be made as the spec asks. One that is there is not judged so: what an earlier build
/// took keeps running.
pub(crate) fn new_tenant(spec: &ClusterSpec) -> Result<(), State> {
    let invalid = |message| State::blocked(Reason::InvalidSpec, message);
    can_serve(&spec.network).map_err(|why| invalid(format!("{why}. {NETWORK_IS_IMMUTABLE}")))?;
    let size = &spec.etcd.storage.size;
    if quantity::is_less(size, LEAST_STORAGE) {
        return Err(invalid(format!(
            "spec.etcd.storage.size: {size} is less than {LEAST_STORAGE}, which etcd needs. Set a larger one"
        )));
    }
    resources("etcd", spec.etcd.resources.as_ref())?;
    etcd_timing(&spec.etcd)?;
    for component in ALL {
        resources(component.field(), (component.asked)(spec).resources)?;
        extra_args(spec, component).map_err(invalid)?;
        files(spec, component, |_| false).map_err(invalid)?;
        audit_policy(spec, component).map_err(invalid)?;
        authenticators(spec, component, || false).map_err(invalid)?;
        own_files(spec, component, || false).map_err(invalid)?;
    }
    Ok(())
}
