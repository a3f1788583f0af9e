//! `spec.registration`: where the tenant is made known by itself, and what is recorded of it.

use crate::common::keys;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use std::collections::BTreeMap;

/// Where the tenant is made known by itself. Each takes effect where the platform team has switched it on in the values of Berth's chart.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Registration {
    /// The platform's Argo CD. `{}` is enough: it then knows the tenant as `<namespace>.<name>`, for the project that the chart's value
    /// `registration.argoCD.projects` has for this namespace, by a user of its own that is a cluster-admin in the tenant. Without the field, what
    /// was registered is taken back. Default: it is not registered.
    #[serde(rename = "argoCD")]
    pub argo_cd: Option<ArgoCd>,
}

/// The tenant as Argo CD knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ArgoCd {
    /// Labels of the cluster in Argo CD, by which ApplicationSets select it. Keys that begin with `argocd.argoproj.io/` or `berth.dev/` are
    /// refused, and `app.kubernetes.io/managed-by`. Default: none but Berth's own, such as `berth.dev/cluster-name`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "labels_schema")]
    pub labels: BTreeMap<String, String>,
}

impl Registration {
    /// True if nothing is asked for.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// What is registered.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RegistrationStatus {
    /// In Argo CD.
    #[serde(rename = "argoCD")]
    pub argo_cd: Option<RegisteredSecret>,
}

/// A Secret that makes the tenant known, and that is taken back.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RegisteredSecret {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID. Absent until it is there.
    pub uid: Option<String>,
}

fn labels_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    let field = "registration.argoCD.labels";
    schemars::json_schema!({
        "type": "object", "maxProperties": 16,
        "additionalProperties": {"type": "string", "maxLength": 63},
        "x-kubernetes-validations": [
            keys(field),
            {
                "rule": "self.all(k, !k.startsWith('argocd.argoproj.io/') && !k.startsWith('berth.dev/') && k != 'app.kubernetes.io/managed-by')",
                "message": format!("{field}: keys that begin with argocd.argoproj.io/ or berth.dev/, and app.kubernetes.io/managed-by, are Argo CD's and Berth's: choose another key"),
            },
            {
                "rule": "self.all(k, self[k].matches('^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$'))",
                "message": format!("{field}: each value must be empty, or letters, digits, '-', '_' and '.', with a letter or digit first and last"),
            },
        ],
    })
}
