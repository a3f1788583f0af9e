//! What people read where the API does not answer.

use super::url;
use crate::subject::Tenant;
use berth_api::cluster::EndpointType;

/// Where the API did not answer, why, and which field a person looks at.
pub(crate) fn no_answer(t: &Tenant<'_>, why: &str) -> String {
    let Some((host, port)) = &t.endpoint.dialled else { return why.to_owned() };
    let url = url(host, *port);
    if let Some(unresolved) = unresolved(t, why) {
        return format!("{url}: {unresolved}");
    }
    let asked = t.cluster.spec.endpoint.host.as_ref() == Some(host);
    let hint = if asked { ". The operator, too, must resolve and reach spec.endpoint.host" } else { "" };
    format!("{url}: {why}{hint}")
}

/// What to do about a host that is not in DNS. A resolver that gives no answer is another matter, and comes back by itself.
pub(crate) fn unresolved(t: &Tenant<'_>, why: &str) -> Option<String> {
    // How Rust's library says it, before the words of the C library: glibc's and musl's for a resolver without an answer.
    const LOOKUP: &str = "failed to lookup address information";
    const NO_ANSWER: [&str; 2] = ["Temporary failure in name resolution", "Try again"];
    let asked = &t.cluster.spec.endpoint;
    let (host, _) = t.endpoint.dialled.as_ref().filter(|(host, _)| asked.host.as_ref() == Some(host))?;
    if !why.contains(LOOKUP) || NO_ANSWER.iter().any(|no| why.contains(no)) {
        return None;
    }
    let to = match asked.type_ {
        EndpointType::ClusterIP => t.endpoint.cluster_ip.map(|ip| ip.to_string()),
        EndpointType::LoadBalancer => t.endpoint.load_balancer.clone(),
        EndpointType::NodePort => Some("the meta cluster's nodes".to_owned()),
        // The operator does not ask there.
        EndpointType::Gateway => None,
    };
    let to = to.map(|to| format!(" that points to {to}")).unwrap_or_default();
    Some(format!("spec.endpoint.host: {host} does not resolve ({why}). Create a DNS record{to}, or change the field"))
}
