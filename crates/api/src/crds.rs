//! The CustomResourceDefinitions, as they are generated into `crds/` and the chart.

use crate::conditions::ConditionType;
use crate::{Cluster, ClusterRevision, EtcdBackup, EtcdBackupSchedule, EtcdCluster, EtcdRestore};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSON, JSONSchemaProps, ValidationRule,
};
use kube_core::CustomResourceExt;

/// A custom resource of Berth.
struct Row {
    kind: &'static str,
    /// What its status publishes.
    conditions: &'static [ConditionType],
    definition: fn() -> CustomResourceDefinition,
}

/// All of them. A row is all that is needed for the CRD in the chart, the reference in docs, and the conditions of an object that
/// the operator cannot read.
const TABLE: &[Row] = &[
    Row { kind: "Cluster", conditions: ConditionType::CLUSTER, definition: cluster },
    Row {
        kind: "EtcdCluster",
        conditions: ConditionType::ETCD_CLUSTER,
        definition: || finish(EtcdCluster::crd(), "etcd", &[]),
    },
    Row {
        kind: "EtcdBackup",
        conditions: ConditionType::ETCD_BACKUP,
        definition: || finish(EtcdBackup::crd(), "before-upgrade", &[]),
    },
    Row { kind: "EtcdBackupSchedule", conditions: ConditionType::ETCD_RESTORE, definition: schedule },
    Row {
        kind: "EtcdRestore",
        conditions: ConditionType::ETCD_RESTORE,
        definition: || finish(EtcdRestore::crd(), "back-to-monday", &[]),
    },
    Row { kind: "ClusterRevision", conditions: &[], definition: revision },
];

/// All CustomResourceDefinitions of Berth.
pub fn all() -> Vec<CustomResourceDefinition> {
    TABLE.iter().map(|row| (row.definition)()).collect()
}

/// Their names, such as `clusters.berth.dev`.
pub fn names() -> Vec<String> {
    all().into_iter().filter_map(|crd| crd.metadata.name).collect()
}

/// The kinds, each with the types of conditions that it publishes.
pub fn conditions() -> impl Iterator<Item = (&'static str, &'static [ConditionType])> {
    TABLE.iter().map(|row| (row.kind, row.conditions))
}

/// Spec and status are written at once, by the operator alone: without a subresource that is one write.
fn revision() -> CustomResourceDefinition {
    let mut crd = ClusterRevision::crd();
    for version in &mut crd.spec.versions {
        version.subresources = None;
    }
    crd
}

fn schedule() -> CustomResourceDefinition {
    // The names of its backups have a time at their end.
    let short = ValidationRule {
        rule: "size(self.metadata.name) <= 27".into(),
        message: Some(
            "metadata.name: must have at most 27 characters: choose a shorter name, such as 'nightly'".into(),
        ),
        ..ValidationRule::default()
    };
    finish(EtcdBackupSchedule::crd(), "nightly", &[short])
}

fn cluster() -> CustomResourceDefinition {
    // The second rule: `<cluster>-ca` must not be a Secret of the tenant's etcd, which lives in the same namespace.
    let reserved = ValidationRule {
        rule: "!(self.metadata.name in ['etcd-peer', 'etcd-client'])".into(),
        message: Some("metadata.name: 'etcd-peer' and 'etcd-client' are reserved: choose another name".into()),
        ..ValidationRule::default()
    };
    finish(Cluster::crd(), "acme", &[reserved])
}

/// Adds what derives of the spec cannot say: the rule on `metadata.name`, since names become parts of DNS labels, and the status of an
/// object that no operator has seen.
fn finish(mut crd: CustomResourceDefinition, example: &str, more: &[ValidationRule]) -> CustomResourceDefinition {
    for version in &mut crd.spec.versions {
        let root: Option<&mut JSONSchemaProps> = version.schema.as_mut().and_then(|s| s.open_api_v3_schema.as_mut());
        if let Some(root) = root {
            let mut rules = vec![ValidationRule {
                rule: "self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$') && size(self.metadata.name) <= 40"
                    .into(),
                message: Some(format!(
                    "metadata.name: must be a DNS label that starts with a letter, at most 40 characters, without dots: choose another name, such as '{example}'"
                )),
                ..ValidationRule::default()
            }];
            rules.extend_from_slice(more);
            root.x_kubernetes_validations = Some(rules);
            if let Some(status) = root.properties.as_mut().and_then(|p| p.get_mut("status")) {
                // No status at all counts as done for tools that use kstatus; a generation that was not observed does not.
                status.default = Some(JSON(serde_json::json!({"observedGeneration": -1})));
            }
        }
    }
    crd
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_of_its_kind() {
        let kinds: Vec<String> = all().into_iter().map(|crd| crd.spec.names.kind).collect();
        assert!(kinds.iter().eq(conditions().map(|(kind, _)| kind)), "{kinds:?}");
    }

    #[test]
    fn every_field_is_documented_and_every_list_and_string_is_bounded() {
        for crd in all() {
            let crd = serde_json::to_value(crd).unwrap();
            let spec = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
            let mut missing = vec![];
            walk(spec, "spec", &mut missing);
            assert!(missing.is_empty(), "{}", missing.join("\n"));
        }
    }

    fn walk(schema: &serde_json::Value, path: &str, missing: &mut Vec<String>) {
        if schema["type"] == "array" && schema["maxItems"].is_null() {
            missing.push(format!("{path}: no maxItems"));
        }
        if (schema["type"] == "string" || schema["x-kubernetes-int-or-string"] == true)
            && schema["maxLength"].is_null()
            && schema["enum"].is_null()
        {
            missing.push(format!("{path}: no maxLength"));
        }
        if let Some(p) = schema["properties"].as_object() {
            for (k, v) in p {
                let path = format!("{path}.{k}");
                if v["description"].is_null() {
                    missing.push(format!("{path}: no description"));
                }
                walk(v, &path, missing);
            }
        }
        if schema["additionalProperties"].is_object() {
            if schema["maxProperties"].is_null() {
                missing.push(format!("{path}: no maxProperties"));
            }
            if schema["x-kubernetes-validations"].is_null() {
                missing.push(format!("{path}: no rule for its keys"));
            }
            walk(&schema["additionalProperties"], &format!("{path}{{}}"), missing);
        }
        if schema["items"].is_object() {
            walk(&schema["items"], &format!("{path}[]"), missing);
        }
    }
}
