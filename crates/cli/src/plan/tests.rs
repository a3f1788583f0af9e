//! Plans as people see them, from a tenant in a world in memory.

#![allow(clippy::needless_pass_by_value, reason = "json! is written in place")]

use super::foresee::{Future, foresee};
use super::report::{Report, StageStatus, report};
use super::show;
use crate::output::same_in_both_forms;
use crate::paint::plain;
use crate::unchanged::merge_patch;
use crate::world::{found, settle};
use berth_api::{Cluster, names};
use berth_plan::meta_cluster::addresses::network;
use berth_plan::observed::{Observed, Published};
use berth_plan::{MetaCluster, Planner as _, Settings};
use berth_plan_cluster::components::{self, Component};
use berth_plan_cluster::{ClusterPlanner, Input};
use berth_render::{Kind, ObjectKey};
use jiff::SignedDuration;
use serde_json::{Value, json};

fn cluster(spec: Value) -> Cluster {
    let object = json!({
        "apiVersion": "berth.dev/v1alpha1", "kind": "Cluster",
        "metadata": {"name": "acme", "namespace": "team-a", "uid": crate::world::UID, "generation": 1}, "spec": spec,
    });
    serde_json::from_value(object).unwrap()
}

/// A tenant that is rolled out, and what it was made for.
fn up() -> Observed {
    let mut observed =
        settle(&cluster(json!({"version": "1.36.2"})), &Settings::default(), MetaCluster::default()).unwrap().observed;
    let cp_namespace = names::control_plane_namespace("team-a", "acme");
    for name in components::ALL.map(Component::name) {
        let d = observed.objects.get_mut(&ObjectKey::namespaced(Kind::Deployment, &cp_namespace, name)).unwrap();
        d["status"] = json!({"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "availableReplicas": 1});
    }
    let etcd = observed.objects.get_mut(&ObjectKey::namespaced(Kind::EtcdCluster, &cp_namespace, names::ETCD)).unwrap();
    let yes = |t: &str| json!({"type": t, "status": "True", "reason": "AsExpected", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    etcd["status"]["conditions"] = json!([yes("Ready"), yes("Available")]);
    observed.api = berth_plan::observed::ApiProbe::NotAsked;
    observed
}

fn planned(spec: Value, observed: &Observed, settings: &Settings) -> Report {
    let cluster = cluster(spec);
    let now = crate::world::now();
    let plan = ClusterPlanner::plan(Input { object: &cluster, observed, settings, now });
    let future = if cluster.spec.paused {
        Future::default()
    } else {
        foresee(&cluster, settings, &mut found(observed.clone(), None), now).unwrap()
    };
    report(&cluster, true, observed, &plan, future, now)
}

/// Without the digests of template sets, which every change of a template changes.
fn text(report: &Report) -> String {
    let text = plain(&show::show(report));
    let line = |l: &str| l.find("templates-").map_or(l.to_owned(), |at| format!("{}<digest>", &l[..at + 10]));
    text.lines().map(|l| line(l) + "\n").collect()
}

#[test]
fn at_rest_there_is_nothing() {
    let report = planned(json!({"version": "1.36.2"}), &up(), &Settings::default());
    assert!(!report.pending, "{report:#?}");
    insta::assert_snapshot!(text(&report));
}

#[test]
fn another_patch_version_rolls_the_api_server_first() {
    let report = planned(json!({"version": "1.36.3"}), &up(), &Settings::default());
    assert!(report.pending);
    assert_eq!(report.restarts.len(), 3, "each component once");
    insta::assert_snapshot!(text(&report));
}

#[test]
fn etcds_pods_restart_one_by_one() {
    let settings = Settings::default();
    let with = |memory: &str| {
        let resources = json!({"requests": {"memory": memory}});
        cluster(json!({"version": "1.36.3", "etcd": {"replicas": 3, "resources": resources}}))
    };
    let nothing = Observed { published: Published::Absent, ..Observed::default() };
    let mut world = found(nothing, None);
    let now = crate::world::now();
    let first = foresee(&with("1Gi"), &settings, &mut world, now).unwrap();
    assert!(!first.more && first.restarts.is_empty(), "{first:#?}");

    let now = now + SignedDuration::from_hours(2);
    // Real controllers have their own names for what pods were made from.
    let mut seen = world.observed;
    let set = seen.objects.iter().find(|(key, _)| key.kind == Kind::StatefulSet).unwrap().1;
    let revision = set["status"]["updateRevision"].as_str().unwrap().to_owned();
    for object in seen.objects.values_mut() {
        *object = serde_json::from_str(&object.to_string().replace(&revision, "etcd-6d5f8")).unwrap();
    }
    let mut again = found(seen, None);
    let nothing = foresee(&with("1Gi"), &settings, &mut again, now).unwrap();
    assert!(!nothing.more && nothing.then.is_empty(), "{nothing:#?}");

    let mut newer = with("1Gi");
    newer.spec.version = "1.36.4".into();
    let future = foresee(&newer, &settings, &mut again.clone(), now).unwrap();
    assert!(future.restarts.iter().all(|r| r.workload.starts_with("Deployment")), "{future:#?}");
    assert_eq!((future.restarts.len(), future.more), (2, false), "the first is in the plan itself");

    let future = foresee(&with("2Gi"), &settings, &mut again, now).unwrap();
    let pods: Vec<&str> = future.restarts.iter().map(|r| r.workload.rsplit('/').next().unwrap()).collect();
    assert_eq!(pods, ["etcd-2", "etcd-1", "etcd-0"]);
    assert!(!future.more);
}

#[test]
fn a_flag_is_named() {
    let spec = json!({"version": "1.36.2", "apiServer": {"extraArgs": [{"name": "v", "value": "4"}]}});
    let report = planned(spec, &up(), &Settings::default());
    let text = text(&report);
    assert!(text.contains("    flag --v of kube-apiserver: added, 4\n"), "{text}");
    assert!(text.contains("\nspec                     valid\n") && !text.contains(".args"), "{text}");
}

#[test]
fn what_is_refused_is_blocked_and_the_rest_goes_on() {
    let report = planned(json!({"version": "1.35.4"}), &up(), &Settings::default());
    assert_eq!(report.stages[0].state, StageStatus::Blocked);
    assert!(report.pending);
    insta::assert_snapshot!(text(&report));
}

#[test]
fn a_new_one_begins_with_its_namespace() {
    let observed = Observed { published: Published::Absent, ..Observed::default() };
    let report = planned(json!({"version": "1.36.3"}), &observed, &Settings::default());
    assert!(report.pending && report.then.len() > 30);
    insta::assert_snapshot!(text(&report));
}

#[test]
fn programs_read_the_same_as_json_and_as_yaml() {
    let nothing = Observed { published: Published::Absent, ..Observed::default() };
    let new = same_in_both_forms(&planned(json!({"version": "1.36.3"}), &nothing, &Settings::default()));
    assert!(new["then"].as_array().is_some_and(|t| t.len() > 30));
    let refused = same_in_both_forms(&planned(json!({"version": "1.35.4"}), &up(), &Settings::default()));
    assert_eq!(refused["stages"][0]["state"], "blocked");
}

#[test]
fn paused_says_so() {
    let mut observed = up();
    let etcd = observed.objects.iter_mut().find(|(key, _)| key.kind == Kind::EtcdCluster).unwrap().1;
    etcd["status"]["clusterId"] = json!("cdf818194e3a8c32");
    let report = planned(json!({"version": "1.36.3", "paused": true}), &observed, &Settings::default());
    assert!(report.paused && report.pending);
    let text = text(&report);
    assert!(text.contains("EtcdCluster") && text.contains("spec.paused is true: Berth does nothing else"), "{text}");
}

#[test]
fn a_policy_that_changes_restarts_nothing() {
    let ranges = berth_plan::meta_cluster::addresses::MetaRanges {
        pods: vec![network("198.51.100.0/24").unwrap()],
        ..Default::default()
    };
    let meta = MetaCluster { addresses: Ok(ranges), ..MetaCluster::default() };
    let observed = Observed { meta: meta.into(), ..up() };
    let report = planned(json!({"version": "1.36.2"}), &observed, &Settings::default());
    assert!(report.pending && report.restarts.is_empty());
    assert!(text(&report).contains("NetworkPolicy"));
}

#[test]
fn a_spec_takes_the_place_of_another() {
    let patch = merge_patch(&json!({"a": 1, "b": {"c": 1, "d": 2}, "l": [1]}), &json!({"b": {"c": 3}, "l": [2]}));
    assert_eq!(patch, json!({"a": null, "b": {"c": 3, "d": null}, "l": [2]}));
}
