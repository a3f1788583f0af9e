//! The schedule that the platform gives a tenant that has none of its own (chart value `backups.default`), in the namespace of the `Cluster`.
//! It is an `EtcdBackupSchedule` like any other, so all that is known of those holds for it.

use super::subject::Tenant;
use berth_api::{EtcdBackupSchedule, labels, names};
use berth_plan::model::{Action, Stage};
use berth_plan::object_meta::{deleting, label};
use berth_plan::objects::ensure;
use berth_plan::settings::DefaultBackups;
use berth_render::{Kind, Object, ObjectKey};
use serde_json::{Value, json};

/// Whether it is one that the platform gave.
pub(crate) fn is_default(schedule: &Value) -> bool {
    label(schedule, labels::MANAGED_BY) == Some(labels::MANAGED_BY_VALUE)
        && label(schedule, labels::CLUSTER_NAME).is_some()
}

fn is_ours(t: &Tenant<'_>, schedule: &Value) -> bool {
    is_default(schedule) && label(schedule, labels::CLUSTER_NAME) == Some(t.name)
}

fn all<'a>(t: &'a Tenant<'a>) -> impl Iterator<Item = (&'a ObjectKey, &'a Value)> {
    t.observed.of_kind(Kind::EtcdBackupSchedule, t.namespace)
}

/// The tenant has a schedule of its own, suspended or not: that is its decision.
fn has_its_own(t: &Tenant<'_>) -> bool {
    let others = all(t).filter(|(_, o)| !is_ours(t, o) && !deleting(o));
    let mut others = others.filter_map(|(_, o)| serde_json::from_value::<EtcdBackupSchedule>(o.clone()).ok());
    others.any(|schedule| schedule.spec.cluster_ref.is_some_and(|of| of.name == t.name))
}

/// Gives it, or takes it away.
pub(super) fn follow(t: &Tenant<'_>, stage: &mut Stage) {
    match &t.settings.backups.default {
        Some(default) if !has_its_own(t) => {
            let Ok(object) = object(t, default) else { return };
            // A name that is taken is no reason to hold up the tenant.
            let is_taken = t.observed.get(object.key()).is_some_and(|live| !is_ours(t, live) || deleting(live));
            if !is_taken {
                ensure(stage, t.observed, object, |live| is_ours(t, live));
            }
        }
        _ => end(t, stage),
    }
}

/// Its backups stay.
pub(super) fn end(t: &Tenant<'_>, stage: &mut Stage) {
    let ours = all(t).filter(|(_, o)| is_ours(t, o) && !deleting(o));
    stage.actions.extend(ours.map(|(key, o)| Action::delete(key, o, None)));
}

fn object(t: &Tenant<'_>, default: &DefaultBackups) -> Result<Object, String> {
    let DefaultBackups { store, schedule, time_zone, keep } = default;
    Object::new(json!({
        "apiVersion": "berth.dev/v1alpha1", "kind": "EtcdBackupSchedule",
        "metadata": {"name": names::default_schedule(t.name), "namespace": t.namespace, "labels": t.labels()},
        "spec": {
            "clusterRef": {"name": t.name}, "store": store, "schedule": schedule, "timeZone": time_zone, "keep": keep,
        },
    }))
}
