//! Where the image of the container `vpc` comes from. It is root, with two capabilities, so it is the platform's, whatever registry the spec
//! asks for. Templates of builds before take the one of all others: what runs by them is made again as it is, and nothing else is.

use crate::subject::Tenant;
use berth_api::{labels, names};
use berth_plan::object_meta::annotation;
use berth_render::{Binary, Kind, TemplateSet};
use serde_json::Value;
use std::collections::BTreeSet;

/// Whether a set takes the container's image from the platform, and the pods' network from their own namespace.
pub(super) fn is_own(templates: &TemplateSet) -> bool {
    templates.reads(Binary::ApiServer.folder(), "vpc.image")
}

/// The image of the container `vpc` in a pod template or a pod.
fn image_in(pods: &Value) -> Option<&str> {
    let all = pods["initContainers"].as_array().into_iter().flatten();
    all.filter(|container| container["name"] == "vpc").find_map(|container| container["image"].as_str())
}

/// Those of the API servers that are there.
fn running<'a>(t: &'a Tenant<'_>) -> BTreeSet<&'a str> {
    let (observed, namespace) = (t.observed, &t.cp_namespace);
    let of_api = |name: &str| name.starts_with(names::APISERVER);
    let sets = [Kind::StatefulSet, Kind::Deployment].into_iter().flat_map(|kind| observed.of_kind(kind, namespace));
    let sets = sets.filter(|(key, _)| of_api(&key.name)).filter_map(|(_, set)| set.pointer("/spec/template/spec"));
    let pods = observed.of_kind(Kind::Pod, namespace).map(|(_, pod)| &pod["spec"]);
    sets.chain(pods).filter_map(image_in).collect()
}

/// Whether a container `vpc` that is there has that image: what a set of a build before asks for is made again, and else it gets the platform's.
pub(super) fn runs(t: &Tenant<'_>, asked: &str) -> bool {
    running(t).contains(asked)
}

/// Images of the container that are not the platform's, and run.
pub(super) fn foreign<'a>(t: &'a Tenant<'_>) -> BTreeSet<&'a str> {
    let mut all = running(t);
    let pins = t.release.kept().into_iter().map(|pin| pin.agent_image.as_str());
    for platforms in pins.chain([t.settings.agent_image.as_str()]) {
        all.remove(platforms);
    }
    all
}

/// What is said where a registry of the spec still counts for the container, by a set of a build before.
pub(crate) fn unread(t: &Tenant<'_>, templates: &TemplateSet) -> Option<String> {
    let asked = t.cluster.spec.images.registry.as_ref().filter(|_| !is_own(templates))?;
    let all = foreign(t).into_iter().filter(|image| image.starts_with(&format!("{asked}/")));
    let all: Vec<&str> = all.collect();
    (!all.is_empty()).then(|| {
        format!(
            "The container vpc (root in pods of kube-apiserver) runs {} by spec.images.registry: the pinned templates do not use the platform's image for it",
            all.join(", ")
        )
    })
}

/// The annotation [`labels::VPC_IMAGES`]: never more than before. None: nobody knows what runs.
pub(crate) fn note(t: &Tenant<'_>) -> Option<String> {
    let recorded = t.live_namespace().and_then(|live| annotation(live, labels::VPC_IMAGES));
    if t.observed.denied {
        return recorded.map(str::to_owned);
    }
    let before: Option<BTreeSet<&str>> = recorded.map(|text| text.split(',').collect());
    let now = foreign(t);
    let stays = now.into_iter().filter(|image| before.as_ref().is_none_or(|before| before.contains(image)));
    let stays: Vec<&str> = stays.collect();
    Some(if stays.is_empty() { labels::VPC_IMAGES_PLATFORM.to_owned() } else { stays.join(",") })
}
