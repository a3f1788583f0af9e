//! Bad input and bad luck: what is refused, with which words, and what is left as it was.

mod address;
mod admission;
mod adoption;
mod life;
mod members;
mod others;
mod roots;
mod spec;
mod strange;
mod volumes;

use crate::common::Team;
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use kube::ResourceExt;
use kube::api::ListParams;
use std::collections::BTreeMap;

/// What runs, by UID and resourceVersion: equal if nobody touched it.
pub(crate) async fn workloads(team: &Team) -> BTreeMap<String, (String, String)> {
    let mut all = BTreeMap::new();
    for d in team.inside::<Deployment>().list(&ListParams::default()).await.expect("list") {
        all.insert(d.name_any(), (d.uid().unwrap_or_default(), d.resource_version().unwrap_or_default()));
    }
    for s in team.inside::<StatefulSet>().list(&ListParams::default()).await.expect("list") {
        all.insert(s.name_any(), (s.uid().unwrap_or_default(), s.resource_version().unwrap_or_default()));
    }
    all
}
