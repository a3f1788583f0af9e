//! Whether a tenant may be behind the platform's gateway, and its name there.

use crate::validate::writers;
use berth_api::cluster::{self, EndpointType};
use berth_api::conditions::Reason;
use berth_api::gateway::{ClusterName, comparable};
use berth_plan::model::State;
use berth_plan::settings::Settings;
use std::net::IpAddr;

/// Name and port that a tenant has at the gateway by itself. None: it asks for another type, or there is no gateway.
pub(super) fn own(asked: &cluster::Endpoint, settings: &Settings, cp_namespace: &str) -> Option<(String, i32)> {
    let gateway = settings.gateway.as_ref().filter(|_| asked.type_ == EndpointType::Gateway)?;
    Some((gateway.name(cp_namespace), gateway.port.into()))
}

/// Why a tenant that asks to be behind the gateway is not, if so: for what host, whose that is already, and its own name there.
pub(super) fn refusal(
    (host, host_is_of): (Option<&str>, Option<&ClusterName>),
    own: Option<&str>,
    settings: &Settings,
) -> Option<State> {
    let (Some(gateway), Some(own)) = (&settings.gateway, own) else {
        let why = "spec.endpoint.type: Gateway is not allowed, since the platform has no gateway. Set another type, or ask the platform team to set gateway.enabled and gateway.domain in the values of Berth's chart";
        return Some(State::blocked(Reason::NotAllowed, why));
    };
    let host = host?;
    if host.parse::<IpAddr>().is_ok() {
        let why = format!(
            "spec.endpoint.host: {host} is an IP address, and with type Gateway a tenant is found by its name. Set a DNS name, or remove the field"
        );
        return Some(State::blocked(Reason::InvalidSpec, why));
    }
    let name = comparable(host);
    if name == own {
        return None;
    }
    if name.strip_suffix(&gateway.domain).is_some_and(|above| above.ends_with('.')) {
        let why = format!(
            "spec.endpoint.host: {host} is below {}, where Berth gives each tenant its name, which is {own} for this one. Set a name elsewhere, or remove the field",
            gateway.domain
        );
        return Some(State::blocked(Reason::InvalidSpec, why));
    }
    let taken = host_is_of.map(|other| {
        let why = format!(
            "spec.endpoint.host: {host} is the name of Cluster {}/{}, which had it first. Set another name, or remove the field",
            other.namespace, other.name
        );
        State::blocked(Reason::NotAllowed, why)
    });
    writers::host(&name, &settings.writers).err().or(taken)
}
