//! Configuration of its own: what a component reads has its digest in its name, so pods that run never see another.

use super::*;
use berth_api::labels;
use berth_render::{Catalog, TemplateSet};

/// Issuers of tokens: a file behind a flag of kube-apiserver.
pub(super) fn jwt(host: &str) -> Vec<Value> {
    vec![json!({
        "issuer": {"url": format!("https://{host}"), "audiences": ["acme"]},
        "claimMappings": {"username": {"claim": "sub", "prefix": ""}},
    })]
}

impl Fixture {
    /// The ConfigMaps that are there of a component: name, and all texts.
    pub(super) fn configuration(&self, name: &str) -> Vec<(String, String)> {
        let cp_namespace = Self::cp_namespace();
        let maps = self.world.observed.of_kind(Kind::ConfigMap, &cp_namespace);
        let of_it = maps.filter(|(key, map)| key.name.starts_with(name) && !map["data"].is_null());
        of_it.map(|(key, map)| (key.name.clone(), map["data"].to_string())).collect()
    }

    /// The one that the pods of a Deployment mount.
    pub(super) fn mounted(&self, name: &str) -> String {
        let d = self.world.observed.get(&Self::key(Kind::Deployment, name)).unwrap();
        let volumes = d["spec"]["template"]["spec"]["volumes"].as_array().unwrap();
        let name = volumes.iter().find_map(|volume| volume.pointer("/configMap/name")?.as_str());
        name.unwrap().to_owned()
    }

    fn names(&self, name: &str) -> Vec<String> {
        self.configuration(name).into_iter().map(|(name, _)| name).collect()
    }
}

/// A tenant of an operator whose templates are of that format.
pub(super) fn of_format(format: u32) -> Fixture {
    of_templates(|data| drop(data.insert("format".to_owned(), format.to_string())))
}

/// A tenant of an operator whose templates were others.
pub(super) fn of_templates(change: impl FnOnce(&mut BTreeMap<String, String>)) -> Fixture {
    let mut f = Fixture::new(json!({"version": "1.36.2", "apiServer": {"replicas": 2}}));
    let mut data = Catalog::builtin().kubernetes("1.36".parse().unwrap()).unwrap().to_data();
    change(&mut data);
    let set = TemplateSet::from_data(data).unwrap();
    f.world.observed.pinned = Some(set.clone());
    f.reconcile();
    f.home_object()["metadata"]["annotations"][labels::TEMPLATES] = set.digest().into();
    let maps: Vec<_> = components().flat_map(|name| f.names(name)).collect();
    let made = maps.iter().map(|name| Fixture::key(Kind::ConfigMap, name));
    let deployments = components().map(|name| Fixture::key(Kind::Deployment, name));
    made.chain(deployments).for_each(|key| f.world.remove(&key));
    for _ in 0..4 {
        f.reconcile();
        f.others();
    }
    f.reconcile();
    assert_eq!(f.condition("Ready").0, "True", "{:?}", f.condition("Ready"));
    f.world.log.clear();
    f
}

#[test]
fn a_new_configuration_goes_to_new_pods_alone_and_the_old_one_goes_with_its_pods() {
    let mut f = Fixture::up(json!({"version": "1.36.2", "apiServer": {"replicas": 2}}));
    let before = f.configuration(names::APISERVER);
    assert_eq!(f.mounted(names::APISERVER), before[0].0);
    f.cluster.spec.api_server.authentication.jwt = jwt("a.example.com");
    f.reconcile();
    let during = f.configuration(names::APISERVER);
    assert_eq!(during.len(), 2);
    assert!(during.contains(&before[0]), "what the old pods read is as it was");
    let new = f.mounted(names::APISERVER);
    assert!(during.iter().any(|(name, data)| *name == new && data.contains("a.example.com")), "{during:?}");
    // The new pod is there, and an old one is left.
    f.stuck(names::APISERVER, 2);
    f.reconcile();
    assert_eq!(f.configuration(names::APISERVER), during);
    last(&mut f);
    assert_eq!(f.names(names::APISERVER), [new]);
    f.world.log.clear();
    f.reconcile();
    assert!(f.world.log.is_empty(), "{:#?}", f.world.log);
}

#[test]
fn the_way_back_leads_to_the_old_configuration() {
    let mut f = Fixture::up(json!({"version": "1.36.2", "apiServer": {"replicas": 2}}));
    let before = f.configuration(names::APISERVER);
    f.cluster.spec.api_server.authentication.jwt = jwt("a.example.com");
    *f.cluster.metadata.generation.as_mut().unwrap() += 1;
    f.reconcile();
    f.stuck(names::APISERVER, 2);
    f.reconcile();
    f.seconds(300);
    f.world.log.clear();
    f.reconcile();
    assert_eq!(f.condition("Ready").1, "RolledBack");
    assert_eq!(f.mounted(names::APISERVER), before[0].0);
    assert!(f.configuration(names::APISERVER).contains(&before[0]));
    assert!(!f.world.log.iter().any(|write| write.contains("ConfigMap")), "it never went: {:#?}", f.world.log);
    f.roll_out(names::APISERVER);
    f.cluster.spec.api_server.authentication.jwt.clear();
    last(&mut f);
    assert_eq!(f.configuration(names::APISERVER), before, "that of the release that failed is gone");
}

#[test]
fn a_tenant_of_before_takes_it_up_with_its_next_version() {
    let mut f = of_format(2);
    let before: Vec<_> = components().flat_map(|name| f.configuration(name)).collect();
    assert_eq!(before.iter().map(|(name, _)| &**name).collect::<Vec<_>>(), components().collect::<Vec<_>>());
    f.reconcile();
    assert!(f.world.log.is_empty(), "a new operator changes nothing: {:#?}", f.world.log);
    f.cluster.spec.version = "1.36.3".into();
    f.reconcile();
    assert_eq!(f.names(names::APISERVER), [names::APISERVER, &*f.mounted(names::APISERVER)]);
    last(&mut f);
    assert_eq!(f.condition("Ready").0, "True", "{:?}", f.condition("Ready"));
    for name in components() {
        assert_eq!(f.names(name), [f.mounted(name)], "{name}: what its old pods read is gone");
        assert!(f.mounted(name).starts_with(&format!("{name}-config-")));
    }
}

#[test]
fn slots_have_one_each_and_none_of_an_earlier_one_stays() {
    let mut f = Fixture::up_in_vpc(super::vpc::spec());
    let of_slots =
        |f: &Fixture| f.names(names::APISERVER).into_iter().filter(|n| n.contains("-config-")).collect::<Vec<_>>();
    let before = of_slots(&f);
    assert!(before.len() == 3 && before[0].starts_with("kube-apiserver-0-config-"), "{before:?}");
    f.cluster.spec.api_server.authentication.jwt = jwt("a.example.com");
    f.reconcile();
    assert!(before.iter().all(|name| of_slots(&f).contains(name)), "no slot's went before its pod");
    for _ in 0..8 {
        f.reconcile();
        f.attached();
    }
    f.reconcile();
    let after = of_slots(&f);
    assert_eq!(after.len(), 3, "{after:?}");
    assert!(after.iter().all(|name| !before.contains(name)), "{after:?}");
}

#[test]
fn templates_that_somebody_garbled_are_not_used_and_what_runs_goes_on() {
    let edited = |f: &Fixture| {
        let mut data = f.world.observed.pinned.as_ref().unwrap().to_data();
        for text in data.values_mut().filter(|text| text.contains("--authorization-mode")) {
            *text = text.replace("Node,RBAC", "AlwaysAllow");
        }
        let set = TemplateSet::from_data(data).unwrap();
        assert!(f.world.observed.pinned.as_ref().unwrap().digest() != set.digest(), "it is another one");
        Some(set)
    };
    let unreadable = |_: &Fixture| None;
    let cases: [fn(&Fixture) -> Option<TemplateSet>; 2] = [unreadable, edited];
    for garble in cases {
        let mut f = of_format(2);
        let before: Vec<_> = components().map(|name| f.component(name)).collect();
        f.world.observed.pinned = garble(&f);
        f.flag("v");
        f.reconcile();
        assert!(f.world.log.is_empty(), "{:#?}", f.world.log);
        let ready = f.condition("Ready");
        assert!(ready.1 == "VersionUnsupported" && ready.2.contains("cannot read the templates in"), "{ready:?}");
        assert_eq!(f.condition("Available").0, "True");
        assert_eq!(components().map(|name| f.component(name)).collect::<Vec<_>>(), before);
    }
}
