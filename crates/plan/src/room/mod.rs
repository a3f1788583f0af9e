//! Whether a node could hold a pod, by what nodes say of themselves: asked before a pod that runs is stopped for one that asks for more.
//!
//! It is an estimate that errs to one side (ADR 69): what it refuses no node holds as long as nodes are as they are. What passes does not count: a
//! cordon, a node that is not ready; nor what other pods ask for, but on the one node that a volume is on. What it lets pass may still find no
//! node.

mod node;
mod scheduler;
mod used;

pub use node::Node;
pub use scheduler::{is_of_the_pod, recorded_without_nodes, without_nodes};
pub use used::{PodThere, beside};

use berth_api::common::{Placement, Resources};
use berth_api::quantity::{self, shown};
use jiff::SignedDuration;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

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
    /// What could not be read: the volume, or those pods.
    pub unread: Option<Unread>,
}

/// What could not be read of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unread {
    /// The operator has no right to: it never knows, as where it may not read nodes.
    pub is_denied: bool,
    /// The error, with names of the platform's objects: for the platform team alone.
    pub why: String,
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
    /// What it asks for, and that none has it: for whoever may read the object.
    pub why: String,
    /// What nodes have, by name: for the platform team alone.
    pub nodes: String,
}

/// Whom to ask, and where they see more.
pub const WAY_OUT: &str =
    "Change the field, or ask the platform team for such a node: the operator's log has what its nodes have";

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

    /// As [`Self::on`]; but where none could hold what runs, either, nodes do not tell, since admission changes pods, or nodes changed.
    /// `template`: of the pods that run.
    ///
    /// # Errors
    ///
    /// What none has.
    pub fn beside(&self, template: &Value, nodes: &[Node], place: Option<&Place<'_>>) -> Result<bool, NoRoom> {
        let of = |path: &str| template.pointer(path).cloned().unwrap_or_default();
        let resources: Option<Resources> = serde_json::from_value(of("/spec/containers/0/resources")).ok();
        let placement = Placement {
            node_selector: serde_json::from_value(of("/spec/nodeSelector")).unwrap_or_default(),
            tolerations: serde_json::from_value(of("/spec/tolerations")).unwrap_or_default(),
            ..Placement::default()
        };
        let runs = Need { resources: resources.as_ref(), placement: &placement };
        match self.on(nodes, place) {
            Err(_) if runs.on(nodes, place).is_err() => Ok(false),
            judged => judged,
        }
    }

    /// Whether a node could hold it. False: nodes do not tell, since none is known, that of the volume is away, or those that it may run on do not
    /// say what they have. `place`: where it has to be, if that is known.
    ///
    /// # Errors
    ///
    /// What none has.
    pub fn on(&self, nodes: &[Node], place: Option<&Place<'_>>) -> Result<bool, NoRoom> {
        let volume = place.map(|place| place.volume);
        if nodes.is_empty() {
            return Ok(false);
        }
        let selector = &self.placement.node_selector;
        let with = if selector.is_empty() { String::new() } else { format!(" with {}", labels(selector)) };
        let no =
            |field: &str, why: String, nodes: String| Err(NoRoom { field: format!("placement.{field}"), why, nodes });
        let mut fit: Vec<&Node> = nodes.iter().filter(|node| node.is_labelled(selector)).collect();
        if fit.is_empty() {
            let all = format!("{} nodes are known", nodes.len());
            return no("nodeSelector", format!("no node has {}", labels(selector)), all);
        }
        if let Some(volume) = volume {
            let reached: BTreeSet<&str> =
                nodes.iter().filter(|n| n.reaches(&volume.affinity)).map(|n| &*n.name).collect();
            // Its node is away, whatever is asked for.
            let Some(first) = reached.first() else { return Ok(false) };
            fit.retain(|node| reached.contains(&*node.name));
            if fit.is_empty() {
                let Volume { claim, name, .. } = volume;
                let why = format!("no node{with} has the volume of PersistentVolumeClaim {claim}");
                let more = if reached.len() > 1 { " and others like it have" } else { " has" };
                return no("nodeSelector", why, format!("PersistentVolume {name}, which only node {first}{more}"));
            }
        }
        let taints: Vec<_> =
            fit.iter().map(|node| (&node.name, node.keeps_away(&self.placement.tolerations))).collect();
        if let Some((name, Some(taint))) = taints.first()
            && taints.iter().all(|(_, taint)| taint.is_some())
        {
            let of = if volume.is_some() { " that has its volume" } else { "" };
            let why = format!("each node{with}{of} has a taint that is not tolerated");
            return no("tolerations", why, format!("taint {taint} of node {name}"));
        }
        fit.retain(|node| node.keeps_away(&self.placement.tolerations).is_none() && node.is_known());
        self.amounts_on(&fit, place)
    }

    fn amounts_on(&self, nodes: &[&Node], place: Option<&Place<'_>>) -> Result<bool, NoRoom> {
        let amounts = self.amounts();
        let times = place.map_or(1, |place| place.times);
        let beside = |resource: &str| place.and_then(|place| place.beside.get(resource)).copied().unwrap_or_default();
        let left = |node: &Node, resource: &str| (node.has(resource) - beside(resource)).max(0);
        let holds = |node: &&Node, amount: &Amount<'_>| left(node, amount.resource) >= amount.nanos * times;
        if nodes.is_empty() || nodes.iter().any(|node| amounts.iter().all(|amount| holds(node, amount))) {
            return Ok(!nodes.is_empty());
        }
        let most = |resource: &str| nodes.iter().max_by_key(|node| left(node, resource));
        let shows = |amount: &Amount<'_>| {
            let Amount { resource, .. } = *amount;
            let others = if beside(resource) > 0 { ", beside what other pods there ask for" } else { "" };
            let has = |node: &&Node| {
                format!("most {resource} has node {}: {}{others}", node.name, shown(resource, left(node, resource)))
            };
            most(resource).map(has)
        };
        for amount in &amounts {
            let Amount { resource, list, nanos } = *amount;
            if most(resource).is_some_and(|most| !holds(most, amount)) {
                let what = match (nodes.iter().any(|node| node.has(resource) > 0), beside(resource) > 0) {
                    (false, _) => "has any",
                    (true, false) => "has as much",
                    (true, true) => "has as much left",
                };
                let each = if times > 1 { format!(" by each of {times} pods there") } else { String::new() };
                return Err(NoRoom {
                    field: format!("resources.{list}.{resource}"),
                    why: format!(
                        "{} is asked for{each}, and no node that it may run on {what}",
                        shown(resource, nanos)
                    ),
                    nodes: shows(amount).unwrap_or_default(),
                });
            }
        }
        let all: Vec<_> = amounts.iter().map(|a| format!("{} {}", shown(a.resource, a.nanos), a.resource)).collect();
        Err(NoRoom {
            field: "resources.requests".to_owned(),
            why: format!("no node that it may run on has all of this: {}", all.join(", ")),
            nodes: amounts.iter().filter_map(shows).collect::<Vec<_>>().join(", "),
        })
    }
}

fn labels(selector: &BTreeMap<String, String>) -> String {
    let all: Vec<_> = selector.iter().map(|(key, value)| format!("{key}={value}")).collect();
    format!("label{} {}", if all.len() == 1 { "" } else { "s" }, all.join(","))
}

#[cfg(test)]
mod tests;
