//! What the operator asks the tenant's API.

use super::Input;
use super::apps;
use super::deletion;
use super::endpoint::url;
use super::facts::Facts;
use super::inside::{Turn, Wanted, addons, approval, serving};
use super::leads;
use super::registration;
use super::subject::Tenant;
use super::validate::host::HostRules;
use super::well::is_well;
use berth_api::cluster::AddonStatus;
use berth_api::{labels, names};
use berth_plan::workload;
use berth_render::{Binary, Kind, Listing, ObjectKey, STAMPS, TenantSet};
use std::net::IpAddr;

/// A question to the tenant's API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeRequest {
    /// Where it is asked: `https://host:port`.
    pub server: String,
    /// Where that may lead, if it is a name that the spec chose.
    pub rules: Option<HostRules>,
    /// Where to ask instead, if it leads to an address that is no tenant's: what runs is still watched.
    pub inside: Option<String>,
    /// The Secret of the CA that signs the operator's credential.
    pub ca: ObjectKey,
    /// What it is asked.
    pub questions: Questions,
    /// The leases of those that are to lead, by name: what an idle tenant is asked for, too.
    pub leases: Vec<String>,
    /// What is told of add-ons.
    pub addons: Vec<AddonStatus>,
    /// Whether these are to be looked at again soon.
    pub addons_in_doubt: bool,
    /// Where pods of those of which none serves are counted in an idle tenant, too.
    pub counted_at_rest: Vec<Listing>,
    /// What it is to have inside, if that is known.
    pub wanted: Option<Wanted>,
}

/// What one connection asks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Questions {
    /// Where Berth's objects are read.
    pub listings: Vec<Listing>,
    /// Whether nodes are counted.
    pub nodes: bool,
    /// Whether it is to say its version.
    pub version: bool,
    /// Leases in `kube-system` that are read, by name.
    pub leases: Vec<String>,
    /// Pods in `kube-system` that are asked why they do not serve, by their label `k8s-app`.
    pub pods: Vec<&'static str>,
}

impl Questions {
    /// What an idle tenant is asked. `leases`: those that matter there; without any something else is asked, since it has to answer.
    /// `counted`: where pods are counted whosever turn it is.
    pub fn at_rest(turn: Turn, leases: &[String], counted: &[Listing]) -> Self {
        let mut asked = match turn {
            Turn::Listing(listing) => Self { listings: vec![listing], ..Self::default() },
            Turn::Nodes => Self { nodes: true, ..Self::default() },
            Turn::Leases if leases.is_empty() => Self { listings: vec![STAMPS], ..Self::default() },
            Turn::Leases => Self { leases: leases.to_vec(), ..Self::default() },
        };
        let more: Vec<_> = counted.iter().filter(|listing| !asked.listings.contains(listing)).copied().collect();
        asked.listings.extend(more);
        asked
    }
}

/// What to ask in this reconcile. None: no pod is there that the Service sends anybody to.
pub fn probe_request(input: Input<'_>) -> Option<ProbeRequest> {
    let Input { object: cluster, observed, settings, .. } = input;
    // One that is held serves on.
    if cluster.metadata.deletion_timestamp.is_some() && !deletion::is_held(cluster, &settings.writers) {
        return None;
    }
    let facts = Facts::judge(input);
    let t = facts.tenant();
    let up = workload::pods_of(observed, &t.cp_namespace, labels::COMPONENT, names::APISERVER)
        .any(|(_, pod)| workload::pod_ready(pod));
    let (host, port) = t.endpoint.dialled.clone().filter(|_| up)?;
    let status = cluster.status.as_ref();
    let published = status.and_then(|s| s.version.as_deref());
    let emulates = status.and_then(|s| s.emulated_version.as_deref());
    let runs = t.workloads(Binary::ApiServer);
    let (version, emulated) = (runs.version().map(|v| v.to_string()), runs.emulates().map(|m| m.to_string()));
    Some(ProbeRequest {
        rules: rules(&t, &host),
        server: url(&host, port),
        inside: t.endpoint.inside_of_one_that_serves().map(|(host, port)| url(&host, port)),
        ca: t.secret(names::ca(t.name)),
        questions: Questions {
            listings: listings(&t, input),
            // Counted in each reconcile: else a tenant that just became ready would be written once more for it.
            nodes: true,
            version: published.is_none() || published != version.as_deref() || emulates != emulated.as_deref(),
            leases: leads::due(&t),
            pods: serving::doubtful(&t),
        },
        addons: cluster.status.as_ref().map(|s| s.addons.clone()).unwrap_or_default(),
        addons_in_doubt: serving::in_doubt(&t),
        counted_at_rest: serving::counted_at_rest(&t),
        leases: leads::names(&t),
        wanted: facts.release.as_ref().and_then(|_| Wanted::decide(&t).ok()),
    })
}

/// What to list inside the tenant: the stamps, which speak for all, of one that is known to be well the next in turn, what a rollout may
/// have left, and how many pods of add-ons serve.
pub(super) fn listings(t: &Tenant<'_>, input: Input<'_>) -> Vec<Listing> {
    if addons::one_goes(t) {
        return TenantSet::LISTINGS.into();
    }
    let next = match Turn::at(input.now) {
        Turn::Listing(listing) if listing != STAMPS && is_well(input) => Some(listing),
        _ => None,
    };
    let bindings = Listing { kind: Kind::ClusterRoleBinding, namespace: None };
    let goes = apps::listing(t).or_else(|| registration::listing(t));
    let after_a_rollout = goes.or_else(|| approval::may_be_new(t).then_some(bindings));
    let after_a_rollout = after_a_rollout.filter(|listing| next != Some(*listing));
    let counts = serving::listings(t).into_iter().filter(|listing| next != Some(*listing));
    std::iter::once(STAMPS).chain(next).chain(after_a_rollout).chain(counts).collect()
}

/// Where the host may lead that the operator dials, if the spec chose it and it is a name.
fn rules(t: &Tenant<'_>, dialled: &str) -> Option<HostRules> {
    let chosen = t.cluster.spec.endpoint.host.as_deref() == Some(dialled) && dialled.parse::<IpAddr>().is_err();
    let load_balancer = t.endpoint.load_balancer.clone().filter(|host| host.parse::<IpAddr>().is_err());
    let meta = || t.observed.meta.addresses.as_ref().ok().cloned();
    let own = t.endpoint.cluster_ip.into_iter().chain(t.endpoint.balanced.iter().copied()).collect();
    chosen.then(|| HostRules::new(own, load_balancer, meta()))
}
