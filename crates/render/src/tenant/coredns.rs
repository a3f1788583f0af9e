//! What is asked of CoreDNS beside its templates: added to what they render, so that it counts for tenants that are pinned to earlier ones.

use crate::error::RenderError;
use crate::finish::lay_over;
use crate::values::AskedOfCoreDns;
use crate::{Kind, Object};
use serde_json::Value;
use std::fmt::Write as _;

/// The object with what is asked for.
pub(super) fn with_asked(object: Object, asked: &AskedOfCoreDns) -> Result<Object, RenderError> {
    const CONTAINER: &str = "/spec/template/spec/containers/0";
    const COREFILE: &str = "/data/Corefile";
    match object.key().kind {
        Kind::Deployment if let Some(resources) = &asked.resources => {
            let fault = |reason| RenderError::Object { template: object.key().to_string(), reason };
            let resources = serde_json::from_value(resources.clone()).map_err(|e| fault(e.to_string()))?;
            let mut container = object.get(CONTAINER).cloned().ok_or_else(|| fault("no container".to_owned()))?;
            lay_over(&mut container, &resources);
            Ok(object.with(CONTAINER, container))
        }
        Kind::ConfigMap if let Some(text) = object.get(COREFILE).and_then(Value::as_str) => {
            let text = [text, &servers(asked)].concat();
            Ok(object.with(COREFILE, text.into()))
        }
        _ => Ok(object),
    }
}

/// A server for each zone. Names and addresses were checked, so nothing of them is syntax. Without `loop`, which ends the process: a zone that
/// leads back here takes no other down.
fn servers(asked: &AskedOfCoreDns) -> String {
    let mut text = String::new();
    for (zone, servers) in &asked.zones {
        let servers: Vec<_> = servers.iter().map(ToString::to_string).collect();
        let _ = write!(
            text,
            "{zone}:53 {{\n    errors\n    forward . {} {{\n       max_concurrent 1000\n    }}\n    cache 30\n}}\n",
            servers.join(" ")
        );
    }
    text
}

/// The Deployment without the number of its pods.
pub(super) fn unscaled(object: Object) -> Object {
    object.without("/spec", "replicas")
}
