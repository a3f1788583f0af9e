//! `spec.kubelet`: what kubelets on the tenant's nodes are told.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// kubelet on the tenant's nodes. Berth runs none: `kubeadm join` reads this.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Kubelet {
    /// Fields of upstream's `KubeletConfiguration` (`kubelet.config.k8s.io/v1beta1`), which are merged into what Berth sets: objects field by
    /// field, lists as a whole. They go into the ConfigMap `kube-system/kubelet-config` in the tenant: machines that join from then on have
    /// them, others after `kubeadm upgrade node phase kubelet-config` and a restart of kubelet. Nothing of the control plane restarts. A
    /// condition refuses what kubelet would refuse, unknown fields, and those that Berth sets: `apiVersion`, `kind`,
    /// `authentication` and `authorization` (but for the times in them), `clusterDomain`, `rotateCertificates`, `serverTLSBootstrap`,
    /// `tlsCertFile`, `tlsPrivateKeyFile`; and `providerID`, `podCIDR` and `showHiddenMetricsForVersion`, which each machine has alone. Names of
    /// feature gates are not checked. At most 64 KiB. Default: none.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    #[schemars(schema_with = "config_schema")]
    pub config: Map<String, Value>,
}

impl Kubelet {
    /// True if nothing is asked for.
    pub fn is_default(&self) -> bool {
        self.config.is_empty()
    }
}

/// Not typed: a schema with fields prunes all others without a word.
fn config_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}
