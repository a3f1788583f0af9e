//! Specs that ask for what cannot be.

use super::workloads;
use crate::common::{SHARED_CALLS, Team, server, shared_operator};
use berth_api::conditions::ConditionType;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

/// What the API server says to a spec; Berth's operator need not run.
async fn refused(team: &Team, name: &str, spec: Value) -> String {
    match team.create_as(name, spec.clone()).await {
        Ok(_) => panic!("{name} {spec} was accepted"),
        Err(e) => e.to_string(),
    }
}

#[tokio::test]
async fn the_schema_refuses_with_words_that_help() {
    let team = Team::new(server().await).await;
    let network = |services: &str, pods: &str| json!({"network": {"serviceCIDRs": [services], "podCIDRs": [pods]}});
    let ranges = |all: Value| json!({"endpoint": {"type": "Gateway", "gateway": {"sourceRanges": all}}});
    let asleep = |hibernation: Value| json!({"hibernation": hibernation});
    let inside = |address: &str| json!({"endpoint": {"advertiseAddress": address}});
    let schedule = |one: Value| json!({"hibernation": {"schedules": [one]}});
    let registered = |labels: Value| json!({"registration": {"argoCD": {"labels": labels}}});
    let long = "a".repeat(41);
    let cases = [
        (
            "acme",
            network("10.112.0.0", "10.160.0.0/16"),
            "serviceCIDRs: each must be a network in CIDR form, such as 10.112.0.0/16",
        ),
        (
            "acme",
            network("10.112.0.0/16", "10.160.0.0/33"),
            "podCIDRs: each must be a network in CIDR form, such as 10.160.0.0/16",
        ),
        (
            "acme",
            network("10.112.0.0/16", "10.112.128.0/17"),
            "serviceCIDRs and podCIDRs overlap: choose networks that share no address",
        ),
        (
            "acme",
            json!({"network": {"serviceCIDRs": ["10.1.0.0/16", "10.2.0.0/16"]}}),
            "two networks must be one IPv4 and one IPv6",
        ),
        ("acme", network("10.0.0.0/8", "172.16.0.0/16"), "serviceCIDRs: an IPv4 network must be from /12 to /28"),
        (
            "acme",
            network("fd00:1::/64", "fd00:2::/56"),
            "serviceCIDRs: an IPv4 network must be from /12 to /28, an IPv6",
        ),
        ("acme", network("10.112.0.0/16", "10.160.0.0/26"), "podCIDRs: an IPv4 network must be from /8 to /24"),
        (
            "acme",
            network("fd00:1::/112", "fd00:1600::/40"),
            "an IPv6 network from /48 to /64: each node gets a /24 or /64",
        ),
        ("acme", schedule(json!({})), "hibernation.schedules: set sleep, wake, or both"),
        (
            "acme",
            schedule(json!({"sleep": "at midnight"})),
            "must be a cron schedule with five fields, such as 0 20 * * 1-5",
        ),
        (
            "acme",
            schedule(json!({"sleep": "0 20 * * 5", "wake": "0 20 * * 5"})),
            "hibernation.schedules: sleep and wake are the same time: change one of them",
        ),
        ("acme", inside("acme.example.com"), "endpoint.advertiseAddress: must be an IP address at which nodes reach"),
        ("acme", inside("169.254.169.254"), "no loopback, unspecified, link-local, multicast or broadcast address"),
        ("acme", inside("::"), "no loopback, unspecified, link-local, multicast or broadcast address"),
        ("acme", inside("::ffff:192.0.2.7"), "endpoint.advertiseAddress: must be an IP address at which nodes reach"),
        (
            "acme",
            inside("2001:db8::7"),
            "must be of the family (IPv4 or IPv6) of the first network in network.serviceCIDRs",
        ),
        (
            "acme",
            json!({"vpc": {"attachment": {"name": "v"}, "addresses": ["172.20.0.2/24"]},
                "endpoint": {"advertiseAddress": "172.20.0.2"}}),
            "endpoint.advertiseAddress cannot be set with vpc",
        ),
        (
            "acme",
            json!({"vpc": {"attachment": {"name": "v"}, "addresses": ["172.20.0.2/24"]},
                "addons": {"apiProxy": {"enabled": true}}}),
            "addons.apiProxy cannot be enabled with vpc: pods reach the API at its addresses in the VPC; remove it",
        ),
        (
            &*long,
            json!({}),
            "metadata.name: must be a DNS label that starts with a letter, at most 40 characters, without dots: choose another name, such as 'acme'",
        ),
        ("a.b", json!({}), "at most 40 characters, without dots: choose another name"),
        ("1a", json!({}), "must be a DNS label that starts with a letter"),
        (
            "acme",
            json!({"etcd": {"replicas": 0}}),
            "spec.etcd.replicas: Unsupported value: 0: supported values: \"1\", \"3\", \"5\"",
        ),
        (
            "acme",
            json!({"etcd": {"replicas": 2}}),
            "spec.etcd.replicas: Unsupported value: 2: supported values: \"1\", \"3\", \"5\"",
        ),
        (
            "acme",
            json!({"etcd": {"replicas": 4}}),
            "spec.etcd.replicas: Unsupported value: 4: supported values: \"1\", \"3\", \"5\"",
        ),
        (
            "acme",
            json!({"apiServer": {"resources": {"requests": {"cpu": 2}, "limits": {"cpu": 1}}}}),
            "spec.apiServer.resources: Invalid value: resources: requests.cpu is more than limits.cpu",
        ),
        (
            "acme",
            json!({"etcd": {"resources": {"requests": {"memory": "1.5Gi"}, "limits": {"memory": "1024Mi", "cpu": "1"}}}}),
            "spec.etcd.resources: Invalid value: resources: requests.memory is more than limits.memory",
        ),
        (
            "acme",
            json!({"apiServer": {"autoscaling": {"mode": "InPlace", "min": {"cpu": "2"}, "max": {"cpu": "1500m"}}}}),
            "autoscaling: min.cpu is more than max.cpu: lower min, or raise max",
        ),
        (
            "acme",
            json!({"etcd": {"autoscaling": {"min": {"memory": "1.5Gi"}, "max": {"memory": "1024Mi"}}}}),
            "autoscaling: min.memory is more than max.memory: lower min, or raise max",
        ),
        ("acme", json!({"scheduler": {"autoscaling": {"mode": "Recreate"}}}), "spec.scheduler.autoscaling.mode"),
        (
            "acme",
            registered(json!({"argocd.argoproj.io/secret-type": "repository"})),
            "registration.argoCD.labels: keys that begin with argocd.argoproj.io/ or berth.dev/",
        ),
        ("acme", registered(json!({"berth.dev/cluster-name": "other"})), "registration.argoCD.labels: keys that begin"),
        ("acme", registered(json!({"a b": "c"})), "registration.argoCD.labels: each key must be a name of at most 63"),
        ("acme", registered(json!({"env": "-"})), "registration.argoCD.labels: each value must be empty, or letters"),
        ("acme", json!({"version": "v1.36"}), "spec.version"),
        ("acme", json!({"replicas": 0}), "spec.replicas"),
        ("acme", json!({"endpoint": {"type": "NodePort"}}), "endpoint.host is required with type NodePort"),
        (
            "acme",
            json!({"endpoint": {"type": "Gateway", "host": "192.0.2.7"}}),
            "endpoint.host must be a DNS name with type Gateway",
        ),
        ("acme", json!({"endpoint": {"gateway": {"maxConnections": 9}}}), "endpoint.gateway needs type Gateway"),
        ("acme", ranges(json!(["203.0.113.7"])), "endpoint.gateway.sourceRanges: each must be a network in CIDR form"),
        ("acme", asleep(json!({"afterIdle": "4m"})), "hibernation.afterIdle: must be a duration from 5m to 8760h"),
        (
            "acme",
            asleep(json!({"wake": {"stayFor": "30s"}})),
            "hibernation.wake.stayFor: must be a duration from 1m to 24h",
        ),
        (
            "acme",
            asleep(json!({"wake": {"from": ["10.0.0.1"]}})),
            "hibernation.wake.from: each must be a network in CIDR",
        ),
        ("acme", ranges(json!([])), "spec.endpoint.gateway.sourceRanges in body should have at least 1 items"),
        (
            "acme",
            json!({"endpoint": {"type": "Gateway", "gateway": {"maxConnections": 0}}}),
            "greater than or equal to 1",
        ),
        ("acme", json!({"endpoint": {"type": "Gateway", "nodePort": 30443}}), "endpoint.nodePort needs type NodePort"),
        (
            "acme",
            json!({"endpoint": {"type": "Gateway", "service": {"loadBalancerClass": "a"}}}),
            "endpoint.service.loadBalancerClass and loadBalancerSourceRanges need type LoadBalancer",
        ),
    ];
    for (name, spec, message) in cases {
        let said = refused(&team, name, spec.clone()).await;
        assert!(said.contains(message), "{name} {spec}\nexpected: {message}\nsaid: {said}");
    }
    let etcd = json!({"apiVersion": "berth.dev/v1alpha1", "kind": "EtcdCluster", "metadata": {"name": "e"},
        "spec": {"version": "3.6.16", "clients": [{"name": "ca"}]}});
    let api = Api::<berth_api::EtcdCluster>::namespaced(team.client.clone(), &team.ns);
    let etcd = serde_json::from_value(etcd).expect("EtcdCluster");
    let said = api.create(&PostParams::default(), &etcd).await.expect_err("refused").to_string();
    assert!(said.contains("the name ca is reserved for the client CA"), "{said}");
}

#[tokio::test]
async fn versions_that_are_not_supported_are_listed_with_those_that_are() {
    let team = Team::new(shared_operator().await).await;
    team.create(json!({"version": "1.20.0"})).await.expect("Cluster");
    let said = team.says(ConditionType::Ready, "VersionUnsupported").await;
    assert!(said.contains("spec.version: 1.20.0 is not supported. Set a patch version of 1.34, 1.35, 1.36"), "{said}");
    assert!(team.namespaces().get_opt(&team.cp_namespace).await.expect("get").is_none(), "nothing is made");
    // Put right, it goes on.
    team.spec(json!({"version": "1.36.3", "etcd": {"version": "2.3.8"}})).await.expect("patch");
    let said = team.says_of(ConditionType::Ready, "VersionUnsupported", "spec.etcd").await;
    assert!(
        said.contains(
            "spec.etcd.version: 2.3.8 is not supported with Kubernetes 1.36.3. Set a patch version of 3.5, 3.6"
        ),
        "{said}"
    );
    team.spec(json!({"etcd": {"version": null}})).await.expect("patch");
    team.ready().await.unwrap_or_else(|e| panic!("{e:#}"));
}

#[tokio::test]
async fn what_only_the_planner_can_judge_is_refused_before_anything_is_made() {
    let server = shared_operator().await;
    let args = |component: &str, name: &str| json!({component: {"extraArgs": [{"name": name, "value": "x"}]}});
    let network = |services: &str, pods: &str| json!({"network": {"serviceCIDRs": [services], "podCIDRs": [pods]}});
    let cases = [
        (
            network("10.112.0.1/16", "10.160.0.0/16"),
            "spec.network.serviceCIDRs: 10.112.0.1/16 has host bits set, unlike 10.112.0.0/16",
        ),
        (
            network("10.112.0.0/16", "127.0.0.0/8"),
            "spec.network.podCIDRs: 127.0.0.0/8 overlaps 127.0.0.0/8 (loopback), whose addresses no pod and no Service can have",
        ),
        (network("127.1.0.0/16", "224.0.0.0/8"), "127.1.0.0/16 overlaps 127.0.0.0/8 (loopback)"),
        (
            json!({"network": {"serviceCIDRs": ["fd00:1::/108"]}}),
            "spec.network: serviceCIDRs has an IPv6 network (fd00:1::/108) and podCIDRs has none",
        ),
        (json!({"etcd": {"storage": {"size": "1Mi"}}}), "spec.etcd.storage.size: 1Mi is less than 1Gi"),
        (
            json!({"apiServer": {"resources": {"requests": {"cpu": "2"}, "limits": {"cpu": 1}}}}),
            "spec.apiServer.resources: requests.cpu is 2, and limits.cpu is 1. Set the limit to at least the request",
        ),
        (
            args("apiServer", "etcd-servers"),
            "spec.apiServer.extraArgs: --etcd-servers is managed by Berth; use spec.etcd",
        ),
        (
            args("apiServer", "service-cluster-ip-range"),
            "--service-cluster-ip-range is managed by Berth; use spec.network.serviceCIDRs",
        ),
        (args("apiServer", "service-account-issuer"), "is managed by Berth; use spec.apiServer.serviceAccountIssuers"),
        (
            args("controllerManager", "cluster-cidr"),
            "spec.controllerManager.extraArgs: --cluster-cidr is managed by Berth; ",
        ),
        (args("scheduler", "client-ca-file"), "spec.scheduler.extraArgs: --client-ca-file is managed by Berth; "),
    ];
    for (spec, message) in cases {
        let team = Team::new(server).await;
        team.create(spec.clone()).await.expect("the schema takes it");
        let said = team.says(ConditionType::Ready, "InvalidSpec").await;
        assert!(said.contains(message), "{spec}\nexpected: {message}\nsaid: {said}");
        let degraded = team.condition(ConditionType::Degraded).await.expect("condition");
        assert_eq!((&*degraded.status, &*degraded.reason), ("True", "InvalidSpec"));
        assert!(
            team.namespaces().get_opt(&team.cp_namespace).await.expect("get").is_none(),
            "{spec}: a namespace was made"
        );
        team.wipe().await;
    }
}

/// The API server writes it in its own way, which is no drift.
#[tokio::test]
async fn a_size_is_taken_as_kubernetes_writes_it() {
    let team = Team::new(shared_operator().await).await;
    let spec = json!({"version": "1.36.3", "etcd": {"storage": {"size": "1.5Gi"}}});
    team.create(spec).await.expect("the schema takes it");
    team.ready().await.unwrap_or_else(|e| panic!("{e:#}"));
    let claim = team.inside::<PersistentVolumeClaim>().get("data-etcd-0").await.expect("claim");
    let requests = claim.spec.and_then(|s| s.resources?.requests).expect("requests");
    assert_eq!(requests["storage"].0, "1536Mi");
    let running = workloads(&team).await;
    team.reconciled(&SHARED_CALLS).await;
    assert_eq!(workloads(&team).await, running);
    team.wipe().await;
}

#[tokio::test]
async fn changes_that_cannot_be_made_to_what_runs_leave_it_alone() {
    let team = Team::with_cluster(shared_operator().await).await;
    team.ready().await.unwrap_or_else(|e| panic!("{e:#}"));
    let running = workloads(&team).await;
    for (patch, message) in [
        (
            json!({"network": {"serviceCIDRs": ["10.113.0.0/16"]}}),
            "network is immutable, except nodeCIDRs: running Services and pods have addresses from it; create a new Cluster",
        ),
        (
            json!({"etcd": {"storage": {"className": "fast"}}}),
            "storage.className is immutable: volumes of running members cannot be replaced; create a new cluster",
        ),
    ] {
        let said = team.spec(patch.clone()).await.expect_err("immutable").to_string();
        assert!(said.contains(message), "{patch}: {said}");
    }
    for (patch, back, reason, message) in [
        (
            json!({"version": "1.35.8"}),
            json!({"version": "1.36.3"}),
            "DowngradeUnsafe",
            "spec.version: 1.35.8 is older than 1.36, which this tenant has served: etcd may hold data that only 1.36 can read. Set a patch version of 1.36",
        ),
        (
            json!({"version": "1.33.0"}),
            json!({"version": "1.36.3"}),
            "VersionUnsupported",
            "Set a patch version of 1.34, 1.35, 1.36",
        ),
        (
            json!({"etcd": {"version": "3.6.15"}}),
            json!({"etcd": {"version": null}}),
            "DowngradeUnsafe",
            "spec.version (spec.etcd.version of its Cluster): etcd does not go back from 3.6.16 to 3.6.15, which may not read its data. Set it back to 3.6.16",
        ),
        (
            json!({"apiServer": {"extraArgs": [{"name": "secure-port", "value": "1"}]}}),
            json!({"apiServer": {"extraArgs": []}}),
            "InvalidSpec",
            "--secure-port is managed by Berth; use spec.endpoint.port",
        ),
    ] {
        team.spec(patch.clone()).await.expect("the schema takes it");
        let said = team.says(ConditionType::Ready, reason).await;
        assert!(said.contains(message), "{patch}\nexpected: {message}\nsaid: {said}");
        let available = team.condition(ConditionType::Available).await.expect("condition");
        assert_eq!(available.status, "True", "{patch}: it serves on: {}", available.message);
        team.reconciled(&SHARED_CALLS).await;
        assert_eq!(workloads(&team).await, running, "{patch}");
        team.spec(back).await.expect("back");
        team.ready().await.unwrap_or_else(|e| panic!("{patch} and back: {e:#}"));
        assert_eq!(workloads(&team).await, running, "{patch} and back");
    }
    // The EtcdCluster itself, by somebody who goes round Berth.
    let etcds = team.inside::<berth_api::EtcdCluster>();
    let patch = Patch::Merge(json!({"spec": {"version": "3.6.1"}}));
    etcds.patch("etcd", &PatchParams::default(), &patch).await.expect("patch");
    team.reconciled(&SHARED_CALLS).await;
    assert_eq!(workloads(&team).await, running);
}

#[tokio::test]
async fn what_the_platform_team_does_not_allow_is_refused_and_what_runs_goes_on() {
    let team = Team::with_cluster(shared_operator().await).await;
    team.ready().await.unwrap_or_else(|e| panic!("{e:#}"));
    let running = workloads(&team).await;
    let placement = |part: Value| json!({"scheduler": {"placement": part}});
    for (patch, back, field, value) in [
        (
            json!({"endpoint": {"service": {"annotations": {"example.com/a": "b"}}}}),
            json!({"endpoint": {"service": null}}),
            "spec.endpoint.service.annotations: example.com/a",
            "service.annotations",
        ),
        (
            json!({"endpoint": {"type": "LoadBalancer", "service": {"loadBalancerClass": "fast"}}}),
            json!({"endpoint": {"type": "ClusterIP", "service": null}}),
            "spec.endpoint.service.loadBalancerClass: fast",
            "service.loadBalancerClasses",
        ),
        (
            json!({"endpoint": {"type": "NodePort", "host": "192.0.2.7", "nodePort": 30443}}),
            json!({"endpoint": {"type": "ClusterIP", "host": null, "nodePort": null}}),
            "spec.endpoint.nodePort: 30443",
            "service.nodePorts",
        ),
        (
            placement(json!({"nodeSelector": {"pool": "masters"}})),
            json!({"scheduler": {"placement": null}}),
            "spec.scheduler.placement.nodeSelector: pool=masters",
            "placement.nodeSelectors",
        ),
        (
            placement(json!({"tolerations": [{"operator": "Exists"}]})),
            json!({"scheduler": {"placement": null}}),
            "spec.scheduler.placement.tolerations: *",
            "placement.tolerations",
        ),
        (
            placement(json!({"priorityClassName": "system-node-critical"})),
            json!({"scheduler": {"placement": null}}),
            "spec.scheduler.placement.priorityClassName: system-node-critical",
            "placement.priorityClasses",
        ),
        (
            json!({"images": {"registry": "evil.example.com"}}),
            json!({"images": null}),
            "spec.images.registry: evil.example.com",
            "images.registries",
        ),
        (
            json!({"images": {"pullSecrets": ["acme-ca"]}}),
            json!({"images": null}),
            "spec.images.pullSecrets: acme-ca",
            "images.pullSecrets",
        ),
    ] {
        team.spec(patch.clone()).await.expect("the schema takes it");
        let said = team.says_of(ConditionType::Ready, "NotAllowed", field).await;
        let way_out = format!("ask the platform team to add it to writers.{value} in the values of Berth's chart");
        assert!(said.contains(&way_out), "{patch}: {said}");
        team.reconciled(&SHARED_CALLS).await;
        assert_eq!(workloads(&team).await, running, "{patch}");
        team.spec(back).await.expect("back");
        team.ready().await.unwrap_or_else(|e| panic!("{patch} and back: {e:#}"));
        assert_eq!(workloads(&team).await, running, "{patch} and back");
    }
}
