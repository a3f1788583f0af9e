//! The plugin's own configuration, as it is written for multus as a thin plugin.

use std::path::PathBuf;

use serde::Deserialize;
use serde_json::Value;

use crate::error::{Code, Error, Result};

/// The configuration on standard input. Fields of multus that are not read here change nothing.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Config {
    /// Access to the API server: pods, their status, and NetworkAttachmentDefinitions.
    pub(crate) kubeconfig: PathBuf,
    /// The cluster's network first, then others that every pod gets: a plugin's configuration each, or a list of plugins.
    pub(crate) delegates: Vec<Value>,
    /// Where it is kept which networks a sandbox was attached to.
    #[serde(default = "cni_dir")]
    pub(crate) cni_dir: PathBuf,
    /// Where the configuration of a NetworkAttachmentDefinition without `spec.config` is looked for.
    #[serde(default = "conf_dir")]
    pub(crate) conf_dir: PathBuf,
    /// Whether a pod is attached by NetworkAttachmentDefinitions of its own namespace alone, and of [`Self::global_namespaces`].
    #[serde(default)]
    pub(crate) namespace_isolation: bool,
    /// Namespaces whose definitions are for all, separated by commas.
    #[serde(default = "global_namespaces")]
    pub(crate) global_namespaces: String,
}

fn global_namespaces() -> String {
    "default".to_owned()
}

impl Config {
    /// Whether a pod in `own` may be attached by a definition in `other`.
    pub(crate) fn allows(&self, own: &str, other: &str) -> bool {
        let is_global = || self.global_namespaces.split(',').any(|global| global.trim() == other);
        !self.namespace_isolation || own == other || is_global()
    }
}

fn cni_dir() -> PathBuf {
    "/var/lib/cni/cni-meta".into()
}

fn conf_dir() -> PathBuf {
    "/etc/cni/net.d".into()
}

pub(crate) fn parse(stdin: &[u8]) -> Result<Config> {
    let wrong = |message: String| Error::new(Code::Config, format!("the plugin's configuration: {message}"));
    let config: Config = serde_json::from_slice(stdin).map_err(|e| wrong(e.to_string()))?;
    if config.delegates.is_empty() {
        return Err(wrong("delegates: the cluster's network is missing".to_owned()));
    }
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_multus_configuration() {
        let config = parse(
            br#"{"cniVersion": "1.0.0", "name": "n", "type": "multus", "kubeconfig": "/k", "logLevel": "debug",
                "delegates": [{"name": "pods", "plugins": [{"type": "bridge"}]}]}"#,
        )
        .unwrap();
        assert_eq!(config.kubeconfig, PathBuf::from("/k"));
        assert_eq!(config.delegates[0]["name"], "pods");
        assert_eq!(config.cni_dir, cni_dir());
    }

    #[test]
    fn isolation_keeps_pods_to_definitions_of_their_namespace() {
        let config =
            |more: &str| parse(format!(r#"{{"kubeconfig": "/k", "delegates": [{{}}]{more}}}"#).as_bytes()).unwrap();
        assert!(config("").allows("acme", "team"));
        let isolated = config(r#", "namespaceIsolation": true"#);
        assert!(
            isolated.allows("acme", "acme") && isolated.allows("acme", "default") && !isolated.allows("acme", "team")
        );
        let global = config(r#", "namespaceIsolation": true, "globalNamespaces": "networks, team""#);
        assert!(global.allows("acme", "team") && !global.allows("acme", "default"));
    }

    #[test]
    fn what_is_missing_is_named() {
        let said = |text: &str| parse(text.as_bytes()).unwrap_err().message;
        assert!(said(r#"{"delegates": []}"#).contains("`kubeconfig`"));
        assert!(
            said(r#"{"kubeconfig": "/k", "delegates": []}"#).contains("delegates: the cluster's network is missing")
        );
    }
}
