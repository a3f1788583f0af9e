//! What the container `vpc` runs, and what its pods are attached by: today, and for a tenant that a build before made.

use super::vpc::{definition, new, spec};
use super::*;
use berth_api::labels;
use berth_plan::object_meta::annotation;
use berth_plan::observed::AttachmentSeen;
use berth_plan::settings::Writers;
use berth_render::{Catalog, TemplateSet};

const TEAMS: &str = "mirror.example.com/k8s";
const RAN: &str = "mirror.example.com/k8s/agent:dev";
const PLATFORMS: &str = "berth.dev/agent:dev";

/// Templates that take one image for all of the agent.
fn older() -> TemplateSet {
    let mut data = Catalog::builtin().kubernetes("1.36".parse().unwrap()).unwrap().to_data();
    for text in data.values_mut() {
        *text = text.replace("{{ vpc.image }}", "{{ workload.agent_image }}");
    }
    TemplateSet::from_data(data).unwrap()
}

fn with_registry() -> Fixture {
    let mut f = new(spec());
    f.settings.writers = Writers { image_registries: vec!["*".into()], ..Writers::default() };
    f.cluster.spec.images.registry = Some(TEAMS.into());
    f
}

fn settle(f: &mut Fixture) {
    for _ in 0..12 {
        f.reconcile();
        f.attached();
    }
    f.reconcile();
}

impl Fixture {
    /// Images of the container `vpc`, of the slots that there are.
    fn vpc_images(&self) -> Vec<&str> {
        let home = Self::cp_namespace();
        let sets: Vec<_> = self
            .world
            .observed
            .objects
            .iter()
            .filter(|(key, _)| key.kind == Kind::StatefulSet && key.namespace.as_deref() == Some(&*home))
            .collect();
        let first = |set: &'_ Value| set.pointer("/spec/template/spec/initContainers/0").cloned();
        assert!(sets.iter().all(|(_, set)| first(set).is_some_and(|one| one["name"] == "vpc")));
        sets.into_iter()
            .filter_map(|(_, set)| set.pointer("/spec/template/spec/initContainers/0/image")?.as_str())
            .collect()
    }

    fn networks(&self) -> String {
        let template = &self.slot(0)["spec"]["template"]["metadata"]["annotations"]["k8s.v1.cni.cncf.io/networks"];
        let asked: Value = serde_json::from_str(template.as_str().unwrap()).unwrap();
        asked[0]["namespace"].as_str().unwrap().to_owned()
    }

    fn noted(&self) -> Option<&str> {
        annotation(self.world.observed.get(&Self::namespace()).unwrap(), labels::VPC_IMAGES)
    }

    fn copy_of_definition(&self) -> Option<&Value> {
        self.world.observed.get(&Self::key(Kind::NetworkAttachmentDefinition, "vpc-acme"))
    }
}

/// As a build before made it: its pods run the agent of the team's registry, and nothing is noted.
fn of_a_build_before() -> Fixture {
    let mut f = with_registry();
    settle(&mut f);
    let (set, home) = (older(), Fixture::cp_namespace());
    let namespace = f.world.observed.objects.get_mut(&Fixture::namespace()).unwrap();
    namespace["metadata"]["annotations"][labels::TEMPLATES] = set.digest().into();
    f.world.observed.pinned = Some(set);
    for (key, object) in &mut f.world.observed.objects {
        if key.kind == Kind::StatefulSet && key.namespace.as_deref() == Some(&*home) {
            object["spec"]["template"]["spec"]["initContainers"][0]["image"] = RAN.into();
        }
    }
    settle(&mut f);
    assert_eq!((f.vpc_images(), f.networks()), (vec![RAN; 3], "team-a".to_owned()));
    let namespace = f.world.observed.objects.get_mut(&Fixture::namespace()).unwrap();
    namespace["metadata"]["annotations"].as_object_mut().unwrap().remove(labels::VPC_IMAGES);
    f.world.remove(&Fixture::key(Kind::NetworkAttachmentDefinition, "vpc-acme"));
    f.world.log.clear();
    f
}

/// For docs/reference/messages.md.
pub(super) fn situations() -> Vec<(&'static str, Fixture)> {
    let mut f = of_a_build_before();
    f.reconcile();
    vec![("spec.vpc: the container vpc runs an image of spec.images.registry, by templates of a build before", f)]
}

#[test]
fn a_registry_of_the_spec_does_not_count_for_the_container_that_is_root() {
    let mut f = with_registry();
    settle(&mut f);
    assert_eq!((f.vpc_images(), f.noted()), (vec![PLATFORMS; 3], Some("Platform")));
    let others = f.slot(0)["spec"]["template"]["spec"].to_string();
    assert!(others.contains("mirror.example.com/k8s/kube-apiserver:") && others.contains(RAN), "{others}");
    assert_eq!(f.condition("Ready").0, "True", "{:?}", f.condition("Ready"));
}

#[test]
fn what_a_build_before_made_runs_on_and_is_made_again() {
    let mut f = of_a_build_before();
    f.reconcile();
    assert_eq!(f.world.log, [format!("apply {}", Fixture::namespace())], "nothing of the pods is changed");
    assert_eq!((f.vpc_images(), f.noted()), (vec![RAN; 3], Some(RAN)));
    let (ready, reason, said) = f.condition("Ready");
    assert_eq!((&*ready, &*reason), ("False", "NotInTemplates"));
    assert_eq!(
        said,
        "The container vpc (root in pods of kube-apiserver) runs mirror.example.com/k8s/agent:dev by spec.images.registry: the pinned templates do not use the platform's image for it. To apply, set spec.version to another patch version of 1.36, or spec.upgrade.templates to Newest"
    );
    // One of its workloads, made again.
    let slot = Fixture::key(Kind::StatefulSet, "kube-apiserver-1");
    f.world.remove(&slot);
    settle(&mut f);
    assert_eq!((f.vpc_images(), f.noted(), f.networks()), (vec![RAN; 3], Some(RAN), "team-a".to_owned()));
    assert!(f.copy_of_definition().is_none());
}

#[test]
fn by_older_templates_no_other_image_of_a_registry_is_run() {
    let mut f = of_a_build_before();
    f.cluster.spec.images.registry = Some("evil.example.com".into());
    settle(&mut f);
    assert_eq!((f.vpc_images(), f.noted()), (vec![PLATFORMS; 3], Some("Platform")));
    f.cluster.spec.images.registry = Some(TEAMS.into());
    settle(&mut f);
    assert_eq!((f.vpc_images(), f.noted()), (vec![PLATFORMS; 3], Some("Platform")), "what ran once does not count");
    assert_eq!(f.condition("Ready").0, "True", "{:?}", f.condition("Ready"));
}

#[test]
fn the_next_release_has_the_platforms_image_and_its_own_definition() {
    let mut f = of_a_build_before();
    f.reconcile();
    f.cluster.spec.version = "1.36.3".into();
    f.reconcile();
    assert_eq!(f.noted(), Some(RAN), "pods that run may be made again");
    settle(&mut f);
    assert_eq!((f.vpc_images(), f.noted()), (vec![PLATFORMS; 3], Some("Platform")));
    assert_eq!((f.networks(), f.condition("Ready").0), (Fixture::cp_namespace(), "True".to_owned()));
    assert!(f.copy_of_definition().is_some());
}

#[test]
fn what_cannot_be_read_takes_no_image_away() {
    let mut f = of_a_build_before();
    f.reconcile();
    let home = Fixture::cp_namespace();
    let all = f.world.observed.objects.clone();
    f.world.observed.objects.retain(|key, _| key.namespace.as_deref() != Some(&*home));
    f.world.observed.denied = true;
    f.reconcile();
    assert_eq!(f.noted(), Some(RAN));
    f.world.observed.objects = all;
    f.world.observed.denied = false;
    f.reconcile();
    assert_eq!((f.vpc_images(), f.noted()), (vec![RAN; 3], Some(RAN)));
}

#[test]
fn pods_are_attached_by_a_copy_beside_them() {
    let mut f = new(spec());
    f.cluster.spec.vpc.as_mut().unwrap().attachment.namespace = Some("networks".into());
    f.world.observed.attachment =
        definition(json!({(labels::ALLOW_FROM): "team-a", "k8s.v1.cni.cncf.io/resourceName": "example.com/eni"}));
    settle(&mut f);
    assert_eq!(f.networks(), Fixture::cp_namespace());
    let copy = f.copy_of_definition().unwrap().clone();
    assert_eq!(copy["spec"], json!({"config": r#"{"type": "macvlan"}"#}));
    assert_eq!(annotation(&copy, "k8s.v1.cni.cncf.io/resourceName"), Some("example.com/eni"));
    assert_eq!(annotation(&copy, labels::ALLOW_FROM), None, "it is for this tenant alone");
    assert_eq!(berth_plan::object_meta::label(&copy, labels::CLUSTER_NAME), Some("acme"));

    // What its owner changes, and what somebody else changes.
    for (change, config) in [("source", r#"{"type": "ipvlan"}"#), ("copy", r#"{"type": "ipvlan"}"#)] {
        f.world.log.clear();
        if let ("source", AttachmentSeen::Found(definition)) = (change, &mut f.world.observed.attachment) {
            definition["spec"]["config"] = config.into();
        } else {
            let key = Fixture::key(Kind::NetworkAttachmentDefinition, "vpc-acme");
            f.world.observed.objects.get_mut(&key).unwrap()["spec"]["config"] = "{}".into();
        }
        f.reconcile();
        assert_eq!(f.copy_of_definition().unwrap()["spec"]["config"], config, "{change}");
        assert_eq!(f.world.log.len(), 1, "{change}: no pod is replaced: {:?}", f.world.log);
    }
    f.world.observed.attachment = AttachmentSeen::Missing;
    f.reconcile();
    assert!(f.copy_of_definition().is_some());
    let (_, _, said) = f.condition("VPCReady");
    assert!(said.contains("networks/vpc-acme does not exist. Create it again: until then API servers keep"), "{said}");
}

#[test]
fn a_definition_that_names_itself_is_used_where_it_is() {
    let mut f = new(spec());
    if let AttachmentSeen::Found(definition) = &mut f.world.observed.attachment {
        definition["spec"]["config"] =
            r#"{"type": "ovn-k8s-cni-overlay", "netAttachDefName": "team-a/vpc-acme"}"#.into();
    }
    settle(&mut f);
    assert_eq!(f.networks(), "team-a");
    assert!(f.copy_of_definition().is_none());
}
