//! What prometheus-operator and Grafana find once the chart's options for them are on.

use super::render;
use berth_testkit::fixtures::from_yaml;
use serde_json::{Value, json};

const SERVICE_MONITOR: (&str, &str, &str) = ("metrics.serviceMonitor", "ServiceMonitor", "berth-operator");
const PROMETHEUS_RULE: (&str, &str, &str) = ("metrics.prometheusRule", "PrometheusRule", "berth");
const DASHBOARD: (&str, &str, &str) = ("metrics.dashboard", "ConfigMap", "berth-dashboard");
const OPTIONS: [(&str, &str, &str); 3] = [SERVICE_MONITOR, PROMETHEUS_RULE, DASHBOARD];

/// The chart's objects with these values set.
fn with(values: &[&str]) -> Vec<Value> {
    let set: Vec<&str> = values.iter().flat_map(|v| ["--set", v]).collect();
    render("berth", &set)
}

fn everything() -> Vec<Value> {
    let on = OPTIONS.map(|(option, ..)| format!("{option}=true"));
    with(&[&on[0], &on[1], &on[2], "metrics.labels.release=prometheus"])
}

fn find<'a>(objects: &'a [Value], kind: &str, name: &str) -> Option<&'a Value> {
    objects.iter().find(|o| o["kind"] == kind && o["metadata"]["name"] == name)
}

fn the<'a>(objects: &'a [Value], (_, kind, name): (&str, &str, &str)) -> &'a Value {
    find(objects, kind, name).unwrap_or_else(|| panic!("no {kind} {name}"))
}

fn file(name: &str) -> String {
    let path = berth_testkit::fixtures::package().join("../charts/berth/files").join(name);
    std::fs::read_to_string(path).expect("a file of the chart")
}

/// Whether an object with `labels` is one that a selector of equal labels asks for; an empty selector is none.
fn selects(selector: &Value, labels: &Value) -> bool {
    let asked = selector.as_object().expect("labels");
    !asked.is_empty() && asked.iter().all(|(key, value)| labels.get(key) == Some(value))
}

#[test]
fn each_option_adds_its_object_and_no_other() {
    let kinds = |objects: &[Value]| OPTIONS.map(|(_, kind, name)| find(objects, kind, name).is_some());
    let before = with(&[]);
    assert_eq!(kinds(&before), [false; 3]);
    for (i, (option, ..)) in OPTIONS.into_iter().enumerate() {
        let objects = with(&[&format!("{option}=true")]);
        assert_eq!(kinds(&objects), [0, 1, 2].map(|other| other == i), "{option}");
        assert_eq!(objects.len(), before.len() + 1, "{option}");
    }
}

#[test]
fn who_may_read_metrics_is_one_of_those_that_the_values_name() {
    let is_policy = |o: &&Value| o["kind"] == "NetworkPolicy";
    assert_eq!(with(&[]).iter().filter(is_policy).count(), 0);
    let objects = with(&["metrics.from[0].podSelector.matchLabels.app=prometheus"]);
    let policies: Vec<&Value> = objects.iter().filter(is_policy).collect();
    let [policy] = policies[..] else { panic!("{policies:?}") };
    let deployment = the(&objects, ("", "Deployment", "berth-operator"));
    let pod = &deployment["spec"]["template"];
    assert!(selects(&policy["spec"]["podSelector"]["matchLabels"], &pod["metadata"]["labels"]));
    assert_eq!(policy["metadata"]["namespace"], deployment["metadata"]["namespace"]);
    let port = port_named(&pod["spec"]["containers"][0]["ports"], &json!("http"))["containerPort"].clone();
    let from = json!([{"podSelector": {"matchLabels": {"app": "prometheus"}}}]);
    assert_eq!(policy["spec"]["ingress"], json!([{"from": from, "ports": [{"protocol": "TCP", "port": port}]}]));
    assert_eq!(policy["spec"]["policyTypes"], json!(["Ingress"]), "what it dials is no concern of this");
}

#[test]
fn the_service_monitor_leads_to_the_operators_port() {
    // It is of no use without the Service, so it brings that along.
    for objects in [everything(), with(&["metrics.serviceMonitor=true", "metrics.service=false"])] {
        let monitor = the(&objects, SERVICE_MONITOR);
        assert_eq!(monitor["apiVersion"], "monitoring.coreos.com/v1");
        let selector = &monitor["spec"]["selector"]["matchLabels"];
        // Without a selector of namespaces it looks in its own.
        assert!(monitor["spec"].get("namespaceSelector").is_none());
        let found: Vec<&Value> = objects
            .iter()
            .filter(|o| o["kind"] == "Service" && o["metadata"]["namespace"] == monitor["metadata"]["namespace"])
            .filter(|o| selects(selector, &o["metadata"]["labels"]))
            .collect();
        let [service] = found[..] else { panic!("it selects {} Services", found.len()) };
        let [endpoint] = monitor["spec"]["endpoints"].as_array().expect("endpoints").as_slice() else {
            panic!("{}", monitor["spec"]["endpoints"])
        };
        assert_eq!(endpoint["honorLabels"], true, "`namespace` is the tenant's");

        let port = port_named(&service["spec"]["ports"], &endpoint["port"]);
        let deployment = the(&objects, ("", "Deployment", "berth-operator"));
        let pod = &deployment["spec"]["template"];
        assert!(selects(&service["spec"]["selector"], &pod["metadata"]["labels"]));
        let container = &pod["spec"]["containers"][0];
        let served = port_named(&container["ports"], &port["targetPort"])["containerPort"].clone();
        let listens = json!(format!("--listen=0.0.0.0:{served}"));
        assert!(container["args"].as_array().expect("arguments").contains(&listens), "{listens}");
    }
}

fn port_named<'a>(ports: &'a Value, name: &Value) -> &'a Value {
    let all = ports.as_array().expect("ports");
    all.iter().find(|p| p["name"] == *name).unwrap_or_else(|| panic!("no port {name} in {ports}"))
}

#[test]
fn the_rule_holds_the_alerts_as_the_file_has_them() {
    let objects = everything();
    let rule = the(&objects, PROMETHEUS_RULE);
    assert_eq!(rule["apiVersion"], "monitoring.coreos.com/v1");
    let alerts: Value = from_yaml(&file("alerts.yaml"));
    assert!(alerts["groups"][0]["rules"].as_array().is_some_and(|r| !r.is_empty()));
    assert_eq!(rule["spec"], alerts);
}

/// Without them an alert about their absence would never clear.
#[test]
fn the_gateway_and_the_login_have_alerts_and_a_dashboard_of_their_own_where_they_are_enabled() {
    let edge = |objects: &[Value], name: &str| {
        let rule = find(objects, "PrometheusRule", &format!("berth-{name}")).map(|rule| rule["spec"].clone());
        (rule, the(objects, DASHBOARD)["data"][format!("berth-{name}.json")].clone())
    };
    let on = ["metrics.prometheusRule=true", "metrics.dashboard=true"];
    let own = [
        ("gateway", vec!["gateway.enabled=true", "gateway.domain=api.example.com"]),
        ("access", vec!["access.enabled=true", "access.tls.secretName=access-tls"]),
    ];
    for (name, values) in &own {
        let objects = with(&[&on[..], values].concat());
        let alerts: Value = from_yaml(&file(&format!("alerts-{name}.yaml")));
        assert!(alerts["groups"][0]["rules"].as_array().is_some_and(|rules| rules.len() >= 4));
        let dashboard = file(&format!("dashboard-{name}.json"));
        assert_eq!(edge(&objects, name), (Some(alerts), json!(dashboard)));
        assert_eq!(serde_json::from_str::<Value>(&dashboard).expect("JSON")["uid"], format!("berth-{name}"));
        for (other, _) in own.iter().filter(|(other, _)| other != name) {
            assert_eq!(edge(&objects, other), (None, Value::Null), "{name} brings no {other}");
        }
        let off = with(values);
        assert!(off.iter().all(|o| o["kind"] != "PrometheusRule" && o["metadata"]["name"] != "berth-dashboard"));
    }
}

#[test]
fn prometheus_operator_finds_both_by_the_labels_that_are_given() {
    let objects = everything();
    for option in [SERVICE_MONITOR, PROMETHEUS_RULE] {
        let labels = &the(&objects, option)["metadata"]["labels"];
        assert_eq!((&labels["release"], &labels["app.kubernetes.io/name"]), (&json!("prometheus"), &json!("berth")));
    }
}

#[test]
fn the_dashboard_is_json_under_the_label_that_grafanas_sidecar_looks_for() {
    let objects = everything();
    let map = the(&objects, DASHBOARD);
    assert_eq!(map["metadata"]["labels"]["grafana_dashboard"], "1");
    let data = map["data"].as_object().expect("data");
    assert_eq!(data.keys().collect::<Vec<_>>(), ["berth.json"]);
    let text = data["berth.json"].as_str().expect("a text");
    let dashboard: Value = serde_json::from_str(text).expect("JSON");
    assert_eq!(dashboard["uid"], "berth");
    assert_eq!(text, file("dashboard.json"), "nothing of it was taken for a template");
}
