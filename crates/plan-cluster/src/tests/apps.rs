//! What a tenant has while there are apps in it, and loses afterwards.

use super::*;
use berth_api::labels;
use berth_render::stamp_key;

fn installation() -> ObjectKey {
    ObjectKey::namespaced(Kind::AppInstallation, "team-a", "acme-web-12345678")
}

fn with_an_app(f: &mut Fixture) {
    let release = json!({"chart": {"oci": "oci://10.9.9.9:5000/web", "version": "1.0.0"}});
    let app = json!({"namespace": "berth-system", "name": "web", "uid": "u"});
    let object = json!({
        "apiVersion": "berth.dev/v1alpha1", "kind": "AppInstallation",
        "metadata": {
            "name": "acme-web-12345678", "namespace": "team-a",
            "labels": {labels::MANAGED_BY: labels::MANAGED_BY_VALUE, labels::CLUSTER_NAME: "acme"},
        },
        "spec": {"app": app, "cluster": {"name": "acme", "uid": "u"}, "release": release, "digest": "d"},
    });
    f.world.put(installation(), object);
}

fn rights(f: &Fixture) -> (bool, bool) {
    let binding = ObjectKey::cluster(Kind::ClusterRoleBinding, "berth:apps");
    (f.world.inside.contains_key(&binding), f.world.inside.contains_key(&stamp_key("apps")))
}

fn way_out(f: &Fixture) -> Option<Value> {
    f.world.observed.get(&Fixture::key(Kind::NetworkPolicy, names::APPS)).map(|policy| policy["spec"].clone())
}

#[test]
fn rights_and_a_way_out_come_with_the_first_app_and_go_after_the_last() {
    let mut f = Fixture::up(json!({"version": "1.36.3"}));
    f.settings.apps.image = "reg/apps:1".into();
    f.rest();
    assert_eq!((rights(&f), way_out(&f)), ((false, false), None));
    with_an_app(&mut f);
    f.rest();
    assert_eq!(rights(&f), (true, true));
    let egress = way_out(&f).unwrap()["egress"].clone();
    let ports: Vec<_> = egress.as_array().unwrap().iter().map(|rule| rule["ports"][0]["port"].clone()).collect();
    assert_eq!(ports, [json!(6443), json!(53), json!(5000)]);
    f.world.remove(&installation());
    f.rest();
    f.rest();
    assert_eq!((rights(&f), way_out(&f)), ((false, false), None));
    assert_eq!(f.condition("Ready").0, "True");
}

#[test]
fn without_an_image_for_apps_nobody_gets_rights() {
    let mut f = Fixture::up(json!({"version": "1.36.3"}));
    with_an_app(&mut f);
    f.rest();
    assert_eq!((rights(&f), way_out(&f)), ((false, false), None));
}
