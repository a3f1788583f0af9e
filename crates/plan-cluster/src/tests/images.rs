//! Where images come from: the operator, the spec, and who may say so.

use super::{Fixture, blocked, components};
use berth_api::common::AgentDelivery;
use berth_api::conditions::Reason;
use berth_api::{labels, names};
use berth_plan::model::{StageId, State};
use berth_plan::settings::Writers;
use berth_render::images::Layout;
use berth_render::{Kind, ObjectKey};
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
fn a_single_image_comes_from_elsewhere_of_the_version_that_it_is_of() {
    let mut f = Fixture::two_of_each();
    f.settings.writers = Writers { image_registries: vec!["mirror.example.com/k8s".into()], ..Writers::default() };
    let own = json!({"overrides": {
        "kube-apiserver": "mirror.example.com/k8s/api:v1.36.2-acme.1", "kube-scheduler": "mirror.example.com/k8s/scheduler",
        "etcd": "mirror.example.com/k8s/etcd", "coredns": "mirror.example.com/k8s/dns",
        "kube-proxy": "mirror.example.com/k8s/proxy:v1.36.2-acme.1",
    }});
    asked(&mut f, own);
    f.rest();
    assert_eq!(f.image(names::APISERVER), "mirror.example.com/k8s/api:v1.36.2-acme.1");
    assert_eq!(f.image(names::SCHEDULER), "mirror.example.com/k8s/scheduler:v1.36.2");
    assert_eq!(f.image(names::CONTROLLER_MANAGER), "registry.k8s.io/kube-controller-manager:v1.36.2");
    assert_eq!(pods(&f, names::APISERVER)["initContainers"][0]["image"], "berth.dev/agent:dev", "the platform's");
    let etcd = f.world.observed.get(&Fixture::key(Kind::EtcdCluster, names::ETCD)).unwrap();
    assert_eq!(etcd["spec"]["images"], json!({"overrides": {"etcd": "mirror.example.com/k8s/etcd"}}));
    assert!(coredns(&f).starts_with("mirror.example.com/k8s/dns:v"), "{}", coredns(&f));
    assert!(kube_proxy(&f).contains("mirror.example.com/k8s/proxy:v1.36.2-acme.1"));
    assert_eq!(f.condition("Ready").0, "True", "{:?}", f.condition("Ready"));

    // Another version: a tag stays behind, and nothing begins.
    f.world.log.clear();
    f.version("1.36.3");
    let said = blocked(&f.reconcile(), StageId::Spec, Reason::InvalidSpec);
    let why = "spec.images.overrides.kube-apiserver: tag v1.36.2-acme.1 is not of 1.36.3 (spec.version). Set a tag that begins with v1.36.3, or leave the tag out";
    assert_eq!(said, why);
    assert!(f.world.log.is_empty(), "{:#?}", f.world.log);
    let overrides = &mut f.cluster.spec.images.overrides;
    overrides.insert("kube-apiserver".into(), "mirror.example.com/k8s/api:v1.36.3-acme.1".into());
    overrides.insert("kube-proxy".into(), "mirror.example.com/k8s/proxy:v1.36.3-acme.1".into());
    f.reconcile();
    assert_eq!(f.image(names::APISERVER), "mirror.example.com/k8s/api:v1.36.3-acme.1");
    assert!(kube_proxy(&f).contains("proxy:v1.36.2-acme.1"), "what runs stays until the new version serves");
    f.rest();
    f.seconds(60);
    f.rest();
    assert_eq!(f.image(names::SCHEDULER), "mirror.example.com/k8s/scheduler:v1.36.3");
    assert!(kube_proxy(&f).contains("proxy:v1.36.3-acme.1"));
    assert_eq!(f.condition("Ready").0, "True", "{:?}", f.condition("Ready"));

    // What the platform does not allow, and an add-on's tag of another version: what runs stays.
    let runs = coredns(&f);
    f.cluster.spec.images.overrides.insert("coredns".into(), "mirror.example.com/k8s/dns:v1.0.0".into());
    f.rest();
    let said = f.condition("Ready").2;
    assert!(said.contains("spec.images.overrides.coredns: tag v1.0.0 is not of"), "{said}");
    assert_eq!(coredns(&f), runs);
    f.cluster.spec.images.overrides.insert("coredns".into(), "evil.example.com/dns".into());
    f.rest();
    let said = f.condition("Ready").2;
    assert!(said.contains("spec.images.overrides.coredns: evil.example.com/dns is not allowed"), "{said}");
    assert_eq!(coredns(&f), runs);
    asked(&mut f, json!({}));
    f.seconds(60);
    f.rest();
    for name in components() {
        assert_eq!(f.image(name), format!("registry.k8s.io/{name}:v1.36.3"));
    }
    assert!(coredns(&f).starts_with("registry.k8s.io/coredns/coredns:v"), "{}", coredns(&f));
}

/// What a tag of an add-on's image does at each step of a minor: in the first step, while the new binaries emulate, when the second step begins,
/// and at the end. The release itself goes on, whatever becomes of an add-on.
#[test]
fn a_tag_of_an_add_on_is_of_the_version_before_or_after_at_each_step_of_a_minor() {
    use At::{After, Before, Refused};
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum At {
        /// The image of the minor before runs.
        Before,
        /// That of the minor after.
        After,
        /// The spec is refused, and what ran stays.
        Refused,
    }
    let dns = ("coredns", "1.13.1", "1.14.2", coredns as fn(&Fixture) -> String);
    let proxy = ("kube-proxy", "1.35.4", "1.36.3", kube_proxy as fn(&Fixture) -> String);
    for ((component, before, after, runs), tag, steps) in [
        (dns, "", [Before, Before, After, After]),
        (dns, ":v1.13.1-acme.1", [Before, Before, Refused, Refused]),
        (dns, ":v1.14.2-acme.1", [Before, Before, After, After]),
        (dns, ":v1.12.1", [Refused; 4]),
        // It goes with the API servers, which serve the minor after the second step.
        (proxy, "", [Before, Before, Before, After]),
        (proxy, ":v1.35.4-acme.1", [Before, Before, Before, Refused]),
        (proxy, ":v1.36.3-acme.1", [Before, Before, Before, After]),
        (proxy, ":v1.34.4", [Refused; 4]),
    ] {
        let mut f = Fixture::up_for_upgrade(json!({"version": "1.35.4", "upgrade": {"soak": "0s"}}));
        f.settings.writers = Writers::anything();
        let own = |tag: &str| json!({"overrides": {(component): format!("mirror.example.com/own{tag}")}});
        asked(&mut f, own(&if tag.is_empty() { String::new() } else { format!(":v{before}-acme.1") }));
        f.rest();
        // Version and tag in one edit.
        f.cluster.spec.images = serde_json::from_value(own(tag)).unwrap();
        f.version("1.36.3");
        let at = |f: &Fixture| {
            let image = runs(f);
            let of = |version: &str| image.contains(&format!("mirror.example.com/own:v{version}"));
            match f.plan().plan.stage(StageId::Tenant).map(|stage| stage.state.clone()) {
                Some(State::Blocked { reason: Reason::InvalidSpec, message }) => {
                    let tag = tag.trim_start_matches(':');
                    assert!(
                        message
                            .starts_with(&format!("spec.images.overrides.{component}: tag {tag} is not of {after} ("))
                    );
                    assert!(of(before), "{image}");
                    Refused
                }
                _ if of(before) => Before,
                _ if of(after) => After,
                _ => panic!("{image}"),
            }
        };
        let mut found = vec![];
        for step in 0..4 {
            match step {
                0 => drop(f.reconcile()),
                2 => {
                    f.later(11);
                    f.reconcile();
                }
                _ => f.rest(),
            }
            found.push(at(&f));
        }
        assert_eq!(found, steps, "{component}{tag}");
        assert_eq!(f.image(names::APISERVER), "registry.k8s.io/kube-apiserver:v1.36.3", "{component}{tag}");
    }
}

/// A tenant whose add-ons have images of their own, and the tags of the next minor in the same edit as that.
fn with_tags_that_wait(are_recorded: bool) -> Fixture {
    let mut f = Fixture::up_for_upgrade(json!({"version": "1.35.4", "upgrade": {"soak": "0s"}}));
    f.settings.writers = Writers::anything();
    let own = |dns: &str, proxy: &str| {
        let (dns, proxy) = (format!("mirror.example.com/dns:v{dns}"), format!("mirror.example.com/proxy:v{proxy}"));
        json!({"overrides": {"coredns": dns, "kube-proxy": proxy}})
    };
    asked(&mut f, own("1.13.1-acme.1", "1.35.4-acme.1"));
    f.rest();
    if !are_recorded {
        f.world.observed.objects.retain(|key, _| key.kind != Kind::ClusterRevision);
    }
    f.cluster.spec.images = serde_json::from_value(own("1.14.2-acme.1", "1.36.3-acme.1")).unwrap();
    f.version("1.36.3");
    f
}

const ADDONS: [(Kind, &str); 2] = [(Kind::Deployment, "coredns"), (Kind::DaemonSet, "kube-proxy")];

/// For docs/reference/messages.md.
pub(super) fn situations() -> Vec<(&'static str, Fixture)> {
    let mut f = with_tags_that_wait(false);
    f.reconcile();
    vec![("images of add-ons are of the next minor, and no ClusterRevision tells of those before", f)]
}

#[test]
fn an_add_on_whose_tag_waits_is_kept_with_the_image_that_ran() {
    let mut f = with_tags_that_wait(true);
    let keys = ADDONS.map(|(kind, name)| ObjectKey::namespaced(kind, "kube-system", name));
    let pods =
        |f: &mut Fixture| keys.each_ref().map(|key| f.inside().get(key).flatten().unwrap()["spec"]["template"].clone());
    let before = pods(&mut f);
    f.reconcile();
    assert_eq!(pods(&mut f), before, "no pod restarts");
    assert!(f.image(names::APISERVER).ends_with(":v1.36.3"), "the release goes on");
    for key in &keys {
        f.inside().insert(key.clone(), None);
    }
    f.cluster.spec.addons.core_dns.replicas = Some(4);
    f.reconcile();
    assert_eq!(pods(&mut f), before, "they are back");
    assert_eq!(f.inside().get(&keys[0]).flatten().unwrap()["spec"]["replicas"], 4, "what is asked for counts");
    f.cluster.spec.addons.kube_proxy.mode = berth_api::cluster::ProxyMode::Nftables;
    f.reconcile();
    assert_ne!(pods(&mut f)[1], before[1], "its configuration is another");
    assert!(kube_proxy(&f).contains("proxy:v1.35.4-acme.1"));
}

#[test]
fn an_add_on_whose_tag_waits_stays_and_says_so_where_no_release_tells_what_ran() {
    let mut f = with_tags_that_wait(false);
    let before = (coredns(&f), kube_proxy(&f));
    f.reconcile();
    assert_eq!((coredns(&f), kube_proxy(&f)), before);
    let (status, _, message) = f.condition("AddonsReady");
    assert_eq!(status, "False", "{message}");
    for (addon, runs) in [("coredns", "1.13.1"), ("kube-proxy", "1.35.4")] {
        assert!(message.contains(&format!("(spec.images.overrides.{addon}: mirror.example.com/")), "{message}");
        assert!(message.contains(&format!("Set a tag that begins with v{runs}, or leave")), "{message}");
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

/// The Deployment of CoreDNS inside the tenant.
fn coredns(f: &Fixture) -> String {
    let key = ObjectKey::namespaced(Kind::Deployment, "kube-system", "coredns");
    let inside = f.world.inside.get(&key).unwrap_or_else(|| panic!("{:?}", f.world.inside.keys()));
    berth_plan::workload::image_of(inside.value()).unwrap().to_owned()
}

/// The DaemonSet of kube-proxy inside the tenant.
fn kube_proxy(f: &Fixture) -> String {
    let key = ObjectKey::namespaced(Kind::DaemonSet, "kube-system", "kube-proxy");
    f.world.inside.get(&key).unwrap_or_else(|| panic!("{:?}", f.world.inside.keys())).value().to_string()
}

#[test]
fn a_registry_of_the_spec_has_upstreams_paths_if_it_says_so() {
    let mut f = Fixture::new(json!({"version": "1.36.3"}));
    f.settings.writers = Writers { image_registries: vec!["*".into()], ..Writers::default() };
    for (layout, path) in [("Flat", "coredns"), ("Upstream", "coredns/coredns"), ("Flat", "coredns")] {
        asked(&mut f, json!({"registry": "cache.example.com/k8s", "layout": layout}));
        assert!(coredns(&f).starts_with(&format!("cache.example.com/k8s/{path}:v")), "{}", coredns(&f));
        assert_eq!(f.image(names::SCHEDULER), "cache.example.com/k8s/kube-scheduler:v1.36.3");
        assert_eq!(pods(&f, names::SCHEDULER)["initContainers"][0]["image"], "cache.example.com/k8s/agent:dev");
    }
}

#[test]
fn upstreams_paths_count_for_the_operators_registry_from_the_next_version_on() {
    let mut f = Fixture::new(json!({"version": "1.36.2"}));
    f.settings.registry = "cache.example.com".into();
    f.settings.writers = Writers { image_registries: vec!["*".into()], ..Writers::default() };
    asked(&mut f, json!({}));
    assert!(coredns(&f).starts_with("cache.example.com/coredns:v"), "{}", coredns(&f));
    f.settings.image_layout = Layout::Upstream;
    asked(&mut f, json!({}));
    assert!(coredns(&f).starts_with("cache.example.com/coredns:v"), "what runs stays");
    f.cluster.spec.version = "1.36.3".into();
    // The record follows once the release has succeeded.
    for _ in 0..6 {
        f.world.now += jiff::SignedDuration::from_mins(10);
        asked(&mut f, json!({}));
    }
    assert!(coredns(&f).starts_with("cache.example.com/coredns/coredns:v"), "{}", coredns(&f));
    f.settings.image_layout = Layout::Flat;
    asked(&mut f, json!({}));
    assert!(coredns(&f).starts_with("cache.example.com/coredns/coredns:v"), "it is on record");
    asked(&mut f, json!({"registry": "mirror.example.com/k8s"}));
    assert!(coredns(&f).starts_with("mirror.example.com/k8s/coredns:v"), "a registry of the spec is flat");
    let new = |layout| {
        let mut f = Fixture::new(json!({"version": "1.36.3"}));
        (f.settings.registry, f.settings.image_layout) = ("cache.example.com".into(), layout);
        f.reconcile();
        let namespace = f.world.observed.get(&Fixture::namespace()).unwrap();
        berth_plan::object_meta::annotation(namespace, labels::ADDONS).unwrap().to_owned()
    };
    assert!(!new(Layout::Flat).contains("layout") && new(Layout::Upstream).contains("Upstream"));
}
