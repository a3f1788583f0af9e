//! What others add to workloads, and a Service that is deleted.

use super::*;
use berth_api::labels;
use berth_plan::model::Action;

pub(in crate::tests) const FOO: &str = "FOO";

/// `f:spec` of an environment variable of kube-scheduler.
pub(in crate::tests) fn env() -> Value {
    let foo = json!({".": {}, "f:name": {}, "f:value": {}});
    let container = json!({"f:env": {(format!("k:{}", json!({"name": FOO}))): foo}});
    let containers = json!({(format!("k:{}", json!({"name": names::SCHEDULER}))): container});
    json!({"f:template": {"f:spec": {"f:containers": containers}}})
}

/// Somebody writes these fields of a Deployment; an API server notes who wrote what.
pub(in crate::tests) fn managed(f: &mut Fixture, name: &str, by: &str, time: &str, fields: Value) {
    let ours =
        json!({"manager": labels::MANAGER_CLUSTER, "operation": "Apply", "fieldsV1": {"f:spec": {"f:replicas": {}}}});
    let theirs = json!({"manager": by, "operation": "Update", "time": time, "fieldsV1": {"f:spec": fields}});
    let status = json!({"manager": "kube-controller-manager", "operation": "Update", "subresource": "status", "fieldsV1": {"f:status": {}}});
    let live = f.world.observed.objects.get_mut(&Fixture::key(Kind::Deployment, name)).unwrap();
    live["metadata"]["managedFields"] = json!([ours, theirs, status]);
    live["metadata"]["resourceVersion"] = "7".into();
    if live["metadata"]["managedFields"][1]["fieldsV1"]["f:spec"] == env() {
        let all = live["spec"]["template"]["spec"]["containers"][0]["env"].as_array_mut().unwrap();
        all.retain(|one| one["name"] != FOO);
        all.push(json!({"name": FOO, "value": "bar"}));
    }
}

fn up() -> Fixture {
    Fixture::up(json!({"version": "1.36.2"}))
}

fn added(f: &Fixture) -> &Value {
    let live = f.world.observed.get(&Fixture::key(Kind::Deployment, names::SCHEDULER)).unwrap();
    let all = live["spec"]["template"]["spec"]["containers"][0]["env"].as_array().unwrap();
    all.iter().find(|one| one["name"] == FOO).unwrap_or(&Value::Null)
}

#[test]
fn what_somebody_adds_is_removed_and_only_that() {
    let mut f = up();
    managed(&mut f, names::SCHEDULER, "kubectl-set", "2026-01-01T00:00:00Z", env());
    let planned = f.plan();
    let Some(Action::RemoveAdditions { resource_version, managed_fields, .. }) = planned.plan.actions().next() else {
        panic!("{:#?}", planned.plan.actions().collect::<Vec<_>>())
    };
    assert_eq!(resource_version, "7");
    let mut ours = env();
    ours["f:replicas"] = json!({});
    // What is left of the entry is nothing but where it was.
    assert_eq!(managed_fields[0]["fieldsV1"]["f:spec"], ours);
    assert_eq!(managed_fields[1]["manager"], "kube-controller-manager", "{managed_fields}");
    f.reconcile();
    let said = "remove from Deployment acme-9201d5e7/kube-scheduler: spec.template.spec.containers[kube-scheduler].env[FOO] (by kubectl-set)";
    assert_eq!(f.world.log, [said]);
    assert!(added(&f).is_null());
    assert!(last(&mut f).plan.is_empty());
}

#[test]
fn what_is_put_back_at_once_is_left_after_five_times_and_later_not() {
    let mut f = up();
    let times = |f: &mut Fixture, hour: usize| {
        (0..7)
            .filter(|n| {
                managed(f, names::SCHEDULER, "reloader", &format!("2026-01-01T{hour:02}:00:{n:02}Z"), env());
                f.reconcile();
                f.others();
                added(f).is_null()
            })
            .count()
    };
    assert_eq!(times(&mut f, 1), 5);
    let (status, reason, told) = f.condition("Degraded");
    assert_eq!((status.as_str(), reason.as_str()), ("False", "ForeignFields"));
    assert!(told.contains("env[FOO] (by reloader)") && told.contains("5 times within 10 minutes"), "{told}");
    assert_eq!(f.condition("Ready").0, "True");
    assert!(f.plan().plan.is_empty(), "at rest");
    assert_eq!(times(&mut f, 2), 5, "another time");
    managed(&mut f, names::SCHEDULER, "kubectl-edit", "2026-01-01T02:00:09Z", env());
    f.reconcile();
    assert!(added(&f).is_null(), "somebody else");
}

#[test]
fn what_is_older_is_left_until_the_pods_change() {
    let mut f = up();
    managed(&mut f, names::SCHEDULER, "kubectl-set", "2026-01-01T00:00:00Z", env());
    let key = Fixture::key(Kind::Deployment, names::SCHEDULER);
    let live = f.world.observed.objects.get_mut(&key).unwrap();
    live["metadata"]["annotations"].as_object_mut().unwrap().remove(labels::ADDITIONS);
    f.reconcile();
    assert_eq!(f.world.log, Vec::<String>::new());
    assert!(f.condition("Degraded").2.contains("env[FOO] (by kubectl-set)"));
    // Neither for what restarts nothing.
    f.world.observed.objects.get_mut(&key).unwrap()["spec"]["replicas"] = json!(7);
    f.reconcile();
    assert!(!f.world.log.is_empty() && !added(&f).is_null(), "{:#?}", f.world.log);
    managed(&mut f, names::SCHEDULER, "kubectl-set", "2026-01-01T00:00:00Z", env());
    f.cluster.spec.version = "1.36.3".into();
    last(&mut f);
    assert!(added(&f).is_null(), "{:#?}", f.world.log);
    managed(&mut f, names::SCHEDULER, "kubectl-set", "2026-01-01T00:00:01Z", env());
    last(&mut f);
    assert!(added(&f).is_null(), "from now on at once");
}

#[test]
fn a_workload_whose_writers_nobody_knows_is_applied() {
    let mut f = up();
    managed(&mut f, names::SCHEDULER, "a", "2026-01-01T00:00:00Z", json!({}));
    let key = Fixture::key(Kind::Deployment, names::SCHEDULER);
    f.world.observed.objects.get_mut(&key).unwrap()["metadata"]["managedFields"] = json!([]);
    f.reconcile();
    assert_eq!(f.world.log, [format!("apply {key}")]);
}

#[test]
fn with_host_network_the_ports_go_that_came_with_it() {
    let mut f = up();
    let fields = json!({"f:template": {"f:spec": {"f:hostNetwork": {}}}});
    managed(&mut f, names::APISERVER, "somebody", "2026-01-01T00:00:00Z", fields);
    let key = Fixture::key(Kind::Deployment, names::APISERVER);
    let pods = &mut f.world.observed.objects.get_mut(&key).unwrap()["spec"]["template"]["spec"];
    pods["hostNetwork"] = true.into();
    pods["containers"][0]["ports"] = json!([{"containerPort": 6443, "hostPort": 6443, "protocol": "TCP"}]);
    let planned = f.plan();
    let taken = planned.plan.actions().find_map(|action| match action {
        Action::RemoveAdditions { managed_fields, .. } => Some(managed_fields[0]["fieldsV1"]["f:spec"].to_string()),
        _ => None,
    });
    let port = json!(json!({"containerPort": 6443, "protocol": "TCP"}).to_string());
    let port = format!("\"k:{}: {{\"f:hostPort\":{{}}}}", &port.to_string()[1..]).replace(": {", ":{");
    assert!(taken.as_ref().is_some_and(|taken| taken.contains(&port)), "{port} is not in {taken:?}");
}

#[test]
fn a_service_asks_for_the_address_that_it_had() {
    let mut f = up();
    let key = Fixture::key(Kind::Service, names::APISERVER);
    let address = |f: &Fixture| f.world.observed.get(&key).unwrap()["spec"]["clusterIP"].clone();
    let (before, uid) = (address(&f), |f: &Fixture| f.world.observed.get(&key).unwrap()["metadata"]["uid"].clone());
    let old = uid(&f);
    f.world.remove(&key);
    last(&mut f);
    assert!(address(&f) == before && uid(&f) != old);
    assert_eq!(f.world.log.iter().filter(|said| said.contains("Service")).count(), 1, "{:#?}", f.world.log);
    assert!(!f.world.log.iter().any(|said| said.contains("Deployment")), "{:#?}", f.world.log);

    // A change is of the one that was seen: if it is gone by then, this makes none that has not asked.
    f.world.observed.objects.get_mut(&key).unwrap()["spec"]["selector"] = json!({"app": "nobody"});
    let planned = f.plan();
    let applied = planned.plan.actions().find_map(|action| match action {
        Action::Apply(object) if *object.key() == key => Some(object.value()["metadata"]["uid"].clone()),
        _ => None,
    });
    assert_eq!(applied, Some(uid(&f)));
    last(&mut f);

    // Nobody but the kubeconfigs and the status knows it.
    f.world.remove(&key);
    for name in components() {
        f.world.remove(&Fixture::key(Kind::Deployment, name));
    }
    last(&mut f);
    assert_eq!(address(&f), before);

    // Not what is no address of the meta cluster's Services.
    f.meta().addresses = Ok(berth_plan::meta_cluster::addresses::MetaRanges {
        services: vec!["198.18.0.0/24".parse().unwrap()],
        ..Default::default()
    });
    f.world.remove(&key);
    last(&mut f);
    assert_ne!(address(&f), before);
}
