//! The NetworkAttachmentDefinition that pods name: a copy beside them. A meta-plugin that keeps namespaces apart (Multus with
//! `namespaceIsolation`) attaches no pod by a definition of another one, and without that any pod may name any team's network.

use super::addresses::RESOURCE_NAME;
use super::image;
use crate::subject::Tenant;
use berth_api::cluster::Vpc;
use berth_api::conditions::Reason;
use berth_plan::model::State;
use berth_plan::object_meta::annotation;
use berth_plan::observed::AttachmentSeen;
use berth_render::{Kind, Object, ObjectKey, TemplateSet};
use serde_json::{Value, json};

/// Where the definition is that the spec names. `namespace`: the `Cluster`'s.
pub(crate) fn source<'v>(vpc: &'v Vpc, namespace: &'v str) -> (&'v str, &'v str) {
    (vpc.attachment.namespace.as_deref().unwrap_or(namespace), &vpc.attachment.name)
}

/// The copy of it in the control-plane namespace. It has the same name: plugins may look for their configuration by that.
pub fn copy_of(vpc: &Vpc, cp_namespace: &str) -> ObjectKey {
    ObjectKey::namespaced(Kind::NetworkAttachmentDefinition, cp_namespace, &*vpc.attachment.name)
}

/// Whether a configuration names its own definition, as those of OVN-Kubernetes (`netAttachDefName`) and Kube-OVN (`provider`) do: it is of
/// no use in another namespace.
fn is_tied(config: &str, (namespace, name): (&str, &str)) -> bool {
    [format!("{namespace}/{name}"), format!("{name}.{namespace}.")].iter().any(|own| config.contains(own.as_str()))
}

fn config(definition: &Value) -> &str {
    definition.pointer("/spec/config").and_then(Value::as_str).unwrap_or_default()
}

/// Whether pods name the copy. Those by templates of a build before do not, until the tenant's next release.
fn is_copied(t: &Tenant<'_>, templates: &TemplateSet, vpc: &Vpc) -> bool {
    let source = source(vpc, t.namespace);
    let is_tied = |definition: &Value| is_tied(config(definition), source);
    image::is_own(templates)
        && source.0 != t.cp_namespace
        && !matches!(&t.observed.attachment, AttachmentSeen::Found(definition) if is_tied(definition))
}

/// The namespace of the definition that pods name.
pub(crate) fn namespace<'t>(t: &'t Tenant<'_>, templates: &TemplateSet, vpc: &'t Vpc) -> &'t str {
    if is_copied(t, templates, vpc) { &t.cp_namespace } else { source(vpc, t.namespace).0 }
}

/// The copy, if pods name it.
pub(crate) fn copy(t: &Tenant<'_>, templates: &TemplateSet, vpc: &Vpc) -> Result<Option<Object>, State> {
    let AttachmentSeen::Found(definition) = &t.observed.attachment else { return Ok(None) };
    if !is_copied(t, templates, vpc) {
        return Ok(None);
    }
    let key = copy_of(vpc, &t.cp_namespace);
    let mut copy = json!({
        "apiVersion": key.kind.api_version(), "kind": key.kind.name(),
        "metadata": {"name": key.name, "namespace": key.namespace, "labels": t.labels()},
    });
    if !definition["spec"].is_null() {
        copy["spec"] = definition["spec"].clone();
    }
    if let Some(resource) = annotation(definition, RESOURCE_NAME) {
        copy["metadata"]["annotations"] = json!({(RESOURCE_NAME): resource});
    }
    Object::new(copy).map(Some).map_err(|e| State::blocked(Reason::Error, e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_that_names_its_definition_is_tied_to_it() {
        let own = ("networks", "vpc-acme");
        for (config, tied) in [
            (r#"{"type": "macvlan", "master": "eth1"}"#, false),
            (r#"{"type": "ovn-k8s-cni-overlay", "netAttachDefName": "networks/vpc-acme"}"#, true),
            (r#"{"type": "kube-ovn", "provider": "vpc-acme.networks.ovn"}"#, true),
            (r#"{"type": "kube-ovn", "provider": "other.networks.ovn"}"#, false),
            ("", false),
        ] {
            assert_eq!(is_tied(config, own), tied, "{config}");
        }
    }
}
