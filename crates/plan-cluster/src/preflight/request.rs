//! What the operator asks in a tenant, and of which API servers.

use super::findings;
use super::verdict::next_minor;
use crate::Input;
use crate::endpoint::url;
use crate::facts::Facts;
use crate::subject::Tenant;
use crate::well::is_well;
use berth_api::version::{Minor, Version};
use berth_api::{labels, names};
use berth_plan::asked::Look;
use berth_plan::observed::{ApiProbe, Observed};
use berth_plan::workload;
use serde_json::Value;

/// Where API servers listen.
const PORT: i32 = 6443;

/// Pods of API servers that are asked, each at its own address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LookRequest {
    /// Name and `https://address:port` of each pod that is ready.
    pub servers: Vec<(String, String)>,
    /// The name in their certificate.
    pub server_name: String,
    /// The change is asked for, and begins if nothing is found: what was found a while ago does not do.
    pub begins: bool,
}

/// What to look at for the next minor. None: there is none, or nothing can be asked.
pub fn look_request(input: Input<'_>) -> Option<LookRequest> {
    let Input { object: cluster, observed, .. } = input;
    if cluster.metadata.deletion_timestamp.is_some() || !matches!(observed.api, ApiProbe::Answered { .. }) {
        return None;
    }
    let t = Tenant::new(input);
    let (runs, target) = next_minor(&t).filter(|_| !t.stands_still())?;
    let asks = cluster.spec.asked_version().is_some_and(|asked| asked.minor() == target);
    let begins = asks && (blocks(&t, runs.version, target) || !waits(input));
    (begins || asks || is_well(input)).then(|| LookRequest { begins, ..request(&t) })
}

fn blocks(t: &Tenant<'_>, runs: Version, target: Minor) -> bool {
    matches!(t.observed.look, Look::Taken(_)) && !findings(t, runs, target).is_empty()
}

/// Whether it waits for its turn or a window, if nothing else stands in its way.
fn waits(input: Input<'_>) -> bool {
    let assumed = Observed { look: Look::Elsewhere, ..input.observed.clone() };
    Facts::judge(Input { observed: &assumed, ..input }).rollout.hold().is_some()
}

/// Which API servers to ask how they answer: all, while the first new one of a release serves alone. None: nothing is judged by it now.
pub fn answers_request(input: Input<'_>) -> Option<LookRequest> {
    let t = Tenant::new(input);
    if input.is_deleted() || t.stands_still() {
        return None;
    }
    let canary = Facts::judge(input).rollout.canary?;
    canary.until(&t).map(|_| request(&t))
}

fn request(t: &Tenant<'_>) -> LookRequest {
    let pods = workload::pods_of(t.observed, &t.cp_namespace, labels::COMPONENT, names::APISERVER);
    let ready = pods.filter(|(_, pod)| workload::pod_ready(pod));
    let address = |pod: &Value| pod.pointer("/status/podIP").and_then(Value::as_str).unwrap_or_default().to_owned();
    LookRequest {
        servers: ready.map(|(key, pod)| (key.name.clone(), url(&address(pod), PORT))).collect(),
        server_name: format!("{}.{}.svc", names::APISERVER, t.cp_namespace),
        begins: false,
    }
}
