//! Command line.

use crate::delivery::Delivery;
use anyhow::Context as _;
use berth_pki::Lifetime;
use berth_plan::Settings;
use berth_plan::settings::{Backups, Config};
use clap::Parser;
use jiff::SignedDuration;

/// Hosts Kubernetes control planes.
#[derive(Clone, Debug, Parser)]
#[command(name = "berth-operator", version)]
pub struct Args {
    /// Image of Berth's agent for new tenants.
    #[arg(long, env = "BERTH_AGENT_IMAGE")]
    pub agent_image: String,
    /// How the agent gets into the pods of new tenants. `Auto`: as an image volume if all nodes support that.
    #[arg(long, env = "BERTH_AGENT_DELIVERY", default_value = "Auto", ignore_case = true)]
    pub agent_delivery: Delivery,
    /// Image of `berth-backup`, for Jobs that take backups.
    #[arg(long, env = "BERTH_BACKUP_IMAGE", default_value = "")]
    pub backup_image: String,
    /// Registry with upstream's images under upstream's names. Empty: registry.k8s.io.
    #[arg(long, env = "BERTH_IMAGE_REGISTRY", default_value = "")]
    pub image_registry: String,
    /// Namespace of the operator's Lease and ServiceAccount.
    #[arg(long, env = "POD_NAMESPACE", default_value = "berth-system")]
    pub namespace: String,
    /// ServiceAccount of the operator, bound to its role in each control-plane namespace. Empty: no RoleBinding is created.
    #[arg(long, env = "BERTH_SERVICE_ACCOUNT", default_value = "")]
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
    /// Configuration file, as the chart writes it from its values `meta`, `isolation`, `writers`, `vpc`, `backups` and `rollouts`. Default: none.
    #[arg(long, env = "BERTH_CONFIG")]
    pub config: Option<std::path::PathBuf>,
    /// Lifetime of leaf certificates, in minutes. They are renewed at two thirds of it.
    #[arg(long, env = "BERTH_LEAF_LIFETIME_MINUTES", default_value_t = 90 * 24 * 60)]
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
        Ok(config)
    }

    /// What plans depend on.
    pub fn settings(&self, config: &Config) -> Settings {
        let account = self.service_account.clone();
        Settings {
            registry: self.image_registry.clone(),
            agent_image: self.agent_image.clone(),
            service_account: (!account.is_empty()).then(|| (self.namespace.clone(), account)),
            backups: Backups {
                image: self.backup_image.clone(),
                namespace: self.namespace.clone(),
                ..config.backups.clone()
            },
            recoveries_per_hour: config.recoveries_per_hour,
            rollouts: config.rollouts,
            isolation: config.isolation(),
            writers: config.writers.clone(),
            vpc: config.vpc,
            leaf_lifetime: Lifetime::leaf(SignedDuration::from_mins(self.leaf_lifetime_minutes)),
            ..Settings::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert!(read("meta: {podCIDRs: [ten]}").unwrap_err().contains("ten is neither"));
    }
}
