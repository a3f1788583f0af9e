//! What a namespace records of the networks that its tenant was made with.
//!
//! A live `Cluster` cannot have other networks, but one that takes over
//! what was kept of another can: its Services would have addresses that the API server no longer knows, and certificates no longer name.

use crate::subject::Tenant;
use crate::validate::networks;
use berth_api::cluster::Network;
use berth_api::conditions::Reason;
use berth_api::labels;
use berth_plan::model::State;
use berth_plan::object_meta::{annotation, label};
use serde_json::{Map, Value, json};

/// What is recorded.
const FIELDS: [&str; 3] = ["serviceCIDRs", "podCIDRs", "dnsDomain"];

/// More than any record takes: whoever may write annotations does not decide how much is read.
pub(super) const LONGEST: usize = 1024;

/// What a namespace records. None: nothing that can be.
fn read(text: &str) -> Option<Network> {
    let all: Value = serde_json::from_str(text).ok().filter(|_| text.len() <= LONGEST)?;
    // What a spec leaves out has a default; what is left out here is not known. What a newer operator adds is passed over.
    let known: Option<Map<_, _>> = FIELDS.iter().map(|f| Some(((*f).to_owned(), all.get(*f)?.clone()))).collect();
    serde_json::from_value(known?.into()).ok().filter(|n| networks(n).is_ok())
}

/// The annotation: as it is, if there is one, so that nothing overwrites it.
pub(crate) fn networks_annotation(t: &Tenant<'_>) -> Option<String> {
    if let Some(recorded) = t.live_namespace().and_then(|l| annotation(l, labels::NETWORK)) {
        return Some(recorded.to_owned());
    }
    let network = &t.cluster.spec.network;
    // Nothing ever ran with what cannot be.
    networks(network).ok().map(|()| to_json(network))
}

fn to_json(network: &Network) -> String {
    serde_json::to_string(network).unwrap_or_default()
}

/// Why the tenant in the namespace that is there cannot go on with the spec's networks.
pub(crate) fn refuse(t: &Tenant<'_>, live: &Value) -> Option<State> {
    let (cp_namespace, note) = (&t.cp_namespace, labels::NETWORK);
    let text = annotation(live, note)?;
    let Some(recorded) = read(text) else {
        return Some(State::blocked(
            Reason::InvalidSpec,
            format!(
                "annotation {note} of namespace {cp_namespace} is not valid: it records the networks that the tenant was created with. Restore it from a backup; or, if they are those of spec.network, remove the annotation, and Berth writes it again"
            ),
        ));
    };
    let asked = &t.cluster.spec.network;
    let (had, has) = (json!(recorded), json!(asked));
    let field = FIELDS.into_iter().find(|f| had[*f] != has[*f])?;
    let what = format!(
        "spec.network.{field}: {} is not what the tenant in namespace {cp_namespace} was created with: {}",
        has[field], had[field]
    );
    let (recorded, asked) = (to_json(&recorded), to_json(asked));
    let way_out = if label(live, labels::CLUSTER_UID) == Some(t.uid) {
        format!(
            "spec.network is immutable, so somebody changed annotation {note} of the namespace. Set it back to {asked}"
        )
    } else {
        format!(
            "spec.network is immutable: delete this Cluster and create it with {recorded}. The namespace stays with its data"
        )
    };
    Some(State::blocked(Reason::InvalidSpec, format!("{what}. {way_out}")))
}
