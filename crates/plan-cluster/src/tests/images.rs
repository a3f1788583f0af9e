//! Where images come from: the operator, the spec, and who may say so.

use super::{Fixture, blocked, components};
use berth_api::common::AgentDelivery;
use berth_api::conditions::Reason;
use berth_api::{labels, names};
use berth_plan::model::StageId;
use berth_plan::settings::Writers;
use berth_render::Kind;
use serde_json::{Value, json};

fn pods(f: &Fixture, name: &str) -> Value {
    f.world.observed.get(&Fixture::key(Kind::Deployment, name)).unwrap()["spec"]["template"]["spec"].clone()
}

fn asked(f: &mut Fixture, images: Value) {
    f.cluster.spec.images = serde_json::from_value(images).unwrap();
    for _ in 0..3 {
        f.reconcile();
        f.others();
    }
}

#[test]
fn a_registry_counts_at_once_for_everything_and_its_removal_brings_the_operators_back() {
    let mut f = Fixture::up(json!({"version": "1.36.3"}));
    f.settings.writers =
        Writers { image_registries: vec!["*".into()], pull_secrets: vec!["*".into()], ..Writers::default() };
    asked(&mut f, json!({"registry": "mirror.example.com/k8s", "pullSecrets": ["mirror"]}));
    for name in components() {
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
    for name in components() {
        let pods = pods(&f, name);
        assert_eq!(pods["containers"][0]["image"], format!("registry.k8s.io/{name}:v1.36.3"));
        assert_eq!(pods["initContainers"][0]["image"], "berth.dev/agent:dev");
    }
}

#[test]
fn a_registry_that_is_not_allowed_changes_nothing_that_runs() {
    let mut f = Fixture::up(json!({"version": "1.36.3"}));
    f.cluster.spec.images.registry = Some("evil.example.com".into());
    let said = blocked(&f.reconcile(), StageId::Spec, Reason::NotAllowed);
    assert!(said.contains("spec.images.registry: evil.example.com is not allowed"), "{said}");
    assert!(f.world.log.is_empty(), "{:#?}", f.world.log);
}

/// Nothing has come up: each component has a pod that cannot get an image.
fn stuck(f: &mut Fixture, list: &str, waits: impl Fn(&str) -> Value) {
    for name in components() {
        let pod = Fixture::key(Kind::Pod, &format!("{name}-1"));
        let labels = json!({"app.kubernetes.io/component": name});
        f.world.put(pod.clone(), json!({"metadata": {"name": pod.name, "labels": labels}}));
        f.world.pod_status(&pod, json!({(list): [waits(name)]}));
        f.world.observed.objects.get_mut(&Fixture::key(Kind::Deployment, name)).unwrap()["status"] = Value::Null;
    }
}

fn waiting(image: &str, message: &str) -> Value {
    let waiting = json!({"reason": "ImagePullBackOff", "message": message});
    json!({"name": "c", "image": image, "state": {"waiting": waiting}})
}

#[test]
fn a_registry_that_was_mistyped_is_mended_with_the_charts_values() {
    let mut f = Fixture::new(json!({"version": "1.36.3"}));
    f.settings.registry = "registyr.example.com".into();
    asked(&mut f, json!({}));
    let wrong = |name: &str| format!("registyr.example.com/{name}:v1.36.3");
    stuck(&mut f, "containerStatuses", |name| waiting(&wrong(name), "no such host"));
    f.settings.registry = "registry.example.com".into();
    for pod in [names::CONTROLLER_MANAGER, names::SCHEDULER].map(|n| Fixture::key(Kind::Pod, &format!("{n}-1"))) {
        f.world.run_pod(&pod);
    }
    f.reconcile();
    assert_eq!(f.image(names::APISERVER), "registry.example.com/kube-apiserver:v1.36.3");
    f.others();
    f.reconcile();
    assert_eq!(f.image(names::SCHEDULER), wrong(names::SCHEDULER), "what has its image keeps it");
}

#[test]
fn an_agent_that_was_mistyped_is_mended_with_the_charts_values() {
    let (wrong, right) = ("berth.dev/aegnt:1", "berth.dev/agent:1");
    let kubelet = format!("failed to pull image volume: Back-off pulling image \"{wrong}\"");
    for (registry, delivery, image, message) in [
        (None, AgentDelivery::InitContainer, wrong, "not found"),
        (None, AgentDelivery::ImageVolume, "registry.k8s.io/x:v1", &*kubelet),
        (Some("mirror.example.com"), AgentDelivery::InitContainer, "mirror.example.com/aegnt:1", "not found"),
    ] {
        let mut f = Fixture::new(json!({"version": "1.36.3", "images": {"registry": registry}}));
        f.settings.writers = Writers::anything();
        (f.settings.agent_image, f.settings.agent_delivery) = (wrong.into(), delivery);
        asked(&mut f, json!({"registry": registry}));
        let list = if delivery == AgentDelivery::InitContainer { "initContainerStatuses" } else { "containerStatuses" };
        stuck(&mut f, list, |_| waiting(image, message));
        f.settings.agent_image = right.into();
        // One component has come up with it: it can be had.
        let before = f.world.clone();
        f.roll_out(names::SCHEDULER);
        f.reconcile();
        assert!(pods(&f, names::APISERVER).to_string().contains("aegnt:1"));
        f.world = before;
        for _ in 0..3 {
            f.reconcile();
            f.others();
        }
        for name in components() {
            let pods = pods(&f, name);
            assert!(!pods.to_string().contains("aegnt"), "{pods:#}");
            assert!(pods.to_string().contains("agent:1\""), "{pods:#}");
        }
        assert_eq!(
            f.world.observed.get(&Fixture::namespace()).unwrap()["metadata"]["annotations"][labels::AGENT_IMAGE],
            right
        );
    }
}
