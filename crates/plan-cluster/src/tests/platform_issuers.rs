//! Issuers of all tenants: by the chart with a release, beside those of the spec.

use super::configuration::jwt;
use super::*;
use berth_api::cluster::Templates;
use berth_api::labels;
use berth_api::revision::{RevisionCause, RevisionOutcome};

const OLD: &str = "1.36.2";
const LOGIN: &str = "login.example.com";

impl Fixture {
    /// Hosts of the issuers that the API servers are to have, in their order.
    fn accepts(&self) -> Vec<String> {
        let name = self.mounted(names::APISERVER);
        let all = self.configuration(names::APISERVER);
        let (_, data) = all.iter().find(|(of, _)| *of == name).unwrap();
        let data: BTreeMap<String, String> = serde_json::from_str(data).unwrap();
        let file: Value = berth_testkit::fixtures::from_yaml(&data["authentication.yaml"]);
        let url = |one: &Value| one["issuer"]["url"].as_str().unwrap().trim_start_matches("https://").to_owned();
        file["jwt"].as_array().unwrap().iter().map(url).collect()
    }

    fn platform_issuers(&mut self, hosts: &[&str]) {
        self.settings.jwt = hosts.iter().flat_map(|host| jwt(host)).collect();
    }

    /// What is rolled out comes up, and has soaked.
    fn is_through(&mut self) {
        self.rest();
        self.seconds(61);
        self.rest();
        self.world.log.clear();
    }
}

/// A tenant that runs while the chart gets an issuer.
fn with_value() -> Fixture {
    let mut f = Fixture::up(json!({"version": OLD, "apiServer": {"replicas": 2}}));
    f.platform_issuers(&[LOGIN]);
    f
}

/// For docs/reference/messages.md.
pub(super) fn situations() -> Vec<(&'static str, Fixture)> {
    let mut differs = with_value();
    differs.reconcile();
    vec![("the chart got a value authentication.jwt", differs)]
}

#[test]
fn the_charts_issuers_restart_nothing_and_come_with_the_next_version() {
    let mut f = with_value();
    f.rest();
    assert!(f.world.log.is_empty(), "{:#?}", f.world.log);
    let (status, reason, message) = f.condition("UpdateAvailable");
    assert_eq!((&*status, &*reason), ("True", "OtherTemplates"));
    let says = "the chart's authentication.jwt differs from the tenant's. The tenant takes it with its next version";
    assert!(message.starts_with(says), "{message}");
    assert_eq!((f.condition("Ready").0.as_str(), f.accepts()), ("True", vec![]));
    // Nor does another change of the spec take it.
    f.flag("v");
    f.is_through();
    assert_eq!(f.accepts(), [""; 0]);
    f.version("1.36.3");
    f.is_through();
    assert_eq!(f.accepts(), [LOGIN]);
    let recorded = f.note(labels::JWT).unwrap();
    assert!(recorded.contains(LOGIN) && recorded.contains("userValidationRules"), "{recorded}");
    let news = |f: &Fixture| f.cluster.status.as_ref().unwrap().conditions.iter().any(|c| c.type_ == "UpdateAvailable");
    assert!(!news(&f));
    // Others, and none, change nothing, for whoever runs already.
    for hosts in [&["other.example.com", LOGIN][..], &[]] {
        f.platform_issuers(hosts);
        f.rest();
        assert!(f.world.log.is_empty() && news(&f), "{:#?}", f.world.log);
        assert_eq!(f.accepts(), [LOGIN]);
    }
    // A new tenant has them from the beginning.
    let mut new = Fixture::new(json!({"version": OLD}));
    new.platform_issuers(&[LOGIN]);
    for _ in 0..5 {
        new.reconcile();
        new.others();
    }
    assert_eq!(new.accepts(), [LOGIN]);
}

#[test]
fn those_of_the_spec_count_at_once_go_first_and_take_the_place_of_the_same() {
    let mut f = with_value();
    f.platform_issuers(&[LOGIN, "b.example.com"]);
    f.version("1.36.3");
    f.is_through();
    assert_eq!(f.accepts(), [LOGIN, "b.example.com"]);
    f.cluster.spec.api_server.authentication.jwt = [jwt("a.example.com"), jwt("b.example.com")].concat();
    f.is_through();
    assert_eq!(f.accepts(), ["a.example.com", "b.example.com", LOGIN]);
    assert_eq!(f.condition("Ready").0, "True", "{:?}", f.condition("Ready"));
    // One that signs tokens of service accounts needs no authenticator, and may have none.
    f.cluster.spec.api_server.service_account_issuers = vec![format!("https://{LOGIN}")];
    f.is_through();
    f.is_through();
    assert_eq!(f.accepts(), ["a.example.com", "b.example.com"]);
    assert_eq!(f.condition("Ready").0, "True", "{:?}", f.condition("Ready"));
    f.cluster.spec.api_server.authentication.jwt.clear();
    f.is_through();
    assert_eq!(f.accepts(), ["b.example.com"], "the platform's is back without another version");
}

#[test]
fn newest_takes_each_value_and_the_way_back_leads_to_the_former_issuers() {
    let mut f = with_value();
    f.cluster.spec.upgrade.templates = Templates::Newest;
    for hosts in [&[LOGIN][..], &["other.example.com"], &[LOGIN], &[]] {
        f.platform_issuers(hosts);
        f.is_through();
        assert_eq!(f.accepts(), hosts);
        f.rest();
        assert!(f.world.log.is_empty(), "{:#?}", f.world.log);
    }
    f.platform_issuers(&["c.example.com"]);
    f.is_through();
    let before = f.component(names::APISERVER)["template"].clone();
    f.platform_issuers(&["d.example.com"]);
    f.does_not_come_up();
    f.unstuck(names::APISERVER);
    f.rest();
    let (_, cause, outcome) = f.recorded().pop().unwrap();
    assert_eq!((cause, outcome), (RevisionCause::Templates, Some(RevisionOutcome::RolledBack)));
    assert_eq!(f.accepts(), ["c.example.com"]);
    assert!(f.component(names::APISERVER)["template"] == before, "the old pods are of it");
    assert!(f.note(labels::JWT).unwrap().contains("c.example.com"));
    f.world.log.clear();
    f.later(60);
    f.rest();
    assert!(f.world.log.is_empty(), "{:#?}", f.world.log);
}

/// The record of a change that is under way has them, too, and is read again however long they are.
#[test]
fn a_minor_changes_with_issuers_of_the_longest() {
    let mut f = Fixture::up_for_upgrade(json!({"version": "1.35.4", "upgrade": {"soak": "0s"}}));
    f.platform_issuers(&[LOGIN]);
    let audiences: Vec<String> = (0..800).map(|n| format!("a-client-of-the-platforms-login-{n:04}")).collect();
    f.settings.jwt[0]["issuer"]["audiences"] = json!(audiences);
    f.settings.jwt[0]["issuer"]["audienceMatchPolicy"] = json!("MatchAny");
    assert_eq!(crate::platform_issuers_refusal(&f.settings.jwt), None);
    f.version("1.36.3");
    f.rest();
    assert_eq!(f.condition("Ready").1, "Emulating", "{:?}", f.condition("Ready"));
    assert!(f.note(labels::UPGRADE).unwrap().len() > 30_000);
    assert_eq!((f.accepts(), f.note(labels::JWT)), (vec![LOGIN.to_owned()], None));
    // The way back leads to none, and the way on to all.
    let mut back = f.copy();
    back.version("1.35.4");
    back.rest();
    assert_eq!((back.accepts(), back.note(labels::UPGRADE)), (vec![], None));
    f.settings.jwt.clear();
    f.later(11);
    f.rest();
    assert_eq!(f.condition("Ready").0, "True", "{:?}", f.condition("Ready"));
    assert_eq!((f.accepts(), f.note(labels::UPGRADE)), (vec![LOGIN.to_owned()], None));
    assert!(f.note(labels::JWT).unwrap().contains(LOGIN));
}

#[test]
fn more_than_kube_apiserver_takes_are_refused_before_anything_begins() {
    let mut f = with_value();
    f.cluster.spec.api_server.authentication.jwt = (0..64).flat_map(|n| jwt(&format!("{n}.example.com"))).collect();
    f.is_through();
    assert_eq!(f.accepts().len(), 64);
    f.version("1.36.3");
    let said = blocked(&f.plan(), StageId::Spec, Reason::InvalidSpec);
    assert!(said.ends_with("there are 65 issuers, and 64 may be. List fewer"), "{said}");
    f.rest();
    assert!(f.world.log.iter().all(|write| !write.contains("Deployment")), "{:#?}", f.world.log);
    assert_eq!(f.accepts().len(), 64);
}
