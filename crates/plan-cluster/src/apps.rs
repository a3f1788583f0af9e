//! What a tenant has while there are apps in it: rights of the user that installs them, and a way out for the Jobs that do. The policy is the record of the
//! rights: it goes once these were seen to be gone.

use crate::in_set;
use crate::subject::Tenant;
use berth_api::{AppInstallation, labels, names};
use berth_plan::object_meta::label;
use berth_plan::settings::port_of_source;
use berth_render::values::AppsValues;
use berth_render::{Kind, Listing, ObjectKey, TenantSet, stamp_key};
use std::collections::BTreeSet;

/// The set.
pub(crate) fn set() -> TenantSet {
    TenantSet::Apps(AppsValues { user: names::APPS_USER.into() })
}

/// The binding in it.
fn binding() -> ObjectKey {
    ObjectKey::cluster(Kind::ClusterRoleBinding, "berth:apps")
}

/// Those of this tenant, also while they are being uninstalled.
pub(crate) fn installations<'a>(t: &Tenant<'a>) -> impl Iterator<Item = AppInstallation> + 'a {
    let name = t.name;
    let all = t.observed.of_kind(Kind::AppInstallation, t.namespace);
    all.filter(|(_, live)| label(live, labels::MANAGED_BY) == Some(labels::MANAGED_BY_VALUE))
        .filter_map(|(_, live)| serde_json::from_value::<AppInstallation>(live.clone()).ok())
        .filter(move |installation| installation.spec.cluster.name == name)
}

/// Whether there are any. What a Job has begun it also ends, whoever switches apps off meanwhile.
pub(crate) fn are_wanted(t: &Tenant<'_>) -> bool {
    let works = || is_recorded(t) && t.pod_at_work(names::APPS).is_some();
    (t.settings.apps.are_enabled() && installations(t).next().is_some()) || works()
}

/// Whether their Jobs have a way out.
pub(crate) fn have_a_way_out(t: &Tenant<'_>) -> bool {
    are_wanted(t) || (is_recorded(t) && !are_gone(t))
}

fn is_recorded(t: &Tenant<'_>) -> bool {
    t.get(Kind::NetworkPolicy, names::APPS).is_some()
}

/// Whether the rights were seen to be gone.
fn are_gone(t: &Tenant<'_>) -> bool {
    [binding(), stamp_key(set().name())].iter().all(|key| in_set::is_there(t, &set(), key) == Some(false))
}

/// What is to be listed in the tenant, so that rights which are to go are found.
pub(crate) fn listing(t: &Tenant<'_>) -> Option<Listing> {
    (!are_wanted(t) && is_recorded(t)).then_some(Listing { kind: Kind::ClusterRoleBinding, namespace: None })
}

/// Ports of the registries that their charts are in, and of the proxy by which Jobs reach them.
pub(crate) fn ports(t: &Tenant<'_>) -> Vec<u16> {
    let proxies = t.settings.proxy.iter().flat_map(berth_api::proxy::Proxy::servers).map(|(_, port)| port);
    let of = |installation: AppInstallation| {
        let release = installation.spec.release;
        port_of_source(&release.source(), release.chart.plain_http)
    };
    let registries: BTreeSet<u16> = installations(t).filter_map(of).collect();
    // By a proxy nothing is reached that nobody asks for.
    let proxies = proxies.filter(|_| !registries.is_empty());
    proxies.chain(registries.iter().copied()).collect::<BTreeSet<_>>().into_iter().collect()
}
