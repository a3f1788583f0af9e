//! What policies say of every connection with an end in acme's namespace, of each end by itself: what both ends deny would hide that
//! one of them has a hole.

use super::parties::{Connection, Party, parties, ports};
use super::*;
use berth_testkit::policies::{Network, Protocol};
use std::collections::BTreeSet;

/// All who there are.
pub(super) struct Matrix {
    parties: Vec<Party>,
    ports: Vec<(Protocol, u16)>,
    namespaces: BTreeMap<String, BTreeMap<String, String>>,
}

impl Matrix {
    pub(super) fn new() -> Self {
        let parties = parties();
        let namespaces = parties.iter().filter_map(|p| Some(p.pod.as_ref()?.namespace.clone()));
        let named = |n: String| (n.clone(), BTreeMap::from([("kubernetes.io/metadata.name".to_owned(), n)]));
        Self { namespaces: namespaces.map(named).collect(), ports: ports().collect(), parties }
    }

    /// Whether there is a pod of that component.
    pub(super) fn has(&self, component: &str) -> bool {
        let labels = |p: &Party| p.pod.as_ref().and_then(|pod| pod.labels.get("app.kubernetes.io/component").cloned());
        self.parties.iter().any(|p| p.is_acmes() && labels(p).as_deref() == Some(component))
    }

    fn network(&self, policies: &[NetworkPolicy], blocks_cover_pods: bool) -> Network {
        Network { namespaces: self.namespaces.clone(), policies: policies.to_vec(), blocks_cover_pods }
    }

    /// Every connection, and whether it is allowed.
    fn judged<'a>(&'a self, network: &'a Network) -> impl Iterator<Item = (Connection, bool)> + 'a {
        let pairs = self.parties.iter().flat_map(|from| self.parties.iter().map(move |to| (from, to)));
        pairs.filter(|(from, to)| from.name != to.name).flat_map(move |(from, to)| {
            let (leaves_acme, enters_acme) = (from.is_acmes(), to.is_acmes());
            self.ports.iter().flat_map(move |&(protocol, port)| {
                let connection = |side| (side, from.name, to.name, protocol, port);
                let leaves = || network.leaves(from.end(), to.end(), protocol, port);
                let enters = || network.enters(from.end(), to.end(), protocol, port);
                let egress = leaves_acme.then(|| (connection("egress"), leaves()));
                let ingress = enters_acme.then(|| (connection("ingress"), enters()));
                egress.into_iter().chain(ingress)
            })
        })
    }

    /// The connections that are allowed.
    pub(super) fn allowed(&self, policies: &[NetworkPolicy], blocks_cover_pods: bool) -> BTreeSet<Connection> {
        let network = self.network(policies, blocks_cover_pods);
        self.judged(&network).filter(|(_, allowed)| *allowed).map(|(connection, _)| connection).collect()
    }

    /// Whether these are the ones. Ends at the first that is not.
    pub(super) fn agrees(
        &self,
        policies: &[NetworkPolicy],
        blocks_cover_pods: bool,
        wanted: &BTreeSet<Connection>,
    ) -> bool {
        let network = self.network(policies, blocks_cover_pods);
        self.judged(&network).all(|(connection, allowed)| allowed == wanted.contains(&connection))
    }
}
