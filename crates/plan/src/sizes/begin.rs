//! What pods begin with.

use super::amount::Size;
use crate::object_meta::{annotation, deleting};
use berth_api::labels;
use serde_json::Value;

/// Resources of a workload's container as `resources` of the spec makes them: without a size that its pods begin with.
pub fn without_size(workload: &Value, container: &str) -> Option<Value> {
    let all = workload.pointer("/spec/template/spec/containers")?.as_array()?;
    let mut resources = all.iter().find(|one| one["name"] == container)?["resources"].clone();
    let requests = annotation(workload, labels::REQUESTS).and_then(|text| serde_json::from_str::<Value>(text).ok());
    if let Some(requests) = requests.filter(Value::is_object) {
        resources["requests"] = requests;
    }
    Some(resources)
}

/// Requests that kubelet has given to the container of a pod that runs.
pub fn given(pod: &Value, container: &str) -> Option<Size> {
    let all = pod.pointer("/status/containerStatuses")?.as_array().filter(|_| !deleting(pod))?;
    let own = all.iter().find(|one| one["name"] == container && one["state"]["running"].is_object())?;
    let size = Size::of(own.pointer("/resources/requests")?);
    (size.cpu > 0 && size.memory > 0).then_some(size)
}
