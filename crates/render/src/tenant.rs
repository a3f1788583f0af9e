//! Objects inside a tenant, in sets. Each set has a stamp: a ConfigMap with the digest of the others, which is applied last.

mod coredns;

use std::collections::BTreeMap;

use berth_api::labels;
use serde::Serialize;
use serde_json::json;
use sha2::{Digest, Sha256};

use crate::{
    Kind, Object, ObjectKey, RenderError, TemplateSet,
    components::documents,
    finish::finish_inside,
    values::{
        AccessValues, ApiProxyValues, AppsValues, ArgoCdValues, CoreDnsValues, EndpointValues, JoinValues,
        KubeProxyValues,
    },
};

/// A set of objects inside a tenant, with what its templates are rendered from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum TenantSet {
    /// Rights of the tenant's admins, and of API servers at kubelets.
    Access(AccessValues),
    /// Rights of whoever installs apps, while there are any.
    Apps(AppsValues),
    /// Rights of the platform's Argo CD, while the tenant is registered there.
    ArgoCd(ArgoCdValues),
    /// Where the tenant's `kubernetes` Service leads.
    Endpoint(EndpointValues),
    /// What `kubeadm join` needs.
    Join(JoinValues),
    /// The tenant's DNS; an add-on.
    CoreDns(CoreDnsValues),
    /// kube-proxy; an add-on.
    KubeProxy(KubeProxyValues),
    /// What leads pods to an API that is found by its name; an add-on.
    ApiProxy(ApiProxyValues),
}

impl TenantSet {
    /// Where their objects are: what is listed inside a tenant, one after the other.
    pub const LISTINGS: [Listing; 15] = [
        STAMPS,
        Listing { kind: Kind::ConfigMap, namespace: Some("kube-public") },
        Listing { kind: Kind::ClusterRole, namespace: None },
        Listing { kind: Kind::ClusterRoleBinding, namespace: None },
        Listing { kind: Kind::Role, namespace: Some("kube-system") },
        Listing { kind: Kind::Role, namespace: Some("kube-public") },
        Listing { kind: Kind::RoleBinding, namespace: Some("kube-system") },
        Listing { kind: Kind::RoleBinding, namespace: Some("kube-public") },
        Listing { kind: Kind::RoleBinding, namespace: Some("default") },
        Listing { kind: Kind::EndpointSlice, namespace: Some("default") },
        Listing { kind: Kind::Endpoints, namespace: Some("default") },
        Listing { kind: Kind::ServiceAccount, namespace: Some("kube-system") },
        Listing { kind: Kind::Service, namespace: Some("kube-system") },
        Listing { kind: Kind::DaemonSet, namespace: Some("kube-system") },
        Listing { kind: Kind::Deployment, namespace: Some("kube-system") },
    ];

    /// The name of the set, which its objects carry as a label, and of the folder of its templates.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Access(_) => "access",
            Self::Apps(_) => "apps",
            Self::ArgoCd(_) => "argocd",
            Self::Endpoint(_) => "endpoint",
            Self::Join(_) => "join",
            Self::CoreDns(_) => "coredns",
            Self::KubeProxy(_) => "kube-proxy",
            Self::ApiProxy(_) => "api-proxy",
        }
    }

    /// What its stamp says beside the digest: `berth-approve` keeps the tenant's `kubernetes` endpoints by it. An older Berth, which says
    /// nothing of that, has another digest, so that it takes this away before it writes other endpoints.
    ///
    /// Of CoreDNS it says whether the number of its pods is asked for: the same number may be so, or left to others.
    fn told(&self) -> BTreeMap<&'static str, String> {
        if let Self::CoreDns(of) = self {
            return of.asked.replicas.then(|| ("replicas", of.replicas.to_string())).into_iter().collect();
        }
        let Self::Endpoint(of) = self else { return BTreeMap::new() };
        let addresses: Vec<String> = of.addresses.iter().map(ToString::to_string).collect();
        [("addresses", addresses.join(",")), ("addressType", of.family.clone()), ("port", of.port.to_string())].into()
    }

    /// Pods that a workload of that key gets where it is made, and that are left to others afterwards: what is rendered has none.
    pub fn initial_replicas(&self, key: &ObjectKey) -> Option<i32> {
        let Self::CoreDns(of) = self else { return None };
        (key.kind == Kind::Deployment && !of.asked.replicas).then_some(of.replicas)
    }

    /// The folder of its templates.
    fn folder(&self) -> String {
        let parent = if self.is_pinned() { "addons" } else { "tenant" };
        format!("{parent}/{}", self.name())
    }

    /// Whether its templates are pinned with the tenant's: those of upstream's add-ons, since they restart pods and go with the version. Those
    /// of Berth's own follow the operator; its image is recorded.
    pub fn is_pinned(&self) -> bool {
        matches!(self, Self::CoreDns(_) | Self::KubeProxy(_))
    }
}

/// Objects of a kind that are listed at once. Never those of all namespaces: in most of them others than the tenant's admins may write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Listing {
    /// Of which kind.
    pub kind: Kind,
    /// In which namespace; none for cluster-scoped kinds.
    pub namespace: Option<&'static str>,
}

impl Listing {
    /// Whether an object of that key is in it.
    pub fn holds(&self, key: &ObjectKey) -> bool {
        key.kind == self.kind && key.namespace.as_deref() == self.namespace
    }
}

/// Where the stamps are.
pub const STAMPS: Listing = Listing { kind: Kind::ConfigMap, namespace: Some("kube-system") };

/// The stamp of the set of that name.
pub fn stamp_key(set: &str) -> ObjectKey {
    ObjectKey::namespaced(STAMPS.kind, "kube-system", format!("berth-{set}"))
}

/// The objects of a set in apply order, the stamp last.
pub fn render_tenant_set(templates: &TemplateSet, set: &TenantSet) -> Result<Vec<Object>, RenderError> {
    let labels = BTreeMap::from([
        (labels::MANAGED_BY.to_owned(), labels::MANAGED_BY_VALUE.to_owned()),
        (labels::TENANT_SET.to_owned(), set.name().to_owned()),
    ]);
    let mut objects = finish_inside(documents(templates, &set.folder(), set)?, &labels)?;
    if let TenantSet::CoreDns(values) = set {
        objects =
            objects.into_iter().map(|object| coredns::with_asked(object, &values.asked)).collect::<Result<_, _>>()?;
    }
    let mut digest = Sha256::new();
    for object in &objects {
        digest.update(object.digest());
    }
    let mut data = set.told();
    for (name, value) in &data {
        digest.update(format!("{name}={value}\n"));
    }
    data.insert("digest", format!("{:x}", digest.finalize()));
    // A number that is left to others is in the digest all the same: as of earlier builds.
    let objects =
        objects.into_iter().map(|o| if set.initial_replicas(o.key()).is_some() { coredns::unscaled(o) } else { o });
    let mut objects: Vec<_> = objects.collect();
    let key = stamp_key(set.name());
    let stamp = json!({
        "apiVersion": "v1", "kind": STAMPS.kind.name(),
        "metadata": {"name": key.name, "namespace": key.namespace, "labels": labels},
        "data": data,
    });
    let fault = |reason| RenderError::Object { template: key.to_string(), reason };
    objects.push(Object::new(stamp).map_err(fault)?);
    Ok(objects)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Catalog;
    use crate::values::AskedOfCoreDns;

    #[test]
    fn every_set_has_a_stamp_and_its_objects_are_listed() {
        let sets = [
            TenantSet::Access(AccessValues::default()),
            TenantSet::Apps(AppsValues::default()),
            TenantSet::ArgoCd(ArgoCdValues::default()),
            TenantSet::Endpoint(EndpointValues::default()),
            TenantSet::Join(JoinValues::default()),
            TenantSet::CoreDns(CoreDnsValues::default()),
            TenantSet::KubeProxy(KubeProxyValues::default()),
            TenantSet::ApiProxy(ApiProxyValues::default()),
        ];
        let names = ["access", "apps", "argocd", "endpoint", "join", "coredns", "kube-proxy", "api-proxy"];
        assert_eq!(sets.each_ref().map(TenantSet::name), names);
        for minor in Catalog::builtin().minors() {
            let (tenant, pinned) =
                (Catalog::builtin().tenant(minor).unwrap(), Catalog::builtin().kubernetes(minor).unwrap());
            let mut used = [false; TenantSet::LISTINGS.len()];
            for set in &sets {
                let templates = if set.is_pinned() { pinned } else { tenant };
                let objects = render_tenant_set(templates, set).unwrap();
                assert_eq!(objects.last().map(Object::key), Some(&stamp_key(set.name())));
                for object in &objects {
                    assert_eq!(object.labels()[labels::TENANT_SET], set.name(), "{}", object.key());
                    let at = TenantSet::LISTINGS.iter().position(|listing| listing.holds(object.key()));
                    used[at.unwrap_or_else(|| panic!("{} is never listed", object.key()))] = true;
                }
            }
            assert_eq!(used, [true; TenantSet::LISTINGS.len()], "nothing is listed for nothing");
        }
    }

    #[test]
    fn kube_proxy_restarts_with_its_configuration_and_coredns_reads_its_own_again() {
        let pods = |set: &TenantSet, kind: Kind| {
            let templates = Catalog::builtin().kubernetes("1.36".parse().unwrap()).unwrap();
            let objects = render_tenant_set(templates, set).unwrap();
            let workload = objects.into_iter().find(|object| object.key().kind == kind).unwrap();
            workload.get("/spec/template").unwrap().clone()
        };
        let proxy = |mode: &str| {
            let set = TenantSet::KubeProxy(KubeProxyValues { mode: mode.into(), ..KubeProxyValues::default() });
            pods(&set, Kind::DaemonSet)
        };
        assert_eq!(proxy("iptables"), proxy("iptables"));
        assert_ne!(proxy("iptables"), proxy("nftables"));
        let dns = |domain: &str| {
            let set = TenantSet::CoreDns(CoreDnsValues { dns_domain: domain.into(), ..CoreDnsValues::default() });
            pods(&set, Kind::Deployment)
        };
        assert_eq!(dns("cluster.local"), dns("corp.example"));
    }

    #[test]
    fn api_proxy_tells_a_name_only_where_there_is_one() {
        let templates = Catalog::builtin().tenant("1.36".parse().unwrap()).unwrap();
        let command = |name: &str| {
            let set = TenantSet::ApiProxy(ApiProxyValues {
                image: "r/api-proxy:1".into(),
                listen: "240.0.0.1:6443".into(),
                to: "acme.example.com:6444".into(),
                name: name.into(),
            });
            let objects = render_tenant_set(templates, &set).unwrap();
            objects[0].get("/spec/template/spec/containers/0/command").unwrap().clone()
        };
        let plain = json!(["/berth-api-proxy", "--listen=240.0.0.1:6443", "--to=acme.example.com:6444"]);
        assert_eq!(command(""), plain);
        let named = command("acme.example.com");
        assert_eq!(named.as_array().unwrap()[3..], ["--name=acme.example.com"]);
    }

    /// Tenants in which nobody asks for a number have the stamp of builds that kept one: nothing is written there for another build.
    #[test]
    fn a_number_that_is_left_to_others_is_in_no_object_and_in_the_stamp_as_before() {
        let templates = Catalog::builtin().kubernetes("1.36".parse().unwrap()).unwrap();
        let set = |replicas| {
            let asked = AskedOfCoreDns { replicas, ..AskedOfCoreDns::default() };
            TenantSet::CoreDns(CoreDnsValues { replicas: 2, asked, ..CoreDnsValues::default() })
        };
        let [left, asked] = [false, true].map(|asked| render_tenant_set(templates, &set(asked)).unwrap());
        let deployment = |all: &[Object]| all.iter().find(|o| o.key().kind == Kind::Deployment).unwrap().clone();
        let [of_left, of_asked] = [&left, &asked].map(|all| deployment(all));
        assert_eq!((of_left.get("/spec/replicas"), of_asked.get("/spec/replicas")), (None, Some(&json!(2))));
        assert_eq!([false, true].map(|asked| set(asked).initial_replicas(of_left.key())), [Some(2), None]);
        assert_eq!(of_left.clone().with_field("/spec", "replicas", 2.into()), of_asked);
        let mut digest = Sha256::new();
        let (stamp, objects) = asked.split_last().unwrap();
        for object in objects {
            digest.update(object.digest());
        }
        let before = format!("{:x}", digest.finalize());
        assert_eq!(left.last().unwrap().get("/data"), Some(&json!({"digest": before})));
        assert_eq!(stamp.get("/data/replicas"), Some(&json!("2")));
        assert_ne!(stamp.get("/data/digest"), Some(&json!(before)), "the same number, asked for, is another wish");
    }
}
