//! Claims and load balancers.

use kube::ResourceExt as _;
use kube::api::DynamicObject;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::context::{Context, terminating};

const CLAIM: &str = "PersistentVolumeClaim";
const PROTECTION: &str = "kubernetes.io/pvc-protection";

pub(super) async fn reconcile(context: &Context) -> bool {
    let mut busy = false;
    let pods = context.list("Pod");
    for claim in context.list(CLAIM) {
        if !terminating(&claim) {
            busy |= context.set_status(CLAIM, &claim, bound(&claim)).await;
            continue;
        }
        let uses = |pod: &DynamicObject| {
            let mut volumes = pod.data["spec"]["volumes"].as_array().into_iter().flatten();
            let name = claim.name_any();
            pod.namespace() == claim.namespace()
                && volumes.any(|v| v["persistentVolumeClaim"]["claimName"].as_str() == Some(&*name))
        };
        if claim.finalizers().iter().any(|f| f == PROTECTION) && !pods.iter().any(|p| uses(p)) {
            let rest: Vec<_> = claim.finalizers().iter().filter(|f| *f != PROTECTION).collect();
            context.patch(CLAIM, &claim, json!({"metadata": {"finalizers": rest}})).await;
            busy = true;
        }
    }
    let assign = context.knob(|k| k.load_balancers);
    for service in context.list("Service").iter().filter(|s| !terminating(s)) {
        let balanced = service.data["spec"]["type"] == "LoadBalancer";
        let has = service.data["status"]["loadBalancer"]["ingress"].is_array();
        let status = match (balanced, has) {
            (true, false) if assign => {
                json!({"loadBalancer": {"ingress": [{"ip": address(service), "ipMode": "VIP"}]}})
            }
            (false, true) => json!({"loadBalancer": {"ingress": null}}),
            _ => continue,
        };
        busy |= context.set_status("Service", service, status).await;
    }
    busy
}

/// Bound, as large as was asked.
fn bound(claim: &DynamicObject) -> Value {
    let spec = &claim.data["spec"];
    json!({"phase": "Bound", "accessModes": spec["accessModes"],
           "capacity": {"storage": spec["resources"]["requests"]["storage"]}})
}

/// A stable address in 192.0.2.0/24, `loadBalancerIP` where it is set.
fn address(service: &DynamicObject) -> String {
    let asked = service.data["spec"]["loadBalancerIP"].as_str().map(str::to_owned);
    asked.unwrap_or_else(|| format!("192.0.2.{}", Sha256::digest(service.uid().unwrap_or_default())[0].clamp(10, 250)))
}
