//! Webhooks of the tenant's own that hold up its wake: what they are asked about is written before what answers for them runs.

use crate::subject::Tenant;
use berth_plan::admission::{Webhook, Write};

/// What starts with a controller, a node, or a pod.
const FIRST: [Write; 3] = [Write::Lease, Write::Node, Write::Pod];

/// What is told of them. None: there is none.
pub(crate) fn hindrance(t: &Tenant<'_>) -> Option<String> {
    let asked = |webhook: &Webhook| FIRST.into_iter().find(|write| webhook.takes(*write));
    let mut all = t.observed.webhooks.iter().filter(|webhook| asked(webhook).is_some() && webhook.service().is_some());
    let webhook = all.next()?;
    let (write, (namespace, name)) = (asked(webhook)?, webhook.service()?);
    let more = match all.count() {
        0 => String::new(),
        1 => " and one more".to_owned(),
        n => format!(" and {n} more"),
    };
    Some(format!(
        "webhook {} of {} {} in the tenant{more} may hold up the wake: it is asked about {write}, and answered for by Service {namespace}/{name}, whose pods start later. Exempt kube-system in its namespaceSelector, and nodes in its rules",
        webhook.name, webhook.kind, webhook.configuration
    ))
}
