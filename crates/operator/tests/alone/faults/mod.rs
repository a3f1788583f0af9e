//! Faults of the meta cluster: the meta cluster's API server, its rights, its objects and its clock are not as they should be.

mod additions;
mod corruption;
mod creation;
mod gone;
mod lack;
mod nodes;
mod pairs;
mod places;
mod poison;
mod protection;
mod rewrites;
mod rights;
pub(crate) mod webhook;

use crate::common::Team;
pub(crate) use crate::common::full;
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use kube::ResourceExt;
use kube::api::ListParams;

/// Pods are made from these; their number and what they hold. Their status is the world's.
pub(crate) async fn templates(team: &Team) -> Vec<String> {
    let mut all = vec![];
    for d in team.inside::<Deployment>().list(&ListParams::default()).await.expect("list") {
        all.push(format!("{} {:?} {:?}", d.name_any(), d.uid(), d.spec));
    }
    for s in team.inside::<StatefulSet>().list(&ListParams::default()).await.expect("list") {
        all.push(format!("{} {:?} {:?}", s.name_any(), s.uid(), s.spec));
    }
    all
}
