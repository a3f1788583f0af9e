//! Control-plane namespaces whose `Cluster` does not exist.

use super::report::Report;
use crate::access::Access;
use berth_api::labels;
use berth_plan::object_meta::{deleting, label};
use berth_render::Kind;
use serde_json::Value;

/// All control-plane namespaces. Whoever may not list namespaces is told of none.
pub(super) async fn homes(access: &Access) -> Vec<Value> {
    let ours = format!("{}={}", labels::MANAGED_BY, labels::MANAGED_BY_VALUE);
    access.io.list(Kind::Namespace, None, Some(&ours)).await.unwrap_or_default()
}

/// Those of them that are no `Cluster`'s, and what to do.
pub(super) fn without(homes: &[Value], clusters: &[Report]) -> Vec<String> {
    let staying = homes.iter().filter(|home| !deleting(home));
    let said = staying.filter_map(|home| {
        let (team, cluster) = (label(home, labels::CLUSTER_NAMESPACE)?, label(home, labels::CLUSTER_NAME)?);
        let is_there = clusters.iter().any(|c| c.namespace == team && c.name == cluster);
        let name = home["metadata"]["name"].as_str()?;
        (!is_there).then(|| format!(
            "namespace {name} is a control plane whose Cluster {team}/{cluster} does not exist: dataPolicy Retain kept it, or the Cluster went without its finalizer. Nobody renews its certificates. To go on with it, create the Cluster again, and then: kubectl berth adopt {cluster} -n {team}"
        ))
    });
    said.collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{cluster, conditions, now, status};
    use super::super::{read, report};
    use super::*;
    use serde_json::json;

    #[test]
    fn a_control_plane_without_its_cluster_is_named_with_the_way_back() {
        let home = |cluster: &str, ends: bool| {
            let labels = json!({(labels::CLUSTER_NAMESPACE): "team-a", (labels::CLUSTER_NAME): cluster});
            let time = ends.then_some("2026-01-31T23:59:00Z");
            json!({"metadata": {"name": format!("{cluster}-1"), "labels": labels, "deletionTimestamp": time}})
        };
        let other = json!({"metadata": {"name": "another", "labels": {}}});
        let acme = cluster(status("Ready", &conditions(&[])));
        let acme = report::report(&read::Seen::of(serde_json::from_value(acme).unwrap()), now());
        let said = without(&[home("acme", false), home("globex", false), home("initech", true), other], &[acme]);
        let [said] = said.as_slice() else { panic!("{said:?}") };
        assert!(said.starts_with("namespace globex-1 is a control plane whose Cluster team-a/globex does not exist"));
        assert!(said.ends_with("kubectl berth adopt globex -n team-a"), "{said}");
    }
}
