use super::configuration::jwt;
use super::*;
use berth_api::labels;
use berth_render::{Catalog, TemplateSet};
use berth_testkit::simulated::before;

/// A tenant that an operator made whose templates did not read that value yet.
fn older(folder: &str, assignment: &str) -> Fixture {
    let mut f = Fixture::up(json!({"version": "1.36.2"}));
    let set = before(Catalog::builtin().kubernetes("1.36".parse().unwrap()).unwrap(), folder, assignment);
    let cp_namespace = f.world.observed.objects.get_mut(&Fixture::namespace()).unwrap();
    cp_namespace["metadata"]["annotations"][labels::TEMPLATES] = set.digest().into();
    f.world.observed.pinned = Some(set);
    f.reconcile();
    assert_eq!(f.condition("Ready").0, "True", "{:?}", f.condition("Ready"));
    assert!(!f.world.log.iter().any(|write| write.contains("Deployment")), "{:#?}", f.world.log);
    f.world.log.clear();
    f
}

/// For docs/reference/messages.md.
pub(super) fn situations() -> Vec<(&'static str, Fixture)> {
    let mut newer = older("apiserver", "jwt = []");
    newer.cluster.spec.api_server.authentication.jwt = jwt("a.example.com");
    newer.reconcile();
    let mut none = without_templates();
    none.reconcile();
    vec![
        ("the pinned templates do not use a field, and newer ones do", newer),
        ("no templates of this operator use a field", none),
    ]
}

#[test]
fn a_field_that_the_pinned_templates_do_not_read_is_named_by_ready() {
    let mut f = older("apiserver", "jwt = []");
    f.cluster.spec.api_server.authentication.jwt = jwt("a.example.com");
    f.reconcile();
    assert_eq!(f.world.log, ["apply ClusterRevision acme-9201d5e7/revision-2"]);
    f.world.log.clear();
    let message = "spec.apiServer.authentication.jwt is not applied: the pinned templates do not use it. To apply, set spec.version to another patch version of 1.36, or spec.upgrade.templates to Newest";
    let no = |status: &str| (status.to_owned(), "NotInTemplates".to_owned(), message.to_owned());
    assert_eq!((f.condition("Ready"), f.condition("Degraded")), (no("False"), no("True")));
    assert_eq!(f.condition("Available").0, "True");
    assert_eq!(f.cluster.status.as_ref().unwrap().phase.as_deref(), Some("Degraded"));
    // The rest goes on, what needs no template among it.
    f.cluster.spec.api_server.extra_args = vec![serde_json::from_value(json!({"name": "v", "value": "2"})).unwrap()];
    f.reconcile();
    f.world.log.retain(|write| !write.contains("ClusterRevision"));
    assert_eq!(f.world.log.len(), 1, "{:#?}", f.world.log);
    for _ in 0..2 {
        f.roll_out(names::APISERVER);
        f.reconcile();
    }
    assert_eq!(f.condition("Ready"), no("False"));
    // A problem of more weight comes first.
    f.cluster.spec.api_server.extra_args = vec![serde_json::from_value(json!({"name": "etcd-servers"})).unwrap()];
    f.reconcile();
    assert_eq!(f.condition("Ready").1, "InvalidSpec");
    // Not set any more, it is not missed.
    f.cluster.spec.api_server = berth_api::cluster::ApiServer::default();
    last(&mut f);
    assert_eq!(f.condition("Ready").0, "True");
}

#[test]
fn the_version_change_that_the_message_names_applies_it() {
    let mut f = older("apiserver", "jwt = []");
    f.cluster.spec.api_server.authentication.jwt = jwt("a.example.com");
    f.reconcile();
    f.cluster.spec.version = "1.36.3".into();
    last(&mut f);
    assert_eq!(f.condition("Ready").0, "True", "{:?}", f.condition("Ready"));
    let maps = f.configuration(names::APISERVER);
    assert!(maps.len() == 1 && maps[0].1.contains("a.example.com"), "{maps:?}");
}

/// Of Kubernetes 1.33, say, this operator has no templates, and so none that would read it.
fn without_templates() -> Fixture {
    let mut f = older("common/apiserver", "annotations = {}");
    let mut data = f.world.observed.pinned.as_ref().unwrap().to_data();
    data.insert("name".to_owned(), "v1.33".to_owned());
    let set = TemplateSet::from_data(data).unwrap();
    let cp_namespace = f.world.observed.objects.get_mut(&Fixture::namespace()).unwrap();
    cp_namespace["metadata"]["annotations"][labels::TEMPLATES] = set.digest().into();
    cp_namespace["metadata"]["annotations"][labels::KUBERNETES_VERSION] = "1.33.9".into();
    cp_namespace["metadata"]["annotations"][labels::SERVED_MINOR] = "1.33".into();
    f.world.observed.pinned = Some(set);
    f.cluster.spec.version = "1.33.9".into();
    f.cluster.spec.endpoint.service.annotations = [("example.com/a".to_owned(), "b".to_owned())].into();
    f.settings.writers = berth_plan::settings::Writers::anything();
    f.cluster.spec.api_server.service_account_issuers = vec!["https://a.example.com".to_owned()];
    last(&mut f);
    f
}

#[test]
fn where_no_version_helps_the_message_says_so() {
    let f = without_templates();
    let message = "spec.endpoint.service.annotations is not applied: the pinned templates do not use it. This operator has no templates for 1.33 that use it: remove the field";
    assert_eq!(f.condition("Ready").2, message);
}
