//! What a node keeps for itself, and where that is enforced.

use super::fault::Fault;
use super::parse::{is_cpu_list, is_not_negative, is_zero};
use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// Of `systemReserved` and `kubeReserved`, as `cmd/kubelet/app/server.go` reads them.
const RESERVABLE: [&str; 4] = ["cpu", "memory", "ephemeral-storage", "pid"];

/// Appends what kubelet refuses. The types are right.
pub(super) fn check(config: &Map<String, Value>, faults: &mut Vec<Fault>) {
    let mut not = |path: String, why: String| faults.push(Fault::new(path, why));
    for field in ["systemReserved", "kubeReserved"] {
        for (name, value) in config.get(field).and_then(Value::as_object).into_iter().flatten() {
            if !RESERVABLE.contains(&&**name) {
                not(format!("{field}.{name}"), format!("cannot be reserved. Known are {}", RESERVABLE.join(", ")));
            } else if !value.as_str().is_some_and(is_not_negative) {
                not(format!("{field}.{name}"), "has to be a quantity of 0 or more, such as 100Mi".into());
            }
        }
    }
    for (name, value) in config.get("qosReserved").and_then(Value::as_object).into_iter().flatten() {
        let percent = value.as_str().and_then(|text| text.strip_suffix('%')?.parse::<u8>().ok());
        if name != "memory" {
            not(format!("qosReserved.{name}"), "cannot be reserved. Known is memory".into());
        } else if percent.is_none_or(|percent| percent > 100) {
            not("qosReserved.memory".into(), "has to be a percentage from 0% to 100%".into());
        }
    }
    let mut seen = BTreeSet::new();
    let memory = config.get("reservedMemory").and_then(Value::as_array).into_iter().flatten();
    for (at, one) in memory.enumerate() {
        let node = one["numaNode"].as_i64().unwrap_or_default();
        for (name, value) in one["limits"].as_object().into_iter().flatten() {
            let path = format!("reservedMemory[{at}].limits.{name}");
            let is_nothing = value.as_str().is_some_and(is_zero) || value.as_f64() == Some(0.0);
            if name != "memory" && !name.starts_with("hugepages-") {
                not(path, "cannot be reserved. Known are memory and hugepages-SIZE".into());
            } else if is_nothing {
                not(path, "has to be more than 0".into());
            } else if !seen.insert((node, name)) {
                not(path, format!("is listed twice for numaNode {node}. Remove one of the two"));
            }
        }
    }
}

/// Cgroups that are named, and needed.
pub(super) fn cgroups(config: &Map<String, Value>, not: &mut dyn FnMut(&str, String)) {
    let is_set = |name: &str| config.get(name).and_then(Value::as_str).is_some_and(|text| !text.is_empty());
    if is_set("systemCgroups") && !is_set("cgroupRoot") {
        not("systemCgroups", "cannot be set without cgroupRoot".into());
    }
    let cpus = config.get("reservedSystemCPUs").and_then(Value::as_str).unwrap_or_default();
    if !cpus.is_empty() && (is_set("systemReservedCgroup") || is_set("kubeReservedCgroup")) {
        not("reservedSystemCPUs", "cannot be set beside systemReservedCgroup and kubeReservedCgroup".into());
    }
    if !is_cpu_list(cpus) {
        not("reservedSystemCPUs", "has to be a list of CPUs, such as 0-3,8".into());
    }
    let all = config.get("enforceNodeAllocatable").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let all: Vec<&str> = all.iter().map(|one| one.as_str().unwrap_or_default()).collect();
    let by_qos = config.get("cgroupsPerQOS").and_then(Value::as_bool).unwrap_or(true);
    enforced(&all, by_qos, &is_set, not);
    if config.get("enforceNodeAllocatable").is_none_or(Value::is_null) && !by_qos {
        not("cgroupsPerQOS", "cannot be false without enforceNodeAllocatable: [none]".into());
    }
}

fn enforced(all: &[&str], by_qos: bool, is_set: &dyn Fn(&str) -> bool, not: &mut dyn FnMut(&str, String)) {
    let field = "enforceNodeAllocatable";
    for of in ["system", "kube"] {
        let both = [format!("{of}-reserved"), format!("{of}-reserved-compressible")];
        if both.iter().all(|name| all.contains(&&**name)) {
            not(field, format!("cannot have both {} and {}. Remove one of the two", both[0], both[1]));
        }
    }
    let mut seen = BTreeSet::new();
    for (at, one) in all.iter().enumerate() {
        let path = format!("{field}[{at}]");
        let cgroup = ["system", "kube"].into_iter().find(|of| one.starts_with(&format!("{of}-reserved")));
        let cgroup = cgroup.map(|of| format!("{of}ReservedCgroup"));
        if one.is_empty() {
            not(&path, "is empty. Remove it".into());
        } else if !seen.insert(one) {
            not(&path, format!("is {one}, which is listed twice. Remove one of the two"));
        } else if *one == "none" && all.len() > 1 {
            not(&path, "is none, which stands alone. Remove it, or the others".into());
        } else if let Some(cgroup) = cgroup.filter(|cgroup| !is_set(cgroup)) {
            not(&path, format!("is {one}, which needs {cgroup}"));
        } else if *one != "none" && !by_qos {
            not(&path, format!("is {one}, which needs cgroupsPerQOS: true"));
        }
    }
}
