//! Resources of containers beside the components.

use crate::settings::HelperDefaults;
use berth_api::common::Resources;
use berth_api::helpers::{Amounts, Helpers};

/// What is laid over the resources of each of them in pods, in this order. `pinned`: the chart's value when the tenant took its version.
pub fn helpers(pinned: Option<&Amounts>, asked: Option<&Resources>) -> Vec<Resources> {
    pinned.map(Resources::from).into_iter().chain(asked.cloned()).collect()
}

/// Likewise of the container of a Job. Nothing that is meant for a helper counts: with its limits a backup would be throttled or evicted.
pub fn job(defaults: &HelperDefaults, asked: Option<&Helpers>) -> Vec<Resources> {
    helpers(defaults.jobs.as_ref(), asked.and_then(|asked| asked.jobs.resources.as_ref()))
}
