//! The way to a proxy of the platform's, where its URL has an address. What a team names opens nothing.

use crate::subject::Tenant;
use berth_api::proxy::Proxy;
use berth_plan::settings::Settings;
use ipnet::IpNet;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::net::IpAddr;

/// Address and port of each.
fn addresses<'a>(all: impl Iterator<Item = &'a Proxy>) -> BTreeSet<(IpNet, u16)> {
    let servers = all.flat_map(Proxy::servers);
    servers.filter_map(|(host, port)| Some((host.parse::<IpAddr>().ok()?.into(), port))).collect()
}

/// Rules for API servers: the chart's value, and what releases took from it before.
pub(super) fn rules(t: &Tenant<'_>) -> Vec<Value> {
    let taken = t.release.pins().filter_map(|pin| pin.proxy.as_ref());
    let all = addresses(taken.chain(&t.settings.proxy)).into_iter();
    let rule = |(net, port): (IpNet, u16)| json!({"to": [peer(net)], "ports": [{"protocol": "TCP", "port": port}]});
    all.map(rule).collect()
}

/// Peers for Jobs, which go by the chart's value.
pub(super) fn peers(settings: &Settings) -> Vec<Value> {
    let mut peers: Vec<_> = addresses(settings.proxy.iter()).into_iter().map(|(net, _)| peer(net)).collect();
    peers.dedup();
    peers
}

/// Of the stores, and of the proxy by which Jobs reach them.
pub(super) fn store_ports(settings: &Settings) -> Vec<u16> {
    let proxies = settings.proxy.iter().flat_map(Proxy::servers).map(|(_, port)| port);
    settings.backups.ports().into_iter().chain(proxies).collect::<BTreeSet<_>>().into_iter().collect()
}

fn peer(net: IpNet) -> Value {
    json!({"ipBlock": {"cidr": net.to_string()}})
}
