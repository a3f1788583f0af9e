//! Where images come from: the operator, the spec, and who may say so.

use super::{Fixture, blocked};
use crate::model::Component;
use crate::settings::Writers;
use berth_api::conditions::Reason;
use berth_api::names;
use berth_render::Kind;
use serde_json::{Value, json};

const COMPONENTS: [&str; 3] = [names::APISERVER, names::CONTROLLER_MANAGER, names::SCHEDULER];

fn pods(f: &Fixture, name: &str) -> Value {
    f.world.observed.get(&Fixture::key(Kind::Deployment, name)).unwrap()["spec"]["template"]["spec"].clone()
}

fn asked(f: &mut Fixture, images: Value) {
    f.cluster.spec.images = serde_json::from_value(images).unwrap();
    for _ in 0..3 {
        f.pass();
        f.others();
    }
}

#[test]
fn a_registry_counts_at_once_for_everything_and_its_removal_brings_the_operators_back() {
    let mut f = Fixture::up(json!({"version": "1.36.3"}));
    f.settings.writers =
        Writers { image_registries: vec!["*".into()], pull_secrets: vec!["*".into()], ..Writers::default() };
    asked(&mut f, json!({"registry": "mirror.example.com/k8s", "pullSecrets": ["mirror"]}));
    for name in COMPONENTS {
        let pods = pods(&f, name);
        assert_eq!(pods["containers"][0]["image"], format!("mirror.example.com/k8s/{name}:v1.36.3"));
        assert_eq!(pods["initContainers"][0]["image"], "mirror.example.com/k8s/agent:dev");
        assert_eq!(pods["imagePullSecrets"], json!([{"name": "mirror"}]), "{name}");
    }
    let etcd = f.world.observed.get(&Fixture::key(Kind::EtcdCluster, names::ETCD)).unwrap();
    assert_eq!(etcd["spec"]["images"], json!({"registry": "mirror.example.com/k8s", "pullSecrets": ["mirror"]}));
    asked(&mut f, json!({"registry": "other.example.com"}));
    assert_eq!(pods(&f, names::SCHEDULER)["containers"][0]["image"], "other.example.com/kube-scheduler:v1.36.3");
    asked(&mut f, json!({}));
    for name in COMPONENTS {
        let pods = pods(&f, name);
        assert_eq!(pods["containers"][0]["image"], format!("registry.k8s.io/{name}:v1.36.3"));
        assert_eq!(pods["initContainers"][0]["image"], "berth.dev/agent:dev");
    }
}

#[test]
fn a_registry_that_is_not_allowed_changes_nothing_that_runs() {
    let mut f = Fixture::up(json!({"version": "1.36.3"}));
    f.cluster.spec.images.registry = Some("evil.example.com".into());
    let planned = f.pass();
    for component in [Component::Etcd, Component::ApiServer, Component::ControllerManager, Component::Scheduler] {
        let said = blocked(&planned, component, Reason::NotAllowed);
        assert!(said.contains("spec.images.registry: evil.example.com is not allowed"), "{said}");
    }
    assert!(f.world.log.is_empty(), "{:#?}", f.world.log);
}
