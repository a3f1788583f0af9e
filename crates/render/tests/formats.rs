//! Sets of earlier builds render what they always did.

mod fixtures;

use berth_render::{Catalog, Object, TemplateSet, render_apiserver};
use fixtures::full;
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
    let mut data = set.to_data();
    data.insert("format".into(), "1".into());
    let older = TemplateSet::from_data(data).unwrap();
    let restricted: Value = json!({
        "allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}, "readOnlyRootFilesystem": true,
    });
    assert_eq!(first(&older), restricted);
}
