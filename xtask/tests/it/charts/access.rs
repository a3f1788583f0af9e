//! The login: what the chart renders for it, and what it may do.

use super::*;
use berth_testkit::fixtures::from_yaml;

const ON: [&str; 2] = ["access.enabled=true", "access.tls.secretName=access-tls"];

fn on(more: &[&str]) -> Vec<Value> {
    let set: Vec<&str> = ON.iter().chain(more).flat_map(|value| ["--set", value]).collect();
    render("berth", &set)
}

fn its_own(objects: &[Value]) -> Vec<&Value> {
    objects.iter().filter(|o| o["metadata"]["labels"]["app.kubernetes.io/component"] == "access").collect()
}

fn the<'o>(objects: &'o [Value], kind: &str, name: &str) -> &'o Value {
    let of = its_own(objects).into_iter().find(|o| o["kind"] == kind && o["metadata"]["name"] == name);
    of.unwrap_or_else(|| panic!("no {kind} {name}"))
}

#[test]
fn without_it_nothing_of_it_is_there_and_it_needs_a_certificate() {
    assert!(its_own(&render("berth", &[])).is_empty());
    let output = helm(&["template", "berth", "berth", "--kube-version", "1.36.3", "--set", "access.enabled=true"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("secretName"), "{said}");
    let values = "access.enabled=true,access.tls.secretName=x,access.namespace=berth-system";
    let arguments = ["template", "berth", "berth", "-n", "berth-system", "--kube-version", "1.36.3", "--set", values];
    let output = helm(&arguments);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("access.namespace: it is the operator's own"), "{said}");
}

#[test]
fn the_operator_is_told_where_it_is_and_where_it_finds_the_gateway() {
    let told = |more: &[&str]| {
        let objects = on(more);
        let map = objects.iter().find(|o| o["kind"] == "ConfigMap" && o["metadata"]["name"] == "berth-operator");
        let config: Value = from_yaml(map.and_then(|m| m["data"]["config.yaml"].as_str()).expect("configuration"));
        config["access"].clone()
    };
    assert_eq!(told(&[]), json!({"namespace": "berth-access"}));
    let gateway =
        ["gateway.enabled=true", "gateway.domain=api.example.com", "gateway.port=443", "gateway.namespace=edge"];
    let told = told(&[&gateway[..], &["access.namespace=login"]].concat());
    assert_eq!(told, json!({"namespace": "login", "gateway": "berth-gateway.edge.svc:443"}));
}

/// No Secret, and nothing outside of its namespace is written.
#[test]
fn it_may_ask_and_list_and_the_operator_may_write_one_lease() {
    let objects = on(&[]);
    let rules = json!([
        {"apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"], "verbs": ["create"]},
        {"apiGroups": ["authorization.k8s.io"], "resources": ["subjectaccessreviews"], "verbs": ["create"]},
        {"apiGroups": ["berth.dev"], "resources": ["clusters"], "verbs": ["list"]},
    ]);
    assert_eq!(the(&objects, "ClusterRole", "berth-access")["rules"], rules);
    let leases =
        |verbs: &[&str]| json!({"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": verbs});
    assert_eq!(the(&objects, "Role", "berth-access")["rules"], json!([leases(&["get", "create", "update"])]));
    let mut own = leases(&["get", "update"]);
    own["resourceNames"] = json!(["berth-access-operator"]);
    assert_eq!(the(&objects, "Role", "berth-operator")["rules"], json!([leases(&["list", "watch", "create"]), own]));
    let bound =
        its_own(&objects).into_iter().filter(|o| o["kind"].as_str().is_some_and(|kind| kind.ends_with("RoleBinding")));
    let bound: Vec<_> = bound.map(|o| (o["roleRef"]["name"].clone(), o["subjects"][0]["name"].clone())).collect();
    let pair = |name: &str| (json!(name), json!(name));
    assert_eq!(bound, [pair("berth-access"), pair("berth-access"), pair("berth-operator")]);
}

#[test]
fn all_that_selects_its_pods_finds_them_and_nobody_else_reaches_the_operators_port() {
    let objects = on(&["metrics.serviceMonitor=true", "access.namespace=login", "access.podLabels.a=b"]);
    let deployment = the(&objects, "Deployment", "berth-access");
    let pod = deployment["spec"]["template"]["metadata"]["labels"].clone();
    let mut selectors = 0;
    for object in its_own(&objects).into_iter().filter(|o| !o["metadata"]["namespace"].is_null()) {
        assert_eq!(object["metadata"]["namespace"], "login", "{object}");
        let spec = &object["spec"];
        let selector = match object["kind"].as_str() {
            Some("Service") => &spec["selector"],
            Some("NetworkPolicy") => &spec["podSelector"]["matchLabels"],
            Some("PodDisruptionBudget" | "Deployment") => &spec["selector"]["matchLabels"],
            _ => continue,
        };
        let asked = selector.as_object().expect("labels");
        assert!(!asked.is_empty() && asked.iter().all(|(key, value)| pod.get(key) == Some(value)), "{object}");
        selectors += 1;
    }
    assert_eq!(selectors, 5, "Deployment, PodDisruptionBudget, NetworkPolicy, two Services");
    let operator = objects.iter().find(|o| o["kind"] == "Deployment" && o["metadata"]["name"] == "berth-operator");
    let operator = &operator.expect("the operator")["spec"]["template"]["metadata"]["labels"];
    let ingress = &the(&objects, "NetworkPolicy", "berth-access")["spec"]["ingress"];
    let to = |port: i64| ingress.as_array().expect("rules").iter().find(|rule| rule["ports"][0]["port"] == port);
    let peers = to(9443).expect("the operator's port")["from"].as_array().expect("peers").clone();
    let [peer] = &peers[..] else { panic!("{peers:?}") };
    let labels = peer["podSelector"]["matchLabels"].as_object().expect("labels");
    assert!(!labels.is_empty() && labels.iter().all(|(key, value)| operator.get(key) == Some(value)), "{peer}");
    assert_eq!(peer["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"], "berth-system");
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["securityContext"]["readOnlyRootFilesystem"], true);
    assert!(!container["args"].to_string().contains("--login"), "nobody said how");
    let login = on(&["access.login.command=get-token", "access.login.args={a b,--c}"]);
    let args = the(&login, "Deployment", "berth-access")["spec"]["template"]["spec"]["containers"][0]["args"].clone();
    let said = args.as_array().expect("args").iter().find_map(|arg| arg.as_str()?.strip_prefix("--login="));
    let said: Value = from_yaml(said.expect("--login"));
    assert_eq!(said, json!({"command": "get-token", "args": ["a b", "--c"]}));
}
