//! Rights of Argo CD's user in the tenant. They are there before the Secret that brings them is, and go after it.

use super::record::{is_gone, source, target};
use crate::in_set;
use crate::subject::Tenant;
use berth_api::names;
use berth_render::values::ArgoCdValues;
use berth_render::{Kind, Listing, ObjectKey, TenantSet, stamp_key};

/// The set.
pub(crate) fn set() -> TenantSet {
    TenantSet::ArgoCd(ArgoCdValues { user: names::ARGOCD_USER.into() })
}

/// The binding in it.
pub(super) fn binding() -> ObjectKey {
    ObjectKey::cluster(Kind::ClusterRoleBinding, "berth:argocd")
}

/// Whether they are to be there: only once that is recorded.
pub(crate) fn are_wanted(t: &Tenant<'_>) -> bool {
    source(t).is_some() && (target(t).is_some() || !is_gone(t))
}

/// Whether they are to go, and were not seen to be gone.
pub(crate) fn go(t: &Tenant<'_>) -> bool {
    source(t).is_some() && !are_wanted(t)
}

/// What is to be listed in the tenant, so that rights which are to go are found.
pub(crate) fn listing(t: &Tenant<'_>) -> Option<Listing> {
    go(t).then_some(Listing { kind: Kind::ClusterRoleBinding, namespace: None })
}

/// Whether the whole set was seen: its stamp comes last.
pub(super) fn are_there(t: &Tenant<'_>) -> bool {
    in_set::is_there(t, &set(), &stamp_key(set().name())) == Some(true)
}

/// Whether they were seen to be gone.
pub(super) fn are_gone(t: &Tenant<'_>) -> bool {
    [binding(), stamp_key(set().name())].iter().all(|key| in_set::is_there(t, &set(), key) == Some(false))
}
