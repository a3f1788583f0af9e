//! What is read of the two kinds that a gateway watches.

use berth_api::names;
use berth_contract::gateway::{ANNOTATION, Exposed};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::{Endpoint as Listed, EndpointPort, EndpointSlice};
use std::net::{IpAddr, SocketAddr};

/// Label of a slice with its Service's name.
const SERVICE_NAME: &str = "kubernetes.io/service-name";
/// The API's port in the Service, by its name.
const PORT: &str = "https";

/// Of a Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServiceFacts {
    pub(crate) uid: String,
    pub(crate) created: Option<Timestamp>,
    /// None: its annotation is missing, or cannot be read.
    pub(crate) exposed: Option<Exposed>,
}

/// Of an EndpointSlice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SliceFacts {
    pub(crate) uid: String,
    /// Empty if it is not of an API server's Service.
    pub(crate) endpoints: Vec<Endpoint>,
}

/// Where an API server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Endpoint {
    pub(crate) address: SocketAddr,
    /// The UID of its pod, if it is one: an address may be another pod's later.
    pub(crate) pod: String,
    pub(crate) is_ready: bool,
    /// Its pod is to end.
    pub(crate) ends: bool,
}

impl From<&Service> for ServiceFacts {
    fn from(service: &Service) -> Self {
        let text = service.metadata.annotations.as_ref().and_then(|all| all.get(ANNOTATION));
        Self {
            uid: service.metadata.uid.clone().unwrap_or_default(),
            created: service.metadata.creation_timestamp.as_ref().map(|time| time.0),
            exposed: text.and_then(|text| serde_json::from_str(text).ok()),
        }
    }
}

impl From<&EndpointSlice> for SliceFacts {
    fn from(slice: &EndpointSlice) -> Self {
        let uid = slice.metadata.uid.clone().unwrap_or_default();
        let of = slice.metadata.labels.as_ref().and_then(|labels| labels.get(SERVICE_NAME));
        let port = port(slice.ports.as_deref().unwrap_or_default());
        let (true, Some(port)) = (of.is_some_and(|of| of == names::APISERVER), port) else {
            return Self { uid, ..Self::default() };
        };
        let listed = slice.endpoints.iter();
        Self { uid, endpoints: listed.filter_map(|listed| endpoint(listed, port)).collect() }
    }
}

/// The one that is named so, or the only one.
fn port(all: &[EndpointPort]) -> Option<u16> {
    let named = all.iter().find(|port| port.name.as_deref() == Some(PORT));
    let only = || all.first().filter(|_| all.len() == 1);
    u16::try_from(named.or_else(only)?.port?).ok().filter(|port| *port > 0)
}

fn endpoint(listed: &Listed, port: u16) -> Option<Endpoint> {
    // All addresses of one lead to the same place, says the API.
    let ip: IpAddr = listed.addresses.first()?.parse().ok()?;
    let pod = listed.target_ref.as_ref().and_then(|target| target.uid.clone()).unwrap_or_default();
    // Not known is to be taken as ready, says the API.
    let conditions = listed.conditions.as_ref();
    let is_ready = conditions.and_then(|conditions| conditions.ready).unwrap_or(true);
    let ends = conditions.and_then(|conditions| conditions.terminating).unwrap_or_default();
    Some(Endpoint { address: SocketAddr::new(ip, port), pod, is_ready, ends })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn slice(labels: &Value, ports: &Value, endpoints: &Value) -> Vec<Endpoint> {
        let slice = json!({"metadata": {"name": "s", "labels": labels}, "addressType": "IPv4", "ports": ports,
            "endpoints": endpoints});
        SliceFacts::from(&serde_json::from_value::<EndpointSlice>(slice).unwrap()).endpoints
    }

    #[test]
    fn where_api_servers_are_is_read_of_their_slices_alone() {
        let own = json!({"kubernetes.io/service-name": "kube-apiserver"});
        let ports = json!([{"name": "other", "port": 1}, {"name": "https", "port": 6443}]);
        let endpoints = json!([
            {"addresses": ["10.0.0.1"], "conditions": {"ready": true}, "targetRef": {"uid": "u1"}},
            {"addresses": ["10.0.0.2"], "conditions": {"ready": false, "serving": true, "terminating": true}},
            {"addresses": ["fd00::3"], "conditions": {}},
            {"addresses": ["api.example.com"]},
        ]);
        let at = |address: &str, pod: &str, is_ready: bool| Endpoint {
            address: address.parse().unwrap(),
            pod: pod.to_owned(),
            is_ready,
            ends: !is_ready,
        };
        let read = [at("10.0.0.1:6443", "u1", true), at("10.0.0.2:6443", "", false), at("[fd00::3]:6443", "", true)];
        assert_eq!(slice(&own, &ports, &endpoints), read);
        let one = json!([{"addresses": ["10.0.0.1"]}]);
        assert_eq!(slice(&own, &json!([{"port": 8443}]), &one), [at("10.0.0.1:8443", "", true)]);
        for (labels, ports) in [
            (&own, &json!([{"port": 1}, {"port": 2}])),
            (&own, &json!([])),
            (&own, &json!([{"name": "https", "port": 0}])),
            (&json!({"kubernetes.io/service-name": "kubernetes"}), &ports),
            (&json!({}), &ports),
        ] {
            assert!(slice(labels, ports, &one).is_empty(), "{labels} {ports}");
        }
    }

    #[test]
    fn a_service_is_read_with_its_annotation() {
        let service = |annotations: Value| {
            let service = json!({"metadata": {"name": "s", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z",
                "annotations": annotations}});
            ServiceFacts::from(&serde_json::from_value::<Service>(service).unwrap())
        };
        let good = service(json!({"berth.dev/gateway": r#"{"cluster":{"namespace":"a","name":"b"},"names":["x"]}"#}));
        assert_eq!((good.uid.as_str(), good.created.unwrap().to_string().as_str()), ("u", "2026-01-01T00:00:00Z"));
        assert_eq!(good.exposed.unwrap().names, ["x"]);
        for annotations in [json!({}), json!({"berth.dev/gateway": "yes"}), Value::Null] {
            assert_eq!(service(annotations).exposed, None);
        }
    }
}
