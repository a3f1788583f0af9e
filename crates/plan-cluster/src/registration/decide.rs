//! Whether the tenant is to be registered, and whether what is there is right.

use super::rights;
use super::wish::Target;
use crate::ours::owner_labels;
use crate::subject::Tenant;
use berth_api::{labels, names};
use berth_pki::KubeconfigInfo;
use berth_plan::model::RegistrationPlan;
use berth_plan::observed::{Registered, RegisteredSecret};
use std::collections::BTreeMap;

/// The kubeconfig that is registered, as it was read.
pub(super) fn connection<'a>(t: &Tenant<'a>) -> Option<&'a KubeconfigInfo> {
    t.observed.secrets.get(&t.secret(names::ARGOCD_KUBECONFIG))?.kubeconfig()?.ok()
}

/// How the Secret is to be written. None: it is right; or it is not for now, or not for Berth, to write.
pub(super) fn next(t: &Tenant<'_>, target: &Target<'_>) -> Option<RegistrationPlan> {
    let connection = connection(t)?;
    let existing = match &t.observed.registered {
        Registered::Ours(live) if live.ends.is_none() && !is_right(t, target, live, connection) => Some(&**live),
        Registered::Absent if rights::are_there(t) => None,
        _ => return None,
    };
    Some(RegistrationPlan {
        key: target.key.clone(),
        existing: existing.map(|live| live.uid.clone()),
        source: t.secret(names::ARGOCD_KUBECONFIG),
        name: target.name.clone(),
        project: target.project.to_owned(),
        labels: all_labels(t, target),
        former_labels: existing.map(|live| former_labels(target, live)).unwrap_or_default(),
        annotations: annotations(target),
    })
}

fn is_right(t: &Tenant<'_>, target: &Target<'_>, live: &RegisteredSecret, connection: &KubeconfigInfo) -> bool {
    let has = |live: &BTreeMap<String, String>, wanted: BTreeMap<String, String>| {
        wanted.iter().all(|(key, value)| live.get(key) == Some(value))
    };
    (&live.name, &*live.project) == (&target.name, target.project)
        && live.connection.as_ref() == Some(connection)
        && has(&live.labels, all_labels(t, target))
        && has(&live.annotations, annotations(target))
        && former_labels(target, live).is_empty()
}

fn all_labels(t: &Tenant<'_>, target: &Target<'_>) -> BTreeMap<String, String> {
    let mut all = target.labels.clone();
    all.extend(owner_labels(t.namespace, t.name));
    all.insert(labels::ARGOCD_SECRET_TYPE.into(), labels::ARGOCD_CLUSTER.into());
    all
}

/// Whose labels are the spec's is on the Secret itself: others that are there stay.
fn annotations(target: &Target<'_>) -> BTreeMap<String, String> {
    let keys: Vec<_> = target.labels.keys().map(String::as_str).collect();
    BTreeMap::from([(labels::ARGOCD_LABELS.to_owned(), keys.join(","))])
}

/// Labels that it has by an earlier spec.
fn former_labels(target: &Target<'_>, live: &RegisteredSecret) -> Vec<String> {
    let told = live.annotations.get(labels::ARGOCD_LABELS).map_or("", String::as_str).split(',');
    let is_former = |key: &&str| live.labels.contains_key(*key) && !target.labels.contains_key(*key) && !is_own(key);
    told.filter(is_former).map(str::to_owned).collect()
}

/// Berth's and Argo CD's own, whatever an annotation says.
fn is_own(key: &str) -> bool {
    let prefixes = ["berth.dev/", "argocd.argoproj.io/"];
    key == labels::MANAGED_BY || prefixes.iter().any(|prefix| key.starts_with(prefix))
}
