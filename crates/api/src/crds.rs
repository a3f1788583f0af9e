//! The CustomResourceDefinitions, as they are generated into `crds/` and the chart.

use crate::conditions::ConditionType;
use crate::{
    App, AppInstallation, Cluster, ClusterAccess, ClusterRevision, EtcdBackup, EtcdBackupSchedule, EtcdCluster,
    EtcdRestore,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSON, JSONSchemaProps, ValidationRule,
};
use kube_core::CustomResourceExt;
use serde_json::Value;

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
    Row {
        kind: "ClusterAccess",
        conditions: ConditionType::ETCD_RESTORE,
        definition: || finish(ClusterAccess::crd(), "developers-of-acme", &[]),
    },
    Row {
        kind: "App",
        conditions: ConditionType::ETCD_RESTORE,
        definition: || finish(App::crd(), "metrics-server", &[]),
    },
    Row { kind: "AppInstallation", conditions: ConditionType::APP_INSTALLATION, definition: installation },
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

/// The first field of `built` that the definition in the cluster does not have, as a path: it is of an older release, and the API server would
/// leave that out of whatever is written.
pub fn lacking(live: &CustomResourceDefinition, built: &CustomResourceDefinition) -> Option<String> {
    let schema = |crd: &CustomResourceDefinition, version: &str| {
        let version = crd.spec.versions.iter().find(|v| v.name == version)?;
        serde_json::to_value(version.schema.as_ref()?.open_api_v3_schema.as_ref()?).ok()
    };
    built.spec.versions.iter().find_map(|version| {
        let Some(live) = schema(live, &version.name) else { return Some(version.name.clone()) };
        lacks(&live, &schema(built, &version.name)?, "")
    })
}

fn lacks(live: &Value, built: &Value, path: &str) -> Option<String> {
    if [live, built].iter().any(|schema| schema["x-kubernetes-preserve-unknown-fields"] == true) {
        return None;
    }
    let inner = ["items", "additionalProperties"];
    let of_lists = inner.iter().filter(|key| built[**key].is_object());
    of_lists.map(|key| lacks(&live[*key], &built[*key], path)).find_map(|found| found).or_else(|| {
        built["properties"].as_object()?.iter().find_map(|(name, built)| {
            let path = format!("{path}.{name}");
            match live["properties"].get(name) {
                Some(live) => lacks(live, built, &path),
                None => Some(path.trim_start_matches('.').to_owned()),
            }
        })
    })
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

/// Berth gives it its name.
fn installation() -> CustomResourceDefinition {
    let mut crd = AppInstallation::crd();
    for version in &mut crd.spec.versions {
        unobserved(version.schema.as_mut().and_then(|s| s.open_api_v3_schema.as_mut()));
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
            unobserved(Some(root));
        }
    }
    crd
}

/// No status at all counts as done for tools that use kstatus; a generation that was not observed does not.
fn unobserved(root: Option<&mut JSONSchemaProps>) {
    if let Some(status) = root.and_then(|root| root.properties.as_mut()?.get_mut("status")) {
        status.default = Some(JSON(serde_json::json!({"observedGeneration": -1})));
    }
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
    fn what_an_older_release_does_not_have_is_named() {
        let names = |crd: &CustomResourceDefinition| crd.metadata.name.clone();
        for built in all() {
            assert_eq!(lacking(&built, &built), None, "{:?}", names(&built));
        }
        let without = |path: &str| {
            let mut old = all().into_iter().find(|crd| crd.spec.names.kind == "ClusterRevision").unwrap();
            let built = old.clone();
            let mut schema = serde_json::to_value(&old.spec.versions[0].schema).unwrap();
            let (parent, name) = path.rsplit_once('/').unwrap();
            let fields = schema.pointer_mut(&format!("/openAPIV3Schema{parent}")).unwrap().as_object_mut().unwrap();
            assert!(fields.remove(name).is_some(), "{path} is no field");
            old.spec.versions[0].schema = serde_json::from_value(schema).unwrap();
            // What is newer in the cluster is of no concern to an older operator.
            assert_eq!(lacking(&built, &old), None, "{path}");
            lacking(&old, &built)
        };
        let release = "/properties/spec/properties/release/properties";
        assert_eq!(without(&format!("{release}/auditCopy")).as_deref(), Some("spec.release.auditCopy"));
        let extra = "/apiServer/properties/extraArgs/items/properties/value";
        assert_eq!(without(&format!("{release}{extra}")).as_deref(), Some("spec.release.apiServer.extraArgs.value"));
        assert_eq!(without("/properties/status").as_deref(), Some("status"));
        for built in all() {
            let mut loose = built.clone();
            let any = r#"{"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}"#;
            loose.spec.versions[0].schema = serde_json::from_str(any).unwrap();
            assert_eq!(lacking(&loose, &built), None, "one that keeps whatever there is");
        }
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
