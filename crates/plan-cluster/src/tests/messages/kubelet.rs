//! What kubelets are told.

use super::*;

/// Of a tenant at rest.
pub(super) const REFUSED: &[Case] = &[
    ("spec.kubelet.config has a field that kubelet does not have", |f| config(f, json!({"maxpods": 30}))),
    ("spec.kubelet.config has a field of Berth's", |f| config(f, json!({"serverTLSBootstrap": false}))),
    ("spec.kubelet.config has a value that kubelet refuses", |f| config(f, json!({"imageGCLowThresholdPercent": 90}))),
];

fn config(f: &mut Fixture, config: Value) {
    f.cluster.spec.kubelet.config = serde_json::from_value(config).unwrap();
}
