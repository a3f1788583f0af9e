//! Sets of earlier builds render what they always did.

use crate::fixtures::{full, in_format, minimal};
use berth_render::{Binary, Catalog, Kind, Object, TemplateSet, render_apiserver};
use serde_json::{Value, json};

#[test]
fn only_from_the_second_format_on_a_container_has_a_security_context_of_its_own() {
    let set = Catalog::builtin().kubernetes("1.36".parse().unwrap()).unwrap();
    let first = |set: &TemplateSet| {
        let objects = render_apiserver(set, &full("1.36.3", "3.6.16").apiserver).unwrap();
        let security = "/spec/template/spec/initContainers/0/securityContext";
        objects.iter().find_map(|o: &Object| o.get(security).cloned()).unwrap()
    };
    assert_eq!(first(set)["runAsUser"], 0);
    let older = in_format(set, 1);
    let restricted: Value = json!({
        "allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}, "readOnlyRootFilesystem": true,
    });
    assert_eq!(first(&older), restricted);
}

/// Names of ConfigMaps, and of those that pods mount.
fn maps(objects: &[Object]) -> (Vec<String>, Vec<String>) {
    let made = objects.iter().filter(|o| o.key().kind == Kind::ConfigMap).map(|o| o.key().name.clone()).collect();
    let workload = objects.iter().filter(|o| o.key().kind.has_pods());
    let volumes = workload.filter_map(|o| o.get("/spec/template/spec/volumes")?.as_array()).flatten();
    let named = |volume: &Value| volume.pointer("/configMap/name")?.as_str().map(str::to_owned);
    (made, volumes.filter_map(named).collect())
}

#[test]
fn only_from_the_third_format_on_configuration_has_its_digest_in_its_name() {
    let set = Catalog::builtin().kubernetes("1.36".parse().unwrap()).unwrap();
    let mut fixture = minimal("1.36.3", "3.6.16");
    let sum = |objects: &[Object]| {
        let workload = objects.iter().find(|o| o.key().kind.has_pods()).unwrap();
        workload.get("/spec/template/metadata/annotations/checksum.berth.dev~1kube-apiserver").cloned()
    };
    let before = render_apiserver(set, &fixture.apiserver).unwrap();
    let older = render_apiserver(&in_format(set, 2), &fixture.apiserver).unwrap();
    let (made, mounted) = maps(&before);
    assert_eq!(made, mounted);
    let digest = made[0].strip_prefix("kube-apiserver-config-").unwrap();
    assert!(digest.len() == 12 && digest.bytes().all(|b| b.is_ascii_hexdigit()), "{digest}");
    assert_eq!(sum(&before), None, "the name says it");
    assert_eq!(maps(&older), (vec!["kube-apiserver".to_owned()], vec!["kube-apiserver".to_owned()]));
    assert!(sum(&older).is_some());

    fixture.apiserver.jwt.push(json!({"issuer": {"url": "https://a.example.com"}}));
    let after = render_apiserver(set, &fixture.apiserver).unwrap();
    assert_eq!(maps(&after).0, maps(&after).1);
    assert_ne!(maps(&after).0, made, "those that run never see it");
    fixture.apiserver.workload.replicas = 2;
    let scaled = render_apiserver(set, &fixture.apiserver).unwrap();
    assert_eq!(maps(&scaled).0, maps(&after).0, "the digest is of the texts");

    // Each slot has one of its own, and what pods follow while they run keeps its name.
    let slots = maps(&render_apiserver(set, &full("1.36.3", "3.6.16").apiserver).unwrap());
    assert_eq!(slots.0.len(), 1);
    assert!(slots.0[0].starts_with("kube-apiserver-1-config-") && slots.1.contains(&slots.0[0]), "{slots:?}");
    assert!(slots.1.contains(&"kube-apiserver-vpc".to_owned()), "{slots:?}");
    let etcd = minimal("1.36.3", "3.6.16").component(Binary::Etcd).unwrap();
    assert_eq!(maps(&etcd).0, ["acme-bootstrap"]);
}
