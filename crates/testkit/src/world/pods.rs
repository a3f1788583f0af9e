//! The kubelet: pods become what their fate says, and terminating pods go.

use berth_sim::pod_status;
use kube::ResourceExt as _;
use serde_json::json;

use super::context::{Context, now, terminating};

pub(super) async fn reconcile(context: &Context) -> bool {
    let judge = context.knob(|k| k.fate.clone());
    let mut busy = false;
    for pod in context.list("Pod") {
        if terminating(&pod) {
            if pod.finalizers().is_empty() {
                context.delete("Pod", &pod, Some(0)).await;
            }
            busy = true;
            continue;
        }
        let live = json!(*pod);
        busy |= context.set_status("Pod", &pod, pod_status(&live, judge(&live), now())).await;
    }
    busy
}
