//! For which containers sizes are asked for.

use super::amount::{Size, cpu, memory};
use super::begin::without_size;
use super::recommend::Bounds;
use super::seen::SizedPod;
use crate::settings::Limits;
use berth_api::autoscaling::{Autoscaling, Bound, Mode};
use berth_api::cluster::Window;
use berth_render::ObjectKey;
use serde_json::Value;

/// What one `Cluster`, or one stand-alone `EtcdCluster`, asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct Asked {
    /// It.
    pub of: ObjectKey,
    /// Where its pods are.
    pub namespace: String,
    /// At least one.
    pub parts: Vec<Part>,
}

/// One container of like pods.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// Where the spec has it, such as `spec.apiServer.autoscaling`.
    pub field: String,
    /// The container.
    pub container: String,
    /// By which label its pods are found: key and value.
    pub label: (String, String),
    /// Between what it may be.
    pub bounds: Bounds,
    /// When it may become less. None: at any time.
    pub down_in: Option<Window>,
}

impl Part {
    /// Its pods, of those of its namespace.
    pub fn pods<'p>(&self, all: &[&'p SizedPod]) -> Vec<&'p SizedPod> {
        all.iter().filter(|pod| pod.labels.get(&self.label.0) == Some(&self.label.1)).copied().collect()
    }
}

/// The part with that container of a workload. None: it is not asked for, cannot be, or there is no such workload yet. `most`: what writers may ask
/// for, where they do not say it.
pub fn part(
    (field, label): (&str, (&str, &str)),
    container: &str,
    asked: &Autoscaling,
    workload: Option<&Value>,
    most: &Limits,
) -> Option<Part> {
    if asked.mode == Mode::Off || asked.beyond_max().is_some() {
        return None;
    }
    let resources = without_size(workload?, container)?;
    Some(Part {
        field: field.to_owned(),
        container: container.to_owned(),
        label: (label.0.to_owned(), label.1.to_owned()),
        bounds: bounds(asked, &resources, most),
        down_in: None,
    })
}

/// Between what it may be, by what is asked for and by the container's template.
fn bounds(asked: &Autoscaling, resources: &Value, most: &Limits) -> Bounds {
    let (request, limit) = (Size::of(&resources["requests"]), Size::of(&resources["limits"]));
    let (min, max) = (of_bound(&asked.min), of_bound(&asked.max));
    let text = |text: &Option<String>| text.clone().map_or(Value::Null, Value::String);
    let allowed = Size { cpu: cpu(&text(&most.cpu)), memory: memory(&text(&most.memory)) };
    let one = |of: fn(Size) -> i64| {
        let (request, limit, least) = (of(request), of(limit), of(Size::LEAST));
        let free = request.saturating_mul(4).min(or(of(allowed), i64::MAX)).max(request).max(of(min));
        let max = or(of(max), or(limit, free)).min(or(limit, i64::MAX)).max(least);
        (or(of(min), request / 4).max(least).min(max), max)
    };
    let ((cpu, most_cpu), (memory, most_memory)) = (one(|size| size.cpu), one(|size| size.memory));
    Bounds { min: Size { cpu, memory }, max: Size { cpu: most_cpu, memory: most_memory } }
}

/// The first, unless it is not given.
fn or(given: i64, otherwise: i64) -> i64 {
    if given > 0 { given } else { otherwise }
}

fn of_bound(bound: &Bound) -> Size {
    let of = |name: &str| bound.of(name).map_or(Value::Null, Into::into);
    Size { cpu: cpu(&of("cpu")), memory: memory(&of("memory")) }
}
