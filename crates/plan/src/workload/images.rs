//! Images of a workload, and pods that cannot get one.

use super::pods::container_statuses;
use crate::meta_cluster::pull_secrets::{how_to_create, pulls};
use crate::object_meta::{annotation, deleting, label};
use crate::objects::same_image::same_image;
use crate::observed::Observed;
use berth_api::common::Images;
use berth_api::labels;
use berth_api::version::Version;
use berth_render::images::{is_of, overridden, tag_of};
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
    let mut all = all("initContainers").map(|c| &c["image"]).chain(mounted).filter_map(Value::as_str);
    all.any(|agent| same_image(agent, image))
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

/// The component's image and the agent's. What the spec names counts at once, of the version that its tag is of; at another version, such as
/// of a component whose turn has not come yet, what runs goes on. The registry that the spec asks for counts at once. One that the operator is configured
/// with later counts from the next version on, and rolls nothing by itself: what runs stays if it is the same image and version.
/// `live`: the workload, unless it [`lacks_its_image`].
pub fn images(
    live: Option<&Value>,
    asked: &Images,
    registry: &str,
    (binary, version): (Binary, Version),
    agent: &str,
) -> (String, String) {
    let agent = asked.registry.as_ref().map_or_else(|| agent.to_owned(), |registry| relocated(registry, agent));
    if let Some(name) = asked.overrides.get(binary.name()) {
        let runs = || live.and_then(image_of).filter(|runs| tag_of(runs).is_some_and(|tag| is_of(tag, version)));
        let own = overridden(name, &binary.tag(version), version).or_else(|| runs().map(str::to_owned));
        if let Some(image) = own {
            return (image, agent);
        }
    }
    if let Some(registry) = &asked.registry {
        return (image(registry, binary, version), agent);
    }
    let wanted = image(registry, binary, version);
    let tail = |image: &str| image.rsplit('/').next().map(str::to_owned);
    let pinned = live.filter(|l| annotation(l, labels::IMAGE_REGISTRY).is_none()).and_then(image_of);
    let image = pinned.filter(|runs| tail(runs) == tail(&wanted)).map_or(wanted, str::to_owned);
    (image, agent)
}

/// What a person reads of pull Secrets that a spec names in `field`, and that are not in the pods' namespace, or of no use there. None: all are.
pub fn missing_pull_secrets<'a>(
    observed: &Observed,
    namespace: &str,
    names: impl Iterator<Item = &'a String>,
    field: &str,
) -> Option<String> {
    let wrong = |name: &String| {
        let key = ObjectKey::namespaced(Kind::Secret, namespace, name);
        let create = how_to_create(namespace, name);
        let Some(live) = observed.get(&key) else {
            return Some(format!("{key} ({field}) does not exist. To create it: {create}"));
        };
        match live["type"].as_str().unwrap_or("Opaque") {
            type_ if pulls(type_) => None,
            // It may hold what cannot be made again.
            _ if is_berths(live) => Some(format!(
                "{key} ({field}) is one of Berth's own, with which no image is pulled. Leave it as it is, and name another one in {field}"
            )),
            type_ => Some(format!(
                "{key} ({field}) is of type {type_}, with which no image is pulled. The type of a Secret cannot be changed. Delete it, and then: {create}"
            )),
        }
    };
    let all: Vec<String> = names.filter_map(wrong).collect();
    (!all.is_empty()).then(|| all.join("; "))
}

/// Whether a Secret is one that Berth made.
fn is_berths(secret: &Value) -> bool {
    label(secret, labels::MANAGED_BY) == Some(labels::MANAGED_BY_VALUE)
        || label(secret, labels::ETCD_CLUSTER).is_some()
        || annotation(secret, labels::APPLIED_DIGEST).is_some()
}

/// What becomes of the image that a spec names for a component, by the version that its tag is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnImage {
    /// It runs, or none is named.
    Runs,
    /// It is of the version that comes: until then what runs stays.
    Waits,
    /// It is of neither.
    Refused,
}

/// Judges the image of what changes later than the spec. A tag may be of the version that runs, or of the one that the spec leads to: so
/// both can be set at once, and no step on the way refuses them.
pub fn own_image(asked: &Images, component: &str, runs: Version, comes: Version) -> OwnImage {
    match asked.overrides.get(component).and_then(|name| tag_of(name)) {
        None => OwnImage::Runs,
        Some(tag) if is_of(tag, runs) => OwnImage::Runs,
        Some(tag) if is_of(tag, comes) => OwnImage::Waits,
        Some(_) => OwnImage::Refused,
    }
}

/// Why the image that a spec names for a component cannot be that of its version, which `field` sets. None: it can, or none is named.
pub fn of_another_version(asked: &Images, component: &str, version: Version, field: &str) -> Option<String> {
    let tag = tag_of(asked.overrides.get(component)?)?;
    (!is_of(tag, version)).then(|| {
        format!(
            "spec.images.overrides.{component}: tag {tag} is not of {version} ({field}). Set a tag that begins with v{version}, or leave the tag out"
        )
    })
}

/// Notes on a workload which image or registry the spec asked for, see [`images`].
pub fn with_registry_annotation(object: Object, asked: &Images, binary: Binary) -> Object {
    match asked.overrides.get(binary.name()).or(asked.registry.as_ref()) {
        Some(registry) if matches!(object.key().kind, Kind::Deployment | Kind::StatefulSet) => {
            object.with_annotation(labels::IMAGE_REGISTRY, registry)
        }
        _ => object,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_own_image_is_of_what_runs_or_of_what_comes() {
        use OwnImage::{Refused, Runs, Waits};
        // Name, while nothing changes, on the way to 1.14.2, and there.
        for (name, before, during, after) in [
            ("mirror.example.com:5000/dns", Runs, Runs, Runs),
            ("mirror.example.com/dns:v1.13.1", Runs, Runs, Refused),
            ("mirror.example.com/dns:1.13.1-acme.1", Runs, Runs, Refused),
            ("mirror.example.com/dns:v1.14.2", Refused, Waits, Runs),
            ("mirror.example.com/dns:v1.14.20", Refused, Refused, Refused),
            ("mirror.example.com/dns:latest", Refused, Refused, Refused),
        ] {
            let asked = Images { overrides: [("coredns".to_owned(), name.to_owned())].into(), ..Images::default() };
            let judge =
                |runs: &str, comes: &str| own_image(&asked, "coredns", runs.parse().unwrap(), comes.parse().unwrap());
            let found = [judge("1.13.1", "1.13.1"), judge("1.13.1", "1.14.2"), judge("1.14.2", "1.14.2")];
            assert_eq!(found, [before, during, after], "{name}");
        }
        let none = own_image(&Images::default(), "coredns", "1.13.1".parse().unwrap(), "1.14.2".parse().unwrap());
        assert_eq!(none, Runs);
    }
}
