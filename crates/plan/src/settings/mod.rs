//! What the operator is configured with; the same for all tenants.

mod access;
mod apps;
mod backups;
mod chart;
mod config;
pub mod flags;
mod gateway;
mod helpers;
mod hibernation;
pub(crate) mod may_change;
mod registration;
mod rollouts;

pub use access::Access;
pub use apps::{Apps, port_of_source};
pub use backups::{BackupStore, Backups, DefaultBackups, host, port};
pub use config::Config;
pub use flags::Flags;
pub use gateway::{Engine, Gateway, Parent};
pub use helpers::HelperDefaults;
pub use hibernation::Hibernation;
pub use may_change::MayChange;
pub use registration::ArgoCd;
pub use rollouts::Rollouts;

use crate::meta_cluster::addresses::direct;
use berth_api::common::AgentDelivery;
use berth_api::etcd_bootstrap::vpc::Rules;
use berth_api::proxy::Proxy;
use berth_render::images::Layout;
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use jiff::SignedDuration;
use serde::Deserialize;
use serde_json::{Value, json};

/// Default of [`Settings::recoveries_per_hour`].
pub(crate) const RECOVERIES: usize = 3;

/// Configuration that plans depend on.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Registry (and path) that holds upstream's images under upstream's names. Default: empty, upstream's own.
    pub registry: String,
    /// Where it has those images.
    pub image_layout: Layout,
    /// Secrets of the operator's namespace, by name, with which pods of all tenants pull their images. Default: none.
    pub pull_secrets: Vec<String>,
    /// By which API servers and Jobs reach the outside, where the spec says nothing. Default: by none.
    pub proxy: Option<Proxy>,
    /// Issuers whose tokens API servers of all tenants take, beside those of the spec. Default: none.
    pub jwt: Vec<Value>,
    /// What API servers of new releases reach without it, beside what is the tenant's own. Default: what this build knows.
    pub direct: Vec<String>,
    /// Image of Berth's agent that new tenants are pinned to.
    pub agent_image: String,
    /// How the agent gets into the pods of new tenants. Default: by an init container.
    pub agent_delivery: AgentDelivery,
    /// Service account of the operator, as (namespace, name). It is bound to the namespace role in every control-plane
    /// namespace. None: the operator runs with rights of its own (outside of the meta cluster).
    pub service_account: Option<(String, String)>,
    /// What installs apps in tenants, and where their charts come from.
    pub apps: Apps,
    /// Where backups go, and what takes them.
    pub backups: Backups,
    /// Etcds that are restored by themselves within an hour, of all tenants. Default 3.
    pub recoveries_per_hour: usize,
    /// How many tenants change their version at once, and when that stops.
    pub rollouts: Rollouts,
    /// How many tenants connections wake.
    pub hibernation: Hibernation,
    /// What keeps tenants apart from each other and from the meta cluster.
    pub isolation: Isolation,
    /// What writers of a `Cluster` may ask for.
    pub writers: Writers,
    /// How tenants' VPCs are kept apart from the meta cluster.
    pub vpc: VpcSettings,
    /// The gateway for tenants with `endpoint.type: Gateway`. Default: there is none.
    pub gateway: Option<Gateway>,
    /// One login for all tenants. Default: there is none.
    pub access: Option<Access>,
    /// The Argo CD that knows tenants by itself. Default: there is none.
    pub argo_cd: Option<ArgoCd>,
    /// Image of the add-on apiProxy for tenants that turn it on, or change their version. Default: the one that is published with this build.
    pub api_proxy_image: String,
    /// What admission of the meta cluster may change of what Berth applies. Default: nothing.
    pub may_change: MayChange,
    /// The meta cluster makes nodes for pods that find none. Default: it has those that are there.
    pub nodes_are_added: bool,
    /// What containers beside the components get where the spec says nothing. Default: nothing.
    pub helpers: HelperDefaults,
    /// Life of leaf certificates. Default 90 days.
    pub leaf_lifetime: SignedDuration,
}

/// What writers of a `Cluster`, who are not trusted with the meta cluster, may ask for. Each list holds names; `*` at the end of one
/// stands for any rest. Default: nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Writers {
    /// Annotations on the Service of the API, as `key` or `key=value`.
    pub service_annotations: Vec<String>,
    /// Load-balancer classes.
    pub load_balancer_classes: Vec<String>,
    /// Ports of the meta cluster's nodes, as `30443` or `30440-30459`.
    pub node_ports: Vec<String>,
    /// Names of tenants behind the platform's gateway, beside those that they have by themselves. `*.` at the beginning of one stands for all
    /// below it.
    pub hosts: Vec<String>,
    /// Labels of nodes, as `key` or `key=value`.
    pub node_selectors: Vec<String>,
    /// Keys of taints.
    pub tolerations: Vec<String>,
    /// PriorityClasses.
    pub priority_classes: Vec<String>,
    /// StorageClasses of etcd's volumes, where one is asked for by name.
    pub storage_classes: Vec<String>,
    /// Registries of images, with their paths.
    pub image_registries: Vec<String>,
    /// Secrets for pulling images.
    pub pull_secrets: Vec<String>,
    /// How much they may ask for.
    pub limits: Limits,
    /// Networks in which a tenant's nodes may be (`spec.network.nodeCIDRs`). No names, but ranges.
    pub networks: Vec<IpNet>,
    /// Annotations and labels of API servers' pods in a VPC, as `key=value`, the value as the spec has it.
    pub vpc: Vec<String>,
    /// Whether volumes and keys may be kept when a `Cluster` is deleted (`spec.deletion.dataPolicy: Retain`). Default: they may.
    pub retain: Retain,
    /// Which roles teams may give in tenants by a `ClusterAccess`.
    pub access: Vec<AllowedAccess>,
}

/// Roles that may be given in tenants by a `ClusterAccess` of certain namespaces.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct AllowedAccess {
    /// Namespaces of teams.
    pub namespaces: Vec<String>,
    /// Values of `spec.role`.
    pub roles: Vec<String>,
}

/// How tenants' VPCs are kept apart from the meta cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VpcSettings {
    /// What the container `vpc` holds. Default: all that leaves the pod.
    pub rules: Rules,
    /// Whether admission policies hold pods where Pod Security does not. Default: none does, and no tenant gets a VPC.
    pub pods_are_held: bool,
}

/// Whether `spec.deletion.dataPolicy: Retain` is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum Retain {
    /// It is.
    #[default]
    Allowed,
    /// It is not: nothing is left that no quota counts.
    Refused,
}

/// How much writers of a `Cluster` may ask for. None: as much as the schema allows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Replicas of each component, and members of etcd.
    pub replicas: Option<i32>,
    /// Requests and limits of one container: CPU.
    pub cpu: Option<String>,
    /// Requests and limits of one container: memory.
    pub memory: Option<String>,
    /// Size of one volume of etcd.
    pub storage: Option<String>,
}

impl Writers {
    /// Everything may be asked for.
    pub fn anything() -> Self {
        let all = || vec!["*".to_owned()];
        Self {
            service_annotations: all(),
            load_balancer_classes: all(),
            node_ports: all(),
            hosts: all(),
            node_selectors: all(),
            tolerations: all(),
            priority_classes: all(),
            storage_classes: all(),
            image_registries: all(),
            pull_secrets: all(),
            limits: Limits::default(),
            networks: vec![Ipv4Net::default().into(), Ipv6Net::default().into()],
            vpc: all(),
            retain: Retain::Allowed,
            access: vec![AllowedAccess { namespaces: all(), roles: all() }],
        }
    }
}

/// What NetworkPolicies are made from. Peers and rules are in the shape of `networking.k8s.io/v1`.
#[derive(Clone, Debug)]
pub struct Isolation {
    /// Where the meta cluster's DNS is.
    pub dns: Vec<Value>,
    /// Who may read metrics. Default: nobody.
    pub monitoring: Vec<Value>,
    /// What a tenant's API server may reach in addition.
    pub api_server_egress: Vec<Value>,
    /// Private networks that API servers of all tenants may reach.
    pub private_networks: Vec<IpNet>,
    /// Whether tenants from before private networks were closed still reach all of them. Default: they do.
    pub older_tenants: OlderTenants,
}

/// What tenants may reach that were created before private networks were closed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum OlderTenants {
    /// All private networks but the meta cluster's, as before.
    #[default]
    Open,
    /// As new tenants.
    Closed,
}

impl Default for Isolation {
    fn default() -> Self {
        let dns = json!({
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}},
            "podSelector": {"matchLabels": {"k8s-app": "kube-dns"}},
        });
        Self {
            dns: vec![dns],
            monitoring: vec![],
            api_server_egress: vec![],
            private_networks: vec![],
            older_tenants: OlderTenants::default(),
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            registry: String::new(),
            image_layout: Layout::default(),
            pull_secrets: vec![],
            proxy: None,
            jwt: vec![],
            direct: direct(),
            agent_image: flags::AGENT_IMAGE.default.into(),
            agent_delivery: AgentDelivery::default(),
            service_account: None,
            apps: Apps::default(),
            backups: Backups::default(),
            recoveries_per_hour: RECOVERIES,
            rollouts: Rollouts::default(),
            hibernation: Hibernation::default(),
            isolation: Isolation::default(),
            writers: Writers::default(),
            vpc: VpcSettings::default(),
            gateway: None,
            access: None,
            argo_cd: None,
            api_proxy_image: config::api_proxy_image(),
            may_change: MayChange::default(),
            nodes_are_added: false,
            helpers: HelperDefaults::default(),
            leaf_lifetime: berth_pki::LEAF_LIFETIME,
        }
    }
}
