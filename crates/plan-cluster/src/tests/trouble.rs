use super::*;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use berth_pki::{CA_LIFETIME, CertSpec, Usage, issue_ca};
use berth_plan::failure::Failure;
use berth_render::{Listing, STAMPS};
use jiff::SignedDuration;

#[test]
fn a_lost_ca_is_for_a_person() {
    for secret in ["acme-ca", "acme-proxy", "acme-sa", names::APISERVER_ENCRYPTION] {
        let mut f = Fixture::up(json!({"version": "1.36.3"}));
        let expiry = |f: &Fixture| f.cluster.status.as_ref().unwrap().certificates.clone();
        let before = expiry(&f);
        f.world.remove(&Fixture::key(Kind::Secret, secret));
        let message = blocked(&f.reconcile(), StageId::Pki, Reason::CertificateAuthorityLost);
        assert!(message.contains(secret) && message.contains("Restore it from a backup"), "{message}");
        assert!(f.world.log.is_empty(), "{secret}: {:#?}", f.world.log);
        assert_eq!(f.condition("PKIReady").1, "CertificateAuthorityLost");
        assert_eq!(f.condition("Degraded").0, "True");
        assert_eq!(f.condition("Available").0, "True", "it still serves");
        assert_eq!(expiry(&f), before, "certificates end all the same");
    }
}

#[test]
fn a_root_of_data_that_was_kept_is_not_made_anew() {
    let roots = ["acme-ca", "acme-proxy", "acme-sa", names::APISERVER_ENCRYPTION];
    for secret in roots {
        for left in [Kind::ConfigMap, Kind::EtcdCluster] {
            let mut f = Fixture::up(json!({"version": "1.36.3"}));
            let bootstrap = Fixture::key(Kind::ConfigMap, "etcd-bootstrap");
            f.world.put(bootstrap.clone(), json!({"metadata": {"labels": {"berth.dev/etcd-cluster": "etcd"}}}));
            f.world.observed.objects.retain(|key, _| {
                let data = key.kind == left && key.name.starts_with("etcd");
                data || key.kind == Kind::Namespace || roots.contains(&&*key.name)
            });
            f.world.remove(&Fixture::key(Kind::Secret, secret));
            let message = blocked(&f.plan(), StageId::Pki, Reason::CertificateAuthorityLost);
            assert!(message.contains(secret) && message.contains(&left.to_string()), "{message}");
            f.reconcile();
            assert!(f.world.observed.get(&Fixture::key(Kind::Secret, secret)).is_none(), "{:#?}", f.world.log);
            assert!(f.world.observed.get(&Fixture::key(Kind::EtcdCluster, names::ETCD)).is_some(), "etcd goes on");
            assert!(f.world.observed.get(&Fixture::key(Kind::Deployment, names::APISERVER)).is_none());
        }
    }
}

#[test]
fn a_garbled_ca_is_for_a_person() {
    for secret in ["acme-ca", "acme-proxy", "acme-sa"] {
        let mut f = Fixture::up(json!({"version": "1.36.3"}));
        f.world.set_secret(
            &Fixture::key(Kind::Secret, secret),
            "tls.crt",
            b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
        );
        let message = blocked(&f.reconcile(), StageId::Pki, Reason::CertificateAuthorityInvalid);
        assert!(message.contains(secret), "{message}");
        assert!(f.world.log.is_empty(), "{secret}: {:#?}", f.world.log);
    }
}

#[test]
fn a_ca_beside_the_current_one_is_trusted_and_renews_no_leaf() {
    let mut f = Fixture::up(json!({"version": "1.36.3"}));
    let ca = Fixture::key(Kind::Secret, "acme-ca");
    let api = Fixture::key(Kind::Secret, names::APISERVER_PKI);
    let certificate = |f: &Fixture| f.world.observed.pair(&api, "apiserver").unwrap().unwrap().clone();
    let (root, before) = (f.world.observed.root(&ca).unwrap().clone(), certificate(&f));
    let spec = CertSpec::new("kubernetes-ca-2", Usage::Ca, CA_LIFETIME);
    let next = issue_ca(&spec, f.world.now).unwrap();
    let trust = root.trust_pem.clone() + &next.cert_pem;
    f.world.set_secret(&ca, "next.key", next.key_pem.expose_bytes());
    f.world.set_secret(&ca, "tls.crt", trust.as_bytes());
    assert_eq!(last(&mut f).plan.first_problem(), None);
    assert_eq!(f.world.observed.root(&ca).unwrap().current, root.current);
    assert_eq!(certificate(&f), before);
    let admin = &f.world.observed.secrets[&Fixture::key(Kind::Secret, names::ADMIN_KUBECONFIG)];
    assert_eq!(admin.kubeconfig().unwrap().unwrap().ca_fingerprints.len(), 2);
    assert_eq!(admin.kubeconfig().unwrap().unwrap().client.aki, root.current.ski);
    let info = ObjectKey::namespaced(Kind::ConfigMap, "kube-public", "cluster-info");
    let info = f.world.inside[&info].value()["data"]["kubeconfig"].as_str().unwrap();
    assert!(info.contains(&STANDARD.encode(&trust)), "{info}");
    let api = f.world.observed.get(&Fixture::key(Kind::Deployment, names::APISERVER)).unwrap();
    let sum = api["spec"]["template"]["metadata"]["annotations"]["checksum.berth.dev/ca"].as_str().unwrap();
    assert!(f.world.observed.secrets[&ca].digests["tls.crt"].starts_with(sum));
}

#[test]
fn a_wrong_clock_is_reported_and_what_serves_is_ready() {
    let mut f = Fixture::up(json!({"version": "1.36.3"}));
    f.meta().clock_ahead = SignedDuration::from_mins(15);
    f.reconcile();
    assert!(f.world.log.is_empty(), "{:#?}", f.world.log);
    let (status, reason, message) = f.condition("Degraded");
    assert_eq!((&*status, &*reason), ("True", "ClockSkew"), "{message}");
    assert_eq!(f.condition("Ready").0, "True");
    f.meta().clock_ahead = SignedDuration::ZERO;
    f.reconcile();
    assert_eq!(f.condition("Degraded").0, "False");
}

#[test]
fn while_two_clocks_are_far_apart_nothing_is_renewed_for_its_age() {
    // Far ahead everything is due, and far behind nothing is valid yet.
    for days in [70, -100] {
        let mut f = Fixture::up(json!({"version": "1.36.3"}));
        if days < 0 {
            f.world.now += SignedDuration::from_hours(24 * 200);
            f.reconcile();
        }
        // A name that is served no longer stays in the certificate, which is none of its age's business either.
        f.cluster.spec.endpoint.cert_sans = vec!["former.example.com".into()];
        f.reconcile();
        f.cluster.spec.endpoint.cert_sans = vec![];
        f.reconcile();
        f.world.log.clear();
        f.meta().clock_ahead = SignedDuration::from_hours(-24 * days);
        f.world.now += SignedDuration::from_hours(24 * days);
        let planned = f.reconcile();
        assert!(f.world.log.is_empty(), "{days}: {:#?}", f.world.log);
        for wait in [planned.requeue_after, planned.certificates.due] {
            assert!(wait.is_some_and(|wait| wait > SignedDuration::from_secs(30)), "{wait:?}");
        }
        // What has another cause is not held.
        f.cluster.spec.endpoint.cert_sans = vec!["api.example.com".into()];
        f.reconcile();
        assert!(f.world.log.iter().any(|l| l.contains(names::APISERVER_PKI)), "{days}: {:#?}", f.world.log);
    }
}

#[test]
fn a_clock_that_is_a_little_wrong_keeps_nothing_from_being_renewed() {
    let mut f = Fixture::up(json!({"version": "1.36.3"}));
    f.meta().clock_ahead = SignedDuration::from_hours(24);
    f.world.now += SignedDuration::from_hours(24 * 70);
    f.reconcile();
    assert!(f.world.log.iter().any(|l| l.contains(names::APISERVER_PKI)), "{:#?}", f.world.log);
}

#[test]
fn a_lost_leaf_is_made_again() {
    let mut f = Fixture::up(json!({"version": "1.36.3"}));
    f.world.remove(&Fixture::key(Kind::Secret, names::SCHEDULER_PKI));
    f.reconcile();
    assert_eq!(f.world.log.len(), 1, "{:#?}", f.world.log);
    assert_eq!(f.condition("Ready").0, "True");
}

#[test]
fn somebody_elses_object_under_our_name_is_left_alone() {
    let mut f = Fixture::up(json!({"version": "1.36.3"}));
    let key = Fixture::key(Kind::Secret, names::SCHEDULER_PKI);
    f.world.remove(&key);
    f.world.put(key.clone(), json!({"metadata": {"name": key.name}}));
    let message = blocked(&f.reconcile(), StageId::Pki, Reason::ForeignObject);
    assert!(message.contains("kube-scheduler-pki"), "{message}");
    f.world.observed.published = Published::Foreign("no label".into());
    blocked(&f.reconcile(), StageId::Kubeconfig, Reason::ForeignObject);
    assert!(f.world.log.is_empty());
}

#[test]
fn what_pods_say_is_reported() {
    let mut f = Fixture::up(json!({"version": "1.36.3"}));
    let d = Fixture::key(Kind::Deployment, names::APISERVER);
    f.world.observed.objects.get_mut(&d).unwrap()["status"]["availableReplicas"] = json!(0);
    let pod = Fixture::key(Kind::Pod, "kube-apiserver-x");
    f.world.put(
        pod.clone(),
        json!({"metadata": {"name": pod.name, "labels": {"app.kubernetes.io/component": "kube-apiserver"}}}),
    );
    f.world.pod_status(&pod, json!({"containerStatuses": [{"name": "kube-apiserver", "image": "x:v9", "state": {"waiting": {"reason": "ImagePullBackOff", "message": "not found"}}}]}));
    f.world.observed.api = ApiProbe::Failed("refused".into());
    f.reconcile();
    let (status, reason, message) = f.condition("ControlPlaneAvailable");
    assert_eq!((status.as_str(), reason.as_str()), ("False", "ImageUnavailable"));
    assert!(
        message.contains("kube-apiserver-x") && message.contains("x:v9") && message.contains("not found"),
        "{message}"
    );
    assert_eq!(f.condition("Degraded").1, "ImageUnavailable");
    assert_eq!(f.condition("Available").1, "APINotReachable");
    assert_eq!(f.cluster.status.as_ref().unwrap().phase.as_deref(), Some("Unavailable"));
}

#[test]
fn the_worst_is_what_ready_says() {
    let mut f = Fixture::up(json!({"version": "1.36.3"}));
    let etcd = Fixture::key(Kind::EtcdCluster, names::ETCD);
    f.world.observed.objects.get_mut(&etcd).unwrap()["status"]["conditions"][0] = json!({
        "type": "Ready", "status": "False", "reason": "PodsNotReady", "message": "waiting for its members: 2 of 3 are ready",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    f.reconcile();
    assert_eq!(f.condition("Ready").1, "PodsNotReady");
    let d = Fixture::key(Kind::Deployment, names::SCHEDULER);
    f.world.observed.objects.get_mut(&d).unwrap()["status"]["availableReplicas"] = json!(0);
    let pod = Fixture::key(Kind::Pod, "kube-scheduler-x");
    let labels = json!({"app.kubernetes.io/component": "kube-scheduler"});
    f.world.put(pod.clone(), json!({"metadata": {"name": pod.name, "labels": labels}}));
    f.world.pod_status(&pod, json!({"containerStatuses": [{"name": "c", "image": "x:v9", "state": {"waiting": {"reason": "ImagePullBackOff", "message": "not found"}}}]}));
    f.reconcile();
    let ready = f.condition("Ready");
    assert!(ready.1 == "ImageUnavailable" && ready.2.starts_with("kube-scheduler: "), "{ready:?}");
    let degraded = f.condition("Degraded");
    assert_eq!((degraded.1, degraded.2), (ready.1, ready.2));
}

#[test]
fn what_cannot_be_looked_at_is_unknown_and_stays_as_it_was_told() {
    let mut f = Fixture::up(json!({"version": "1.36.3"}));
    let before = f.cluster.status.clone().unwrap();
    f.world.observed.objects.retain(|key, _| key.kind == Kind::Namespace);
    f.world.observed.secrets.clear();
    f.world.observed.api = ApiProbe::NotAsked;
    f.world.observed.denied = true;
    let planned = f.reconcile();
    let said = |f: &Fixture, message: &str| {
        for type_ in ["Available", "EtcdAvailable", "ControlPlaneAvailable"] {
            let wanted = ("Unknown".to_owned(), "PermissionDenied".to_owned(), message.to_owned());
            assert_eq!(f.condition(type_), wanted, "{type_}");
        }
    };
    said(&f, &format!("the operator has no rights in namespace {}", Fixture::cp_namespace()));
    let input = Input { object: &f.cluster, observed: &f.world.observed, settings: &f.settings, now: f.world.now };
    let denied = "cannot list pods".to_owned();
    let failure = Failure { reason: Reason::PermissionDenied, message: denied.clone(), in_tenant: false };
    f.cluster.status = Some(status(input, &planned, Some(&failure)));
    said(&f, &denied);
    let now = f.cluster.status.clone().unwrap();
    assert_eq!((now.components, now.certificates), (before.components, before.certificates));
    assert_eq!(now.phase.as_deref(), Some("Degraded"), "nobody knows that it is down");
}

/// docs/operate.md: `spec.paused` is what holds Berth.
#[test]
fn a_deployment_that_is_paused_goes_on_and_holds_nothing_up() {
    for name in components() {
        let mut f = Fixture::up(json!({"version": "1.36.2"}));
        let key = Fixture::key(Kind::Deployment, name);
        let digest = |f: &Fixture| f.world.observed.get(&key).unwrap()["metadata"]["annotations"].clone();
        let before = digest(&f);
        f.world.put(key.clone(), json!({"spec": {"paused": true}}));
        f.reconcile();
        assert_eq!(f.world.log, [format!("apply {key}")]);
        assert_eq!((&f.world.observed.get(&key).unwrap()["spec"]["paused"], digest(&f)), (&json!(false), before));
        f.roll_out(name);
        // The API server leaves out what is false.
        let live = f.world.observed.objects.get_mut(&key).unwrap();
        live["spec"].as_object_mut().unwrap().remove("paused");
        assert_eq!(f.reconcile().plan.first_problem(), None);
        assert_eq!(f.world.log.len(), 1, "{:#?}", f.world.log);
        // So does what is new.
        f.world.put(key.clone(), json!({"spec": {"paused": true}}));
        f.cluster.spec.version = "1.36.3".into();
        for _ in 0..3 {
            f.reconcile();
            f.others();
        }
        assert_eq!(f.reconcile().plan.first_problem(), None);
        assert!(f.image(name).ends_with(":v1.36.3"), "{name}");
    }
}

#[test]
fn drift_inside_the_tenant_is_repaired() {
    let mut f = Fixture::up(json!({"version": "1.36.3"}));
    let slice = ObjectKey::namespaced(Kind::EndpointSlice, "default", "kubernetes");
    let answered = |read| ApiProbe::Answered { version: None, read };
    f.world.observed.api = answered(InsideTenant::listed(Listing { kind: slice.kind, namespace: Some("default") }, []));
    f.reconcile();
    assert_eq!(f.world.log, [format!("apply {slice} in the tenant")]);
    // All stamps but that of one set are as they were.
    let stamps = |f: &Fixture, but: &str| {
        let ours = f.world.inside.values().filter(|o| STAMPS.holds(o.key()) && !o.key().name.ends_with(but));
        InsideTenant::listed(STAMPS, ours.map(|o| (o.key().clone(), o.value().clone())))
    };
    f.world.observed.api = answered(stamps(&f, "berth-access"));
    f.world.log.clear();
    f.reconcile();
    let (stamp, set) = f.world.log.split_last().unwrap();
    let is_of_set = |line: &String| line.contains(" berth:") || line.contains("/berth:");
    assert!(set.len() > 1 && set.iter().all(is_of_set), "the stamp speaks for its set: {set:#?}");
    assert!(stamp.contains("kube-system/berth-access"), "the stamp comes last: {stamp}");
    // What a binding binds to does not change: another binding takes its place.
    let binding = ObjectKey::cluster(Kind::ClusterRoleBinding, "berth:kubelet-api-admin");
    let foreign = json!({"metadata": {"uid": "foreign"}, "roleRef": {"kind": "ClusterRole", "name": "view"}});
    f.world.observed.api = answered(InsideTenant::some([(binding.clone(), foreign)]));
    f.world.log.clear();
    f.reconcile();
    assert_eq!(f.world.log, ["delete", "apply"].map(|verb| format!("{verb} {binding} in the tenant")));
}

#[test]
fn what_etcd_waits_for_is_said_in_its_own_words() {
    for said in ["waiting for its members: 2 of 3 are ready; etcd-1: pod etcd-1 is not ready", "being looked at"] {
        let mut f = Fixture::up(json!({"version": "1.36.3"}));
        let key = Fixture::key(Kind::EtcdCluster, names::ETCD);
        f.world.observed.objects.get_mut(&key).unwrap()["status"]["conditions"][0] = json!({
            "type": "Ready", "status": "False", "reason": "PodsNotReady", "message": said, "lastTransitionTime": "2026-01-01T00:00:00Z",
        });
        f.reconcile();
        let said = format!("etcd: {said}");
        assert_eq!(f.condition("Ready"), ("False".into(), "PodsNotReady".into(), said.clone()));
        assert_eq!(f.condition("Progressing"), ("True".into(), "RollingOut".into(), said));
    }
}
