//! Images of a workload, and pods that cannot get one.

use super::pods::container_statuses;
use crate::observed::{annotation, deleting};
use berth_api::common::Images;
use berth_api::labels;
use berth_api::version::Version;
use berth_render::{Binary, Kind, Object, ObjectKey, image, relocated};
use serde_json::Value;

/// The image of a workload's first container.
pub fn image_of(workload: &Value) -> Option<&str> {
    workload.pointer("/spec/template/spec/containers/0/image").and_then(Value::as_str)
}

/// Whether a workload's pods run, copy or mount that image of the agent.
pub fn has_agent(workload: &Value, image: &str) -> bool {
    let pods = &workload["spec"]["template"]["spec"];
    let all = |list: &str| pods[list].as_array().into_iter().flatten();
    let mounted = all("volumes").filter_map(|v| v.pointer("/image/reference"));
    all("initContainers").map(|c| &c["image"]).chain(mounted).any(|agent| agent == image)
}

/// What kubelet says of a container whose image it does not get.
pub(super) const NO_IMAGE: [&str; 4] = ["ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"];

/// Whether a pod cannot get that image. For an image volume only kubelet's message says so.
pub fn waits_for(pod: &Value, image: &str) -> bool {
    without_image(pod)
        .any(|c| c["image"] == image || c["state"]["waiting"]["message"].as_str().is_some_and(|m| m.contains(image)))
}

/// Whether a pod cannot get an image: then it does nothing yet.
pub fn waits_for_an_image(pod: &Value) -> bool {
    without_image(pod).next().is_some()
}

fn without_image(pod: &Value) -> impl Iterator<Item = &Value> {
    let waits = |c: &&Value| c["state"]["waiting"]["reason"].as_str().is_some_and(|r| NO_IMAGE.contains(&r));
    container_statuses(pod).filter(waits).filter(|_| !deleting(pod))
}

/// Whether one of its pods cannot get its first container's image: then another registry loses nothing.
pub fn lacks_its_image<'a>(workload: &Value, mut pods: impl Iterator<Item = (&'a ObjectKey, &'a Value)>) -> bool {
    image_of(workload).is_some_and(|image| pods.any(|(_, pod)| waits_for(pod, image)))
}

/// The component's image and the agent's. The registry that the spec asks for counts at once. One that the operator is configured
/// with later counts from the next version on, and rolls nothing by itself: what runs stays if it is the same image and version.
/// `live`: the workload, unless it [`lacks_its_image`].
pub fn images(
    live: Option<&Value>,
    asked: &Images,
    registry: &str,
    (binary, version): (Binary, Version),
    agent: &str,
) -> (String, String) {
    if let Some(registry) = &asked.registry {
        return (image(registry, binary, version), relocated(registry, agent));
    }
    let wanted = image(registry, binary, version);
    let tail = |image: &str| image.rsplit('/').next().map(str::to_owned);
    let pinned = live.filter(|l| annotation(l, labels::IMAGE_REGISTRY).is_none()).and_then(image_of);
    let image = pinned.filter(|runs| tail(runs) == tail(&wanted)).map_or(wanted, str::to_owned);
    (image, agent.to_owned())
}

/// Notes on a workload which registry the spec asked for, see [`images`].
pub fn with_registry_annotation(object: Object, asked: &Images) -> Object {
    match &asked.registry {
        Some(registry) if matches!(object.key().kind, Kind::Deployment | Kind::StatefulSet) => {
            object.with_annotation(labels::IMAGE_REGISTRY, registry)
        }
        _ => object,
    }
}
