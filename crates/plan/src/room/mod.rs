//! Whether a node could hold a pod, by what nodes say of themselves: asked before a pod that runs is stopped for one that asks for more.
//!
//! It is an estimate that errs to one side (ADR 69): what it refuses no node holds as long as nodes are as they are. What passes does not count: a
//! cordon, a node that is not ready; nor what other pods ask for, but on the one node that a volume is on. What it lets pass may still find no
//! node.

mod node;
mod used;

pub use node::Node;
pub use used::{PodThere, beside};

use berth_api::common::{Placement, Resources};
use berth_api::quantity::{self, shown};
use jiff::SignedDuration;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// What the scheduler says where a pod that asks for less, or for other nodes, would find one. That a node is cordoned, or a volume elsewhere,
/// is nothing of the pod.
const OF_THE_POD: [&str; 5] = [
    "Insufficient ",
    "didn't match Pod's node affinity/selector",
    "untolerated taint",
    "anti-affinity rules",
    "topology spread constraints",
];

/// Whether a pod finds no node for what it asks for, by what the scheduler says.
pub fn is_of_the_pod(why: &str) -> bool {
    OF_THE_POD.iter().any(|text| why.contains(text))
}

/// How long a pod finds no node, where nothing else serves, before it gets back what ran.
pub const ALONE: SignedDuration = SignedDuration::from_secs(30);

/// What the spec asks of a node for a component's pod.
#[derive(Clone, Copy, Debug)]
pub struct Need<'a> {
    /// Of its first container.
    pub resources: Option<&'a Resources>,
    /// Which nodes it may run on.
    pub placement: &'a Placement,
}

/// The volume of a pod that is there.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Volume {
    /// Its claim.
    pub claim: String,
    /// The name of the `PersistentVolume`.
    pub name: String,
    /// The `spec.nodeAffinity` of that.
    pub affinity: Value,
    /// The pods on its node, where it is on one alone.
    pub pods: Vec<PodThere>,
}

impl Volume {
    /// The node that it is on, where it is on one alone.
    pub fn node<'a>(&self, nodes: &'a [Node]) -> Option<&'a Node> {
        let mut all = nodes.iter().filter(|node| node.reaches(&self.affinity));
        let one = all.next()?;
        all.next().is_none().then_some(one)
    }
}

/// Where a pod that is there has to be.
#[derive(Clone, Debug)]
pub struct Place<'a> {
    /// By its volume.
    pub volume: &'a Volume,
    /// What others ask for on the node of that, by resource, in units of 10⁻⁹.
    pub beside: BTreeMap<String, i128>,
    /// So many of these pods have to be there.
    pub times: i128,
}

/// Why no node takes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoRoom {
    /// The field that asks for what none has, within the component's part of the spec.
    pub field: String,
    /// What it asks for, and what there is.
    pub why: String,
}

/// An amount that is asked for.
struct Amount<'a> {
    resource: &'a str,
    /// `requests`, or `limits` where that is the request, too.
    list: &'static str,
    nanos: i128,
}

impl Need<'_> {
    fn amounts(&self) -> Vec<Amount<'_>> {
        let Some(resources) = self.resources else { return vec![] };
        let requests = resources.requests.as_ref();
        let asked = requests.into_iter().flatten().map(|(name, amount)| (name, amount, "requests"));
        let is_no_request = |name: &String| requests.is_none_or(|all| !all.contains_key(name));
        let limits = resources.limits.iter().flatten().filter(|(name, _)| is_no_request(name));
        let all = asked.chain(limits.map(|(name, amount)| (name, amount, "limits")));
        all.filter_map(|(name, amount, list)| Some(Amount { resource: name, list, nanos: quantity::nanos(&amount.0)? }))
            .filter(|amount| amount.nanos > 0)
            .collect()
    }

    /// Whether it asks more of a node than what runs, or for other nodes. `template`: of the pods that run.
    pub fn is_more_than(&self, template: &Value) -> bool {
        let runs = |list: &str, name: &str| {
            quantity::nanos(template["spec"]["containers"][0]["resources"][list][name].as_str()?)
        };
        let amounts = self.amounts();
        let mut more =
            amounts.iter().map(|a| (runs("requests", a.resource).or_else(|| runs("limits", a.resource)), a.nanos));
        let selector = &template["spec"]["nodeSelector"];
        let tolerated: Vec<Value> = self.placement.tolerations.iter().map(|t| json!(t)).collect();
        let mut accepted = template["spec"]["tolerations"].as_array().into_iter().flatten();
        more.any(|(runs, asked)| runs.is_none_or(|runs| runs < asked))
            || self.placement.node_selector.iter().any(|(key, value)| selector[key] != *value.as_str())
            || accepted.any(|accepted| !tolerated.contains(accepted))
    }

    /// Whether a node could hold it, as far as nodes tell: where none could hold what runs, they do not, since admission changes pods, or nodes
    /// changed. `template`: of the pods that run.
    ///
    /// # Errors
    ///
    /// What none has.
    pub fn beside(&self, template: &Value, nodes: &[Node], place: Option<&Place<'_>>) -> Result<(), NoRoom> {
        let of = |path: &str| template.pointer(path).cloned().unwrap_or_default();
        let resources: Option<Resources> = serde_json::from_value(of("/spec/containers/0/resources")).ok();
        let placement = Placement {
            node_selector: serde_json::from_value(of("/spec/nodeSelector")).unwrap_or_default(),
            tolerations: serde_json::from_value(of("/spec/tolerations")).unwrap_or_default(),
            ..Placement::default()
        };
        let runs = Need { resources: resources.as_ref(), placement: &placement };
        if runs.on(nodes, place).is_err() { Ok(()) } else { self.on(nodes, place) }
    }

    /// Whether a node could hold it. `place`: where it has to be, if that is known.
    ///
    /// # Errors
    ///
    /// What none has.
    pub fn on(&self, nodes: &[Node], place: Option<&Place<'_>>) -> Result<(), NoRoom> {
        let volume = place.map(|place| place.volume);
        if nodes.is_empty() {
            return Ok(());
        }
        let selector = &self.placement.node_selector;
        let with = if selector.is_empty() { String::new() } else { format!(" with {}", labels(selector)) };
        let no = |field: &str, why: String| Err(NoRoom { field: field.to_owned(), why });
        let mut fit: Vec<&Node> = nodes.iter().filter(|node| node.is_labelled(selector)).collect();
        if fit.is_empty() {
            return no("placement.nodeSelector", format!("no node has {}", labels(selector)));
        }
        if let Some(volume) = volume {
            let reached: BTreeSet<&str> =
                nodes.iter().filter(|n| n.reaches(&volume.affinity)).map(|n| &*n.name).collect();
            // Its node is away, whatever is asked for.
            let Some(first) = reached.first() else { return Ok(()) };
            fit.retain(|node| reached.contains(&*node.name));
            if fit.is_empty() {
                let Volume { claim, name, .. } = volume;
                let has = format!("{claim} is on PersistentVolume {name}, which only node {first}");
                let more = if reached.len() > 1 { " and others like it have" } else { " has" };
                return no("placement.nodeSelector", format!("no node{with} has its volume: {has}{more}"));
            }
        }
        let taints: Vec<_> =
            fit.iter().map(|node| (&node.name, node.keeps_away(&self.placement.tolerations))).collect();
        if let Some((name, Some(taint))) = taints.first()
            && taints.iter().all(|(_, taint)| taint.is_some())
        {
            let of = if volume.is_some() { " that has its volume" } else { "" };
            return no(
                "placement.tolerations",
                format!("each node{with}{of} has a taint that is not tolerated, such as {taint} of node {name}"),
            );
        }
        fit.retain(|node| node.keeps_away(&self.placement.tolerations).is_none() && node.is_known());
        self.amounts_on(&fit, place)
    }

    fn amounts_on(&self, nodes: &[&Node], place: Option<&Place<'_>>) -> Result<(), NoRoom> {
        let amounts = self.amounts();
        let times = place.map_or(1, |place| place.times);
        let beside = |resource: &str| place.and_then(|place| place.beside.get(resource)).copied().unwrap_or_default();
        let left = |node: &Node, resource: &str| (node.has(resource) - beside(resource)).max(0);
        let holds = |node: &&Node, amount: &Amount<'_>| left(node, amount.resource) >= amount.nanos * times;
        if nodes.is_empty() || nodes.iter().any(|node| amounts.iter().all(|amount| holds(node, amount))) {
            return Ok(());
        }
        for amount in &amounts {
            let Amount { resource, list, nanos } = *amount;
            let most = nodes.iter().max_by_key(|node| left(node, resource));
            if let Some(most) = most.filter(|most| !holds(most, amount)) {
                let others = if beside(resource) > 0 { ", beside what other pods there ask for" } else { "" };
                let has = match left(most, resource) {
                    0 => format!("no node that it may run on has any{others}"),
                    left => format!(
                        "the most that a node has which it may run on is {} (node {}{others})",
                        shown(resource, left),
                        most.name
                    ),
                };
                let each = if times > 1 { format!(" by each of {times} pods there") } else { String::new() };
                let field = format!("resources.{list}.{resource}");
                return Err(NoRoom { field, why: format!("{} is asked for{each}, and {has}", shown(resource, nanos)) });
            }
        }
        let all: Vec<_> = amounts.iter().map(|a| format!("{} {}", shown(a.resource, a.nanos), a.resource)).collect();
        let why = format!("no node that it may run on has all of this: {}", all.join(", "));
        Err(NoRoom { field: "resources.requests".to_owned(), why })
    }
}

fn labels(selector: &BTreeMap<String, String>) -> String {
    let all: Vec<_> = selector.iter().map(|(key, value)| format!("{key}={value}")).collect();
    format!("label{} {}", if all.len() == 1 { "" } else { "s" }, all.join(","))
}

#[cfg(test)]
mod tests;
