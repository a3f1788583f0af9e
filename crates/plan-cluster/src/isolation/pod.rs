//! What the container `vpc` of an API server holds in its pod: ConfigMap `kube-apiserver-vpc`, from the table that NetworkPolicies are made
//! of. NetworkPolicies do not reach the second interface, and plugins differ in what they hold on the first.
//!
//! It restarts nothing, as policies do, and follows the operator.

use super::allows::{self, There};
use super::by_proxy;
use super::ends::{API, Allow, End, Port};
use super::ranges::EVERYWHERE;
use crate::ours::ensure_manifest;
use crate::subject::Tenant;
use crate::validate::vpc as judge;
use berth_api::cluster::Vpc;
use berth_api::etcd_bootstrap::vpc::{CONFIG_MAP, Cidr, KEY, Net, Open, Protocol, Route};
use berth_api::{labels, names};
use berth_plan::meta_cluster::addresses::{Closed, MetaRanges, network};
use berth_plan::model::Stage;
use berth_render::Kind;
use ipnet::IpNet;
use serde_json::{Value, json};

/// Puts the ConfigMap into the stage. What is not known, or refused, changes nothing.
pub(super) fn config_map(t: &Tenant<'_>, stage: &mut Stage) {
    let Some(vpc) = &t.cluster.spec.vpc else { return };
    let is_valid = judge::spec(&t.cluster.spec).and_then(|()| judge::routes(t)).is_ok();
    let net = t.observed.meta.addresses.as_ref().ok().filter(|_| is_valid).and_then(|meta| net(t, vpc, meta));
    let Some(text) = net.and_then(|net| serde_json::to_string(&net).ok()) else {
        stage.owns.push(t.key(Kind::ConfigMap, CONFIG_MAP));
        return;
    };
    let mut labels = t.labels();
    labels.insert(labels::COMPONENT.into(), names::APISERVER.into());
    let object = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": CONFIG_MAP, "namespace": t.cp_namespace, "labels": labels},
        "data": {(KEY): text},
    });
    ensure_manifest(stage, t.observed, object);
}

/// None: the tenant's etcd is not known yet, and with it the API server has no pods.
fn net(t: &Tenant<'_>, vpc: &Vpc, meta: &MetaRanges) -> Option<Net> {
    let closed =
        EVERYWHERE.into_iter().filter_map(|all| meta.forbidden(all, Closed::Nothing)).flatten().filter_map(cidr);
    let route =
        |route: &berth_api::cluster::Route| Some(Route { dst: route.dst.parse().ok()?, via: route.via.parse().ok()? });
    Some(Net {
        interface: vpc.attachment.interface.clone(),
        rules: t.settings.vpc.rules,
        closed: closed.collect(),
        open: open(t)?,
        routes: vpc.routes.iter().filter_map(route).collect(),
        slots: vpc.addresses.iter().filter_map(|address| address.parse().ok()).collect(),
        virtual_ip: vpc.virtual_ip.as_ref().and_then(|address| address.parse().ok()),
    })
}

/// What of the closed ranges the API server's pods reach. Its nameservers it reads in the pod: where the meta cluster's DNS is, is known
/// as pods, not as addresses.
fn open(t: &Tenant<'_>) -> Option<Vec<Open>> {
    let members = t.etcd.as_ref()?.status.as_ref()?.endpoints.iter();
    let members: Vec<IpNet> = members.filter_map(|member| network(&member.address)).collect();
    if members.is_empty() {
        return None;
    }
    let isolation = &t.settings.isolation;
    let mut all = vec![];
    for Allow { to, port, .. } in allows::all(There { backups: false, apps: false }).filter(|row| row.from == API) {
        let nets = match to {
            End::Etcd => members.clone(),
            End::Dns => isolation.dns.iter().flat_map(block).collect(),
            _ => continue,
        };
        let ports: &[_] = match port {
            Port::Tcp(port) => &[(Some(*port), None, Some(Protocol::Tcp))],
            Port::Dns => &[(Some(53), None, Some(Protocol::Udp)), (Some(53), None, Some(Protocol::Tcp))],
            Port::Any => &[(None, None, None)],
            // API servers reach neither.
            Port::Stores | Port::Registries => &[],
        };
        all.extend(to_ports(&nets, ports));
    }
    for rule in isolation.api_server_egress.iter().chain(&by_proxy::rules(t)) {
        let list = |name: &str| rule[name].as_array().filter(|list| !list.is_empty());
        let nets = list("to").map_or_else(|| EVERYWHERE.to_vec(), |to| to.iter().flat_map(block).collect());
        let ports =
            list("ports").map_or_else(|| vec![(None, None, None)], |all| all.iter().filter_map(ports).collect());
        all.extend(to_ports(&nets, &ports));
    }
    Some(all)
}

/// First and last port, and the protocol.
type Ports = (Option<u16>, Option<u16>, Option<Protocol>);

/// Of a rule of a NetworkPolicy. None: a name, which only pods have.
fn ports(value: &Value) -> Option<Ports> {
    let number = |name: &str| match &value[name] {
        Value::Null => Some(None),
        port => Some(Some(u16::try_from(port.as_u64()?).ok()?)),
    };
    let protocol = serde_json::from_value(value["protocol"].clone()).unwrap_or(Protocol::Tcp);
    Some((number("port")?, number("endPort")?, Some(protocol)))
}

fn to_ports<'a>(nets: &'a [IpNet], ports: &'a [Ports]) -> impl Iterator<Item = Open> + 'a {
    let one = |to: Cidr, (port, end_port, protocol): Ports| Open { to, port, end_port, protocol };
    nets.iter().filter_map(|net| cidr(*net)).flat_map(move |to| ports.iter().map(move |ports| one(to, *ports)))
}

/// The networks of a peer's `ipBlock`.
fn block(peer: &Value) -> Vec<IpNet> {
    let block = &peer["ipBlock"];
    let Some(net) = block["cidr"].as_str().and_then(network) else { return vec![] };
    let except = block["except"].as_array().into_iter().flatten();
    let except: Vec<IpNet> = except.filter_map(|one| network(one.as_str()?)).collect();
    without(net, &except)
}

/// What is left of a network.
fn without(net: IpNet, except: &[IpNet]) -> Vec<IpNet> {
    if except.iter().any(|out| out.contains(&net)) {
        return vec![];
    }
    match net.subnets(net.prefix_len() + 1) {
        Ok(halves) if except.iter().any(|out| net.contains(out)) => {
            halves.flat_map(|half| without(half, except)).collect()
        }
        _ => vec![net],
    }
}

fn cidr(net: IpNet) -> Option<Cidr> {
    net.to_string().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exceptions_are_taken_out_of_a_block() {
        let nets = |peer: Value| -> Vec<String> { block(&peer).iter().map(ToString::to_string).collect() };
        let with = |except: Value| nets(json!({"ipBlock": {"cidr": "10.200.0.0/22", "except": except}}));
        assert_eq!(with(json!([])), ["10.200.0.0/22"]);
        assert_eq!(with(json!(["10.200.1.0/24"])), ["10.200.0.0/24", "10.200.2.0/23"]);
        assert_eq!(with(json!(["10.200.0.0/16"])), [""; 0]);
        assert_eq!(with(json!(["10.201.0.0/16"])), ["10.200.0.0/22"]);
        assert_eq!(nets(json!({"podSelector": {}})), [""; 0]);
    }

    #[test]
    fn ports_are_those_of_a_policy() {
        let tcp = Some(Protocol::Tcp);
        assert_eq!(ports(&json!({"port": 443})), Some((Some(443), None, tcp)));
        assert_eq!(
            ports(&json!({"port": 1, "endPort": 9, "protocol": "UDP"})),
            Some((Some(1), Some(9), Some(Protocol::Udp)))
        );
        assert_eq!(ports(&json!({"protocol": "SCTP"})), Some((None, None, Some(Protocol::Sctp))));
        assert_eq!(ports(&json!({"port": "https"})), None);
    }
}
