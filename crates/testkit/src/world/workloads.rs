//! Deployments and `StatefulSets`: the steps of berth-sim's controllers.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_sim::{Step, status, step, template_hash};
use kube::ResourceExt as _;
use kube::api::DynamicObject;
use serde_json::json;

use super::context::{Context, controlled_by, now, terminating};

const DEPLOYMENT: &str = "Deployment.apps";
const REVISION: &str = "deployment.kubernetes.io/revision";

/// Last template and revision number by the Deployment's UID.
pub(super) type Revisions = BTreeMap<String, (String, u64)>;

pub(super) async fn reconcile(context: &Context, revisions: &mut Revisions) -> bool {
    let mut busy = false;
    for kind in [DEPLOYMENT, "StatefulSet.apps"] {
        for workload in context.list(kind).iter().filter(|w| !terminating(w)) {
            if kind == DEPLOYMENT {
                revise(context, workload, revisions).await;
            }
            busy |= roll(context, kind, workload).await;
        }
    }
    busy
}

/// One step and the status; whether there was anything to do.
async fn roll(context: &Context, kind: &str, workload: &DynamicObject) -> bool {
    let namespace = workload.namespace().unwrap_or_default();
    let here = |kind: &str| context.list(kind).into_iter().filter(|o| o.namespace().as_ref() == Some(&namespace));
    let pods: Vec<_> = here("Pod").filter(|p| controlled_by(p, workload)).collect();
    let claims: Vec<_> = here("PersistentVolumeClaim").collect();
    let values = |all: &[Arc<DynamicObject>]| all.iter().map(|o| json!(**o)).collect::<Vec<_>>();
    let (live, seen) = (context.whole(kind, workload), values(&pods));
    let step = step(&live, &seen, &values(&claims));
    for (kind, name) in &step.delete {
        let object = pods.iter().chain(&claims).find(|o| o.name_any() == *name).expect("it is one of them");
        context.delete(kind.name(), object, None).await;
    }
    for mut object in step.create.iter().cloned() {
        let kind = object["kind"].as_str().unwrap_or_default().to_owned();
        let goes = live["spec"]["persistentVolumeClaimRetentionPolicy"]["whenDeleted"] == "Delete";
        if kind == "Pod" || goes {
            object["metadata"]["ownerReferences"] = json!([{
                "apiVersion": live["apiVersion"], "kind": live["kind"], "name": workload.name_any(),
                "uid": workload.uid(), "controller": true, "blockOwnerDeletion": true,
            }]);
        }
        context.create(&kind, &namespace, object).await;
    }
    context.set_status(kind, workload, status(&live, &seen, now())).await || step != Step::default()
}

/// The annotation that the real controller writes on the Deployment itself.
async fn revise(context: &Context, deployment: &DynamicObject, revisions: &mut Revisions) {
    let stored = deployment.annotations().get(REVISION).and_then(|r| r.parse().ok());
    let hash = template_hash(&deployment.data);
    let known = revisions.entry(deployment.uid().unwrap_or_default());
    let known = known.or_insert_with(|| (hash.clone(), stored.unwrap_or(1)));
    if known.0 != hash {
        *known = (hash, known.1 + 1);
    }
    if stored != Some(known.1) {
        let patch = json!({"metadata": {"annotations": {REVISION: known.1.to_string()}}});
        context.patch(DEPLOYMENT, deployment, patch).await;
    }
}
