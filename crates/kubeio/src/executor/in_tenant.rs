//! Writes inside the tenant.

use super::{Executor, sent};
use crate::calls::Io;
use crate::error::{ErrorKind, IoError};
use crate::snapshot::Snapshot;
use berth_api::labels;
use berth_plan::Action;
use berth_plan::object_meta::uid;
use berth_plan::objects::changed::Admission;
use berth_plan::objects::ownership;
use berth_plan::observed::ApiProbe;
use berth_plan::settings::MayChange;
use berth_render::{Object, ObjectKey};
use serde_json::{Value, json};

const MANAGER: &str = labels::MANAGER_CLUSTER;

impl Executor<'_> {
    /// Applies it. `replicas`: pods of a new workload, whose number is left to others afterwards.
    pub(super) async fn apply_in_tenant(
        &mut self,
        snapshot: &mut Snapshot,
        action: &Action,
        object: &Object,
        replicas: Option<i32>,
    ) -> Result<(), IoError> {
        let tenant = self.tenant(action)?;
        let by = (Admission::Tenant, &MayChange::default());
        if let ApiProbe::Answered { read, .. } = &snapshot.observed.api
            && self.was_applied(object, read.get(object.key()).flatten(), by)?
        {
            return Ok(());
        }
        let applied = match replicas {
            Some(replicas) => apply_unscaled(tenant, object, replicas).await,
            None => tenant.apply(object, MANAGER).await,
        };
        // What is there may be in its way, and of most that is inside a plan sees nothing: the next one sees this.
        if applied.as_ref().is_err_and(|e| e.kind == ErrorKind::Rejected)
            && let Ok(live) = tenant.get(object.key()).await
        {
            self.found_obstacle = put(snapshot, object.key(), live);
        }
        let live = applied?;
        self.sent.insert(sent(object));
        put(snapshot, object.key(), Some(live));
        Ok(())
    }
}

/// Each step may be the last: what Berth owns no more is not taken away, whoever applies next.
async fn apply_unscaled(tenant: &Io, object: &Object, replicas: i32) -> Result<Value, IoError> {
    let key = object.key();
    let Some(live) = tenant.get(key).await? else {
        return tenant.apply(&object.clone().with_field("/spec", "replicas", replicas.into()), MANAGER).await;
    };
    if let Some(managed_fields) = ownership::without_replicas(&live, MANAGER) {
        let version = &live["metadata"]["resourceVersion"];
        let given_up = json!({"uid": uid(&live), "resourceVersion": version, "managedFields": managed_fields});
        tenant.merge(key, "", &format!("fieldManager={MANAGER}"), &json!({"metadata": given_up})).await?;
    }
    // Of one that was deleted meanwhile this makes none with a single pod.
    tenant.apply(&object.clone().with_uid(uid(&live)), MANAGER).await
}

/// Takes in what is inside the tenant under that key. True if it is something that was not known.
pub(super) fn put(snapshot: &mut Snapshot, key: &ObjectKey, live: Option<Value>) -> bool {
    let ApiProbe::Answered { read, .. } = &mut snapshot.observed.api else { return false };
    let is_there = live.is_some();
    let was_known = matches!(read.insert(key.clone(), live), Some(Some(_)));
    is_there && !was_known
}
