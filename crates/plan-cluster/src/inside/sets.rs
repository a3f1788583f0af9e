//! What Berth keeps inside every tenant, set by set.

use super::addons::{Addon, Addons};
use super::approval;
use super::facts::{cluster_dns, no_address, serving};
use crate::subject::Tenant;
use crate::{endpoint, pki, vpc};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use berth_api::version::{Minor, Version};
use berth_api::{labels, names};
use berth_plan::model::State;
use berth_plan::objects::diff::contains;
use berth_plan::observed::{InsideTenant, label};
use berth_render::values::{AccessValues, EndpointValues, JoinValues};
use berth_render::{Catalog, Listing, Object, ObjectKey, RenderError, TenantSet, render_tenant_set};
use serde_json::Value;

/// What a tenant is to have inside, small enough to be kept for each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    minor: Minor,
    sets: [TenantSet; 3],
    /// Of the spec, whose templates the tenant is pinned to.
    version: Version,
    pub(super) addons: Addons,
}

impl Wanted {
    /// Of a tenant, or what is waited for until it is known.
    pub(crate) fn of(t: &Tenant<'_>) -> Result<Self, State> {
        let serving = serving(t);
        // Templates of the version that is named, while another one is rolled out, too.
        let minor = serving.parse().map_or_else(|_| t.pin().version.minor(), |version: Version| version.minor());
        let join = TenantSet::Join(join(t, serving)?);
        let sets = [TenantSet::Access(access()), TenantSet::Endpoint(endpoint(t)?), join];
        Ok(Self { minor, sets, version: t.pin().version, addons: Addons::of(t)? })
    }

    /// All sets in the order in which they are applied, each with its stamp as the last object.
    pub(super) fn sets(&self) -> Result<Vec<Vec<Object>>, RenderError> {
        // An operator that does not know the minor leaves what a newer one wrote.
        let Some(templates) = Catalog::builtin().tenant(self.minor) else { return Ok(vec![]) };
        self.sets.iter().map(|set| render_tenant_set(templates, set)).collect()
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
        let Some(templates) = self.addons.templates(self.version) else { return Ok(vec![]) };
        let all = self.addons.all.iter();
        all.map(|addon| Ok((addon, render_tenant_set(templates, &addon.set)?))).collect()
    }

    /// Whether all objects of that listing are there as they are to be.
    pub fn is_in_sync(&self, listing: Listing, read: &InsideTenant) -> bool {
        let in_sync = |object: &Object| read.get(object.key()).is_some_and(|live| !differs(live, object));
        let sets = self.sets().unwrap_or_default();
        let addons = self.addons().unwrap_or_default();
        let in_listing = |object: &&Object| listing.holds(object.key());
        sets.iter().flatten().filter(in_listing).all(in_sync)
            && self.left(read).is_none()
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

fn endpoint(t: &Tenant<'_>) -> Result<EndpointValues, State> {
    if t.cluster.spec.vpc.is_some() {
        let addresses = Some(vpc::serving(t)).filter(|all| !all.is_empty());
        let addresses = addresses.ok_or_else(|| State::waiting("an API server with an address in the VPC"))?;
        return Ok(EndpointValues { addresses, family: "IPv4".into(), port: vpc::PORT });
    }
    let (address, port) = t.endpoint.advertised.ok_or_else(no_address)?;
    let family = if address.is_ipv4() { "IPv4" } else { "IPv6" };
    Ok(EndpointValues { addresses: vec![address], family: family.into(), port })
}

fn join(t: &Tenant<'_>, version: String) -> Result<JoinValues, State> {
    let (host, port) = t.endpoint.nodes.clone().ok_or_else(no_address)?;
    let ca = t.secret(names::ca(t.name));
    let pem = t.observed.secrets.get(&ca).and_then(|facts| facts.ca.as_ref());
    let pem = pem.ok_or_else(|| State::waiting(format!("the certificate in {ca}")))?;
    let network = &t.cluster.spec.network;
    Ok(JoinValues {
        endpoint: endpoint::authority(&host, port),
        ca: STANDARD.encode(pem),
        cluster_name: t.name.into(),
        version,
        service_cidrs: network.service_cidrs.join(","),
        pod_cidrs: network.pod_cidrs.join(","),
        dns_domain: network.dns_domain.clone(),
        cluster_dns: cluster_dns(&network.service_cidrs).unwrap_or_default(),
        controller_manager_approves: approval::is_left_to_controller_manager(t),
    })
}

pub(super) fn differs(live: Option<&Value>, wanted: &Object) -> bool {
    !live.is_some_and(|l| contains(l, wanted.value()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dns_is_the_tenth_address() {
        let dns = |cidr: &str| cluster_dns(&[cidr.to_owned()]);
        assert_eq!(dns("10.96.0.0/12").as_deref(), Some("10.96.0.10"));
        assert_eq!(dns("10.112.0.16/28").as_deref(), Some("10.112.0.26"));
        assert_eq!(dns("fd00:1::/108").as_deref(), Some("fd00:1::a"));
        assert_eq!(cluster_dns(&[]), None);
    }
}
