//! The operator's configuration file: what is too much for flags. The chart makes it from its values.

use super::backups::{AllowedBackups, Backups};
use super::rollouts::{AllowedRollouts, Rollouts};
use super::{Isolation, Limits, OlderTenants, RECOVERIES, Retain, VpcSettings, Writers};
use crate::meta_cluster::addresses::{MetaRanges, network};
use berth_api::quantity;
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
    /// Where backups go. The image, and the namespace of the stores' Secrets, are not in the file.
    pub backups: Backups,
    /// How the tenants of the fleet change their version.
    pub rollouts: Rollouts,
    /// Fields of the file, as paths, that this version does not know. The operator refuses them; a tool of another version may pass
    /// over them.
    pub unknown: Vec<String>,
    /// Etcds that are restored by themselves within an hour.
    pub recoveries_per_hour: usize,
    pub(super) private_networks: Vec<IpNet>,
    pub(super) policies: Policies,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            given: MetaRanges::default(),
            writers: Writers::default(),
            vpc: VpcSettings::default(),
            backups: Backups::default(),
            rollouts: Rollouts::default(),
            unknown: vec![],
            recoveries_per_hour: RECOVERIES,
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
            let note = |path: serde_ignored::Path<'_>| unknown.push(path.to_string());
            serde_ignored::deserialize::<_, _, File>(&value, note).map_err(|e| e.to_string())?;
        }
        let File { meta, isolation, writers, vpc, admission_policies, backups, recovery, rollouts } = file;
        let Allowed { service, placement, storage, images, networks, vpc: vpc_pods, limits, retain, backups: own } =
            writers;
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
            },
            vpc: VpcSettings { rules: vpc.rules.into(), pods_are_held: admission_policies.enabled },
            backups: backups.read(&own.endpoints)?,
            recoveries_per_hour: recovery.max_per_hour.unwrap_or(RECOVERIES),
            rollouts: rollouts.read()?,
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
    #[serde(rename = "admissionPolicies")]
    admission_policies: AdmissionPolicies,
    backups: AllowedBackups,
    recovery: Recovery,
    rollouts: AllowedRollouts,
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
    placement: AllowedPlacement,
    storage: AllowedStorage,
    images: AllowedImages,
    networks: Vec<String>,
    vpc: Vec<String>,
    limits: AllowedAmounts,
    retain: Retain,
    backups: AllowedStores,
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
        assert!(wrong("vpc: {rules: Some}").contains("unknown variant"));
        assert!(Config::parse("").is_ok_and(|c| c.unknown.is_empty()));
    }
}
