//! What a namespace records of its tenant: the pin, and the networks that it was made with.
//!
//! A live `Cluster` cannot have other networks, but one that takes over
//! what was kept of another can: its Services would have addresses that the API server no longer knows, and certificates no longer name.

use super::subject::Tenant;
use super::validate::networks;
use berth_api::cluster::Network;
use berth_api::common::AgentDelivery;
use berth_api::conditions::Reason;
use berth_api::labels;
use berth_api::version::Version;
use berth_plan::model::State;
use berth_plan::observed::{annotation, label};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// What is recorded.
const FIELDS: [&str; 3] = ["serviceCIDRs", "podCIDRs", "dnsDomain"];

/// More than any record takes: whoever may write annotations does not decide how much is read.
const LONGEST: usize = 1024;

/// What a namespace records. None: nothing that can be.
fn read(text: &str) -> Option<Network> {
    let all: Value = serde_json::from_str(text).ok().filter(|_| text.len() <= LONGEST)?;
    // What a spec leaves out has a default; what is left out here is not known. What a newer operator adds is passed over.
    let known: Option<Map<_, _>> = FIELDS.iter().map(|f| Some(((*f).to_owned(), all.get(*f)?.clone()))).collect();
    serde_json::from_value(known?.into()).ok().filter(|n| networks(n).is_ok())
}

/// The annotation: as it is, if there is one, so that nothing overwrites it.
pub(super) fn networks_annotation(t: &Tenant<'_>) -> Option<String> {
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
pub(super) fn refuse(t: &Tenant<'_>, live: &Value) -> Option<State> {
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

/// What a namespace records of add-ons.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AddonsRecord {
    /// Whether they are on where the spec does not say.
    #[serde(default)]
    pub(super) by_default: bool,
    /// The operator's registry when the version was set: another one restarts no pod.
    #[serde(default)]
    pub(super) registry: String,
}

/// What is, or is to be, recorded of add-ons. None: a build without add-ons made the tenant, and its version did not change since.
pub(super) fn addons(t: &Tenant<'_>) -> Option<AddonsRecord> {
    let registry = t.settings.registry.clone();
    let Some(live) = t.live_namespace() else { return Some(AddonsRecord { by_default: true, registry }) };
    let text = annotation(live, labels::ADDONS).filter(|text| text.len() <= LONGEST);
    let recorded: Option<AddonsRecord> = text.and_then(|text| serde_json::from_str(text).ok());
    if pin(live).is_some_and(|old| old.version == t.pin().version) {
        return recorded;
    }
    Some(AddonsRecord { by_default: recorded.is_some_and(|r| r.by_default), registry })
}

/// The annotation of that.
pub(super) fn addons_annotation(t: &Tenant<'_>) -> Option<String> {
    serde_json::to_string(&addons(t)?).ok()
}

/// What a tenant is rendered with. Recorded on its namespace; a new operator does not change it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pin {
    /// Kubernetes version.
    pub version: Version,
    /// Digest of the template set.
    pub templates: String,
    /// Agent image.
    pub agent_image: String,
    /// How the agent gets into the pods.
    pub agent_delivery: AgentDelivery,
}

/// The pin that a namespace records, if it has one.
pub(super) fn pin(live: &Value) -> Option<Pin> {
    Some(Pin {
        version: annotation(live, labels::KUBERNETES_VERSION)?.parse().ok()?,
        templates: annotation(live, labels::TEMPLATES)?.to_owned(),
        agent_image: annotation(live, labels::AGENT_IMAGE)?.to_owned(),
        agent_delivery: AgentDelivery::of(annotation(live, labels::AGENT_DELIVERY)),
    })
}
