//! What is asked for, and allowed.

use berth_api::{Cluster, names};
use berth_plan::settings::Settings;
use berth_render::{Kind, ObjectKey};
use std::collections::BTreeMap;

/// What is asked for.
pub(super) enum Wish<'a> {
    /// Nothing.
    No,
    /// It is not allowed, for that reason.
    Refused(String),
    /// It is.
    Yes(Target<'a>),
}

/// How Argo CD is to know the tenant.
pub(super) struct Target<'a> {
    /// The Secret.
    pub(super) key: ObjectKey,
    /// The name of the cluster there. A namespace has no dot in its name, so no two tenants have one.
    pub(super) name: String,
    pub(super) project: &'a str,
    /// What the spec has.
    pub(super) labels: &'a BTreeMap<String, String>,
}

/// The Secret that makes a `Cluster` known in that namespace.
pub(super) fn secret(place: &str, (namespace, name): (&str, &str)) -> ObjectKey {
    ObjectKey::namespaced(Kind::Secret, place, names::argocd_cluster(namespace, name))
}

/// Namespace and name.
pub(super) fn identity(cluster: &Cluster) -> (&str, &str) {
    (cluster.metadata.namespace.as_deref().unwrap_or_default(), cluster.metadata.name.as_deref().unwrap_or_default())
}

impl<'a> Wish<'a> {
    pub(super) fn of(cluster: &'a Cluster, settings: &'a Settings) -> Self {
        const FIELD: &str = "spec.registration.argoCD";
        let Some(asked) = &cluster.spec.registration.argo_cd else { return Self::No };
        let Some(argo_cd) = &settings.argo_cd else {
            return Self::Refused(format!(
                "{FIELD}: this platform has no Argo CD for tenants. Remove the field, or ask the platform team to set registration.argoCD in the values of Berth's chart"
            ));
        };
        let (namespace, name) = identity(cluster);
        let Some(project) = argo_cd.projects.get(namespace) else {
            return Self::Refused(format!(
                "{FIELD}: namespace {namespace} has no project in Argo CD. Remove the field, or ask the platform team to add the namespace to registration.argoCD.projects in the values of Berth's chart"
            ));
        };
        Self::Yes(Target {
            key: secret(&argo_cd.namespace, (namespace, name)),
            name: format!("{namespace}.{name}"),
            project,
            labels: &asked.labels,
        })
    }
}
