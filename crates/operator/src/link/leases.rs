//! Leases in the namespace of a program: of its replicas, which are read, and the operator's own.

use berth_edge::link::Names;
use berth_kubeio::Io;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::PostParams;
use kube::runtime::watcher::{self, Event};
use kube::{Api, ResourceExt as _};
use std::collections::{BTreeMap, HashSet};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::time::timeout;

const DEADLINE: Duration = Duration::from_secs(5);

/// A replica, as it says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Replica {
    pub(crate) name: String,
    pub(crate) address: SocketAddr,
    /// As PEM.
    pub(crate) certificate: String,
}

pub(super) fn api(io: &Io, namespace: &str) -> Api<Lease> {
    Api::namespaced((**io.client()).clone(), namespace)
}

/// Those of replicas.
pub(super) fn watched(names: Names) -> watcher::Config {
    watcher::Config::default().labels(&format!("{}=true", names.label))
}

/// All replicas, by what the watch tells.
#[derive(Debug)]
pub(super) struct Replicas {
    names: Names,
    now: BTreeMap<String, Replica>,
    /// A list that is not whole yet.
    listed: BTreeMap<String, Replica>,
}

impl Replicas {
    pub(super) fn new(names: Names) -> Self {
        Self { names, now: BTreeMap::new(), listed: BTreeMap::new() }
    }

    pub(super) fn see(&mut self, event: Event<Lease>) {
        match event {
            Event::Init => self.listed.clear(),
            Event::InitApply(lease) => put(self.names, &mut self.listed, &lease),
            Event::InitDone => self.now = std::mem::take(&mut self.listed),
            Event::Apply(lease) => put(self.names, &mut self.now, &lease),
            Event::Delete(lease) => drop(self.now.remove(&lease.name_any())),
        }
    }

    pub(super) fn all(&self) -> HashSet<Replica> {
        self.now.values().cloned().collect()
    }
}

fn put(names: Names, all: &mut BTreeMap<String, Replica>, lease: &Lease) {
    let name = lease.name_any();
    let said = |key: &str| lease.annotations().get(key).cloned();
    let replica = said(names.address).and_then(|address| address.parse().ok()).zip(said(names.certificate));
    match replica {
        Some((address, certificate)) => drop(all.insert(name.clone(), Replica { name, address, certificate })),
        None => drop(all.remove(&name)),
    }
}

/// Lets replicas know the operator by that certificate.
pub(super) async fn publish(names: Names, io: &Io, namespace: &str, certificate: &str) -> anyhow::Result<()> {
    let leases = api(io, namespace);
    let write = async {
        let live = leases.get_opt(names.operator).await?;
        if live
            .as_ref()
            .is_some_and(|lease| lease.annotations().get(names.certificate).is_some_and(|said| said == certificate))
        {
            return Ok(());
        }
        let metadata = ObjectMeta {
            name: Some(names.operator.to_owned()),
            annotations: Some(BTreeMap::from([(names.certificate.to_owned(), certificate.to_owned())])),
            resource_version: live.as_ref().and_then(|lease| lease.metadata.resource_version.clone()),
            ..ObjectMeta::default()
        };
        let lease = Lease { metadata, ..Lease::default() };
        match live {
            None => leases.create(&PostParams::default(), &lease).await?,
            Some(_) => leases.replace(names.operator, &PostParams::default(), &lease).await?,
        };
        Ok::<_, kube::Error>(())
    };
    match timeout(DEADLINE, write).await {
        Ok(written) => written.map_err(|error| anyhow::Error::from(error).context("cannot write the operator's Lease")),
        Err(_) => anyhow::bail!("the API server took longer than {DEADLINE:?} for the operator's Lease"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADDRESS: &str = "berth.dev/address";
    const CERTIFICATE: &str = "berth.dev/certificate";
    const NAMES: Names = Names {
        program: "berth-some",
        label: "berth.dev/some",
        address: ADDRESS,
        certificate: CERTIFICATE,
        operator: "berth-some-operator",
        longest: 1024,
    };

    fn lease(name: &str, address: &str) -> Lease {
        let annotations =
            [(ADDRESS, address), (CERTIFICATE, "PEM")].map(|(key, value)| (key.to_owned(), value.to_owned()));
        let metadata =
            ObjectMeta { name: Some(name.to_owned()), annotations: Some(annotations.into()), ..ObjectMeta::default() };
        Lease { metadata, ..Lease::default() }
    }

    fn names(replicas: &Replicas) -> Vec<String> {
        let mut names: Vec<_> =
            replicas.all().into_iter().map(|replica| format!("{} {}", replica.name, replica.address)).collect();
        names.sort();
        names
    }

    #[test]
    fn replicas_are_those_of_the_last_whole_list_and_what_came_since() {
        let mut replicas = Replicas::new(NAMES);
        for event in
            [Event::Init, Event::InitApply(lease("a", "10.0.0.1:9443")), Event::InitApply(lease("b", "b.example:9443"))]
        {
            replicas.see(event);
        }
        assert!(names(&replicas).is_empty(), "not whole yet");
        replicas.see(Event::InitDone);
        replicas.see(Event::Apply(lease("c", "[fd00::1]:9443")));
        assert_eq!(names(&replicas), ["a 10.0.0.1:9443", "c [fd00::1]:9443"], "a name is no address of a pod");
        replicas.see(Event::Apply(lease("c", "10.0.0.3:9443")));
        replicas.see(Event::Delete(lease("a", "10.0.0.1:9443")));
        assert_eq!(names(&replicas), ["c 10.0.0.3:9443"]);
        replicas.see(Event::Init);
        replicas.see(Event::InitDone);
        assert!(names(&replicas).is_empty());
    }
}
