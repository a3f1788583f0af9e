//! Values that tests render with: the smallest tenant, and one that uses everything.
#![allow(dead_code, reason = "each test file uses some of them")]

use std::collections::BTreeMap;

use berth_render::{
    Catalog, Component, Object, RenderError, image, render_apiserver, render_apiserver_service,
    render_controller_manager, render_etcd, render_etcd_services, render_scheduler,
    values::{
        AntiAffinity, ApiAccess, ApiServerSecrets, ApiServerServiceValues, ApiServerValues, ControllerManagerSecrets,
        ControllerManagerValues, EtcdAccess, EtcdSecrets, EtcdServicesValues, EtcdState, EtcdStorage, EtcdValues, ExtraArg,
        HostAlias, Meta, Placement, SchedulerSecrets, SchedulerValues, ServiceType, Workload,
    },
};
use k8s_openapi::{
    api::core::v1::{ResourceRequirements, Toleration, TopologySpreadConstraint},
    apimachinery::pkg::api::resource::Quantity,
};
use serde_json::json;

/// All values of one tenant.
pub struct Fixture {
    pub version: &'static str,
    pub etcd_version: &'static str,
    pub service: ApiServerServiceValues,
    pub apiserver: ApiServerValues,
    pub controller_manager: ControllerManagerValues,
    pub scheduler: SchedulerValues,
    pub etcd_services: EtcdServicesValues,
    pub etcd: EtcdValues,
}

const NAMESPACE: &str = "acme-3f9c2b7a";

fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn meta() -> Meta {
    Meta {
        namespace: NAMESPACE.to_owned(),
        labels: labels(&[("app.kubernetes.io/managed-by", "berth"), ("berth.dev/cluster-uid", "u-1")]),
        pod_labels: labels(&[("app.kubernetes.io/managed-by", "berth"), ("berth.dev/cluster-name", "acme")]),
        owner: None,
    }
}

fn workload(component: Component, version: &str) -> Workload {
    Workload {
        replicas: 1,
        version: version.to_owned(),
        image: image("", component, version),
        agent_image: "ghcr.io/berth-dev/berth-agent@sha256:00".to_owned(),
        run_as_user: 100_123,
        host_aliases: vec![HostAlias {
            ip: "10.96.0.20".to_owned(),
            hostnames: vec![format!("kube-apiserver.{NAMESPACE}.svc")],
        }],
        checksums: labels(&[("kube-apiserver-pki", "0011")]),
        ..Workload::default()
    }
}

/// One replica of everything, all defaults.
pub fn minimal(version: &'static str, etcd_version: &'static str) -> Fixture {
    let api = ApiAccess { server: format!("https://kube-apiserver.{NAMESPACE}.svc:6443") };
    let ca = "acme-ca".to_owned();
    let front_proxy_ca = "acme-proxy".to_owned();
    let service_account = "acme-sa".to_owned();
    Fixture {
        version,
        etcd_version,
        service: ApiServerServiceValues { meta: meta(), port: 6443, ..ApiServerServiceValues::default() },
        apiserver: ApiServerValues {
            meta: meta(),
            workload: workload(Component::ApiServer, version),
            slot: None,
            advertise_address: "10.96.0.20".to_owned(),
            service_cidrs: vec!["10.112.0.0/16".to_owned()],
            dns_domain: "cluster.local".to_owned(),
            etcd: EtcdAccess {
                endpoints: vec![format!("https://acme-0.{NAMESPACE}.svc:2379")],
                client_secret: "acme-client-kube-apiserver".to_owned(),
            },
            secrets: ApiServerSecrets {
                ca: ca.clone(),
                front_proxy_ca: front_proxy_ca.clone(),
                service_account: service_account.clone(),
                pki: "kube-apiserver-pki".to_owned(),
                encryption: "kube-apiserver-encryption".to_owned(),
            },
            service_account_issuers: vec!["https://kubernetes.default.svc.cluster.local".to_owned()],
            jwt: vec![],
        },
        controller_manager: ControllerManagerValues {
            meta: meta(),
            workload: workload(Component::ControllerManager, version),
            cluster_name: "acme".to_owned(),
            api: api.clone(),
            service_cidrs: vec!["10.112.0.0/16".to_owned()],
            pod_cidrs: vec!["10.160.0.0/16".to_owned()],
            secrets: ControllerManagerSecrets {
                ca: ca.clone(),
                front_proxy_ca: front_proxy_ca.clone(),
                service_account,
                pki: "kube-controller-manager-pki".to_owned(),
            },
        },
        scheduler: SchedulerValues {
            meta: meta(),
            workload: workload(Component::Scheduler, version),
            api,
            secrets: SchedulerSecrets { ca, front_proxy_ca, pki: "kube-scheduler-pki".to_owned() },
        },
        etcd_services: EtcdServicesValues { meta: meta(), name: "acme".to_owned(), members: vec!["acme-0".to_owned()] },
        etcd: EtcdValues {
            meta: meta(),
            workload: workload(Component::Etcd, etcd_version),
            name: "acme".to_owned(),
            cluster_uid: "6f1c".to_owned(),
            epoch: 1,
            state: EtcdState::Bootstrapping,
            members: vec!["acme-0".to_owned()],
            storage: EtcdStorage { class_name: None, size: "10Gi".to_owned() },
            quota_bytes: 2 << 30,
            secrets: EtcdSecrets { server: "acme-server".to_owned(), peer: "acme-peer".to_owned() },
        },
    }
}

/// Three replicas, dual stack, and every optional value set.
pub fn full(version: &'static str, etcd_version: &'static str) -> Fixture {
    let mut fixture = minimal(version, etcd_version);
    let placement = Placement {
        node_selector: labels(&[("pool", "control-planes")]),
        tolerations: vec![Toleration { key: Some("pool".to_owned()), operator: Some("Exists".to_owned()), ..Default::default() }],
        topology_spread: vec![TopologySpreadConstraint {
            max_skew: 1,
            topology_key: "topology.kubernetes.io/zone".to_owned(),
            when_unsatisfiable: "ScheduleAnyway".to_owned(),
            ..Default::default()
        }],
        priority_class_name: Some("system-cluster-critical".to_owned()),
        anti_affinity: AntiAffinity::Required,
    };
    let quantity = |name: &str, value: &str| [(name.to_owned(), Quantity(value.to_owned()))].into();
    for workload in [
        &mut fixture.apiserver.workload,
        &mut fixture.controller_manager.workload,
        &mut fixture.scheduler.workload,
        &mut fixture.etcd.workload,
    ] {
        workload.replicas = 3;
        workload.placement = placement.clone();
        workload.image_pull_secrets = vec!["mirror".to_owned()];
        workload.pod_annotations = labels(&[("example.com/a", "b")]);
        workload.resources = Some(ResourceRequirements {
            requests: Some(quantity("cpu", "500m")),
            limits: Some(quantity("memory", "2Gi")),
            claims: None,
        });
    }
    fixture.apiserver.workload.extra_args = vec![ExtraArg { name: "v".to_owned(), value: "2".to_owned() }];
    fixture.apiserver.slot = Some(1);
    fixture.apiserver.service_cidrs.push("fd00:112::/108".to_owned());
    fixture.apiserver.service_account_issuers.push("https://old.example.com".to_owned());
    fixture.apiserver.jwt = vec![json!({
        "issuer": {"url": "https://login.example.com", "audiences": ["acme"]},
        "claimMappings": {"username": {"claim": "sub", "prefix": "oidc:"}},
    })];
    fixture.controller_manager.service_cidrs.push("fd00:112::/108".to_owned());
    fixture.controller_manager.pod_cidrs.push("fd00:160::/56".to_owned());
    let members: Vec<String> = (0..3).map(|index| format!("acme-{index}")).collect();
    fixture.apiserver.etcd.endpoints = members.iter().map(|m| format!("https://{m}.{NAMESPACE}.svc:2379")).collect();
    fixture.etcd_services.members.clone_from(&members);
    fixture.etcd.members = members;
    fixture.etcd.state = EtcdState::Established;
    fixture.etcd.storage.class_name = Some("fast".to_owned());
    fixture.service = ApiServerServiceValues {
        service_type: ServiceType::LoadBalancer,
        annotations: labels(&[("example.com/lb", "internal")]),
        load_balancer_class: Some("example.com/lb".to_owned()),
        load_balancer_source_ranges: vec!["192.0.2.0/24".to_owned()],
        node_port: Some(30443),
        ..fixture.service
    };
    fixture
}

impl Fixture {
    /// Renders one component.
    pub fn component(&self, component: Component) -> Result<Vec<Object>, RenderError> {
        let catalog = Catalog::builtin();
        let kubernetes = catalog.kubernetes(self.version).expect("a minor of the catalog");
        let etcd = catalog.etcd(self.etcd_version).expect("a minor of the catalog");
        match component {
            Component::ApiServer => render_apiserver(kubernetes, &self.apiserver),
            Component::ControllerManager => render_controller_manager(kubernetes, &self.controller_manager),
            Component::Scheduler => render_scheduler(kubernetes, &self.scheduler),
            Component::Etcd => render_etcd(etcd, &self.etcd),
        }
    }

    /// Renders everything, in apply order within each component.
    pub fn all(&self) -> Vec<Object> {
        let catalog = Catalog::builtin();
        let kubernetes = catalog.kubernetes(self.version).expect("a minor of the catalog");
        let etcd = catalog.etcd(self.etcd_version).expect("a minor of the catalog");
        let mut objects = render_apiserver_service(kubernetes, &self.service).expect("renders");
        objects.extend(render_etcd_services(etcd, &self.etcd_services).expect("renders"));
        for component in [Component::Etcd, Component::ApiServer, Component::ControllerManager, Component::Scheduler] {
            objects.extend(self.component(component).expect("renders"));
        }
        objects
    }
}

/// The command line and environment of a component's main container.
pub fn args(objects: &[Object]) -> Vec<String> {
    let workload = objects.iter().find(|object| object.key().kind.has_pods()).expect("a workload");
    let args = workload.get("/spec/template/spec/containers/0/args").and_then(|args| args.as_array()).expect("args");
    args.iter().map(|arg| arg.as_str().expect("a string").to_owned()).collect()
}
