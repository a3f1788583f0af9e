//! Which server name leads where: a pure function of what is known of Services and EndpointSlices.

use berth_api::names;
use berth_contract::gateway::{ClusterName, Hibernates, comparable};
use berth_contract::vpc::Cidr;
use std::collections::{BTreeMap, BTreeSet};

use crate::facts::{Endpoint, ServiceFacts, SliceFacts};
use crate::kept::Key;

/// A tenant, and all that leads to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Route {
    pub(crate) cluster: ClusterName,
    /// The names that are its own, as [`comparable`] has them. No two tenants have one.
    pub(crate) names: Vec<String>,
    /// None: from everywhere.
    pub(crate) source_ranges: Option<Vec<Cidr>>,
    /// None: as many as the gateway allows by itself.
    pub(crate) max_connections: Option<u32>,
    /// None: it does not sleep, or nobody is told who uses it.
    pub(crate) hibernation: Option<Hibernates>,
    /// Each address once.
    pub(crate) endpoints: Vec<Endpoint>,
}

/// Why a Service, or a part of it, does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Ignored {
    /// It is not in the control-plane namespace of the `Cluster` that it names.
    Foreign,
    /// It is not the Service of API servers.
    OtherService,
    /// Its annotation is missing, or cannot be read.
    Unreadable,
    /// A name of it is an older Service's. Its other names count.
    NameTaken,
}

impl Ignored {
    pub(crate) const ALL: [Self; 4] = [Self::Foreign, Self::OtherService, Self::Unreadable, Self::NameTaken];

    /// As it is written.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Foreign => "Foreign",
            Self::OtherService => "OtherService",
            Self::Unreadable => "Unreadable",
            Self::NameTaken => "NameTaken",
        }
    }
}

/// All that counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Table {
    pub(crate) routes: Vec<Route>,
    /// Services that do not count, by why.
    pub(crate) ignored: BTreeMap<Ignored, u64>,
}

/// The table of now.
pub(crate) fn build(services: &BTreeMap<Key, ServiceFacts>, slices: &BTreeMap<Key, SliceFacts>) -> Table {
    let mut table = Table::default();
    // Names go to the oldest. Who has no time of creation was never created by an API server.
    let mut by_age: Vec<_> = services.iter().collect();
    by_age.sort_by_key(|(_, facts)| (facts.created.is_none(), facts.created, &facts.uid));
    let mut endpoints: BTreeMap<&str, Vec<&Endpoint>> = BTreeMap::new();
    for ((namespace, _), facts) in slices {
        endpoints.entry(namespace).or_default().extend(&facts.endpoints);
    }
    let mut taken = BTreeSet::new();
    let mut former: Vec<(usize, &[String])> = vec![];
    for ((namespace, name), facts) in by_age {
        let mut ignore = |why| *table.ignored.entry(why).or_default() += 1;
        if name != names::APISERVER {
            ignore(Ignored::OtherService);
            continue;
        }
        let Some(exposed) = &facts.exposed else {
            ignore(Ignored::Unreadable);
            continue;
        };
        let cluster = exposed.cluster.clone();
        if names::control_plane_namespace(&cluster.namespace, &cluster.name) != *namespace {
            ignore(Ignored::Foreign);
            continue;
        }
        let wanted: BTreeSet<String> = exposed.names.iter().map(|name| comparable(name)).collect();
        let own: Vec<String> = wanted.iter().filter(|name| taken.insert((*name).clone())).cloned().collect();
        if own.len() < wanted.len() {
            ignore(Ignored::NameTaken);
        }
        former.push((table.routes.len(), &exposed.former_names));
        table.routes.push(Route {
            cluster,
            names: own,
            source_ranges: exposed.source_ranges.clone(),
            max_connections: exposed.max_connections,
            hibernation: exposed.hibernation.clone(),
            endpoints: once(endpoints.get(namespace.as_str()).map_or(&[][..], Vec::as_slice)),
        });
    }
    // What a tenant has given up is its own until another asks for it.
    for (at, names) in former {
        let free = names.iter().map(|name| comparable(name)).filter(|name| taken.insert(name.clone()));
        table.routes[at].names.extend(free);
    }
    table
}

/// Each address once: it is in two slices while it moves from one to the other, and ready if one of them says so.
fn once(all: &[&Endpoint]) -> Vec<Endpoint> {
    let mut found: Vec<Endpoint> = vec![];
    for endpoint in all {
        match found.iter_mut().find(|known| known.address == endpoint.address) {
            Some(known) if known.is_ready || !endpoint.is_ready => {}
            Some(known) => *known = (*endpoint).clone(),
            None => found.push((*endpoint).clone()),
        }
    }
    found
}

#[cfg(test)]
mod tests;
