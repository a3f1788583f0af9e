//! What Berth keeps inside every tenant, set by set.

use super::addons::{Addon, Addons};
use super::approval;
use super::facts::{cluster_dns, no_address, serving};
use crate::subject::Tenant;
use crate::validate::kubelet;
use crate::{apps, endpoint, pki, registration, vpc};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use berth_api::version::{Minor, Version};
use berth_api::{labels, names};
use berth_plan::model::{Action, State};
use berth_plan::object_meta::label;
use berth_plan::objects::diff::contains;
use berth_plan::observed::InsideTenant;
use berth_render::values::{AccessValues, EndpointValues, JoinValues};
use berth_render::{Catalog, Kind, Listing, Object, ObjectKey, RenderError, TenantSet, render_tenant_set};
use serde_json::{Map, Value};

/// What a tenant is to have inside, small enough to be kept for each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    minor: Minor,
    sets: [TenantSet; 3],
    /// There are apps in it.
    has_apps: bool,
    /// Argo CD's user has rights in it.
    has_argo_cd: bool,
    /// Of the spec, whose templates the tenant is pinned to.
    version: Version,
    pub(super) addons: Addons,
    /// Why kubelet's configuration is refused: what nodes are told stays as it is.
    pub(super) kubelet_refused: Option<String>,
}

impl Wanted {
    /// Of a tenant, or what is waited for until it is known.
    pub(crate) fn decide(t: &Tenant<'_>) -> Result<Self, State> {
        let (said, version) = serving(t);
        // Templates of the version that is named, while another one is rolled out, too.
        let kubelet_refused = kubelet::refusal(&t.cluster.spec.kubelet.config, version.minor());
        let mut join = join(t, said)?;
        // The stamp says what is asked for, also where that is refused and not written: what differs afterwards is no edit.
        join.kubelet.clone_from(&t.cluster.spec.kubelet.config);
        let sets = [TenantSet::Access(access()), TenantSet::Endpoint(slice(t)?), TenantSet::Join(join)];
        let (has_apps, has_argo_cd) = (apps::are_wanted(t), registration::has_rights(t));
        Ok(Self {
            minor: version.minor(),
            sets,
            has_apps,
            has_argo_cd,
            version: t.pin().version,
            addons: Addons::decide(t)?,
            kubelet_refused,
        })
    }

    /// All sets in the order in which they are applied, each with its stamp as the last object.
    pub(crate) fn sets(&self) -> Result<Vec<Vec<Object>>, RenderError> {
        // An operator that does not know the minor leaves what a newer one wrote.
        let Some(templates) = Catalog::builtin().tenant(self.minor) else { return Ok(vec![]) };
        let wanted = self.at_times().into_iter().filter_map(|(set, is_wanted)| is_wanted.then_some(set));
        let all = self.sets.iter().cloned().chain(wanted);
        all.map(|set| render_tenant_set(templates, &set)).collect()
    }

    /// Sets that a tenant has at times, and whether it is to.
    fn at_times(&self) -> [(TenantSet, bool); 2] {
        [(apps::set(), self.has_apps), (registration::set(), self.has_argo_cd)]
    }

    /// Those of these that are to be gone: their names, and their objects.
    pub(super) fn off(&self) -> Result<Vec<(&'static str, Vec<Object>)>, RenderError> {
        let Some(templates) = Catalog::builtin().tenant(self.minor) else { return Ok(vec![]) };
        let off = self.at_times().into_iter().filter(|(_, is_wanted)| !is_wanted);
        off.map(|(set, _)| Ok((set.name(), render_tenant_set(templates, &set)?))).collect()
    }

    /// Whether an object stays as it is, whatever is asked for.
    pub(super) fn is_left_alone(&self, key: &ObjectKey) -> bool {
        self.kubelet_refused.is_some() && *key == kubelet_config()
    }

    /// What earlier ones of these sets had, and is to be there no more. Berth's label tells it from a person's.
    pub(super) fn gone(&self) -> Option<ObjectKey> {
        let [.., TenantSet::Join(join)] = &self.sets else { return None };
        (!join.controller_manager_approves).then(approval::binding)
    }

    /// What is there of it, if that is Berth's.
    pub(super) fn left<'a>(&self, read: &'a InsideTenant) -> Option<(ObjectKey, &'a Value)> {
        let key = self.gone()?;
        let live = read.get(&key).flatten()?;
        (label(live, labels::TENANT_SET) == Some("join")).then_some((key, live))
    }

    /// The objects of each add-on, in the order in which they are applied, with the stamp as the last; of those that are off too.
    pub(super) fn addons(&self) -> Result<Vec<(&Addon, Vec<Object>)>, RenderError> {
        let Some(pinned) = self.addons.templates(self.version) else { return Ok(vec![]) };
        let own = Catalog::builtin().tenant(self.minor);
        let templates = |addon: &Addon| if addon.set.is_pinned() { Some(pinned) } else { own };
        let all = self.addons.all.iter().filter_map(|addon| Some((addon, templates(addon)?)));
        all.map(|(addon, templates)| Ok((addon, render_tenant_set(templates, &addon.set)?))).collect()
    }

    /// How an object is written. The number of a workload's pods may be left to others.
    pub(super) fn write(&self, object: Object) -> Action {
        let replicas =
            self.addons.all.iter().filter(|addon| addon.enabled).find_map(|a| a.set.initial_replicas(object.key()));
        match replicas {
            Some(replicas) => Action::TenantApplyUnscaled { object, replicas },
            None => Action::TenantApply(object),
        }
    }

    /// Whether all objects of that listing are there as they are to be.
    pub fn is_in_sync(&self, listing: Listing, read: &InsideTenant) -> bool {
        let in_sync = |object: &Object| {
            self.is_left_alone(object.key()) || read.get(object.key()).is_some_and(|live| !differs(live, object))
        };
        let sets = self.sets().unwrap_or_default();
        let addons = self.addons().unwrap_or_default();
        let in_listing = |object: &&Object| listing.holds(object.key());
        let is_left = |(set, objects): &(&'static str, Vec<Object>)| {
            let is_of_it = |live: &Value| label(live, labels::TENANT_SET) == Some(*set);
            objects.iter().filter(in_listing).any(|object| read.get(object.key()).flatten().is_some_and(is_of_it))
        };
        sets.iter().flatten().filter(in_listing).all(in_sync)
            && self.left(read).is_none()
            && !self.off().unwrap_or_default().iter().any(is_left)
            && addons.iter().all(|(addon, objects)| {
                let is_ours = |live: &Value| label(live, labels::TENANT_SET) == Some(addon.set.name());
                let is_gone = |o: &Object| read.get(o.key()).is_some_and(|live| !live.is_some_and(is_ours));
                objects.iter().filter(in_listing).all(|o| if addon.enabled { in_sync(o) } else { is_gone(o) })
            })
    }
}

fn access() -> AccessValues {
    AccessValues {
        admin_group: names::ADMIN_GROUP.into(),
        kubelet_client: pki::KUBELET_CLIENT.into(),
        approver: names::APPROVER_USER.into(),
    }
}

/// Where the tenant's Service `kubernetes` leads to.
pub(crate) fn slice(t: &Tenant<'_>) -> Result<EndpointValues, State> {
    if t.cluster.spec.vpc.is_some() {
        let addresses = Some(vpc::serving(t)).filter(|all| !all.is_empty());
        let addresses = addresses.ok_or_else(|| State::waiting("an API server with an address in the VPC"))?;
        return Ok(EndpointValues { addresses, family: "IPv4".into(), port: vpc::PORT });
    }
    let (for_pods, port) = t.endpoint.for_pods.clone().ok_or_else(no_address)?;
    let family = endpoint::Family::of(for_pods.address).as_str().into();
    Ok(EndpointValues { addresses: vec![for_pods.address], family, port })
}

fn join(t: &Tenant<'_>, version: String) -> Result<JoinValues, State> {
    let (host, port) = t.endpoint.nodes.clone().ok_or_else(no_address)?;
    let ca = t.secret(names::ca(t.name));
    let root = t.observed.root(&ca).ok_or_else(|| State::waiting(format!("the certificate in {ca}")))?;
    let network = &t.cluster.spec.network;
    Ok(JoinValues {
        endpoint: endpoint::authority(&host, port),
        ca: STANDARD.encode(&root.trust_pem),
        cluster_name: t.name.into(),
        version,
        service_cidrs: network.service_cidrs.join(","),
        pod_cidrs: network.pod_cidrs.join(","),
        dns_domain: network.dns_domain.clone(),
        cluster_dns: cluster_dns(&network.service_cidrs).unwrap_or_default(),
        kubelet: Map::new(),
        controller_manager_approves: approval::is_left_to_controller_manager(t),
    })
}

/// What `kubeadm join` gives kubelets.
fn kubelet_config() -> ObjectKey {
    ObjectKey::namespaced(Kind::ConfigMap, "kube-system", "kubelet-config")
}

pub(super) fn differs(live: Option<&Value>, wanted: &Object) -> bool {
    !live.is_some_and(|l| contains(l, wanted.value()))
}
