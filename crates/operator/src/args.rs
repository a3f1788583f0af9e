//! Command line.

use anyhow::Context as _;
use berth_api::common::AgentDelivery;
use berth_plan::Settings;
use berth_plan::settings::Config;
use berth_plan::settings::flags::{self, Delivery, Flags};
use berth_plan_cluster::platform_issuers_refusal;
use clap::Parser;
use clap::builder::{PossibleValuesParser, TypedValueParser};

/// Hosts Kubernetes control planes.
#[derive(Clone, Debug, Parser)]
#[command(name = "berth-operator", version)]
pub struct Args {
    /// Image of Berth's agent for new tenants.
    #[arg(long = flags::AGENT_IMAGE.name, env = flags::AGENT_IMAGE.variable)]
    pub agent_image: String,
    /// How the agent gets into the pods of new tenants. `Auto`: as an image volume if all nodes support that.
    #[arg(
        long = flags::AGENT_DELIVERY.name, env = flags::AGENT_DELIVERY.variable, default_value = flags::AGENT_DELIVERY.default,
        ignore_case = true, value_parser = deliveries()
    )]
    pub agent_delivery: Delivery,
    /// Image of `berth-backup`, for Jobs that take backups.
    #[arg(
        long = flags::BACKUP_IMAGE.name, env = flags::BACKUP_IMAGE.variable, default_value = flags::BACKUP_IMAGE.default
    )]
    pub backup_image: String,
    /// Registry with upstream's images under upstream's names. Empty: registry.k8s.io.
    #[arg(
        long = flags::IMAGE_REGISTRY.name, env = flags::IMAGE_REGISTRY.variable, default_value = flags::IMAGE_REGISTRY.default
    )]
    pub image_registry: String,
    /// Namespace of the operator's Lease and ServiceAccount.
    #[arg(long = flags::NAMESPACE.name, env = flags::NAMESPACE.variable, default_value = flags::NAMESPACE.default)]
    pub namespace: String,
    /// ServiceAccount of the operator, bound to its role in each control-plane namespace. Empty: no RoleBinding is created.
    #[arg(
        long = flags::SERVICE_ACCOUNT.name, env = flags::SERVICE_ACCOUNT.variable, default_value = flags::SERVICE_ACCOUNT.default
    )]
    pub service_account: String,
    /// Identity of this process in leader election.
    #[arg(long, env = "POD_NAME", default_value_t = format!("berth-operator-{}", std::process::id()))]
    pub identity: String,
    /// Elect a leader by a Lease. Turn it off only where a single operator process runs.
    #[arg(long, env = "BERTH_LEADER_ELECT", default_value_t = true, action = clap::ArgAction::Set)]
    pub leader_elect: bool,
    /// Address that serves /healthz, /readyz and /metrics. Empty: none.
    #[arg(long, env = "BERTH_LISTEN", default_value = "0.0.0.0:8080")]
    pub listen: String,
    /// Maximum concurrent reconciles per controller.
    #[arg(long, env = "BERTH_CONCURRENCY", default_value_t = 32)]
    pub concurrency: u16,
    /// Configuration file, as the chart writes it from its values `meta`, `isolation`, `writers`, `vpc`, `gateway`, `admission`, `backups`, `authentication` and `rollouts`. Default: none.
    #[arg(long = flags::CONFIG.name, env = flags::CONFIG.variable)]
    pub config: Option<std::path::PathBuf>,
    /// Lifetime of leaf certificates, in minutes. They are renewed at two thirds of it.
    #[arg(
        long = flags::LEAF_LIFETIME.name, env = flags::LEAF_LIFETIME.variable, default_value = flags::LEAF_LIFETIME.default
    )]
    pub leaf_lifetime_minutes: i64,
    /// Log as JSON lines.
    #[arg(long, env = "BERTH_LOG_JSON", default_value_t = false, action = clap::ArgAction::Set)]
    pub log_json: bool,
}

impl Args {
    /// The configuration file; without one, its defaults.
    ///
    /// # Errors
    ///
    /// It cannot be read, is not valid, or has a field that this version does not know.
    pub fn configuration(&self) -> anyhow::Result<Config> {
        let Some(path) = &self.config else { return Ok(Config::default()) };
        let of = || format!("configuration {}", path.display());
        let config = Config::parse(&std::fs::read_to_string(path).with_context(of)?);
        let config = config.map_err(anyhow::Error::msg).with_context(of)?;
        anyhow::ensure!(
            config.unknown.is_empty(),
            "{}: this version does not know {}",
            of(),
            config.unknown.join(", ")
        );
        if let Some(why) = platform_issuers_refusal(&config.jwt) {
            anyhow::bail!("{}: {why}", of());
        }
        Ok(config)
    }

    /// What plans depend on. `delivery`: what became of the flag.
    pub fn settings(&self, config: &Config, delivery: AgentDelivery) -> Settings {
        Settings::from_chart(self.flags(), delivery, config.clone())
    }

    /// The flags on which plans depend.
    fn flags(&self) -> Flags {
        let args = self.clone();
        Flags {
            agent_image: args.agent_image,
            agent_delivery: args.agent_delivery,
            backup_image: args.backup_image,
            image_registry: args.image_registry,
            namespace: args.namespace,
            service_account: args.service_account,
            leaf_lifetime_minutes: args.leaf_lifetime_minutes,
        }
    }
}

/// Their names; clap refuses any other.
fn deliveries() -> impl TypedValueParser<Value = Delivery> {
    let names = PossibleValuesParser::new(Delivery::ALL.map(Delivery::as_str));
    names.map(|name| name.parse().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the command line reads in the operator's Deployment is what the operator takes.
    #[test]
    fn flags_are_as_whoever_reads_the_deployment_takes_them() {
        let parse = |more: &[&str]| Args::try_parse_from([&["operator"], more].concat());
        let none = parse(&["--agent-image", flags::AGENT_IMAGE.default]).unwrap();
        assert_eq!(none.flags(), Flags::read(|_| None).0);
        assert_eq!(none.config, None);
        let value = |flag: flags::Flag| match flag {
            flags::AGENT_DELIVERY => "initcontainer".to_owned(),
            flags::LEAF_LIFETIME => "60".to_owned(),
            flag => format!("a-{}", flag.name),
        };
        let said = flags::ALL.map(|flag| format!("--{}={}", flag.name, value(flag)));
        let args = parse(&said.each_ref().map(String::as_str)).unwrap();
        assert_eq!((args.flags(), vec![]), Flags::read(|flag| Some(value(flag))));
        assert_eq!(args.config, Some("a-config".into()));
        assert!(parse(&["--agent-image=a", "--agent-delivery=Never"]).is_err());
    }

    #[test]
    fn a_configuration_that_is_not_understood_is_refused() {
        let read = |text: &str| {
            let file = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(file.path(), text).unwrap();
            let path = file.path().display().to_string();
            let args = Args::parse_from(["operator", "--agent-image", "a", "--config", &path]);
            args.configuration().map_err(|e| format!("{e:#}"))
        };
        assert!(read("meta: {podCIDRs: [10.0.0.0/8]}").is_ok());
        assert!(read("meta: {podcidrs: []}").unwrap_err().contains("does not know meta.podcidrs"));
        let issuer = "authentication: {jwt: [{issuer: {url: 'http://a.example.com', audiences: [a]}, claimMappings: {username: {claim: sub, prefix: 'corp:'}}}]}";
        assert!(read(&issuer.replace("http:", "https:")).is_ok());
        assert!(
            read(issuer)
                .unwrap_err()
                .ends_with(": authentication.jwt[0].issuer.url: has to be a URL that begins with https://")
        );
        assert!(read("meta: {podCIDRs: [ten]}").unwrap_err().contains("ten is neither"));
    }
}
