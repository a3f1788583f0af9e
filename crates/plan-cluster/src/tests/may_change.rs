//! A platform that changes what Berth applied.

use super::*;
use berth_api::labels;
use berth_plan::model::Action;
use berth_plan::settings::Config;

const RESOURCES: &str = "/spec/template/spec/containers/kube-scheduler/resources/requests/cpu";

/// The platform declares resources and images as its own.
pub(in crate::tests) fn declare(f: &mut Fixture) {
    let paths = "[/spec/template/spec/containers/*/resources, /spec/template/spec/containers/*/image, /spec/template/spec/initContainers/*/image, /spec/template/spec/initContainers/*/resources]";
    let config =
        Config::parse(&format!("admission: {{mayChange: [{{kinds: [Deployment, StatefulSet], paths: {paths}}}]}}"));
    f.meta().may_change = Arc::new(config.unwrap().may_change);
}

/// Its admission rewrites the resources of the scheduler's Deployment.
pub(in crate::tests) fn rewrite(f: &mut Fixture) {
    let container = &mut f.live(Kind::Deployment, names::SCHEDULER)["spec"]["template"]["spec"]["containers"][0];
    container["resources"]["requests"]["cpu"] = "250m".into();
}

fn up() -> Fixture {
    Fixture::up(json!({"version": "1.36.2"}))
}

#[test]
fn what_is_declared_is_no_drift_and_is_told_with_what_was_asked_for() {
    let mut f = up();
    rewrite(&mut f);
    let planned = f.plan();
    let written: Vec<_> = planned.plan.actions().map(Action::describe).collect();
    assert_eq!(written.len(), 1, "not declared: {written:?}");
    declare(&mut f);
    assert!(f.plan().plan.is_empty());
    f.reconcile();
    let (status, reason, told) = f.condition("Degraded");
    assert_eq!((status.as_str(), reason.as_str()), ("False", "ForeignFields"));
    assert!(told.contains(&format!("{RESOURCES}: asked for ")) && told.contains(", became 250m"), "{told}");
    assert_eq!(f.condition("Ready").0, "True");
}

/// Below a declared path admission may add, too, such as limits where Berth asks for requests.
#[test]
fn what_admission_adds_is_named_but_for_what_is_declared() {
    let mut f = up();
    let live = f.live(Kind::Deployment, names::SCHEDULER);
    let fields = json!({"f:spec": {"f:replicas": {}}});
    live["metadata"]["managedFields"] =
        json!([{"manager": labels::MANAGER_CLUSTER, "operation": "Apply", "fieldsV1": fields}]);
    let pods = &mut live["spec"]["template"]["spec"];
    pods["containers"][0]["resources"]["limits"]["example.com/gpu"] = "1".into();
    let alias = json!({"ip": "10.0.0.1", "hostnames": ["registry.k8s.io"]});
    match &mut pods["hostAliases"] {
        Value::Array(all) => all.push(alias),
        none => *none = json!([alias]),
    }
    let told = |f: &mut Fixture| {
        f.reconcile();
        let (_, reason, told) = f.condition("Degraded");
        assert_eq!(reason, "ForeignFields", "{told}");
        assert!(told.contains("spec.template.spec.hostAliases[10.0.0.1]"), "{told}");
        told
    };
    let added = "spec.template.spec.containers[kube-scheduler].resources.limits[example.com/gpu]";
    assert!(told(&mut f).contains(added));
    declare(&mut f);
    assert!(!told(&mut f).contains(added));
}

#[test]
fn what_is_asked_for_anew_is_written_once_and_somebody_elses_edit_goes_back() {
    let mut f = up();
    declare(&mut f);
    rewrite(&mut f);
    f.cluster.spec.scheduler.resources =
        serde_json::from_value(json!({"requests": {"cpu": "70m", "memory": "64Mi"}})).unwrap();
    f.reconcile();
    let written = |f: &Fixture| f.world.log.iter().filter(|said| said.contains("Deployment")).count();
    assert_eq!(written(&f), 1, "{:?}", f.world.log);
    f.others();
    rewrite(&mut f);
    assert!(last(&mut f).plan.is_empty());
    assert!(f.condition("Degraded").2.contains("asked for 70m, became 250m"));
    let container =
        json!({(format!("k:{}", json!({"name": names::SCHEDULER}))): {"f:resources": {"f:requests": {"f:cpu": {}}}}});
    let fields = json!({"f:template": {"f:spec": {"f:containers": container}}});
    for (manager, goes_back) in [(labels::MANAGER_CLUSTER, false), ("kubectl-set", true)] {
        let live = f.live(Kind::Deployment, names::SCHEDULER);
        live["metadata"]["managedFields"] = json!([
            {"manager": labels::MANAGER_CLUSTER, "operation": "Apply", "fieldsV1": {"f:spec": {"f:replicas": {}}}},
            {"manager": manager, "operation": "Update", "fieldsV1": {"f:spec": fields}},
        ]);
        assert_eq!(!f.plan().plan.is_empty(), goes_back, "{manager}");
    }
}

/// A version goes on under a platform that rewrites resources and images of all workloads after each write.
#[test]
fn a_version_changes_under_admission_that_rewrites() {
    let mut f = up();
    declare(&mut f);
    let all = [names::APISERVER, names::CONTROLLER_MANAGER, names::SCHEDULER];
    let rewrite_all = |f: &mut Fixture| {
        for name in all {
            let pods = &mut f.live(Kind::Deployment, name)["spec"]["template"]["spec"];
            for list in ["containers", "initContainers"] {
                for container in pods[list].as_array_mut().into_iter().flatten() {
                    let image = container["image"].as_str().unwrap_or_default().to_owned();
                    if !image.contains('@') {
                        container["image"] = format!("mirror.example.com/{image}@sha256:ab").into();
                    }
                    container["resources"]["requests"]["cpu"] = "250m".into();
                }
            }
        }
    };
    rewrite_all(&mut f);
    f.cluster.spec.version = "1.36.3".parse().unwrap();
    for _ in 0..12 {
        f.reconcile();
        rewrite_all(&mut f);
        f.others();
    }
    assert_eq!(f.condition("Ready").0, "True", "{:?}", f.condition("Ready"));
    for name in all {
        let pods = &f.live(Kind::Deployment, name)["spec"]["template"];
        assert_eq!(pods["metadata"]["labels"][labels::VERSION], "1.36.3", "{name}");
    }
    f.world.log.clear();
    f.reconcile();
    assert_eq!(f.world.log, [""; 0], "at rest");
}
