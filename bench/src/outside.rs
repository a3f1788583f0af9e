//! The operator as a process of this machine, with the rights, policies and configuration that the chart gives it: for a meta cluster without
//! nodes, where no pod runs.

use crate::operator;
use crate::process::{self, Usage};
use anyhow::Context as _;
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::{ConfigMap, ServiceAccount};
use kube::api::PostParams;
use kube::config::Kubeconfig;
use kube::{Api, Client};
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

/// Where the operator's metrics are.
pub(crate) const PORT: u16 = 18080;

/// The agent's image.
pub(crate) const AGENT: &str = "ghcr.io/berth-dev/agent:bench";

/// The operator's process; it ends with this.
pub(crate) struct Operator(Child);

impl Drop for Operator {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Operator {
    pub(crate) fn usage(&self) -> anyhow::Result<Usage> {
        process::usage(self.0.id()).context("the operator has ended; see its log")
    }
}

/// What the operator reads, and where it logs.
pub(crate) struct Outside {
    kubeconfig: PathBuf,
    config: PathBuf,
    log: PathBuf,
    program: PathBuf,
    /// Variables of its environment, beside those that the chart sets.
    pub(crate) env: Vec<(&'static str, PathBuf)>,
}

impl Outside {
    /// With the configuration of the chart, which has to be installed. `kubeconfig`: of an admin.
    pub(crate) async fn write(
        client: &Client,
        kubeconfig: &Path,
        program: &Path,
        dir: PathBuf,
    ) -> anyhow::Result<Self> {
        let file = |name: &str| dir.join(name);
        let outside = Self {
            kubeconfig: file("operator.kubeconfig"),
            config: file("operator.yaml"),
            log: file("operator.log"),
            program: program.to_owned(),
            env: vec![],
        };
        std::fs::create_dir_all(&dir)?;
        let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), operator::SYSTEM);
        let request: TokenRequest =
            serde_json::from_value(json!({"spec": {"audiences": [], "expirationSeconds": 43_200}}))?;
        let answer = accounts.create_token_request("berth-operator", &PostParams::default(), &request).await?;
        let token = answer.status.context("no token")?.token;
        let mut kubeconfig = serde_json::to_value(Kubeconfig::read_from(kubeconfig)?)?;
        for user in kubeconfig["users"].as_array_mut().into_iter().flatten() {
            user["user"] = json!({"token": token});
        }
        std::fs::write(&outside.kubeconfig, kubeconfig.to_string())?;
        std::fs::set_permissions(&outside.kubeconfig, std::fs::Permissions::from_mode(0o600))?;
        let maps: Api<ConfigMap> = Api::namespaced(client.clone(), operator::SYSTEM);
        let config = maps.get("berth-operator").await?.data.unwrap_or_default();
        std::fs::write(&outside.config, config.get("config.yaml").context("no config.yaml")?)?;
        Ok(outside)
    }

    /// Changes the configuration.
    pub(crate) fn configure(&self, change: impl FnOnce(&mut Value)) -> anyhow::Result<()> {
        // The chart writes it as JSON.
        let mut config = serde_json::from_str(&std::fs::read_to_string(&self.config)?)?;
        change(&mut config);
        Ok(std::fs::write(&self.config, config.to_string())?)
    }

    /// As the chart starts it.
    pub(crate) fn start(&self, agent: &str) -> anyhow::Result<Operator> {
        let log = std::fs::OpenOptions::new().create(true).append(true).open(&self.log)?;
        let child = Command::new(&self.program)
            .arg(format!("--config={}", self.config.display()))
            .arg(format!("--agent-image={agent}"))
            .arg("--agent-delivery=ImageVolume")
            .args(["--service-account=berth-operator", "--namespace", operator::SYSTEM])
            .arg(format!("--listen=127.0.0.1:{PORT}"))
            .env("KUBECONFIG", &self.kubeconfig)
            .env("MALLOC_ARENA_MAX", "1")
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("cannot start {}", self.program.display()))?;
        Ok(Operator(child))
    }
}
