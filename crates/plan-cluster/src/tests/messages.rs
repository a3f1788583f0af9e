//! Situations of a `Cluster` for docs/reference/messages.md. Each begins with a tenant at rest, unless it says otherwise.

mod additions;
mod addons;
mod admission;
mod apps;
mod by_itself;
mod gateway;
mod kubelet;
mod leads;
mod may_change;
mod minor;
mod nodes;
mod pods;
mod preflight;
mod registration;
mod revision;
mod sizes;
mod sleep;
mod turn;
mod vpc;

use super::*;
use berth_api::labels;
use berth_plan::failure::Failure;
use berth_plan::meta_cluster::addresses::{MetaRanges, network};
use berth_testkit::situations::Situation;
use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

const VERSION: &str = "1.36.2";

/// A situation: what happened, and how.
type Case = (&'static str, fn(&mut Fixture));

impl Fixture {
    pub(super) fn copy(&self) -> Self {
        let Self { world, cluster, settings } = self;
        Self { world: world.clone(), cluster: cluster.clone(), settings: settings.clone() }
    }

    pub(super) fn live(&mut self, kind: Kind, name: &str) -> &mut Value {
        self.world.observed.objects.get_mut(&Self::key(kind, name)).unwrap()
    }

    pub(super) fn home_object(&mut self) -> &mut Value {
        self.world.observed.objects.get_mut(&Self::namespace()).unwrap()
    }

    /// What a reconcile cannot change: nothing is carried out.
    fn hold(&mut self) {
        self.cluster.spec.paused = true;
    }

    /// A pod of a component says that, and its Deployment has none that serves.
    fn pod_says(&mut self, component: &str, status: Value) {
        self.live(Kind::Deployment, component)["status"]["availableReplicas"] = json!(0);
        let pod = Self::key(Kind::Pod, &format!("{component}-7d9f8-x2x4z"));
        let labels = json!({(labels::COMPONENT): component});
        self.world.put(pod.clone(), json!({"metadata": {"name": pod.name, "labels": labels}}));
        self.world.pod_status(&pod, status);
    }

    fn empty(&mut self, secret: &str) {
        self.world.observed.secrets.insert(Self::key(Kind::Secret, secret), std::sync::Arc::default());
    }

    fn etcd_says(&mut self, status: Value) {
        self.live(Kind::EtcdCluster, names::ETCD)["status"] = status;
    }

    /// A condition of its etcd, in place of the one that is there.
    fn etcd_condition(&mut self, type_: &str, status: &str, reason: &str, message: &str) {
        let all = &mut self.live(Kind::EtcdCluster, names::ETCD)["status"]["conditions"];
        let all = all.as_array_mut().unwrap();
        all.retain(|c| c["type"] != type_);
        all.push(json!({"type": type_, "status": status, "reason": reason, "message": message, "lastTransitionTime": "2026-01-01T00:00:00Z"}));
    }

    fn nodes_in(&mut self, cidr: &str, allowed: &[&str]) {
        self.settings.writers.networks = allowed.iter().map(|net| network(net).unwrap()).collect();
        self.cluster.spec.network.node_cidrs = vec![cidr.into()];
    }

    fn fails(&mut self, reason: Reason, message: &str, in_tenant: bool) {
        let planned = self.plan();
        let input = Input {
            object: &self.cluster,
            observed: &self.world.observed,
            settings: &self.settings,
            now: self.world.now,
        };
        let failure = Failure { reason, message: message.to_owned(), in_tenant };
        self.cluster.status = Some(status(input, &planned, Some(&failure)));
    }

    fn unserved(&mut self, status: Value) {
        let waiting = json!([{"name": "kube-apiserver", "image": "registry.k8s.io/kube-apiserver:v1.36.2", "state": {"waiting": status}}]);
        self.pod_says(names::APISERVER, json!({"containerStatuses": waiting}));
    }

    fn network(&mut self, network: Value) {
        self.cluster.spec.network = serde_json::from_value(network).unwrap();
    }
}

/// Before anything was made.
const NEW: &[Case] = &[
    ("a new Cluster that is paused: nothing exists yet", Fixture::hold),
    ("a new Cluster, before etcd's controller has seen its EtcdCluster", |_| {}),
    ("spec.version of a minor that this operator does not have", |f| f.cluster.spec.version = "1.29.1".into()),
    ("a network that is none", |f| f.network(json!({"serviceCIDRs": ["10.112.0.0"]}))),
    ("a network with host bits", |f| f.network(json!({"serviceCIDRs": ["10.112.0.1/16"]}))),
    ("a Service network that is too large", |f| f.network(json!({"serviceCIDRs": ["10.0.0.0/8"]}))),
    ("a pod network that is too small", |f| f.network(json!({"podCIDRs": ["10.160.0.0/26"]}))),
    ("a pod network of loopback addresses", |f| f.network(json!({"podCIDRs": ["127.0.0.0/8"]}))),
    ("a Service network of a family that pods do not have", |f| {
        f.network(json!({"serviceCIDRs": ["fd00:112::/112"]}));
    }),
    ("spec.etcd.storage.size that is too small", |f| f.cluster.spec.etcd.storage.size = "512Mi".into()),
    ("networks that overlap", |f| f.network(json!({"podCIDRs": ["10.112.0.0/16"]}))),
    ("a network that overlaps the meta cluster's", |f| {
        let pods = vec![network("10.160.0.0/12").unwrap()];
        f.meta().addresses = Ok(MetaRanges { pods, ..MetaRanges::default() });
    }),
    ("the meta cluster does not tell its addresses", |f| {
        f.meta().addresses = Err("no node has a spec.podCIDR; set meta.podCIDRs in the chart's values".into());
    }),
    ("somebody else's namespace has the control plane's name", |f| {
        f.world.put(Fixture::namespace(), json!({"metadata": {"name": Fixture::cp_namespace()}}));
    }),
    ("a load balancer that gives no address", |f| {
        f.cluster.spec.endpoint.type_ = berth_api::cluster::EndpointType::LoadBalancer;
    }),
    ("spec.etcd.version that does not fit the Kubernetes version", |f| {
        f.cluster.spec.etcd.version = Some("2.3.8".into());
    }),
    ("spec.etcd.storage.className that the chart does not allow", |f| {
        f.cluster.spec.etcd.storage.class_name = Some("fast".into());
    }),
];

const OF_A_TENANT: &[Case] = &[
    ("at rest", |_| {}),
    // The spec.
    ("an older minor", |f| f.cluster.spec.version = "1.35.4".into()),
    ("an extra flag that Berth owns", |f| {
        f.cluster.spec.api_server.extra_args =
            vec![serde_json::from_value(json!({"name": "etcd-servers", "value": "x"})).unwrap()];
    }),
    ("an extra flag that names a file", |f| {
        f.cluster.spec.api_server.extra_args =
            vec![serde_json::from_value(json!({"name": "tracing-config-file", "value": "/etc/x"})).unwrap()];
    }),
    ("a JWT authenticator with which kube-apiserver would not start", |f| {
        let mut jwt = super::configuration::jwt("dex.example.com");
        jwt[0]["issuer"]["url"] = "http://dex.example.com".into();
        f.cluster.spec.api_server.authentication.jwt = jwt;
    }),
    ("a configuration of an admission plugin with which kube-apiserver would not start", |f| {
        let configuration = json!({"apiVersion": "pod-security.admission.config.k8s.io/v1", "kind": "PodSecurityConfiguration",
            "defaults": {"enforce": "strict"}});
        let all = json!({"configuration": [{"name": "PodSecurity", "configuration": configuration}]});
        f.cluster.spec.api_server.admission = serde_json::from_value(all).unwrap();
    }),
    ("a default of PodSecurity that would refuse kube-proxy", |f| {
        let configuration = json!({"apiVersion": "pod-security.admission.config.k8s.io/v1", "kind": "PodSecurityConfiguration",
            "defaults": {"enforce": "restricted"}});
        let all = json!({"configuration": [{"name": "PodSecurity", "configuration": configuration}]});
        f.cluster.spec.api_server.admission = serde_json::from_value(all).unwrap();
    }),
    ("spec.apiServer.trustedCA with a certificate that is cut off", |f| {
        f.cluster.spec.api_server.trusted_ca = Some("-----BEGIN CERTIFICATE-----\nMIIB".into());
    }),
    ("an election timeout that etcd would refuse", |f| f.cluster.spec.etcd.heartbeat_interval = Some("1s".into())),
    ("a JWT authenticator with an issuer that signed tokens of service accounts", issuers::refused_authenticator),
    ("with those that signed before, more issuers of service accounts than may be", issuers::too_many),
    ("an image in spec.images.overrides of another version", |f| addons::old_image(f, "kube-scheduler")),
    ("the image of etcd in spec.images.overrides is of another version", |f| addons::old_image(f, names::ETCD)),
    ("an image in spec.images.overrides that the chart does not allow", |f| {
        f.cluster.spec.images.overrides = [("kube-scheduler".into(), "mirror.example.com/scheduler".into())].into();
    }),
    ("a request that is more than its limit", |f| {
        let resources = json!({"requests": {"cpu": "2"}, "limits": {"cpu": "1"}});
        f.cluster.spec.api_server.resources = serde_json::from_value(resources).unwrap();
    }),
    ("a node selector that the chart does not allow", |f| {
        f.cluster.spec.scheduler.placement.node_selector.insert("disk".into(), "ssd".into());
    }),
    ("another version of etcd", |f| f.cluster.spec.etcd.version = Some("3.6.15".into())),
    ("spec.endpoint.host of the local machine", |f| f.cluster.spec.endpoint.host = Some("localhost".into())),
    ("spec.endpoint.host is a loopback address", |f| f.cluster.spec.endpoint.host = Some("127.0.0.1".into())),
    ("spec.endpoint.host is a short form of an address", |f| f.cluster.spec.endpoint.host = Some("127.1".into())),
    ("spec.endpoint.host is a multicast address", |f| f.cluster.spec.endpoint.host = Some("224.0.0.1".into())),
    ("spec.endpoint.host is a metadata address", |f| f.cluster.spec.endpoint.host = Some("169.254.169.254".into())),
    ("spec.endpoint.host is an address of the meta cluster", |f| {
        let api_servers = vec![network("10.200.0.1").unwrap()];
        f.meta().addresses = Ok(MetaRanges { api_servers, ..MetaRanges::default() });
        f.cluster.spec.endpoint.host = Some("10.200.0.1".into());
    }),
    ("its etcd is being restored", |f| f.etcd_restores("Restore")),
    // The namespace.
    ("the control-plane namespace is gone", |f| {
        f.world.observed = berth_plan::Observed {
            published: f.world.observed.published.clone(),
            look: f.world.observed.look.clone(),
            ..Default::default()
        };
    }),
    ("the control-plane namespace was restored", |f| f.home_object()["metadata"]["uid"] = "restored".into()),
    ("somebody deletes the control-plane namespace", |f| {
        f.home_object()["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    }),
    ("a new Cluster, while the namespace of an earlier one of its name is being deleted", |f| {
        f.home_object()["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        f.cluster.metadata.uid = Some("new-uid".into());
        f.cluster.status = None;
    }),
    ("somebody deletes the namespace of a protected Cluster", |f| f.world.observed.team_namespace_ends = true),
    ("the Cluster's namespace was made again, perhaps for another team", |f| {
        f.cluster.metadata.uid = Some("another-uid".into());
        f.world.observed.team_uid = Some("another-team-uid".into());
    }),
    ("the Cluster was restored and has another UID", |f| {
        f.cluster.metadata.uid = Some("new-uid".into());
        f.cluster.status = None;
    }),
    ("a Cluster with other networks takes over a namespace that was kept", |f| {
        f.cluster.metadata.uid = Some("new-uid".into());
        f.cluster.status = None;
        f.network(json!({"dnsDomain": "acme.example"}));
    }),
    ("somebody changed the networks that the namespace records", |f| {
        let other = r#"{"serviceCIDRs":["10.50.0.0/16"],"podCIDRs":["10.160.0.0/16"],"dnsDomain":"cluster.local"}"#;
        f.home_object()["metadata"]["annotations"][labels::NETWORK] = other.into();
    }),
    ("somebody garbled the networks that the namespace records", |f| {
        f.home_object()["metadata"]["annotations"][labels::NETWORK] = "{}".into();
    }),
    ("the operator may not read the namespace", |f| {
        f.world.observed.objects.retain(|key, _| key.kind == Kind::Namespace);
        f.world.observed.secrets.clear();
        f.world.observed.api = ApiProbe::NotAsked;
        f.world.observed.denied = true;
    }),
    ("another operator version pinned the templates, and the ConfigMap is gone", |f| {
        f.home_object()["metadata"]["annotations"][labels::TEMPLATES] = "0123456789abcdef".into();
    }),
    ("the pinned templates have a format of a newer operator", |f| {
        f.home_object()["metadata"]["annotations"][labels::TEMPLATES] = "0123456789abcdef".into();
        let key = Fixture::key(Kind::ConfigMap, &names::templates("0123456789abcdef"));
        f.world.put(key.clone(), json!({"metadata": {"name": key.name}}));
    }),
    ("the NetworkPolicies are gone, and the meta cluster does not tell its addresses", |f| {
        f.world.observed.objects.retain(|key, _| key.kind != Kind::NetworkPolicy);
        f.meta().addresses = Err("no node has a spec.podCIDR; set meta.podCIDRs in the chart's values".into());
    }),
    // Keys and certificates.
    ("a CA's Secret is gone", |f| {
        f.world.remove(&Fixture::key(Kind::Secret, "acme-ca"));
        f.world.observed.api = ApiProbe::Unable(format!("Secret {}/acme-ca does not exist", Fixture::cp_namespace()));
    }),
    ("the encryption key's Secret is gone, and a new version waits for it", |f| {
        f.world.remove(&Fixture::key(Kind::Secret, names::APISERVER_ENCRYPTION));
        f.cluster.spec.version = "1.36.3".into();
    }),
    ("a CA's Secret has no key", |f| f.empty("acme-ca")),
    ("a CA's Secret is garbled", |f| {
        f.world.set_secret(
            &Fixture::key(Kind::Secret, "acme-ca"),
            "tls.crt",
            b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
        );
    }),
    ("the service-account key is gone from its Secret", |f| f.empty("acme-sa")),
    ("the encryption key is garbled", |f| {
        f.world.set_secret(&Fixture::key(Kind::Secret, names::APISERVER_ENCRYPTION), "encryption.yaml", b"{}");
    }),
    ("a CA has less than a quarter of its lifetime left", |f| f.world.now += SignedDuration::from_hours(24 * 365 * 8)),
    ("a CA has expired", |f| {
        f.world.now += SignedDuration::from_hours(24 * 365 * 11);
        f.hold();
    }),
    ("somebody else's Secret has the name of one of Berth's", |f| {
        let key = Fixture::key(Kind::Secret, names::SCHEDULER_PKI);
        f.world.remove(&key);
        f.world.put(key.clone(), json!({"metadata": {"name": key.name}}));
    }),
    ("somebody deletes a Secret that has a finalizer", |f| {
        f.live(Kind::Secret, names::SCHEDULER_PKI)["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    }),
    // etcd.
    ("etcd's controller has not reconciled the new spec", |f| {
        f.live(Kind::EtcdCluster, names::ETCD)["status"]["observedGeneration"] = json!(0);
    }),
    ("etcd's controller has published no conditions yet", |f| f.etcd_says(json!({"observedGeneration": -1}))),
    ("its etcd lost a CA", |f| {
        let said = "pki: Secret acme-9201d5e7/etcd-client-ca is gone, and Secret acme-9201d5e7/etcd-server depends on it. Restore it from a backup. Berth creates no new one: whatever trusts the old one would refuse it";
        f.etcd_condition("Ready", "False", "CertificateAuthorityLost", said);
    }),
    ("its etcd is being restored, and serves nobody", |f| {
        f.etcd_restores("Restore");
        f.etcd_condition(
            "Ready",
            "False",
            "Restoring",
            "waiting for the Job of the EtcdRestore to put the backup onto member etcd-0's volume",
        );
        let said = "etcd is being restored from a backup, and serves nobody meanwhile";
        f.etcd_condition("Available", "False", "Restoring", said);
        f.world.observed.api = ApiProbe::Failed("connection refused".into());
    }),
    // Private networks.
    ("more replicas than the platform team allows", |f| {
        f.settings.writers.limits.replicas = Some(2);
        f.cluster.spec.replicas = 3;
    }),
    ("nodeCIDRs that the platform team does not allow", |f| f.nodes_in("10.20.0.0/16", &[])),
    ("nodeCIDRs that are no network", |f| f.nodes_in("ten", &[])),
    ("nodeCIDRs within the meta cluster", |f| {
        f.meta().addresses = Ok(MetaRanges { pods: vec![network("10.1.0.0/16").unwrap()], ..MetaRanges::default() });
        f.nodes_in("10.1.2.0/24", &["10.0.0.0/8"]);
    }),
    ("nodeCIDRs where clouds serve credentials", |f| f.nodes_in("169.254.0.0/16", &["0.0.0.0/0"])),
    // The address.
    ("the Service has no address, and nothing was published yet", |f| {
        f.live(Kind::Service, names::APISERVER)["spec"]["clusterIP"] = Value::Null;
        for secret in [names::ADMIN_KUBECONFIG, names::BREAK_GLASS_KUBECONFIG, names::APISERVER_PKI] {
            f.world.remove(&Fixture::key(Kind::Secret, secret));
        }
        f.world.observed.api = ApiProbe::NotAsked;
    }),
    ("spec.endpoint.host is not in DNS", |f| {
        f.cluster.spec.endpoint.host = Some("api.example.com".into());
        f.world.observed.api =
            ApiProbe::Failed("dns error: failed to lookup address information: Name or service not known".into());
    }),
    ("spec.endpoint.host of a NodePort is not in DNS", |f| {
        f.cluster.spec.endpoint.type_ = berth_api::cluster::EndpointType::NodePort;
        f.cluster.spec.endpoint.host = Some("api.example.com".into());
        f.world.observed.api =
            ApiProbe::Failed("dns error: failed to lookup address information: Name or service not known".into());
    }),
    ("spec.endpoint.host is in DNS, and nothing answers there", |f| {
        f.cluster.spec.endpoint.host = Some("api.example.com".into());
        f.world.observed.api = ApiProbe::Failed("no answer within 5s".into());
    }),
    ("spec.endpoint.host resolves to an address that is no tenant's", |f| {
        f.cluster.spec.endpoint.host = Some("api.example.com".into());
        let key = Fixture::key(Kind::Pod, "kube-apiserver-7d9f8-x2x4z");
        let labels = json!({(labels::COMPONENT): names::APISERVER});
        f.world.put(key.clone(), json!({"metadata": {"name": key.name, "labels": labels}}));
        f.world.run_pod(&key);
        let input = Input { object: &f.cluster, observed: &f.world.observed, settings: &f.settings, now: f.world.now };
        let rules = crate::probe_request(input).and_then(|asked| asked.rules).expect("a name is asked");
        let why = rules.refusal("api.example.com", [169, 254, 169, 254].into()).expect("not a tenant's");
        f.world.observed.api = ApiProbe::Refused(why.into());
    }),
    ("the API has another address", |f| {
        f.cluster.spec.endpoint.host = Some("api.example.com".into());
        let pod = Fixture::key(Kind::Pod, "kube-apiserver-7d9f8-x2x4z");
        let labels = json!({(labels::COMPONENT): names::APISERVER});
        f.world.put(pod.clone(), json!({"metadata": {"name": pod.name, "labels": labels}}));
        f.world.run_pod(&pod);
    }),
    ("the API does not answer", |f| f.world.observed.api = ApiProbe::Failed("no answer within 5s".into())),
    ("the API has not answered for two minutes", |f| {
        f.world.observed.api = ApiProbe::Failed("no answer within 5s".into());
        f.reconcile();
        f.world.now += SignedDuration::from_mins(2);
    }),
    ("no kube-apiserver can be asked", |f| f.world.observed.api = ApiProbe::NotAsked),
    ("kube-apiserver runs, and the API has no address", |f| {
        let pod = Fixture::key(Kind::Pod, "kube-apiserver-7d9f8-x2x4z");
        let labels = json!({(labels::COMPONENT): names::APISERVER});
        f.world.put(pod.clone(), json!({"metadata": {"name": pod.name, "labels": labels}}));
        f.world.run_pod(&pod);
        f.world.observed.api = ApiProbe::NotAsked;
    }),
    ("somebody else's Secret has the kubeconfig's name", |f| {
        f.world.observed.published = Published::Foreign("it does not have Berth's labels".into());
    }),
    // The operator.
    ("the operator's clock is wrong", |f| f.meta().clock_ahead = SignedDuration::from_mins(15)),
    ("the operator's clock is very wrong", |f| f.meta().clock_ahead = SignedDuration::from_hours(-24 * 40)),
    ("the operator lacks a cluster-wide right", |f| {
        f.meta().denied = Some(r#"nodes is forbidden: User "system:serviceaccount:berth-system:berth-operator" cannot list resource "nodes" in API group """#.into());
    }),
    // The end.
    ("deletion of a protected Cluster", |f| f.cluster.metadata.deletion_timestamp = Some(Time(f.world.now))),
];

/// What is not reached by carrying a plan out to its end.
const AS_PLANNED: &[Case] = &[
    ("somebody added an owner reference, and Berth has not repaired it yet", |f| {
        f.live(Kind::Secret, names::SCHEDULER_PKI)["metadata"]["ownerReferences"] = json!([{"uid": "o"}]);
    }),
    ("a component's certificate is gone, and Berth has not repaired it yet", |f| {
        f.world.remove(&Fixture::key(Kind::Secret, names::SCHEDULER_PKI));
    }),
    ("the EtcdCluster is gone, and Berth has not repaired it yet", |f| {
        f.world.remove(&Fixture::key(Kind::EtcdCluster, names::ETCD));
    }),
    ("somebody deleted objects in the tenant, and Berth has not repaired it yet", |f| {
        let read = InsideTenant::listed(berth_render::STAMPS, []);
        f.world.observed.api = ApiProbe::Answered { version: None, read };
    }),
    ("the published kubeconfig is gone, and Berth has not repaired it yet", |f| {
        f.world.observed.published = Published::Absent;
    }),
    ("deletion: the kubeconfig goes, and the namespace", |f| {
        f.cluster.spec.deletion.protected = false;
        f.cluster.metadata.deletion_timestamp = Some(Time(f.world.now));
    }),
    ("deletion with dataPolicy Retain: pods are gone", |f| {
        f.cluster.spec.deletion.protected = false;
        f.cluster.spec.deletion.data_policy = berth_api::cluster::DataPolicy::Retain;
        f.cluster.metadata.deletion_timestamp = Some(Time(f.world.now));
        f.world.observed.published = Published::Absent;
        f.world.observed.objects.retain(|k, _| !matches!(k.kind, Kind::Deployment | Kind::EtcdCluster | Kind::Pod));
    }),
];

/// What the operator and kubeio say, copied: they are above this crate. A test holds the copies against their source.
const FAILURES: &[(&str, Reason, &str)] = &[
    (
        "a right of the operator is missing",
        Reason::PermissionDenied,
        "list pods in acme-9201d5e7: pods is forbidden: User \"system:serviceaccount:berth-system:berth-operator\" cannot list resource \"pods\" in API group \"\" in the namespace \"acme-9201d5e7\". Berth's chart grants it with the ClusterRoles berth-operator and, in control-plane namespaces, berth-control-plane-namespace: restore them with helm upgrade and the same values",
    ),
    (
        "an admission webhook or policy refuses an object",
        Reason::Rejected,
        "apply Deployment acme-9201d5e7/kube-scheduler: admission webhook \"policy.example.com\" denied the request: no Deployments on Sundays",
    ),
    (
        "a mutating webhook changes an object",
        Reason::Rejected,
        "apply Deployment acme-9201d5e7/kube-scheduler: a mutating webhook or policy changes what Berth writes: /spec/template/spec/containers/kube-scheduler/args differs. Berth needs /spec/template/spec/containers/kube-scheduler/args as asked for: exempt namespace acme-9201d5e7 from that",
    ),
    (
        "a mutating webhook changes a field that the chart can leave to it",
        Reason::Rejected,
        "apply Deployment acme-9201d5e7/kube-scheduler: a mutating webhook or policy changes what Berth writes: /spec/template/spec/containers/kube-scheduler/resources/requests/cpu: asked for 10m, became 250m. If the platform wants that, add to the chart's values: admission.mayChange: [{kinds: [Deployment], paths: [/spec/template/spec/containers/*/resources]}]",
    ),
    (
        "a webhook inside the tenant changes an object",
        Reason::Rejected,
        "apply ConfigMap kube-system/coredns: a mutating webhook or policy changes what Berth writes: /data/Corefile differs. Berth needs /data/Corefile as asked for: exempt ConfigMap kube-system/coredns from that webhook in the tenant",
    ),
    ("a call has no answer", Reason::Error, "apply Deployment acme-9201d5e7/kube-scheduler: no answer within 5s"),
    (
        "a newer operator wrote the object",
        Reason::InvalidSpec,
        "this operator cannot read the object: unknown variant `Magic`. Correct that field, or run an operator version that knows it; until then what runs stays as it is",
    ),
];

pub(crate) fn situations() -> Vec<Situation> {
    let of = |text, f: &Fixture| Situation::of("Cluster", text, &f.cluster);
    let (new, up) = (Fixture::new(json!({"version": VERSION})), Fixture::up(json!({"version": VERSION})));
    let mut all = vec![];
    let rest = OF_A_TENANT.iter().map(|case| (case, &up)).take(1);
    let of_a_tenant = OF_A_TENANT
        .iter()
        .skip(1)
        .chain(pods::PODS)
        .chain(additions::ADDITIONS)
        .chain(gateway::GATEWAY)
        .chain(may_change::DECLARED)
        .chain(addons::REFUSED)
        .chain(kubelet::REFUSED)
        .chain(nodes::NODES)
        .chain(leads::LEADS)
        .chain(admission::ADMISSION)
        .chain(apps::APPS)
        .map(|case| (case, &up));
    let cases = rest.chain(NEW.iter().map(|case| (case, &new))).chain(of_a_tenant);
    for ((text, happens), from) in cases {
        let mut f = from.copy();
        happens(&mut f);
        f.reconcile();
        all.push(of(text, &f));
    }
    for (text, happens) in AS_PLANNED.iter().chain(pods::DELETION).chain(additions::REMOVED).chain(addons::OFF) {
        let mut f = up.copy();
        happens(&mut f);
        let planned = f.plan();
        let input = Input { object: &f.cluster, observed: &f.world.observed, settings: &f.settings, now: f.world.now };
        f.cluster.status = Some(status(input, &planned, None));
        all.push(of(text, &f));
    }
    for (text, reason, message) in FAILURES {
        let mut f = up.copy();
        f.fails(*reason, message, false);
        all.push(of(text, &f).by_a_failed_call());
    }
    let mut f = up.copy();
    admission::failed(&mut f);
    all.push(of("a call in the tenant has no answer, and a webhook of the tenant's hangs", &f));
    for (text, f) in unread::situations()
        .into_iter()
        .chain(addons::of_pods())
        .chain(images::situations())
        .chain(vpc::situations())
        .chain(nodes::situations())
        .chain(vpc_image::situations())
        .chain(minor::situations())
        .chain(preflight::situations())
        .chain(super::audit::situations())
        .chain(pull_secrets::situations())
        .chain(revision::situations())
        .chain(turn::situations())
        .chain(sizes::situations())
        .chain(sleep::situations())
        .chain(by_itself::situations())
        .chain(update::situations())
        .chain(registration::situations())
        .chain(helpers::situations())
        .chain(proxy::situations())
        .chain(platform_issuers::situations())
    {
        all.push(of(text, &f));
    }
    all
}

#[test]
fn situations_are_written_down() {
    berth_testkit::situations::compare(&situations());
}
