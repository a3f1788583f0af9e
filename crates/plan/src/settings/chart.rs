//! From what the chart gives the operator to what plans depend on: for the operator and the command line. No field has a default here, so
//! what is new in one of these types does not compile until it is taken into account.

use super::{Apps, Backups, Config, Flags, Settings};
use crate::meta_cluster::addresses::direct;
use berth_api::common::AgentDelivery;
use jiff::SignedDuration;

impl Settings {
    /// From the operator's flags and its configuration file. `agent_delivery`: what its flag says, or what follows from the nodes.
    pub fn from_chart(flags: Flags, agent_delivery: AgentDelivery, config: Config) -> Self {
        let isolation = config.isolation();
        let Flags {
            agent_image,
            agent_delivery: _,
            backup_image,
            image_registry,
            namespace,
            service_account,
            leaf_lifetime_minutes,
        } = flags;
        let Config {
            // For what is observed of the meta cluster.
            given: _,
            writers,
            vpc,
            gateway,
            access,
            argo_cd,
            api_proxy_image,
            apps,
            backups,
            rollouts,
            hibernation,
            may_change,
            nodes_are_added,
            helpers,
            // For who reads the file.
            unknown: _,
            recoveries_per_hour,
            image_layout,
            pull_secrets,
            proxy,
            jwt,
            // In `isolation`.
            private_networks: _,
            policies: _,
        } = config;
        let Apps { image, peers: registries, namespace: _, sources } = apps;
        let apps = Apps { image, peers: registries, namespace: namespace.clone(), sources };
        // The file says neither of the two.
        let Backups { image: _, namespace: _, stores, peers, concurrent, endpoints, default } = backups;
        Self {
            registry: image_registry,
            image_layout,
            pull_secrets,
            proxy,
            jwt,
            direct: direct(),
            agent_image,
            agent_delivery,
            service_account: (!service_account.is_empty()).then(|| (namespace.clone(), service_account)),
            apps,
            backups: Backups { image: backup_image, namespace, stores, peers, concurrent, endpoints, default },
            recoveries_per_hour,
            rollouts,
            hibernation,
            isolation,
            writers,
            vpc,
            gateway,
            access,
            argo_cd,
            api_proxy_image,
            may_change,
            nodes_are_added,
            helpers,
            leaf_lifetime: SignedDuration::from_mins(leaf_lifetime_minutes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::OlderTenants;
    use berth_render::images::Layout;
    use serde_json::json;

    fn said() -> Flags {
        Flags::read(|flag| (flag.name != "leaf-lifetime-minutes").then(|| flag.name.to_owned())).0
    }

    #[test]
    fn each_flag_and_each_part_of_the_file_arrives() {
        let file = json!({
            "meta": {"podCIDRs": ["10.1.0.0/16"], "autoscaling": true},
            "isolation": {"monitoring": [{}], "privateNetworks": {"allowed": ["10.20.0.0/16"], "olderTenants": "Closed"}},
            "writers": {"vpc": ["a=b"], "backups": {"endpoints": ["https://s3.team"]}, "apps": {"sources": ["oci://reg/*"]}},
            "vpc": {"rules": "Interface"},
            "gateway": {
                "domain": "api.example.com", "port": 443, "engines": ["GatewayAPI"], "parents": [{"namespace": "edge", "name": "tls"}],
            },
            "access": {"namespace": "berth-access"},
            "registration": {"argoCD": {"namespace": "argocd", "projects": {"team-a": "team-a"}}},
            "apiProxy": {"image": "registry/api-proxy:1"},
            "apps": {"image": "registry/apps:1", "peers": [{}]},
            "admissionPolicies": {"enabled": true},
            "backups": {
                "stores": [{"name": "main", "endpoint": "https://s3", "bucket": "b", "secretName": "s"}],
                "peers": [{}], "concurrent": 7, "default": {"store": "main", "schedule": "0 3 * * *"},
            },
            "recovery": {"maxPerHour": 8},
            "rollouts": {"maxConcurrent": 9},
            "hibernation": {"maxWaking": 10, "perTenantPerHour": 11},
            "admission": {"mayChange": [{"kinds": ["Job"], "paths": ["/spec/template/spec/tolerations"]}]},
            "tenants": {"pullSecrets": ["reg"], "proxy": {"https": "http://proxy:3128", "noProxy": [".example.com"]}},
            "authentication": {"jwt": [{"issuer": {"url": "https://login.example.com"}}]},
            "imageLayout": "Upstream",
            "helpers": {"resources": {"limits": {"cpu": "1"}}},
        });
        let config = Config::parse(&file.to_string()).unwrap();
        let flags = Flags { leaf_lifetime_minutes: 60, ..said() };
        let Settings {
            registry,
            image_layout,
            pull_secrets,
            proxy,
            jwt,
            // Of the build.
            direct: _,
            agent_image,
            agent_delivery,
            service_account,
            apps,
            backups,
            recoveries_per_hour,
            rollouts,
            hibernation,
            isolation,
            writers,
            vpc,
            gateway,
            access,
            argo_cd,
            api_proxy_image,
            may_change,
            nodes_are_added,
            helpers,
            leaf_lifetime,
        } = Settings::from_chart(flags, AgentDelivery::ImageVolume, config.clone());
        assert_eq!((&*registry, &*agent_image), ("image-registry", "agent-image"));
        assert_eq!((image_layout, &*pull_secrets), (Layout::Upstream, &["reg".to_owned()][..]));
        assert_eq!(proxy.and_then(|proxy| proxy.https).as_deref(), Some("http://proxy:3128"));
        assert_eq!(jwt, [json!({"issuer": {"url": "https://login.example.com"}})]);
        assert_eq!(agent_delivery, AgentDelivery::ImageVolume);
        assert_eq!(service_account, Some(("namespace".into(), "service-account".into())));
        assert_eq!((&*backups.image, &*backups.namespace), ("backup-image", "namespace"));
        assert_eq!((&*apps.image, &*apps.namespace, apps.peers.len()), ("registry/apps:1", "namespace", 1));
        assert_eq!(apps.sources, ["oci://reg/*"]);
        let of_file = |backups: &Backups| Backups { image: String::new(), namespace: String::new(), ..backups.clone() };
        assert_eq!(of_file(&backups), config.backups);
        assert!(backups.default.is_some() && backups.endpoints.len() == 1 && backups.peers.len() == 1);
        assert_eq!((backups.concurrent, recoveries_per_hour, rollouts.max_concurrent), (7, 8, 9));
        assert_eq!((hibernation.max_waking, hibernation.per_tenant_per_hour), (10, 11));
        assert_eq!((isolation.monitoring.len(), isolation.private_networks.len()), (1, 1));
        assert_eq!(isolation.older_tenants, OlderTenants::Closed);
        assert_eq!((writers, vpc), (config.writers, config.vpc));
        assert!(gateway.as_ref().is_some_and(|gateway| gateway.parents.len() == 1) && gateway == config.gateway);
        assert!(access.is_some() && access == config.access);
        assert!(argo_cd.is_some() && argo_cd == config.argo_cd);
        assert_eq!(api_proxy_image, "registry/api-proxy:1");
        assert_eq!(may_change, config.may_change);
        assert_ne!(may_change, super::super::MayChange::default());
        assert!(nodes_are_added && config.nodes_are_added);
        assert!(helpers.resources.is_some() && helpers == config.helpers);
        assert_eq!(leaf_lifetime, SignedDuration::from_hours(1));
    }

    #[test]
    fn without_flags_and_file_the_defaults_hold() {
        let made = Settings::from_chart(Flags::read(|_| None).0, AgentDelivery::default(), Config::default());
        let backups = Backups { namespace: "berth-system".into(), ..Backups::default() };
        let apps = Apps { namespace: "berth-system".into(), ..Apps::default() };
        assert_eq!(format!("{made:?}"), format!("{:?}", Settings { apps, backups, ..Settings::default() }));
    }
}
