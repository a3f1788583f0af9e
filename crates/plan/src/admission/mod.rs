//! Whether writes in a tenant go through, and which webhook of the tenant's own is in the way if not.

mod webhook;

use berth_api::text::TenantText;
use jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet};

pub use webhook::{Target, Webhook};

/// A write that a tenant does not work without.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Write {
    /// The lease of a controller, or of a node.
    Lease,
    /// A node.
    Node,
    /// A pod.
    Pod,
    /// A token of a service account, which each pod gets.
    Token,
    /// What Berth keeps there.
    Own,
}

impl Write {
    /// All, in the order in which they are told.
    pub const ALL: [Self; 5] = [Self::Lease, Self::Node, Self::Pod, Self::Token, Self::Own];

    /// Group, resource and subresource.
    pub fn resource(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Lease => ("coordination.k8s.io", "leases", ""),
            Self::Node => ("", "nodes", ""),
            Self::Pod => ("", "pods", ""),
            Self::Token => ("", "serviceaccounts", "token"),
            Self::Own => ("", "configmaps", ""),
        }
    }

    /// Whether it is in a namespace: in `kube-system`.
    pub fn is_namespaced(self) -> bool {
        self != Self::Node
    }
}

impl std::fmt::Display for Write {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (_, resource, subresource) = self.resource();
        let slash = if subresource.is_empty() { "" } else { "/" };
        write!(f, "{resource}{slash}{subresource}")
    }
}

/// A write that does not go through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failing {
    /// Since when, as far as anybody looked.
    pub since: Timestamp,
    /// What was answered.
    pub why: TenantText,
}

/// A look at what keeps writes from going through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admission {
    /// When.
    pub at: Timestamp,
    /// What failed in a dry run; nothing: all goes through.
    pub failing: BTreeMap<Write, Failing>,
    /// The tenant's webhooks, if something fails; or why they are not known.
    pub webhooks: Result<Vec<Webhook>, TenantText>,
    /// Namespace and name of Services of webhooks that nobody serves.
    pub idle: BTreeSet<(String, String)>,
}

/// A webhook that is in the way of something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InTheWay<'a> {
    /// The webhook.
    pub webhook: &'a Webhook,
    /// The first write that it takes of those that fail.
    pub write: Write,
    /// How that fails.
    pub failing: &'a Failing,
    /// Nobody serves its Service.
    pub is_idle: bool,
    /// Others that take that write, too.
    pub others: usize,
}

/// Whether a write failed by a webhook: one that hangs or cannot be called. What is refused on purpose is a policy's matter, and another object
/// than the one that was tried may please it; but for leases, which were tried as they are.
pub fn is_of_admission(write: Write, why: &str) -> bool {
    let has = |words: &str| why.contains(words);
    let hangs = has("no answer within") || has("failed calling webhook") || has("deadline exceeded");
    hangs || (write == Write::Lease && has("admission webhook") && has("denied the request"))
}

impl Admission {
    /// Since when what fails now has failed without a break. `before`: the look before this one.
    #[must_use]
    pub fn since(mut self, before: Option<&Self>) -> Self {
        for (write, failing) in &mut self.failing {
            let known = before.and_then(|before| before.failing.get(write));
            failing.since = known.map_or(failing.since, |known| known.since.min(failing.since));
        }
        self
    }

    /// The webhook that is in the way of anything.
    pub fn in_the_way(&self) -> Option<InTheWay<'_>> {
        self.in_the_way_of(&Write::ALL)
    }

    /// The webhook that is in the way of one of these writes. Of several that take the write: the one that the answer names; or else one
    /// that nobody serves; or else the one that may take the longest.
    pub fn in_the_way_of(&self, writes: &[Write]) -> Option<InTheWay<'_>> {
        let webhooks = self.webhooks.as_ref().ok()?;
        self.failing.iter().filter(|(write, _)| writes.contains(write)).find_map(|(write, failing)| {
            let is_idle = |webhook: &Webhook| webhook.service().is_some_and(|service| self.idle.contains(service));
            let worst = |webhook: &&Webhook| {
                let named = failing.why.contains(&format!("\"{}\"", &*webhook.name));
                (named, is_idle(webhook), webhook.timeout)
            };
            let takes = || webhooks.iter().filter(|webhook| webhook.takes(*write));
            let webhook = takes().max_by_key(worst)?;
            let others = takes().count() - 1;
            Some(InTheWay { webhook, write: *write, failing, is_idle: is_idle(webhook), others })
        })
    }
}

#[cfg(test)]
mod tests;
