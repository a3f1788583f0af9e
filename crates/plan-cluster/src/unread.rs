//! Which field of a `Cluster` feeds which values of templates, and the message for fields that the pinned templates do not read.

use super::components;
use super::subject::Tenant;
use super::vpc;
use berth_plan::unread::{self, Row, row};
use berth_render::Catalog;
use std::sync::LazyLock;

/// Fields that become values of the Service's templates.
const OF_SERVICE: [(&str, &str); 6] = [
    ("endpoint.type", "service_type"),
    ("endpoint.port", "port"),
    ("endpoint.nodePort", "node_port"),
    ("endpoint.service.annotations", "annotations"),
    ("endpoint.service.loadBalancerClass", "load_balancer_class"),
    ("endpoint.service.loadBalancerSourceRanges", "load_balancer_source_ranges"),
];

/// Fields that are not of one component, in the order of the message. Which values they become is said above, and by the rows of components.
const SHARED: [&str; 43] = [
    "network.serviceCIDRs",
    "network.podCIDRs",
    "network.dnsDomain",
    "endpoint.type",
    "endpoint.port",
    "endpoint.nodePort",
    "endpoint.service.annotations",
    "endpoint.service.loadBalancerClass",
    "endpoint.service.loadBalancerSourceRanges",
    "apiServer.authentication.jwt",
    "apiServer.admission.configuration",
    "apiServer.trustedCA",
    "apiServer.serviceAccountIssuers",
    "apiServer.audit.policy",
    "apiServer.audit.webhook",
    "proxy.http",
    "proxy.https",
    "proxy.noProxy",
    "vpc.attachment",
    "vpc.addresses",
    "vpc.virtualIP",
    "vpc.routes",
    // Added to rendered pods.
    "vpc.podAnnotations",
    "vpc.podLabels",
    // In certificates and kubeconfigs.
    "vpc.host",
    "endpoint.host",
    "endpoint.certSANs",
    // Inside the tenant, and in a flag that every template has.
    "endpoint.advertiseAddress",
    // In what apiServer.serviceAccountIssuers becomes.
    "apiServer.formerServiceAccountIssuers",
    // In what the gateway is told.
    "endpoint.gateway.sourceRanges",
    "endpoint.gateway.maxConnections",
    // In NetworkPolicies.
    "network.nodeCIDRs",
    // In the EtcdCluster.
    "etcd",
    // Added to rendered pods.
    "helpers",
    "images.pullSecrets",
    // From templates of their own, which older tenants have too.
    "addons",
    // From templates that no tenant is pinned to.
    "kubelet",
    "images.layout",
    // In a Secret of Argo CD's namespace.
    "registration",
    // What the planner does, or leaves.
    "deletion",
    "upgrade",
    "hibernation",
    "paused",
];

/// The values that a field becomes: (folder, value).
fn values(field: &str) -> Vec<(&'static str, &'static str)> {
    let of_service = OF_SERVICE.iter().map(|row| ("common/apiserver", row));
    let of_components = components::ALL.iter().flat_map(|c| c.reads.iter().map(|row| (c.binary.folder(), row)));
    let rows = of_service.chain(of_components).filter(|(_, (read, _))| *read == field);
    rows.map(|(folder, (_, value))| (folder, *value)).collect()
}

/// Every field of the spec.
pub(crate) static FIELDS: LazyLock<Vec<Row>> = LazyLock::new(|| {
    let of_all = |value| components::ALL.map(|c| (c.binary.folder(), value)).to_vec();
    let mut all = SHARED.map(|field| row(field, &values(field))).to_vec();
    for component in components::ALL {
        let field = component.field();
        all.push(row(&format!("{field}.replicas"), &[(component.binary.folder(), "derived.replicas")]));
        // Added to rendered pods, or given to pods that run.
        all.extend(
            ["resources", "placement", "extraArgs", "autoscaling"].map(|name| row(&format!("{field}.{name}"), &[])),
        );
    }
    let (images, agents) = (of_all("workload.image"), of_all("workload.agent_image"));
    all.extend([row("version", &images), row("replicas", &of_all("derived.replicas"))]);
    all.extend([row("images.overrides", &images), row("images.registry", &[images, agents].concat())]);
    all
});

/// The fields that have no effect, and the way out.
pub(super) fn message(t: &Tenant<'_>) -> Option<String> {
    let unread = |set| unread::fields(&FIELDS, &t.cluster.spec, set);
    let pinned = t.templates_of(t.release.target())?;
    let (fields, image) = (unread(pinned), vpc::image_unread(t, pinned));
    if fields.is_empty() && image.is_none() {
        return None;
    }
    let minor = t.pin().version.minor();
    let newer = Catalog::builtin().kubernetes(minor).filter(|set| unread(set).is_empty());
    let way_out = if newer.is_some() {
        format!("To apply, set spec.version to another patch version of {minor}, or spec.upgrade.templates to Newest")
    } else {
        let field = if fields.is_empty() { "spec.images.registry" } else { "the field" };
        format!("This operator has no templates for {minor} that use it: remove {field}")
    };
    match image {
        Some(image) if fields.is_empty() => Some(format!("{image}. {way_out}")),
        Some(image) => Some(format!("{}. {image}", unread::message(&fields, &way_out))),
        None => Some(unread::message(&fields, &way_out)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_api::{ClusterSpec, EtcdClusterSpec};
    use berth_plan::unread::fields;
    use berth_render::TemplateSet;
    use berth_render::{FLAGS, Source};
    use berth_testkit::simulated::before;
    use serde_json::json;

    /// Values of templates that come from no field.
    const NOT_OF_THE_SPEC: &[&str] = &[
        "advertise_address",
        "api.server",
        "cluster_name",
        "cluster_uid",
        "derived",
        "epoch",
        "etcd",
        "files",
        "joined",
        "journal",
        "meta",
        "name",
        "restored",
        "secrets",
        "serial",
        "slot",
        "state",
        "vpc.image",
        "workload",
    ];

    fn tables() -> [(&'static str, &'static [Row], Vec<&'static TemplateSet>); 2] {
        let all = Catalog::builtin();
        let kubernetes = all.minors().into_iter().filter_map(|m| all.kubernetes(m)).collect();
        let etcd_sets = all.etcd_minors().into_iter().filter_map(|m| all.etcd(m)).collect();
        [("Cluster", &*super::FIELDS, kubernetes), ("EtcdCluster", &*berth_plan_etcd::unread::FIELDS, etcd_sets)]
    }

    #[test]
    fn every_field_of_a_spec_has_a_row() {
        let crds = serde_json::to_value(berth_api::crds::all()).unwrap();
        let covered = |row: &str, path: &str| {
            path.strip_prefix(row).is_some_and(|r| r.is_empty() || r.starts_with(['.', '[', '{']))
        };
        for (kind, rows, _) in tables() {
            let crd = crds.as_array().unwrap().iter().find(|crd| crd["spec"]["names"]["kind"] == kind).unwrap();
            let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
            let all = berth_testkit::schema::fields(schema);
            for field in all.iter().filter(|field| field.schema["properties"].is_null()) {
                let flag = FLAGS.iter().any(|f| {
                    matches!(f.source, Source::Field(_))
                        && f.instead.strip_prefix("spec.").is_some_and(|row| covered(row, &field.path))
                });
                assert!(
                    flag || rows.iter().any(|(row, _)| covered(row, &field.path)),
                    "{kind} {}: give it a row in plan-{}/src/unread.rs, or a Source::Field row in render/src/flags.rs",
                    field.path,
                    if kind == "Cluster" { "cluster" } else { "etcd" }
                );
            }
            for (row, _) in rows {
                assert!(all.iter().any(|field| field.path == **row), "{kind} has no field {row}");
            }
        }
    }

    #[test]
    fn every_value_that_templates_read_comes_from_a_row_or_not_from_the_spec() {
        for (kind, rows, sets) in tables() {
            let fed: Vec<_> = rows.iter().flat_map(|(_, values)| values).collect();
            for set in sets {
                for (folder, value) in set.values() {
                    let listed = NOT_OF_THE_SPEC.iter().any(|n| value == *n || value.starts_with(&format!("{n}.")));
                    assert!(listed || fed.contains(&&(folder, value)), "{kind}: {}/{folder}: {value}", set.name());
                }
            }
        }
    }

    #[test]
    fn a_field_is_named_once_a_value_of_it_is_not_read() {
        let mut cluster = json!({
            "version": "1.36.3", "replicas": 3,
            "images": {"registry": "mirror.example.com", "overrides": {"etcd": "mirror.example.com/etcd"}},
            "vpc": {"attachment": {"name": "vpc-acme"}, "addresses": ["172.20.0.2/24"], "virtualIP": "172.20.0.10",
                "routes": [{"dst": "10.160.0.0/16", "via": "172.20.0.1"}]},
            "proxy": {"http": "http://proxy", "https": "http://proxy", "noProxy": ["a.example"]},
            "network": {"serviceCIDRs": ["10.113.0.0/16"], "podCIDRs": [], "dnsDomain": "a.example"},
            "endpoint": {"type": "LoadBalancer", "port": 443, "nodePort": 30443, "service": {
                "annotations": {"a": "b"}, "loadBalancerClass": "c", "loadBalancerSourceRanges": ["192.0.2.0/24"]}},
            "apiServer": {
                "authentication": {"jwt": [{}]}, "serviceAccountIssuers": ["https://a"], "trustedCA": "a",
                "admission": {"configuration": [{"name": "EventRateLimit", "configuration": {}}]},
                "audit": {"policy": {}, "webhook": {"secretRef": {"name": "a"}}},
            },
        });
        for component in crate::components::ALL {
            cluster[component.field()]["replicas"] = 2.into();
        }
        let cluster: ClusterSpec = serde_json::from_value(cluster).unwrap();
        let etcd: EtcdClusterSpec = serde_json::from_value(json!({
            "version": "3.6.16", "replicas": 3, "storage": {"className": "fast", "size": "20Gi"},
            "quotaBackendBytes": 16_777_216, "heartbeatInterval": "300ms", "electionTimeout": "3s", "snapshotCount": 50_000,
            "keepOldData": "48h",
            "images": {"registry": "mirror.example.com", "overrides": {"etcd": "mirror.example.com/etcd"}},
        }))
        .unwrap();
        for (kind, rows, sets) in tables() {
            let unread = |set: &TemplateSet| match kind {
                "Cluster" => fields(rows, &cluster, set),
                _ => fields(rows, &etcd, set),
            };
            let unset = |set: &TemplateSet| match kind {
                "Cluster" => fields(rows, &serde_json::from_value::<ClusterSpec>(json!({"version": ""})).unwrap(), set),
                _ => fields(rows, &EtcdClusterSpec::default(), set),
            };
            for set in sets {
                assert_eq!(unread(set), Vec::<&str>::new(), "{}", set.name());
                for (field, values) in rows {
                    for (folder, value) in values {
                        let older = before(set, folder, &format!("{} = 0", value.split('.').next().unwrap()));
                        assert!(unread(&older).contains(&&**field), "{}: {field}", set.name());
                        assert_eq!(unset(&older), Vec::<&str>::new(), "{}: {field}", set.name());
                    }
                }
            }
        }
    }
}
