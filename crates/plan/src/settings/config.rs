//! The operator's configuration file: what is too much for flags. The chart makes it from its values.

use super::access::{self, Access};
use super::apps::{self, AllowedApps, Apps};
use super::backups::{AllowedBackups, Backups};
use super::gateway::{self, Gateway};
use super::helpers::{self, HelperDefaults};
use super::hibernation::Hibernation;
use super::may_change::{Admission, MayChange};
use super::registration::{self, ArgoCd};
use super::rollouts::{AllowedRollouts, Rollouts};
use super::{AllowedAccess, Isolation, Limits, OlderTenants, RECOVERIES, Retain, VpcSettings, Writers};
use crate::meta_cluster::addresses::{MetaRanges, network};
use crate::meta_cluster::pull_secrets;
use berth_api::proxy::Proxy;
use berth_api::quantity;
use berth_render::images::{Layout, OWN_REGISTRY};
use ipnet::IpNet;
use serde::Deserialize;
use serde_json::Value;

/// The file, read.
#[derive(Clone, Debug)]
pub struct Config {
    /// Address ranges of the meta cluster, as far as they are given. An empty list is filled from what the meta cluster says of itself.
    pub given: MetaRanges,
    /// What writers of a `Cluster` may ask for.
    pub writers: Writers,
    /// How tenants' VPCs are kept apart from the meta cluster.
    pub vpc: VpcSettings,
    /// The gateway for tenants that are found by name.
    pub gateway: Option<Gateway>,
    /// One login for all tenants.
    pub access: Option<Access>,
    /// The Argo CD that knows tenants by itself.
    pub argo_cd: Option<ArgoCd>,
    /// Image of the add-on apiProxy for tenants that turn it on. Default: the one that is published with this version.
    pub api_proxy_image: String,
    /// What installs apps. The operator's namespace is not in the file.
    pub apps: Apps,
    /// Where backups go. The image, and the namespace of the stores' Secrets, are not in the file.
    pub backups: Backups,
    /// How the tenants of the fleet change their version.
    pub rollouts: Rollouts,
    /// How many tenants connections wake.
    pub hibernation: Hibernation,
    /// What admission of the meta cluster may change of what Berth applies.
    pub may_change: MayChange,
    /// The meta cluster makes nodes for pods that find none.
    pub nodes_are_added: bool,
    /// What containers beside the components get.
    pub helpers: HelperDefaults,
    /// Fields of the file, as paths, that this version does not know. The operator refuses them; a tool of another version may pass
    /// over them.
    pub unknown: Vec<String>,
    /// Etcds that are restored by themselves within an hour.
    pub recoveries_per_hour: usize,
    /// Where the registry, which is not in the file, has upstream's images.
    pub image_layout: Layout,
    /// Secrets of the operator's namespace with which tenants' pods pull images.
    pub pull_secrets: Vec<String>,
    /// By which API servers and Jobs reach the outside.
    pub proxy: Option<Proxy>,
    /// Issuers of all tenants. Whether kube-apiserver takes them is for whoever reads the file: `berth_plan_cluster::platform_issuers_refusal`.
    pub jwt: Vec<Value>,
    pub(super) private_networks: Vec<IpNet>,
    pub(super) policies: Policies,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            given: MetaRanges::default(),
            writers: Writers::default(),
            vpc: VpcSettings::default(),
            gateway: None,
            access: None,
            argo_cd: None,
            api_proxy_image: api_proxy_image(),
            apps: Apps::default(),
            backups: Backups::default(),
            rollouts: Rollouts::default(),
            hibernation: Hibernation::default(),
            may_change: MayChange::default(),
            nodes_are_added: false,
            helpers: HelperDefaults::default(),
            unknown: vec![],
            recoveries_per_hour: RECOVERIES,
            image_layout: Layout::default(),
            pull_secrets: vec![],
            proxy: None,
            jwt: vec![],
            private_networks: vec![],
            policies: Policies::default(),
        }
    }
}

impl Config {
    /// Reads YAML or JSON.
    ///
    /// # Errors
    ///
    /// What is wrong, with its line or its field.
    pub fn parse(text: &str) -> Result<Self, String> {
        let file: File = serde_saphyr::from_str(text).map_err(|e| e.to_string())?;
        let value: Value = serde_saphyr::from_str(text).map_err(|e| e.to_string())?;
        let mut unknown = vec![];
        if !value.is_null() {
            // `?` is how a path goes through what may be missing.
            let note = |path: serde_ignored::Path<'_>| unknown.push(path.to_string().replace(".?", ""));
            serde_ignored::deserialize::<_, _, File>(&value, note).map_err(|e| e.to_string())?;
        }
        let File {
            meta,
            isolation,
            writers,
            vpc,
            gateway,
            access,
            api_proxy,
            apps,
            admission_policies,
            admission,
            backups,
            recovery,
            rollouts,
            hibernation,
            registration,
            tenants,
            authentication,
            image_layout,
            helpers,
        } = file;
        let Allowed {
            service,
            hosts,
            placement,
            storage,
            images,
            networks,
            vpc: vpc_pods,
            limits,
            retain,
            backups: own,
            access: allowed_access,
            apps: sources,
        } = writers;
        let (pull_secrets, proxy) = tenants.read()?;
        let nets = |field: &str, all: &[String]| {
            let one =
                |text: &String| network(text).ok_or(format!("{field}: {text} is neither a CIDR nor an IP address"));
            all.iter().map(one).collect::<Result<Vec<_>, _>>()
        };
        Ok(Self {
            given: MetaRanges {
                pods: nets("meta.podCIDRs", &meta.pods)?,
                services: nets("meta.serviceCIDRs", &meta.services)?,
                nodes: nets("meta.nodeCIDRs", &meta.nodes)?,
                api_servers: nets("meta.apiServerIPs", &meta.api_servers)?,
            },
            writers: Writers {
                service_annotations: service.annotations,
                load_balancer_classes: service.load_balancer_classes,
                node_ports: service.node_ports,
                hosts: gateway::hosts(hosts)?,
                node_selectors: placement.node_selectors,
                tolerations: placement.tolerations,
                priority_classes: placement.priority_classes,
                storage_classes: storage.classes,
                image_registries: images.registries,
                pull_secrets: images.pull_secrets,
                limits: limits.read()?,
                networks: nets("writers.networks", &networks)?,
                vpc: vpc_pods,
                retain,
                access: allowed_access,
            },
            vpc: VpcSettings { rules: vpc.rules.into(), pods_are_held: admission_policies.enabled },
            gateway: gateway.map(gateway::OfFile::read).transpose()?,
            access: access.map(access::OfFile::read).transpose()?,
            argo_cd: registration.unwrap_or_default().read()?,
            api_proxy_image: Some(api_proxy.image).filter(|image| !image.is_empty()).unwrap_or_else(api_proxy_image),
            apps: apps.read(sources)?,
            backups: backups.read(&own.endpoints)?,
            recoveries_per_hour: recovery.max_per_hour.unwrap_or(RECOVERIES),
            image_layout,
            pull_secrets,
            proxy,
            jwt: authentication.jwt.into_iter().map(Value::Object).collect(),
            rollouts: rollouts.read()?,
            hibernation,
            may_change: admission.read()?,
            nodes_are_added: meta.autoscaling,
            helpers: helpers.read()?,
            private_networks: nets("isolation.privateNetworks.allowed", &isolation.private_networks.allowed)?,
            unknown,
            policies: isolation,
        })
    }

    /// Defaults, and writers may ask for everything: for when nobody says what they may.
    pub fn anything() -> Self {
        let vpc = VpcSettings { pods_are_held: true, ..VpcSettings::default() };
        Self { writers: Writers::anything(), vpc, ..Self::default() }
    }

    /// What NetworkPolicies are made from.
    pub fn isolation(&self) -> Isolation {
        let Self { private_networks, policies, .. } = self.clone();
        // Those that are allowed are read already.
        let Policies { dns, monitoring, api_server_egress, private_networks: of_file } = policies;
        let PrivateNetworks { allowed: _, older_tenants } = of_file;
        Isolation {
            dns: dns.unwrap_or_else(|| Isolation::default().dns),
            monitoring,
            api_server_egress,
            private_networks,
            older_tenants,
        }
    }
}

/// The file, as it is written.
#[derive(Default, Deserialize)]
#[serde(default)]
struct File {
    meta: Meta,
    isolation: Policies,
    writers: Allowed,
    vpc: OfVpc,
    gateway: Option<gateway::OfFile>,
    access: Option<access::OfFile>,
    #[serde(rename = "apiProxy")]
    api_proxy: OfApiProxy,
    apps: apps::OfFile,
    #[serde(rename = "admissionPolicies")]
    admission_policies: AdmissionPolicies,
    admission: Admission,
    backups: AllowedBackups,
    recovery: Recovery,
    rollouts: AllowedRollouts,
    hibernation: Hibernation,
    registration: Option<registration::OfFile>,
    tenants: Tenants,
    authentication: Authentication,
    #[serde(rename = "imageLayout")]
    image_layout: Layout,
    helpers: helpers::OfFile,
}

/// The add-on apiProxy.
#[derive(Default, Deserialize)]
#[serde(default)]
struct OfApiProxy {
    image: String,
}

/// The image of the add-on apiProxy that goes with this build.
pub(super) fn api_proxy_image() -> String {
    format!("{OWN_REGISTRY}/api-proxy:{}", env!("CARGO_PKG_VERSION"))
}

/// What all tenants have.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Tenants {
    pull_secrets: Vec<String>,
    proxy: OfProxy,
}

/// What API servers of all tenants take beside certificates and tokens of their own.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Authentication {
    jwt: Vec<serde_json::Map<String, Value>>,
}

/// As `spec.proxy`, but that a field which is not known is noted as such.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct OfProxy {
    http: String,
    https: String,
    no_proxy: Vec<String>,
}

impl OfProxy {
    fn read(self) -> Result<Option<Proxy>, String> {
        let given = |url: String| (!url.is_empty()).then_some(url);
        let proxy = Proxy { http: given(self.http), https: given(self.https), no_proxy: self.no_proxy };
        match proxy.problem() {
            Some((field, why)) => Err(format!("tenants.proxy.{field}: {why}")),
            None => Ok(Some(proxy).filter(|proxy| !proxy.is_none())),
        }
    }
}

impl Tenants {
    fn read(self) -> Result<(Vec<String>, Option<Proxy>), String> {
        let field = "tenants.pullSecrets";
        for (at, name) in self.pull_secrets.iter().enumerate() {
            if !pull_secrets::may_be_named(name) {
                return Err(format!(
                    "{field}: {name} is no name of a Secret with at most {} characters",
                    pull_secrets::LONGEST
                ));
            }
            if pull_secrets::is_reserved(name) {
                return Err(format!(
                    "{field}: {name} is the name of a Secret that Berth makes for each tenant. Give yours another name"
                ));
            }
            if self.pull_secrets[..at].contains(name) {
                return Err(format!("{field}: {name} is named twice in this list"));
            }
        }
        Ok((self.pull_secrets, self.proxy.read()?))
    }
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Recovery {
    max_per_hour: Option<usize>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct OfVpc {
    rules: Rules,
}

/// A word that is not known is refused here: the agent takes it for the first.
#[derive(Clone, Copy, Default, Deserialize)]
enum Rules {
    #[default]
    All,
    Interface,
}

impl From<Rules> for berth_api::etcd_bootstrap::vpc::Rules {
    fn from(rules: Rules) -> Self {
        match rules {
            Rules::All => Self::All,
            Rules::Interface => Self::Interface,
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct AdmissionPolicies {
    enabled: bool,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Meta {
    #[serde(rename = "podCIDRs")]
    pods: Vec<String>,
    #[serde(rename = "serviceCIDRs")]
    services: Vec<String>,
    #[serde(rename = "nodeCIDRs")]
    nodes: Vec<String>,
    #[serde(rename = "apiServerIPs")]
    api_servers: Vec<String>,
    autoscaling: bool,
}

/// Peers and rules in the shape of `networking.k8s.io/v1`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Policies {
    dns: Option<Vec<Value>>,
    monitoring: Vec<Value>,
    api_server_egress: Vec<Value>,
    private_networks: PrivateNetworks,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PrivateNetworks {
    allowed: Vec<String>,
    older_tenants: OlderTenants,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Allowed {
    service: AllowedService,
    hosts: Vec<String>,
    placement: AllowedPlacement,
    storage: AllowedStorage,
    images: AllowedImages,
    networks: Vec<String>,
    vpc: Vec<String>,
    limits: AllowedAmounts,
    retain: Retain,
    backups: AllowedStores,
    access: Vec<AllowedAccess>,
    apps: AllowedApps,
}

/// Teams' own stores.
#[derive(Default, Deserialize)]
#[serde(default)]
struct AllowedStores {
    endpoints: Vec<String>,
}

/// Quantities may be written as numbers.
#[derive(Default, Deserialize)]
#[serde(default)]
struct AllowedAmounts {
    replicas: Option<i32>,
    cpu: Option<Value>,
    memory: Option<Value>,
    storage: Option<Value>,
}

impl AllowedAmounts {
    fn read(self) -> Result<Limits, String> {
        let one = |field: &str, value: Option<Value>| {
            let text = value.map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned));
            match text {
                Some(text) if !quantity::is_one(&text) => {
                    Err(format!("writers.limits.{field}: {text} is not a quantity of Kubernetes, such as 500m or 4Gi"))
                }
                text => Ok(text),
            }
        };
        let Self { replicas, cpu, memory, storage } = self;
        Ok(Limits {
            replicas,
            cpu: one("cpu", cpu)?,
            memory: one("memory", memory)?,
            storage: one("storage", storage)?,
        })
    }
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct AllowedService {
    annotations: Vec<String>,
    load_balancer_classes: Vec<String>,
    node_ports: Vec<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct AllowedPlacement {
    node_selectors: Vec<String>,
    tolerations: Vec<String>,
    priority_classes: Vec<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct AllowedStorage {
    classes: Vec<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct AllowedImages {
    registries: Vec<String>,
    pull_secrets: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_and_what_is_not_known_is_named() {
        let config =
            Config::parse("meta: {podCIDRs: [10.0.0.0/8]}\nisolation: {monitoring: [{podSelector: {}}]}").unwrap();
        assert_eq!(config.given.pods, [network("10.0.0.0/8").unwrap()]);
        let isolation = config.isolation();
        assert_eq!((isolation.monitoring.len(), isolation.dns.len()), (1, 1));
        assert!(config.unknown.is_empty());

        let text = r#"{"meta": {"podcidrs": []}, "writers": {"service": {"loadBalancerClasses": ["x"], "new": 1}},
            "isolation": {"apiServerEgress": [], "dns": null}, "later": {}}"#;
        let config = Config::parse(text).unwrap();
        assert_eq!(config.writers.load_balancer_classes, ["x"]);
        assert_eq!(config.writers.retain, Retain::Allowed);
        assert!(!config.vpc.pods_are_held, "nothing says that it is so");
        let vpc = Config::parse("vpc: {rules: Interface}\nadmissionPolicies: {enabled: true}").unwrap().vpc;
        assert_eq!(vpc, VpcSettings { rules: berth_api::etcd_bootstrap::vpc::Rules::Interface, pods_are_held: true });
        assert_eq!(Config::parse("writers: {retain: Refused}").unwrap().writers.retain, Retain::Refused);
        assert_eq!(config.unknown, ["later", "meta.podcidrs", "writers.service.new"]);
    }

    #[test]
    fn a_wrong_file_says_where() {
        let wrong = |text: &str| Config::parse(text).unwrap_err();
        assert!(wrong("meta: {podCIDRs: [ten]}").contains("meta.podCIDRs: ten is neither"));
        assert!(
            wrong("isolation:\n  monitoring: all").contains("line 2"),
            "{}",
            wrong("isolation:\n  monitoring: all")
        );
        assert!(wrong("writers: {limits: {memory: 4GB}}").contains("writers.limits.memory: 4GB is not a quantity"));
        assert!(wrong("imageLayout: Nested").contains("unknown variant"));
        assert!(wrong("tenants: {pullSecrets: [Reg]}").contains("tenants.pullSecrets: Reg is no name"));
        assert!(
            wrong("tenants: {pullSecrets: [reg, reg]}")
                .contains("tenants.pullSecrets: reg is named twice in this list")
        );
        for name in ["kube-apiserver-encryption", "etcd-peer-ca"] {
            let said = wrong(&format!("tenants: {{pullSecrets: [reg, {name}]}}"));
            assert!(
                said.contains(&format!("tenants.pullSecrets: {name} is the name of a Secret that Berth makes")),
                "{said}"
            );
        }
        for (proxy, says) in [
            ("{https: proxy}", "tenants.proxy.https: must be http:// or https://"),
            ("{http: 'http://a:b@proxy'}", "tenants.proxy.http: a user or password in the URL"),
            ("{noProxy: [a]}", "tenants.proxy.noProxy: it counts beside"),
            ("{https: 'http://proxy', noProxy: ['*']}", r#"tenants.proxy.noProxy: "*": must be a host"#),
        ] {
            let said = wrong(&format!("tenants: {{proxy: {proxy}}}"));
            assert!(said.starts_with(says), "{said}");
        }
        for none in ["{}", "{http: '', https: '', noProxy: []}"] {
            assert_eq!(Config::parse(&format!("tenants: {{proxy: {none}}}")).unwrap().proxy, None);
        }
        assert_eq!(Config::parse("tenants: {proxy: {httpsProxy: a}}").unwrap().unknown, ["tenants.proxy.httpsProxy"]);
        assert!(
            wrong("authentication: {jwt: [a]}").contains("expected mapping"),
            "{}",
            wrong("authentication: {jwt: [a]}")
        );
        assert_eq!(Config::parse("authentication: {jwks: []}").unwrap().unknown, ["authentication.jwks"]);
        assert!(wrong("vpc: {rules: Some}").contains("unknown variant"));
        assert!(Config::parse("").is_ok_and(|c| c.unknown.is_empty()));
    }
}
