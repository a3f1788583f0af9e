//! For which members requests are to follow usage, and what is said of it.

use crate::subject::Input;
use crate::validate;
use berth_api::conditions::Reason;
use berth_api::{labels, names};
use berth_plan::etcd_home::{is_tenants, name_of};
use berth_plan::settings::Limits;
use berth_plan::sizes::{Asked, Part, part, said_before};
use berth_render::{Kind, ObjectKey};

/// What the one who resizes is asked for. None: nothing; of a paused one, or one that is deleted, nothing is changed.
pub fn sizes(input: Input<'_>) -> Option<Asked> {
    let (name, namespace) = name_of(input.object);
    let spec = &input.object.spec;
    if input.is_deleted() || spec.paused || validate::autoscaling(spec).is_err() {
        return None;
    }
    // Of a stand-alone one nobody but its own spec says what is allowed.
    let is_tenants = is_tenants(input.object);
    let (field, free) = (if is_tenants { "spec.etcd.autoscaling" } else { "spec.autoscaling" }, Limits::default());
    let limits = if is_tenants { &input.settings.writers.limits } else { &free };
    let set = input.observed.get(&ObjectKey::namespaced(Kind::StatefulSet, namespace, name));
    let of = part((field, (labels::ETCD_CLUSTER, name)), names::ETCD, &spec.autoscaling, set, limits)?;
    let parts = vec![Part { down_in: spec.shrink_window.clone(), ..of }];
    Some(Asked {
        of: ObjectKey::namespaced(Kind::EtcdCluster, namespace, name),
        namespace: namespace.to_owned(),
        parts,
    })
}

/// What `Ready` says beside that all is well: requests that do not follow usage.
pub(crate) fn note(input: Input<'_>) -> Option<(Reason, String)> {
    let conditions = || input.object.status.as_ref().map_or(&[][..], |status| &status.conditions);
    let Some(told) = &input.observed.sizes else { return said_before(conditions()) };
    (!told.is_empty() && !input.is_deleted()).then(|| (Reason::SizeHeld, told.join(". ")))
}
