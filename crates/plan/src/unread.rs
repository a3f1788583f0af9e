//! Fields of a spec that are set, and that the pinned templates do not read: they take effect with newer templates only.

use berth_render::TemplateSet;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

/// A field of a spec with everything inside of it, and the values that it feeds, as (folder of templates, value). No values: it takes
/// effect without templates, whatever the set.
pub(crate) type Row = (String, Vec<(&'static str, &'static str)>);

/// A row.
pub(crate) fn row(field: &str, values: &[(&'static str, &'static str)]) -> Row {
    (field.to_owned(), values.to_vec())
}

/// The fields that are set, and feed a value that the set does not read.
pub(crate) fn fields<'a, S: Serialize + DeserializeOwned>(all: &'a [Row], spec: &S, set: &TemplateSet) -> Vec<&'a str> {
    let read = |(folder, value): &(&str, &str)| set.reads(folder, value);
    let unread: Vec<_> = all.iter().filter(|(_, values)| !values.iter().all(read)).map(|(field, _)| &**field).collect();
    // The usual case.
    if unread.is_empty() {
        return unread;
    }
    let default = serde_json::from_value::<S>(json!({"version": ""})).ok();
    let (spec, default) = (serde_json::to_value(spec).ok(), serde_json::to_value(default).ok());
    let at =
        |spec: &Option<Value>, field: &str| spec.as_ref()?.pointer(&format!("/{}", field.replace('.', "/"))).cloned();
    unread.into_iter().filter(|field| at(&spec, field) != at(&default, field)).collect()
}

/// The condition's message.
pub(crate) fn message(fields: &[&str], way_out: &str) -> String {
    let names: Vec<_> = fields.iter().map(|field| format!("spec.{field}")).collect();
    let (is, it) = if names.len() == 1 { ("is", "it") } else { ("are", "them") };
    format!("{} {is} not applied: the pinned templates do not use {it}. {way_out}", names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::before;
    use crate::{cluster, etcd};
    use berth_api::{ClusterSpec, EtcdClusterSpec};
    use berth_render::{Catalog, FLAGS, Source};

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
        "node_port",
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
        [("Cluster", &cluster::unread::FIELDS, kubernetes), ("EtcdCluster", &etcd::unread::FIELDS, etcd_sets)]
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
                    "{kind} {}: give it a row in plan/src/{}/unread.rs, or a Source::Field row in render/src/flags.rs",
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
            "version": "1.36.3", "replicas": 3, "images": {"registry": "mirror.example.com"},
            "vpc": {"attachment": {"name": "vpc-acme"}, "addresses": ["172.20.0.2/24"], "virtualIP": "172.20.0.10",
                "routes": [{"dst": "10.160.0.0/16", "via": "172.20.0.1"}]},
            "network": {"serviceCIDRs": ["10.113.0.0/16"], "podCIDRs": [], "dnsDomain": "a.example"},
            "endpoint": {"type": "LoadBalancer", "port": 443, "service": {
                "annotations": {"a": "b"}, "loadBalancerClass": "c", "loadBalancerSourceRanges": ["192.0.2.0/24"]}},
            "apiServer": {"authentication": {"jwt": [{}]}, "serviceAccountIssuers": ["https://a"]},
        });
        for component in cluster::components::ALL {
            cluster[component.field()]["replicas"] = 2.into();
        }
        let cluster: ClusterSpec = serde_json::from_value(cluster).unwrap();
        let etcd: EtcdClusterSpec = serde_json::from_value(json!({
            "version": "3.6.16", "replicas": 3, "storage": {"className": "fast", "size": "20Gi"},
            "quotaBackendBytes": 16_777_216, "keepOldData": "48h", "images": {"registry": "mirror.example.com"},
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
