use super::*;

#[test]
fn the_first_reconcile_makes_everything_that_needs_no_answer() {
    let mut f = Fixture::new(json!({"version": "1.36.3"}));
    f.reconcile();
    let made = |kind, name: &str| f.world.observed.get(&Fixture::key(kind, name)).is_some();
    for name in [names::CONTROLLER_MANAGER, names::SCHEDULER] {
        assert!(made(Kind::Deployment, name), "{name} gates in its pods");
    }
    assert!(made(Kind::EtcdCluster, names::ETCD));
    // The API server's pod needs etcd's addresses, and nothing else is waited for.
    assert!(!made(Kind::Deployment, names::APISERVER));
    for secret in
        ["acme-ca", "acme-proxy", "acme-sa", "kube-apiserver-pki", "admin-kubeconfig", "break-glass-kubeconfig"]
    {
        assert!(made(Kind::Secret, secret), "{secret}");
    }
    let at = |text: &str| {
        f.world.log.iter().position(|l| l.contains(text)).unwrap_or_else(|| panic!("{text}: {:#?}", f.world.log))
    };
    assert_eq!(at(&format!("create {}", Fixture::namespace())), 0);
    assert!(at("Secret acme-9201d5e7/acme-sa") < at("kube-apiserver-pki"), "roots before what is made from them");
    assert!(at("kube-controller-manager-pki") < at("apply Deployment"), "Secrets before pods that mount them");
}

#[test]
fn every_condition_is_there_from_the_first_reconcile() {
    let mut f = Fixture::new(json!({"version": "1.36.3"}));
    f.reconcile();
    for t in ["Ready", "Available", "Progressing", "Degraded", "PKIReady", "EtcdAvailable", "ControlPlaneAvailable"] {
        let (_, reason, _) = f.condition(t);
        assert!(!reason.is_empty(), "{t}");
    }
    assert_eq!(f.condition("Available").0, "False");
    assert_eq!(f.condition("Degraded").0, "False");
    let status = f.cluster.status.as_ref().unwrap();
    assert_eq!(status.control_plane_namespace.as_ref().unwrap().name, Fixture::cp_namespace());
    assert_eq!(status.version, None, "nothing has answered");
}

#[test]
fn a_tenant_that_is_up_needs_nothing_more() {
    for version in ["1.34.4", "1.35.4", "1.36.3"] {
        let mut f = Fixture::up(json!({"version": version, "replicas": 2}));
        assert!(f.plan().plan.is_empty());
        f.reconcile();
        assert!(f.world.log.is_empty(), "{:#?}", f.world.log);
        assert_eq!(f.condition("Ready").0, "True");
        let status = f.cluster.status.clone().unwrap();
        assert_eq!((status.version.as_deref(), status.phase.as_deref()), (Some(version), Some("Ready")));
        let before = status.clone();
        f.world.now = f.world.now.saturating_add(jiff::SignedDuration::from_mins(1)).unwrap();
        f.reconcile();
        assert_eq!(f.cluster.status, Some(before), "time alone changes no status");
    }
}

#[test]
fn a_load_balancer_holds_back_only_what_needs_its_address() {
    let mut f = Fixture::new(json!({"version": "1.36.3", "endpoint": {"type": "LoadBalancer"}}));
    let planned = f.reconcile();
    assert!(planned.endpoint.is_none());
    assert!(f.world.observed.get(&Fixture::key(Kind::EtcdCluster, names::ETCD)).is_some());
    let service = Fixture::key(Kind::Service, names::APISERVER);
    f.world.observed.objects.get_mut(&service).unwrap()["status"] =
        json!({"loadBalancer": {"ingress": [{"ip": "10.9.9.9"}]}});
    assert_eq!(f.reconcile().endpoint, Some(("10.9.9.9".into(), 6443)));
    let pki = Fixture::key(Kind::Secret, names::APISERVER_PKI);
    let cert = f.world.observed.pair(&pki, "apiserver").unwrap().unwrap();
    assert!(cert.ip_addresses.contains(&"10.9.9.9".parse().unwrap()));
}

#[test]
fn a_class_of_volumes_has_to_be_allowed_when_they_are_made() {
    let etcd = Fixture::key(Kind::EtcdCluster, names::ETCD);
    let mut f = Fixture::new(json!({"version": "1.36.3", "etcd": {"storage": {"className": "fast"}}}));
    let said = blocked(&f.reconcile(), StageId::Etcd, Reason::NotAllowed);
    assert!(said.contains("spec.etcd.storage.className: fast is not allowed"), "{said}");
    assert!(f.world.observed.get(&etcd).is_none());
    assert!(f.world.observed.get(&Fixture::key(Kind::Secret, "acme-ca")).is_some(), "other stages go on");
    f.settings.writers.storage_classes = vec!["fast".into()];
    f.reconcile();
    assert_eq!(f.world.observed.get(&etcd).unwrap()["spec"]["storage"]["className"], "fast");
    for _ in 0..4 {
        f.others();
        f.reconcile();
    }
    // Not allowed any more: volumes that are there are used on, also by an EtcdCluster that was deleted by mistake.
    f.settings.writers.storage_classes.clear();
    assert_eq!(f.reconcile().plan.first_problem(), None);
    let bootstrap = Fixture::key(Kind::ConfigMap, "etcd-bootstrap");
    f.world.put(bootstrap.clone(), json!({"metadata": {"name": bootstrap.name}}));
    f.world.observed.objects.remove(&etcd);
    f.reconcile();
    assert_eq!(f.world.observed.get(&etcd).unwrap()["spec"]["storage"]["className"], "fast");
}

#[test]
fn requeue_intervals_while_it_comes_up() {
    let mut f = Fixture::new(json!({"version": "1.36.3"}));
    assert_eq!(f.reconcile().requeue_after, Some(jiff::SignedDuration::from_secs(5)), "not everything is made");
    f.others();
    assert_eq!(f.reconcile().requeue_after, Some(jiff::SignedDuration::from_mins(1)), "pods are announced");
    let pod = Fixture::key(Kind::Pod, "kube-apiserver-x");
    f.world.put(pod.clone(), json!({"metadata": {"name": pod.name}}));
    let true_since = |t: &str| json!({"type": t, "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let waiting = json!([{"name": "c", "image": "x", "state": {"waiting": {"reason": "ContainerCreating"}}}]);
    let status = json!({"conditions": [true_since("PodReadyToStartContainers")], "containerStatuses": waiting});
    f.world.pod_status(&pod, status);
    assert_eq!(f.reconcile().requeue_after, Some(jiff::SignedDuration::from_secs(10)), "and what kubelet does is not");
}

/// A quota, a webhook or a lost answer ends the stage at any root, and other stages go on.
#[test]
fn nothing_needs_a_root_before_all_are_there() {
    for root in ["acme-ca", "acme-proxy", "acme-sa", names::APISERVER_ENCRYPTION] {
        let mut f = Fixture::new(json!({"version": "1.36.3"}));
        let refused = format!("create Secret {}/{root}:", Fixture::cp_namespace());
        for _ in 0..6 {
            for stage in f.plan().plan.stages {
                for action in stage.actions.iter().take_while(|a| !a.describe().starts_with(&refused)) {
                    f.world.apply_action(action);
                }
            }
            f.others();
        }
        assert!(f.world.log.iter().any(|l| l.starts_with("apply Service")), "{:#?}", f.world.log);
        for _ in 0..3 {
            f.reconcile();
            f.others();
        }
        assert_eq!(f.reconcile().plan.first_problem(), None, "{root}");
    }
}

/// Nothing is made, and the message names the field and ends with the way out.
#[test]
fn what_could_never_serve_is_refused_before_anything_is_made() {
    for (spec, said) in [
        (
            json!({"network": {"podCIDRs": ["127.0.0.0/8"]}}),
            "spec.network.podCIDRs: 127.0.0.0/8 overlaps 127.0.0.0/8 (loopback)",
        ),
        (json!({"network": {"serviceCIDRs": ["fd00:1::/108"]}}), "spec.network: serviceCIDRs has an IPv6 network"),
        (json!({"etcd": {"storage": {"size": "1Mi"}}}), "spec.etcd.storage.size: 1Mi is less than 1Gi"),
        (json!({"etcd": {"storage": {"size": 1_000_000_000}}}), "spec.etcd.storage.size: 1000000000 is less than 1Gi"),
        (
            json!({"apiServer": {"resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}}}),
            "spec.apiServer.resources: requests.cpu is 2, and limits.cpu is 1. Set the limit",
        ),
        (
            json!({"etcd": {"resources": {"requests": {"memory": "1.5Gi"}, "limits": {"memory": "1Gi"}}}}),
            "spec.etcd.resources: requests.memory is 1.5Gi, and limits.memory is 1Gi. Set the limit",
        ),
    ] {
        let mut whole = spec.clone();
        whole["version"] = "1.36.3".into();
        let mut f = Fixture::new(whole);
        let why = blocked(&f.reconcile(), StageId::Spec, Reason::InvalidSpec);
        assert!(why.starts_with(said), "{why}");
        assert!(f.world.log.is_empty(), "{:#?}", f.world.log);
        assert_eq!(f.condition("Degraded").1, "InvalidSpec");
    }
    for size in [json!("1Gi"), json!("1.5Gi"), json!("1048576Ki"), json!("1073741824"), json!(1_073_741_824)] {
        let f = Fixture::up(json!({"version": "1.36.3", "etcd": {"storage": {"size": size}}}));
        assert_eq!(f.condition("Ready").0, "True", "{size}");
    }
}

/// Networks and volumes never change, so there is no way out for a tenant that is there.
#[test]
fn what_an_earlier_build_took_keeps_running() {
    let mut f = Fixture::up(json!({"version": "1.36.2"}));
    let network = json!({"serviceCIDRs": ["10.112.0.0/16"], "podCIDRs": ["127.0.0.0/8"], "dnsDomain": "cluster.local"});
    f.cluster.spec.network = serde_json::from_value(network.clone()).unwrap();
    f.cluster.spec.etcd.storage.size = "512Mi".into();
    let home = f.world.observed.objects.get_mut(&Fixture::namespace()).unwrap();
    home["metadata"]["annotations"][berth_api::labels::NETWORK] = network.to_string().into();
    let etcd = Fixture::key(Kind::EtcdCluster, names::ETCD);
    f.world.observed.objects.get_mut(&etcd).unwrap()["spec"]["storage"]["size"] = "512Mi".into();
    assert_eq!(last(&mut f).plan.first_problem(), None);
    assert_eq!(f.condition("Ready").0, "True");
    f.cluster.spec.version = "1.36.3".into();
    assert_eq!(last(&mut f).plan.first_problem(), None, "and takes changes");
    assert!(f.image(names::APISERVER).ends_with(":v1.36.3"));
    // After a restore the Cluster finds its namespace, and takes it over.
    f.cluster.status = None;
    f.cluster.metadata.uid = Some("restored".into());
    let adopt = (berth_api::labels::ADOPT.to_owned(), "cluster-uid".to_owned());
    f.cluster.metadata.annotations = Some([adopt].into());
    assert_eq!(last(&mut f).plan.first_problem(), None);
    f.world.remove(&etcd);
    f.reconcile();
    assert_eq!(f.world.observed.get(&etcd).unwrap()["spec"]["storage"]["size"], "512Mi");
}

#[test]
fn a_limit_below_its_request_is_refused_and_what_runs_stays() {
    let mut f = Fixture::up(json!({"version": "1.36.3"}));
    let resources = json!({"requests": {"cpu": "2"}, "limits": {"cpu": "1"}});
    f.cluster.spec.api_server.resources = serde_json::from_value(resources.clone()).unwrap();
    f.cluster.spec.etcd.resources = serde_json::from_value(resources).unwrap();
    let planned = f.reconcile();
    let api_server = blocked(&planned, StageId::Spec, Reason::InvalidSpec);
    assert!(api_server.starts_with("spec.apiServer.resources: requests.cpu is 2"), "{api_server}");
    assert!(
        blocked(&planned, StageId::Etcd, Reason::InvalidSpec).starts_with("spec.etcd.resources: requests.cpu is 2")
    );
    assert!(f.world.log.is_empty(), "{:#?}", f.world.log);
}

#[test]
fn resources_beyond_what_writers_may_ask_for_are_refused_and_what_runs_stays() {
    let mut f = Fixture::up(json!({"version": "1.36.3"}));
    f.settings.writers.limits.memory = Some("4Gi".into());
    let resources = json!({"requests": {"memory": "64Gi"}});
    f.cluster.spec.scheduler.resources = serde_json::from_value(resources.clone()).unwrap();
    f.cluster.spec.etcd.resources = serde_json::from_value(resources).unwrap();
    let planned = f.reconcile();
    for (stage, field) in [(StageId::Spec, "scheduler"), (StageId::Etcd, "etcd")] {
        let message = blocked(&planned, stage, Reason::NotAllowed);
        assert!(
            message.starts_with(&format!("spec.{field}.resources.requests.memory: 64Gi is more than 4Gi")),
            "{message}"
        );
    }
    assert!(f.world.log.is_empty(), "{:#?}", f.world.log);
}
