//! Stage 2: the Service of the API, and the address that it is published under.

mod answer;
mod by_name;
mod facts;
mod gateway;
mod hibernates;
mod names;
mod node_port;
mod parent;
mod pods;
mod proxied;
mod reach;
mod route;
mod routed;
mod stage;

pub(crate) use answer::{no_answer, unresolved};
pub(crate) use facts::{Endpoint, KUBECONFIGS, authority, server_handed_out, url};
pub(crate) use gateway::only_from;
pub(crate) use hibernates::is_closed;
pub(crate) use names::sans;
pub(crate) use node_port::{refused as refused_node_port, status as node_port_status};
pub(crate) use pods::Family;
pub(crate) use reach::{missed as missed_by_pods, over, verdict as pods_reach};
pub(crate) use route::{is_alone as is_behind_routes_alone, limits as limits_of_berths, refused_without_berths};
pub(crate) use routed::{Routed, looks_again as looks_again_at_routes, routed, unrouted};
pub(crate) use stage::stage;
