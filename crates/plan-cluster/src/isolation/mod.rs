//! NetworkPolicies of a control-plane namespace, from a table of what is allowed.
//!
//! They are no templates: a policy restarts no pod, so what a new operator knows better holds for every tenant at once (ADR 14).

mod allows;
mod by_proxy;
pub(super) mod ends;
pub(super) mod nodes;
mod pod;
pub(super) mod private;
mod ranges;

use super::apps;
use super::endpoint::{limits_of_berths, only_from};
use super::ours::ensure_manifest;
use super::subject::Tenant;
use super::validate::without_ranges;
use allows::There;
use berth_api::{labels, names};
use berth_plan::meta_cluster::addresses::{Closed, MetaRanges};
use berth_plan::model::{Stage, State};
use berth_plan::settings::Engine;
use berth_render::Kind;
use ends::{API, Allow, End, Port};
use ipnet::IpNet;
use ranges::{EVERYWHERE, blocks};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Name of the policy that denies everything to every pod.
const DEFAULT_DENY: &str = "default-deny";
/// Labels of the operator's pods, as the chart gives them.
const OPERATOR: [(&str, &str); 2] = [("app.kubernetes.io/name", "berth"), (labels::COMPONENT, "operator")];

/// Likewise of the gateway's.
const GATEWAY: [(&str, &str); 2] = [("app.kubernetes.io/name", "berth"), (labels::COMPONENT, "gateway")];

/// Likewise of `berth-access`.
const ACCESS: [(&str, &str); 2] = [("app.kubernetes.io/name", "berth"), (labels::COMPONENT, "access")];

/// Puts the policies into the stage. Without them no pod is started.
pub(super) fn policies(t: &Tenant<'_>, stage: &mut Stage) {
    let are_there = t.get(Kind::NetworkPolicy, names::APISERVER).is_some();
    let known = match &t.observed.meta.addresses {
        Ok(ranges) => Some(ranges),
        Err(why) => {
            if !are_there && !matches!(stage.state, State::Blocked { .. }) {
                stage.actions.clear();
                stage.state = without_ranges(why);
            }
            None
        }
    };
    let there = there(t);
    let pods = allows::pods().filter(|end| there.has(*end)).filter_map(|end| Some((name(end)?, Some(end))));
    for (name, end) in [(DEFAULT_DENY, None)].into_iter().chain(pods) {
        let needs_ranges = match end {
            Some(API) => true,
            Some(End::Backup) => t.settings.backups.peers.is_empty(),
            Some(End::Apps) => t.settings.apps.peers.is_empty(),
            _ => false,
        };
        match (known, needs_ranges) {
            (Some(ranges), _) => put(t, stage, name, &spec(t, end, ranges)),
            (None, false) if are_there => put(t, stage, name, &spec(t, end, &MetaRanges::default())),
            // What is there stays as it is.
            (None, _) => stage.owns.push(t.key(Kind::NetworkPolicy, name)),
        }
    }
    pod::config_map(t, stage);
}

fn put(t: &Tenant<'_>, stage: &mut Stage, name: &str, spec: &Value) {
    let object = json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
        "metadata": {"name": name, "namespace": t.cp_namespace, "labels": t.labels()},
        "spec": spec,
    });
    ensure_manifest(stage, t.observed, object);
}

/// What is there of what not each tenant has.
fn there(t: &Tenant<'_>) -> There {
    There { backups: t.settings.backups.are_enabled(), apps: apps::have_a_way_out(t) }
}

/// The component's name, if its pods are a tenant's.
fn name(end: End) -> Option<&'static str> {
    match end {
        End::Etcd => Some(names::ETCD),
        End::Backup => Some(names::ETCD_BACKUP),
        End::Apps => Some(names::APPS),
        End::Component(binary) => Some(binary.name()),
        _ => None,
    }
}

/// The policy of one component's pods; None: of all pods, and nothing is allowed. Both directions are always named: what is
/// not listed is denied.
fn spec(t: &Tenant<'_>, of: Option<End>, meta: &MetaRanges) -> Value {
    let rules = |mine: fn(&Allow) -> End, other: fn(&Allow) -> End, key: &str| -> Vec<Value> {
        let rows: Vec<&Allow> = allows::all(there(t)).filter(|a| of == Some(mine(a))).collect();
        let other = |a: &Allow| match other(a) {
            End::Anyone if of == Some(API) && only_from(t).is_some() => End::Gateway,
            other => other,
        };
        // Where everybody is let in, the others need no rule of their own.
        let open =
            |a: &Allow| other(a) != End::Anyone && rows.iter().any(|r| other(r) == End::Anyone && r.port == a.port);
        rows.iter().filter(|a| !open(a)).filter_map(|a| rule(t, other(a), a.port, key, meta)).collect()
    };
    let mut egress = rules(|a| a.from, |a| a.to, "to");
    if of == Some(API) {
        egress.extend(t.settings.isolation.api_server_egress.iter().cloned().chain(by_proxy::rules(t)));
    }
    let selector = of.and_then(name).map_or_else(|| json!({}), |n| json!({"matchLabels": {(labels::COMPONENT): n}}));
    let mut spec = json!({"podSelector": selector, "policyTypes": ["Ingress", "Egress"]});
    for (direction, rules) in [("ingress", rules(|a| a.to, |a| a.from, "from")), ("egress", egress)] {
        if !rules.is_empty() {
            spec[direction] = rules.into();
        }
    }
    spec
}

/// One rule; none if nobody is at the other end.
fn rule(t: &Tenant<'_>, other: End, port: Port, key: &str, meta: &MetaRanges) -> Option<Value> {
    let mut rule = json!({});
    if other != End::Anyone {
        let peers = peers(t, other, meta);
        if peers.is_empty() {
            return None;
        }
        rule[key] = peers.into();
    }
    let tcp = |n: u16| json!({"protocol": "TCP", "port": n});
    match port {
        Port::Tcp(n) => rule["ports"] = json!([tcp(n)]),
        Port::Dns => rule["ports"] = json!([{"protocol": "UDP", "port": 53}, tcp(53)]),
        Port::Stores => rule["ports"] = by_proxy::store_ports(t.settings).into_iter().map(tcp).collect(),
        Port::Registries => {
            let ports = apps::ports(t);
            if ports.is_empty() {
                // An empty list would be every port.
                return None;
            }
            rule["ports"] = ports.into_iter().map(tcp).collect();
        }
        Port::Any => {}
    }
    Some(rule)
}

fn peers(t: &Tenant<'_>, end: End, meta: &MetaRanges) -> Vec<Value> {
    let isolation = &t.settings.isolation;
    match end {
        End::Operator => t.settings.service_account.iter().map(|(ns, _)| pods_of(ns, OPERATOR)).collect(),
        End::Gateway => gateways(t),
        End::Dns => isolation.dns.clone(),
        End::Monitoring => isolation.monitoring.clone(),
        End::Stores => outside(t, &t.settings.backups.peers, meta),
        End::Registries => outside(t, &t.settings.apps.peers, meta),
        End::Anyone => vec![],
        End::Outside => ip_blocks(blocks(t, meta)),
        End::Etcd | End::Backup | End::Apps | End::Component(_) => {
            name(end).map(|n| json!({"podSelector": {"matchLabels": {(labels::COMPONENT): n}}})).into_iter().collect()
        }
    }
}

/// Where clients come from, if from nowhere else: the pods of Berth's own gateway, the namespaces of the platform's `Gateway`s, and `berth-access`,
/// which goes past the latter.
fn gateways(t: &Tenant<'_>) -> Vec<Value> {
    let (Some(namespace), Some(gateway)) = (only_from(t), &t.settings.gateway) else { return vec![] };
    let own = gateway.has(Engine::Berth).then(|| pods_of(namespace, GATEWAY));
    // Nothing leads from there to a tenant with limits.
    let parents = limits_of_berths(t).is_empty().then_some(&gateway.parents);
    let parents: BTreeSet<&str> = parents.into_iter().flatten().map(|parent| &*parent.namespace).collect();
    let parents = parents
        .into_iter()
        .map(|parent| json!({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": parent}}}));
    let access = t.settings.access.as_ref().filter(|access| access.gateway.is_none());
    let access = access.map(|access| pods_of(&access.namespace, ACCESS));
    own.into_iter().chain(parents).chain(access).collect()
}

fn pods_of(namespace: &str, labels: [(&str, &str); 2]) -> Value {
    let pods: serde_json::Map<String, Value> = labels.iter().map(|(k, v)| ((*k).to_owned(), json!(v))).collect();
    json!({
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "podSelector": {"matchLabels": pods},
    })
}

/// Where stores and registries are. The address is as the name says, which no policy knows: anywhere but in the meta cluster, where other peers
/// are to be named.
fn outside(t: &Tenant<'_>, named: &[Value], meta: &MetaRanges) -> Vec<Value> {
    match named {
        [] => ip_blocks(EVERYWHERE.into_iter().filter_map(|all| Some((all, meta.forbidden(all, Closed::Nothing)?)))),
        peers => peers.iter().cloned().chain(by_proxy::peers(t.settings)).collect(),
    }
}

/// Peers that are these ranges, but for what is closed in them.
fn ip_blocks(all: impl Iterator<Item = (IpNet, Vec<IpNet>)>) -> Vec<Value> {
    let block = |(within, except): (IpNet, Vec<IpNet>)| {
        let mut block = json!({"cidr": within.to_string()});
        if !except.is_empty() {
            block["except"] = except.iter().map(ToString::to_string).collect();
        }
        json!({"ipBlock": block})
    };
    all.map(block).collect()
}
