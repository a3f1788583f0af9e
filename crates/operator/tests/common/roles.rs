//! The operator's roles, as the chart has them.

use berth_testkit::fixtures::from_yaml;
use k8s_openapi::api::rbac::v1::Role;
use serde_json::Value;

fn template(file: &str) -> String {
    let file = berth_testkit::fixtures::package().join("../../charts/berth/templates").join(file);
    std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()))
}

/// The generated ClusterRoles, without what only values turn on.
pub(crate) fn cluster_roles() -> Vec<Value> {
    let (text, mut is_left_out) = (template("clusterroles.yaml"), false);
    let lines = text.split_inclusive('\n').filter(|line| {
        let (begins, ends) = (line.starts_with("{{- if "), line.starts_with("{{- end "));
        let is_in = !is_left_out && !begins;
        is_left_out = (is_left_out || begins) && !ends;
        is_in
    });
    let text: String = lines.collect();
    text.split("---\n").skip(1).map(from_yaml).collect()
}

/// The Role for the Lease. Its rules are no template; what is around them is.
pub(crate) fn lease_role() -> Role {
    let text = template("rbac.yaml");
    let role = text.split("---\n").find(|document| document.contains("kind: Role\n")).expect("a Role");
    let rules = role.find("rules:").expect("its rules");
    from_yaml(&format!("metadata: {{name: berth-operator-lease, namespace: berth-system}}\n{}", &role[rules..]))
}
