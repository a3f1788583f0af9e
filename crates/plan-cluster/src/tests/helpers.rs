//! Resources of what runs beside the components: by the spec at once, by the chart with a release.

use super::{Fixture, components};
use berth_api::cluster::Templates;
use berth_api::helpers::Amounts;
use berth_api::revision::{RevisionCause, RevisionOutcome};
use berth_api::{labels, names};
use berth_plan::object_meta::annotation;
use berth_plan::settings::Limits;
use berth_render::Kind;
use serde_json::{Value, json};

const OLD: &str = "1.36.2";

fn amounts(value: Value) -> Amounts {
    serde_json::from_value(value).unwrap()
}

impl Fixture {
    /// Limits of CPU of all containers of the components: the first is the component's own.
    fn cpu(&self) -> Vec<(Value, Vec<Value>)> {
        let of = |name| {
            let pod = self.component(name)["template"]["spec"].clone();
            let all = |list: &str| pod[list].as_array().cloned().unwrap_or_default();
            let mut own = all("containers").into_iter().map(|c| c["resources"]["limits"]["cpu"].clone());
            let first = own.next().unwrap();
            (first, all("initContainers").iter().map(|c| c["resources"]["limits"]["cpu"].clone()).chain(own).collect())
        };
        components().map(of).collect()
    }

    fn helpers_have(&self, cpu: &Value) -> bool {
        let all = self.cpu();
        let count: usize = all.iter().map(|(_, helpers)| helpers.len()).sum();
        assert_eq!(count, 4, "install-agent of each, and berth-approve");
        all.iter().all(|(own, helpers)| own.is_null() && helpers.iter().all(|c| c == cpu))
    }

    fn recorded_helpers(&self) -> Option<String> {
        annotation(self.world.observed.get(&Self::namespace()).unwrap(), labels::HELPER_RESOURCES).map(str::to_owned)
    }
}

/// A tenant that runs while the chart gets a value.
fn with_value() -> Fixture {
    let mut f = Fixture::up(json!({"version": OLD, "apiServer": {"replicas": 2}}));
    f.settings.helpers.resources = Some(amounts(json!({"limits": {"cpu": "100m"}})));
    f
}

/// For docs/reference/messages.md.
pub(super) fn situations() -> Vec<(&'static str, Fixture)> {
    let mut differs = with_value();
    differs.reconcile();
    let mut refused = Fixture::up(json!({"version": OLD}));
    refused.cluster.spec.helpers.resources =
        Some(serde_json::from_value(json!({"requests": {"cpu": "2"}, "limits": {"cpu": "1"}})).unwrap());
    refused.reconcile();
    vec![("the chart got a value helpers.resources", differs), ("a request of helpers is more than its limit", refused)]
}

#[test]
fn what_the_spec_asks_counts_at_once_and_goes_with_it() {
    let mut f = Fixture::up(json!({"version": OLD}));
    let before: Vec<_> = components().map(|name| f.component(name)["template"].clone()).collect();
    f.cluster.spec.helpers.resources = Some(serde_json::from_value(json!({"limits": {"cpu": "50m"}})).unwrap());
    f.rest();
    assert!(f.helpers_have(&json!("50m")), "{:?}", f.cpu());
    let etcd = f.world.observed.get(&Fixture::key(Kind::EtcdCluster, names::ETCD)).unwrap();
    assert_eq!(etcd["spec"]["helpers"], json!({"resources": {"limits": {"cpu": "50m"}}}));
    assert_eq!(f.recorded_helpers(), None);
    f.cluster.spec.helpers = berth_api::helpers::Helpers::default();
    f.rest();
    let after: Vec<_> = components().map(|name| f.component(name)["template"].clone()).collect();
    assert_eq!(before, after);
}

#[test]
fn jobs_are_no_release_and_roll_nothing() {
    let mut f = Fixture::up(json!({"version": OLD}));
    let before: Vec<_> = components().map(|name| f.component(name)["template"].clone()).collect();
    f.cluster.spec.helpers.jobs.resources = Some(serde_json::from_value(json!({"limits": {"cpu": "1"}})).unwrap());
    f.rest();
    let after: Vec<_> = components().map(|name| f.component(name)["template"].clone()).collect();
    assert_eq!((before, f.recorded().len()), (after, 1));
}

#[test]
fn the_charts_value_restarts_nothing_and_comes_with_the_next_version() {
    let mut f = with_value();
    f.rest();
    assert!(f.world.log.is_empty(), "{:#?}", f.world.log);
    let (status, reason, message) = f.condition("UpdateAvailable");
    assert_eq!((&*status, &*reason), ("True", "OtherTemplates"));
    assert!(message.starts_with("the chart's helpers.resources differs from the tenant's. "), "{message}");
    assert_eq!(f.condition("Ready").0, "True");
    f.version("1.36.3");
    f.rest();
    f.seconds(61);
    f.rest();
    assert!(f.helpers_have(&json!("100m")), "{:?}", f.cpu());
    assert_eq!(f.recorded_helpers().as_deref(), Some(r#"{"limits":{"cpu":"100m"}}"#));
    // Another value, or none, changes nothing either.
    f.world.log.clear();
    for value in [Some(amounts(json!({"limits": {"cpu": "1"}}))), None] {
        f.settings.helpers.resources = value;
        f.rest();
        assert!(f.world.log.is_empty(), "{:#?}", f.world.log);
    }
    // What the spec has wins.
    f.cluster.spec.helpers.resources = Some(serde_json::from_value(json!({"limits": {"cpu": "50m"}})).unwrap());
    f.rest();
    assert!(f.helpers_have(&json!("50m")), "{:?}", f.cpu());
}

#[test]
fn newest_takes_each_value_once_and_comes_to_rest() {
    let mut f = with_value();
    f.cluster.spec.upgrade.templates = Templates::Newest;
    let values = [json!("100m"), json!("200m"), json!("100m"), json!(null)];
    for (n, cpu) in values.iter().enumerate() {
        let value = (!cpu.is_null()).then(|| json!({"limits": {"cpu": cpu}})).map(amounts);
        f.settings.helpers.resources.clone_from(&value);
        f.rest();
        f.seconds(61);
        f.rest();
        assert!(f.helpers_have(cpu), "{:?}", f.cpu());
        assert_eq!(f.recorded_helpers(), value.map(|value| value.to_json()));
        let (number, cause, outcome) = f.recorded().last().copied().unwrap();
        assert_eq!(usize::try_from(number).unwrap(), n + 2);
        assert_eq!((cause, outcome), (RevisionCause::Templates, Some(RevisionOutcome::Succeeded)));
        f.world.log.clear();
        f.rest();
        assert!(f.world.log.is_empty(), "{:#?}", f.world.log);
    }
}

#[test]
fn a_value_that_fails_is_taken_back_and_not_tried_again_by_itself() {
    let mut f = with_value();
    f.cluster.spec.upgrade.templates = Templates::Newest;
    f.does_not_come_up();
    f.unstuck(names::APISERVER);
    f.rest();
    assert!(f.helpers_have(&json!(null)), "{:?}", f.cpu());
    f.world.log.clear();
    f.later(60);
    f.rest();
    assert!(f.world.log.is_empty(), "{:#?}", f.world.log);
    f.settings.helpers.resources = Some(amounts(json!({"limits": {"cpu": "300m"}})));
    f.rest();
    f.seconds(61);
    f.rest();
    assert!(f.helpers_have(&json!("300m")), "{:?}", f.cpu());
}

#[test]
fn more_than_is_allowed_is_refused_by_its_field_and_changes_nothing() {
    for (of, field) in [("resources", "spec.helpers.resources"), ("jobs", "spec.helpers.jobs.resources")] {
        let mut f = Fixture::up(json!({"version": OLD}));
        f.settings.writers.limits = Limits { cpu: Some("1".into()), ..Limits::default() };
        let asked = json!({"limits": {"cpu": "2"}});
        let asked = if of == "jobs" { json!({"jobs": {"resources": asked}}) } else { json!({"resources": asked}) };
        f.cluster.spec.helpers = serde_json::from_value(asked).unwrap();
        f.reconcile();
        let (status, reason, said) = f.condition("Ready");
        assert_eq!((&*status, &*reason), ("False", "NotAllowed"));
        assert!(said.contains(&format!("{field}.limits.cpu: 2 is more than 1, ")), "{said}");
        assert!(f.world.log.is_empty(), "{:#?}", f.world.log);
    }
}
