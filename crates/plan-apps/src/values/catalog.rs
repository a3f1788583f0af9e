//! The catalog in examples/apps: what its Apps come to.

use super::*;
use berth_api::app::App;
use berth_testkit::fixtures::{from_yaml, package};
use std::fs;

/// Registries of the world, and what images there are named by.
const UPSTREAM: [&str; 4] = ["docker.io", "ghcr.io", "quay.io", "registry.k8s.io"];

fn apps() -> Vec<(Value, App)> {
    let folder = package().join("../../examples/apps");
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let texts = files.filter(|path| path.extension().is_some_and(|kind| kind == "yaml")).map(fs::read_to_string);
    texts.map(Result::unwrap).map(|text| (from_yaml(&text), from_yaml(&text))).collect()
}

fn tenant(registry: &str) -> TenantFacts {
    let network = NetworkFacts {
        service_cidrs: vec!["10.112.0.0/16".into()],
        pod_cidrs: vec!["10.160.0.0/16".into()],
        dns_domain: "cluster.local".into(),
        dns_address: "10.112.0.10".into(),
        ..NetworkFacts::default()
    };
    TenantFacts {
        namespace: "team-a".into(),
        name: "acme".into(),
        version: Some("1.36.3".into()),
        minor: Some("1.36".into()),
        endpoint: Some(EndpointFacts { host: "172.20.0.10".into(), port: 6443 }),
        network,
        image_registry: registry.into(),
        ..TenantFacts::default()
    }
}

#[test]
fn no_field_of_the_catalog_is_dropped() {
    let all = apps();
    assert!(all.len() > 3, "{} files", all.len());
    for (written, app) in all {
        assert_eq!(serde_json::to_value(&app.spec).unwrap(), written["spec"]);
    }
}

#[test]
fn images_of_the_catalog_are_upstreams_or_all_of_the_one_registry() {
    for (_, app) in apps() {
        let name = app.metadata.name.unwrap();
        let values = |registry: &str| {
            let values = of(&app.spec.release, &[], &tenant(registry)).unwrap_or_else(|e| panic!("{name}: {e:?}"));
            Value::from(values).to_string()
        };
        let (upstream, mirrored) = (values(""), values("mirror.example.com/k8s"));
        assert!(UPSTREAM.iter().any(|registry| upstream.contains(registry)), "{name}: {upstream}");
        assert!(!UPSTREAM.iter().any(|registry| mirrored.contains(registry)), "{name}: {mirrored}");
        assert!(mirrored.contains("mirror.example.com/k8s"), "{name}: {mirrored}");
    }
}

#[test]
fn the_network_plugin_knows_its_tenant() {
    let (_, app) = apps().into_iter().find(|(_, app)| app.metadata.name.as_deref() == Some("kube-router")).unwrap();
    let values = of(&app.spec.release, &[], &tenant("")).unwrap();
    assert_eq!(values["api"], json!({"host": "172.20.0.10", "port": 6443}));
    assert_eq!(values["serviceCIDRs"], json!(["10.112.0.0/16"]));
}
