//! `VPCReady`: whether the API servers have their addresses in the VPC.

use super::addresses::{ip, replicas};
use super::pods::{NETWORK_STATUS, given, of_pods, pods, pods_are_held};
use crate::subject::Tenant;
use crate::validate::vpc as judge;
use berth_api::cluster::Vpc;
use berth_api::conditions::{ConditionType, Reason, Verdict};
use berth_api::etcd_bootstrap::vpc::ADDRESS_TAKEN;
use berth_api::{labels, names};
use berth_plan::object_meta::{annotation, label};
use berth_plan::observed::Observed;
use berth_plan::workload;
use berth_render::Binary;
use serde_json::Value;

/// Whether the API servers have their addresses.
pub(crate) fn verdict(t: &Tenant<'_>) -> Verdict {
    let of = |status, reason, message: String| Verdict::new(ConditionType::VPCReady, status, reason, message);
    let spec = &t.cluster.spec;
    let Some(vpc) = &spec.vpc else { return of(None, Reason::NotYetObserved, "not checked yet".into()) };
    let judged = match t.live_namespace() {
        None => judge::new_tenant(t),
        Some(_) => judge::of_pods(t).map(|_| ()),
    };
    if let Err(state) = judged {
        let (reason, message) = state.sentence().unwrap_or((Reason::InvalidSpec, String::new()));
        return of(Some(false), reason, message);
    }
    let replicas = replicas(spec);
    let problem = match vpc.addresses.len() {
        0 => without_any_address(t, vpc, replicas),
        _ => (0..replicas).find_map(|slot| without_address(t, vpc, slot)),
    };
    if let Some((reason, message)) = problem {
        return of(Some(false), reason, message);
    }
    let mut message = format!("{replicas} API servers have their address in the VPC");
    if vpc.addresses.is_empty() {
        let all: Vec<_> = of_pods(t, vpc).iter().map(ToString::to_string).collect();
        message = format!("{message}: {}", all.join(", "));
    }
    if !pods_are_held(t) {
        message = format!(
            "{message}. Nothing limits what they reach there: namespace {ns} was made by an earlier build of Berth. To have rules, which replaces their pods, a cluster administrator runs: kubectl label --overwrite namespace {ns} {vpc}=true {enforce}=privileged",
            ns = t.cp_namespace,
            vpc = labels::VPC,
            enforce = labels::POD_SECURITY,
        );
    } else if t.workloads(Binary::ApiServer).live().any(|workload| !is_held(workload)) {
        message = format!(
            "{message}. Nothing limits what those reach there whose pods have no container vpc: they get it with another spec.version"
        );
    }
    of(Some(true), Reason::AsExpected, message)
}

/// Whether a workload's pods have the container that holds their network: templates of an earlier build do not know it.
fn is_held(workload: &Value) -> bool {
    let all = workload.pointer("/spec/template/spec/initContainers").and_then(Value::as_array);
    all.into_iter().flatten().any(|container| container["name"] == "vpc")
}

/// Why one of the API servers that the provider gives addresses to has none, if so.
fn without_any_address(t: &Tenant<'_>, vpc: &Vpc, replicas: usize) -> Option<(Reason, String)> {
    let waits = |pod: &&Value| !berth_plan::object_meta::deleting(pod) && !workload::pod_ready(pod);
    let told = pods(t).filter(waits).find_map(|pod| {
        let name = pod.pointer("/metadata/name").and_then(Value::as_str).unwrap_or("?");
        if let Some(why) = t.observed.refused.get(name) {
            return Some((Reason::PodsNotReady, format!("pod {name} does not get its network: {why}")));
        }
        if let Some(problem) = workload::pod_problem(pod) {
            return Some(problem);
        }
        without_interface(pod, name, &vpc.attachment.interface)
    });
    let ready = of_pods(t, vpc).len();
    let few = || format!("{ready} of {replicas} API servers are ready with an address in the VPC");
    told.filter(|_| ready < replicas).or_else(|| (ready < replicas).then(|| (Reason::PodsNotReady, few())))
}

/// What the network plugin did not do.
fn without_interface(pod: &Value, name: &str, interface: &str) -> Option<(Reason, String)> {
    let Some(status) = annotation(pod, NETWORK_STATUS) else {
        return Some((
            Reason::PodsNotReady,
            format!(
                "pod {name} has no annotation {NETWORK_STATUS} yet, so it is not attached to the VPC. If that lasts, check the meta cluster's CNI meta-plugin (such as Multus) on its node"
            ),
        ));
    };
    given(status, interface).is_empty().then(|| {
        let message = format!(
            "pod {name} has no interface {interface} with an IPv4 address. See that the network's IPAM, or the provider, gives each pod one"
        );
        (Reason::PodsNotReady, message)
    })
}

/// Why the API server of a slot does not have its address, if so.
fn without_address(t: &Tenant<'_>, vpc: &Vpc, slot: usize) -> Option<(Reason, String)> {
    let (set, interface) = (names::slot(names::APISERVER, slot), &vpc.attachment.interface);
    let address = vpc.addresses.get(slot)?;
    let Some(pod) = pod_of(t.observed, &t.cp_namespace, slot) else {
        let why = t.observed.refused.get(&format!("{set}-0"));
        let why = why.map(|why| format!(": {why}")).unwrap_or_default();
        return Some((Reason::PodsNotReady, format!("StatefulSet {set} for {address} has no pod{why}")));
    };
    // It has passed its gate, which looks at the interface itself.
    if workload::pod_ready(pod) {
        return None;
    }
    let name = pod.pointer("/metadata/name").and_then(Value::as_str).unwrap_or("?");
    if let Some(why) = t.observed.refused.get(name) {
        return Some((Reason::PodsNotReady, format!("pod {name} does not get its network, with {address}: {why}")));
    }
    if let Some(message) = taken(pod) {
        let message =
            format!("pod {name}: {message}. Take {address} away from it, or replace it in spec.vpc.addresses");
        return Some((Reason::PodsNotReady, message));
    }
    if let Some(problem) = workload::pod_problem(pod) {
        return Some(problem);
    }
    let Some(status) = annotation(pod, NETWORK_STATUS) else { return without_interface(pod, name, interface) };
    let given = given(status, interface);
    if ip(address).is_some_and(|ip| given.contains(&ip)) {
        return Some((Reason::PodsNotReady, format!("pod {name} has {address} and is not ready")));
    }
    let given: Vec<_> = given.iter().map(ToString::to_string).collect();
    let has = if given.is_empty() { format!("no interface {interface}") } else { given.join(", ") };
    Some((
        Reason::PodsNotReady,
        format!(
            "pod {name} should have {address} at {interface}, and has {has}. Check that the network's IPAM assigns requested addresses (capability ips)"
        ),
    ))
}

/// What the container `vpc` says of somebody else in the VPC that has the pod's address.
fn taken(pod: &Value) -> Option<&str> {
    let all = pod.pointer("/status/initContainerStatuses")?.as_array()?;
    let vpc = all.iter().find(|c| c["name"] == "vpc" && c["started"] != true)?;
    let ended = ["/state/terminated/message", "/lastState/terminated/message"];
    let message = ended.iter().find_map(|path| vpc.pointer(path)?.as_str())?.trim();
    message.lines().last().filter(|line| line.starts_with(ADDRESS_TAKEN))
}

/// The pod of a slot; of two the one that does not end.
fn pod_of<'a>(observed: &'a Observed, cp_namespace: &'a str, slot: usize) -> Option<&'a Value> {
    let of_slot = |pod: &&Value| label(pod, labels::SLOT) == Some(&*slot.to_string());
    let pods = workload::pods_of(observed, cp_namespace, labels::COMPONENT, names::APISERVER).map(|(_, pod)| pod);
    pods.filter(of_slot).min_by_key(|pod| berth_plan::object_meta::deleting(pod))
}
