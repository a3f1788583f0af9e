//! What is there in the end, and how often what was made and deleted: masked, so that two runs can be compared.
//!
//! Most bugs that a crash leaves behind show in the end state of objects that nobody thought of looking at. So a dump
//! takes every kind in the namespaces, unless told otherwise.

mod counts;
mod diff;
mod mask;
mod secrets;

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use futures::{StreamExt as _, TryStreamExt as _};
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, ListParams};
use kube::discovery::{Discovery, Scope, verbs};
use kube::{Api, Client, ResourceExt as _};
use serde_json::Value;

pub use counts::{Counts, assert_deletes_carry_uid, audit_counts, call_counts, renamed};
pub use diff::{Change, changes, diff, diff_counts};
pub use secrets::{SecretKeys, assert_keys_unchanged, secret_keys};

/// Masked objects by `namespace/Kind.group/name`.
pub type Dump = BTreeMap<String, Value>;

/// How to take a [`Dump`].
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Dumper {
    namespaces: Vec<String>,
    kinds: Vec<GroupVersionKind>,
    except: Vec<String>,
    rename: Vec<(String, String)>,
    ignore: Vec<(String, String)>,
    secret_hashes: bool,
}

impl Dumper {
    /// Everything in these namespaces, and the namespaces themselves. Events and Leases are left out.
    pub fn of<S: Into<String>>(namespaces: impl IntoIterator<Item = S>) -> Self {
        let except = ["Event", "Event.events.k8s.io", "Lease.coordination.k8s.io"].map(String::from).to_vec();
        Self { namespaces: namespaces.into_iter().map(Into::into).collect(), except, ..Self::default() }
    }

    /// Only these kinds. Cluster-scoped ones are dumped whole.
    pub fn kinds(mut self, kinds: impl IntoIterator<Item = GroupVersionKind>) -> Self {
        self.kinds.extend(kinds);
        self
    }

    /// Without these kinds, named `Kind` or `Kind.group`: `Pod`, say, where a world makes them.
    pub fn except(mut self, kinds: &[&str]) -> Self {
        self.except.extend(kinds.iter().map(ToString::to_string));
        self
    }

    /// Replaces a text wherever it occurs, in names too: what differs from run to run, such as a namespace.
    pub fn rename(mut self, from: impl Into<String>, to: impl Into<String>) -> Self {
        self.rename.push((from.into(), to.into()));
        self
    }

    /// Removes what a JSON pointer names from objects of a kind (`Kind.group`, or `*`).
    pub fn ignore(mut self, kind: &str, pointer: &str) -> Self {
        self.ignore.push((kind.to_owned(), pointer.to_owned()));
        self
    }

    /// Secret data as SHA-256 per key, for two states of one tenant. By default only whether a key has data, since two
    /// tenants never have the same keys.
    pub fn with_secret_hashes(mut self) -> Self {
        self.secret_hashes = true;
        self
    }

    /// Reads the objects and masks them.
    pub async fn take(&self, client: &Client) -> Result<Dump> {
        // One call a kind, some at a time: a dump is taken often.
        let lists = self.resources(client).await?.into_iter().map(async |(resource, scope)| {
            let kind = kind_name(&resource);
            let api = Api::<DynamicObject>::all_with(client.clone(), &resource);
            let list = api.list(&ListParams::default()).await.with_context(|| format!("listing {kind}"))?;
            let wanted = |o: &DynamicObject| match scope {
                Scope::Namespaced => o.namespace().is_some_and(|ns| self.namespaces.contains(&ns)),
                Scope::Cluster => kind != "Namespace" || self.namespaces.contains(&o.name_any()),
            };
            let objects = list.items.into_iter().filter(wanted).map(serde_json::to_value);
            let objects = objects.collect::<Result<Vec<_>, _>>()?;
            anyhow::Ok(objects.into_iter().map(|o| (kind.clone(), o)).collect::<Vec<_>>())
        });
        let found: Vec<_> = futures::stream::iter(lists).buffered(8).try_collect().await?;
        Ok(mask::mask(found.concat(), self))
    }

    async fn resources(&self, client: &Client) -> Result<Vec<(ApiResource, Scope)>> {
        let discovery = Discovery::new(client.clone()).run_aggregated().await?;
        if !self.kinds.is_empty() {
            let resolve = |gvk: &GroupVersionKind| {
                let known = discovery.resolve_gvk(gvk).with_context(|| format!("the server does not know {gvk:?}"));
                known.map(|(resource, cap)| (resource, cap.scope))
            };
            return self.kinds.iter().map(resolve).collect();
        }
        let all = discovery.groups().flat_map(kube::discovery::ApiGroup::recommended_resources);
        Ok(all
            .filter(|(_, cap)| cap.supports_operation(verbs::LIST))
            .filter(|(resource, cap)| cap.scope == Scope::Namespaced || resource.kind == "Namespace")
            .filter(|(resource, _)| !self.except.contains(&kind_name(resource)))
            .map(|(resource, cap)| (resource, cap.scope))
            .collect())
    }
}

fn kind_name(resource: &ApiResource) -> String {
    if resource.group.is_empty() { resource.kind.clone() } else { format!("{}.{}", resource.kind, resource.group) }
}
