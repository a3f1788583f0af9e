//! What pods of API servers ask of the network: annotations, labels, a resource, and the container that holds it.

use super::addresses::{FILLED, NETWORKS};
use super::image;
use super::pods::pods_are_held;
use crate::subject::Tenant;
use crate::validate::vpc::of_pods;
use berth_api::cluster::Vpc;
use berth_api::common::Resources;
use berth_api::conditions::Reason;
use berth_plan::model::State;
use berth_render::values::{ApiServerValues, VpcSlot};
use berth_render::{Binary, TemplateSet};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use serde::Serialize;
use std::collections::BTreeMap;

/// One element of [`NETWORKS`]. Its bytes are part of pod templates.
#[derive(Serialize)]
struct Selection<'a> {
    name: &'a str,
    namespace: &'a str,
    interface: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    ips: Option<[&'a str; 1]>,
}

/// The annotation of the pod with that address; of one to which the provider gives an address. `namespace`: the definition's.
pub(super) fn networks_annotation(vpc: &Vpc, namespace: &str, address: Option<&str>) -> (String, String) {
    let attachment = &vpc.attachment;
    let ips = address.map(|address| [address]);
    let one = Selection { name: &attachment.name, namespace, interface: &attachment.interface, ips };
    (NETWORKS.to_owned(), serde_json::to_string(&[one]).unwrap_or_default())
}

/// What the pods of all API servers have in common; or why they cannot be attached.
pub(crate) fn values(
    t: &Tenant<'_>,
    templates: &TemplateSet,
    mut values: ApiServerValues,
) -> Result<ApiServerValues, State> {
    let resource = of_pods(t)?;
    if !templates.reads(Binary::ApiServer.folder(), "vpc.address") {
        let message = "the pinned templates do not use spec.vpc. Set spec.version to another patch version, which brings this operator's templates";
        return Err(State::blocked(Reason::NotInTemplates, message));
    }
    if let Some(name) = resource {
        let limits = values.workload.resources.get_or_insert_with(Resources::default).limits.get_or_insert_default();
        limits.insert(name, Quantity("1".into()));
    }
    let interface = t.cluster.spec.vpc.iter().map(|vpc| vpc.attachment.interface.clone()).collect();
    let (image, sidecar) = (t.release.pin_of(Binary::ApiServer).0.agent_image.clone(), pods_are_held(t));
    if sidecar && !image::is_own(templates) && !image::runs(t, &values.workload.agent_image) {
        values.workload.agent_image.clone_from(&image);
    }
    values.vpc = VpcSlot { interface, sidecar, image, ..VpcSlot::default() };
    Ok(values)
}

/// Puts what one pod asks for into the values: of a slot with its address, or of any pod. `namespace`: of the definition
/// that it names.
pub(crate) fn ask(values: &mut ApiServerValues, namespace: &str, vpc: &Vpc, slot: Option<(usize, &str)>) {
    let filled = |all: &BTreeMap<String, String>| -> BTreeMap<String, String> {
        all.iter().map(|(key, value)| (key.clone(), fill(value, slot))).collect()
    };
    values.workload.pod_annotations.extend(filled(&vpc.pod_annotations));
    values.meta.pod_labels.extend(filled(&vpc.pod_labels));
    let (key, value) = networks_annotation(vpc, namespace, slot.map(|(_, address)| address));
    values.workload.pod_annotations.insert(key, value);
}

fn fill(text: &str, slot: Option<(usize, &str)>) -> String {
    let Some((slot, address)) = slot else { return text.to_owned() };
    let ip = address.split('/').next().unwrap_or_default();
    let [of_ip, of_address, of_slot] = FILLED;
    text.replace(of_ip, ip).replace(of_address, address).replace(of_slot, &slot.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slots_own_is_filled_in() {
        let filled = |text: &str| fill(text, Some((1, "172.20.0.3/24")));
        assert_eq!(filled("$(IP)"), "172.20.0.3");
        assert_eq!(filled(r#"{"ip": "$(ADDRESS)", "n": $(SLOT)}"#), r#"{"ip": "172.20.0.3/24", "n": 1}"#);
        assert_eq!(filled("$(OTHER)"), "$(OTHER)");
        assert_eq!(fill("literal", None), "literal");
    }
}
