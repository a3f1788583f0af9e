use super::*;
use berth_api::{App, Cluster, labels};
use berth_render::{Kind, ObjectKey};
use serde_json::json;
use std::collections::BTreeMap;

fn cluster() -> Cluster {
    serde_json::from_value(json!({
        "apiVersion": "berth.dev/v1alpha1", "kind": "Cluster",
        "metadata": {"name": "acme", "namespace": "team-a", "labels": {"tier": "gold", "replicas": "3", "example.com/on": "on"}},
        "spec": {
            "version": "1.36.3",
            "network": {
                "serviceCIDRs": ["10.112.0.0/16"], "podCIDRs": ["10.160.0.0/16", "fd00:2::/56"],
                "dnsDomain": "acme.example", "nodeCIDRs": ["10.20.0.0/16"],
            },
        },
        "status": {"version": "1.36.3", "endpoints": [{"name": "admin", "host": "acme.example.com", "port": 6443}]},
    }))
    .unwrap()
}

fn tenant() -> TenantFacts {
    TenantFacts::of(&cluster(), "mirror.example.com/k8s")
}

fn release(template: &str, values: &Value) -> AppRelease {
    let values = values.as_object().unwrap().clone();
    AppRelease { values_template: Some(template.into()), values, ..AppRelease::default() }
}

fn rendered(template: &str) -> Value {
    of(&release(template, &json!({})), &[], &tenant()).map_or_else(|e| panic!("{template}: {e:?}"), Value::from)
}

fn wrong(template: &str) -> String {
    match of(&release(template, &json!({})), &[], &tenant()) {
        Err(Problem::Wrong(why)) => why,
        other => panic!("{template}: {other:?}"),
    }
}

#[test]
fn all_that_is_known_of_a_tenant_can_be_used() {
    for (expression, value) in [
        ("cluster.namespace", json!("team-a")),
        ("cluster.name", json!("acme")),
        ("cluster.labels.tier", json!("gold")),
        ("cluster.labels['example.com/on']", json!("on")),
        ("cluster.version", json!("1.36.3")),
        ("cluster.minor", json!("1.36")),
        ("cluster.endpoint.host", json!("acme.example.com")),
        ("cluster.endpoint.port", json!(6443)),
        ("cluster.network.serviceCIDRs", json!(["10.112.0.0/16"])),
        ("cluster.network.podCIDRs[0]", json!("10.160.0.0/16")),
        ("cluster.network.nodeCIDRs|first", json!("10.20.0.0/16")),
        ("cluster.network.dnsDomain", json!("acme.example")),
        ("cluster.network.dnsAddress", json!("10.112.0.10")),
        ("cluster.imageRegistry", json!("mirror.example.com/k8s")),
    ] {
        assert_eq!(rendered(&format!("a: {{{{ {expression} }}}}\n")), json!({"a": value}), "{expression}");
    }
    // Every field of it is in the list above.
    let known = serde_json::to_value(tenant()).unwrap();
    assert_eq!((known.as_object().unwrap().len(), known["network"].as_object().unwrap().len()), (8, 5));
}

#[test]
fn nodes_reach_the_api_in_a_vpc_elsewhere_and_an_older_minor_may_be_served() {
    let mut cluster = cluster();
    let status = cluster.status.as_mut().unwrap();
    let nodes = serde_json::from_value(json!({"name": "nodes", "host": "10.0.0.4", "port": 443})).unwrap();
    status.endpoints.push(nodes);
    status.emulated_version = Some("1.35".into());
    cluster.spec.images.registry = Some("own.example.com".into());
    let tenant = TenantFacts::of(&cluster, "mirror.example.com");
    assert_eq!(tenant.endpoint, Some(EndpointFacts { host: "10.0.0.4".into(), port: 443 }));
    assert_eq!((tenant.minor.as_deref(), &*tenant.image_registry), (Some("1.35"), "own.example.com"));
}

#[test]
fn statements_and_filters() {
    let text = "\
{% if cluster.labels.tier == 'gold' %}
replicas: {{ cluster.labels.replicas|int }}
{% endif %}
name: {{ 'web-' ~ cluster.name }}
zone: {{ cluster.labels.zone|default('a') }}
pods: {{ cluster.network.podCIDRs|join(',') }}
dashed: {{ cluster.network.dnsDomain|replace('.', '-') }}
major: {{ cluster.version|split('.')|first }}
config: |
  host={{ cluster.endpoint.host|safe }}
cidrs:
{% for cidr in cluster.network.podCIDRs if '.' in cidr %}
- cidr: {{ cidr }}
{% endfor %}
labels:
{% for key, value in cluster.labels|items %}
  {{ key }}: {{ value }}
{% endfor %}
rule: {% raw %}'{{ $labels.pod }}'{% endraw %}
";
    let expected = json!({
        "replicas": 3, "name": "web-acme", "zone": "a", "pods": "10.160.0.0/16,fd00:2::/56", "dashed": "acme-example",
        "major": "1", "config": "host=acme.example.com\n", "cidrs": [{"cidr": "10.160.0.0/16"}],
        "labels": {"tier": "gold", "replicas": "3", "example.com/on": "on"}, "rule": "{{ $labels.pod }}",
    });
    assert_eq!(rendered(text), expected);
    assert_eq!(rendered("# nothing\n"), json!({}));
}

#[test]
fn values_count_more_and_stay_as_they_are() {
    let own = json!({"rule": "{{ $labels.pod }} {% x %}", "a": {"b": 1}, "list": [2], "gone": null});
    let template = "a: {b: 0, c: {{ cluster.name }}}\nlist: [0, 1]\ngone: 1\n";
    let all = of(&release(template, &own), &[], &tenant()).unwrap();
    let expected = json!({"rule": "{{ $labels.pod }} {% x %}", "a": {"b": 1, "c": "acme"}, "list": [2], "gone": null});
    assert_eq!(Value::from(all), expected);
    let plain = AppRelease { values: own.as_object().unwrap().clone(), ..AppRelease::default() };
    assert_eq!(Value::from(of(&plain, &[], &TenantFacts::default()).unwrap()), own);
}

#[test]
fn what_is_wrong_is_said_with_field_line_tenant_and_way_out() {
    let undefined = wrong("a: 1\nb: {{ cluster.labels.zone }}\n");
    let expected =
        "spec.valuesTemplate for Cluster team-a/acme, line 2: undefined value: `cluster.labels.zone` is undefined";
    assert!(undefined.starts_with(expected), "{undefined}");
    assert!(undefined.ends_with("Set it in the Cluster, or say what else counts by |default(…)"), "{undefined}");
    for (template, says) in [
        ("a: {{ nosuch }}", "line 1: undefined value: `nosuch` is undefined"),
        ("a: {{ cluster.name", "spec.valuesTemplate, line 1: syntax error"),
        ("a: b: c", "what it comes to is not YAML of an object"),
        ("- a", "what it comes to is not YAML of an object: it has no names of values"),
        ("a: 1\na: 2", "what it comes to is not YAML of an object"),
    ] {
        assert!(wrong(template).contains(says), "{template}: {}", wrong(template));
    }
}

#[test]
fn what_is_not_known_yet_is_waited_for() {
    let mut cluster = cluster();
    cluster.status = None;
    let young = TenantFacts::of(&cluster, "");
    let waits = |template: &str| of(&release(template, &json!({})), &[], &young);
    let on = "Cluster team-a/acme to have cluster.endpoint, which spec.valuesTemplate of the App uses";
    assert_eq!(waits("a: {{ cluster.endpoint.host }}"), Err(Problem::Waits(on.into())));
    assert!(matches!(waits("a: {{ cluster.version }}"), Err(Problem::Waits(_))));
    assert!(waits("a: {{ cluster.name }}").is_ok());
}

/// The operator is everybody's: no template holds it up, or fills its memory.
#[test]
fn nothing_grows_by_itself() {
    let deep = "a tag has more than 60 words and signs";
    let nested = "{% for a in cluster.labels|items %}".repeat(12) + "x" + &"{% endfor %}".repeat(12);
    for (template, says) in [
        (nested, "engine ran out of fuel. Shorten it"),
        ("{% for a in cluster.labels|items %}{{ 'x' ~ cluster.labels }}{% endfor %}".to_owned(), "not YAML"),
        ("{% set a = 'x' ~ 'x' %}".to_owned(), "of statements only if and for are taken"),
        ("{% with a = 'x' %}{% endwith %}".to_owned(), "of statements only if and for are taken"),
        ("{% macro a() %}{% endmacro %}".to_owned(), "of statements only if and for are taken"),
        ("{% include 'x' %}".to_owned(), "of statements only if and for are taken"),
        ("{% for a in ['x' ~ 'x'] %}{% endfor %}".to_owned(), "loop over what is known"),
        ("{% for a in range(9) %}{% endfor %}".to_owned(), "loop over what is known"),
        ("{% for a in cluster.labels recursive %}{{ loop(a) }}{% endfor %}".to_owned(), "loop over what is known"),
        ("a: {{ 'x' * 100000000 }}".to_owned(), "line 1: * is not taken. Correct it"),
        ("a: {{ range(9) }}".to_owned(), "functions are not taken"),
        ("a: {{ cluster|tojson }}".to_owned(), "filter tojson is not taken so"),
        ("a: {{ cluster.name|lower('x') }}".to_owned(), "filter lower is not taken so"),
        (format!("a: {{{{ {} }}}}", ["cluster"; 40].join("~")), deep),
        (format!("a: {{{{ {} }}}}", vec!["1"; 4000].join("~")), deep),
        (format!("a: {{{{ a{} }}}}", ".a".repeat(4000)), deep),
        (format!("a: {{{{ {}1 }}}}", "-".repeat(8000)), deep),
        (format!("a: {{{{ {}1 }}}}", "not ".repeat(2000)), deep),
        (format!("{{% for a in a{} %}}{{% endfor %}}", ".a".repeat(4000)), deep),
        (format!("{{% if a %}}{}{{% endif %}}", "{% elif a %}".repeat(600)), deep),
    ] {
        assert!(wrong(&template).contains(says), "{template}: {}", wrong(&template));
    }
}

#[test]
fn a_long_text_is_not_made() {
    let mut cluster = cluster();
    let labels = (0..200).map(|n| (format!("l{n}"), "x".repeat(60))).collect();
    cluster.metadata.labels = Some(labels);
    let tenant = TenantFacts::of(&cluster, "");
    let said = |template: &str| of(&release(template, &json!({})), &[], &tenant).unwrap_err();
    let says = |template: &str, words: &str| {
        let Problem::Wrong(why) = said(template) else { panic!("{template}") };
        assert!(why.contains(words), "{template}: {why}");
    };
    says("{% for l in cluster.labels %}{{ cluster.labels }}{% endfor %}", "it comes to more than 65536 bytes");
    says("a: {{ cluster.labels|items|join(cluster.labels ~ '') }}", "a text is longer than 65536 bytes");
    let text = "a: {{ (cluster.labels ~ '')|replace('x', 'yyyyyyyyyyyyyyyy') }}";
    says(text, "a text is longer than 65536 bytes");
    let aliases = "a: &a [x, x, x, x, x, x, x, x]\nb: &b [*a, *a, *a, *a, *a, *a, *a, *a]\nc: &c [*b, *b, *b, *b, *b, *b, *b, *b]\nd: &d [*c, *c, *c, *c, *c, *c, *c, *c]\ne: [*d, *d, *d, *d, *d, *d, *d, *d]\n";
    says(aliases, "bytes are more than 65536");
    let labels = (0..1000).map(|n| (format!("l{n}"), "x".repeat(60))).collect();
    cluster.metadata.labels = Some(labels);
    let tenant = TenantFacts::of(&cluster, "");
    let Err(Problem::Wrong(why)) = of(&release("a: 1", &json!({})), &[], &tenant) else { panic!("it is taken") };
    assert!(why.contains("its labels have more than 32768 bytes"), "{why}");
}

fn with_values_from(from: &Value) -> App {
    serde_json::from_value(json!({
        "apiVersion": "berth.dev/v1alpha1", "kind": "App", "metadata": {"name": "web", "namespace": "team-a"},
        "spec": {"clusterSelector": {}, "chart": {"oci": "oci://reg/web", "version": "1.0.0"}, "valuesFrom": from},
    }))
    .unwrap()
}

fn map(name: &str, label: &str, data: &Value) -> (ObjectKey, Value) {
    let metadata = json!({"name": name, "namespace": "team-a", "labels": {labels::APP_VALUES: label}});
    (ObjectKey::namespaced(Kind::ConfigMap, "team-a", name), json!({"metadata": metadata, "data": data}))
}

fn read(from: &Value, maps: &[(ObjectKey, Value)]) -> Result<Vec<ReadValues>, Problem> {
    let maps: BTreeMap<_, _> = maps.iter().cloned().collect();
    config_maps::read(&with_values_from(from), |key| maps.get(key))
}

#[test]
fn values_of_config_maps_count_in_their_order_and_less_than_all_others() {
    let from = json!([
        {"configMapRef": {"name": "first"}}, {"secretRef": {"name": "s"}}, {"configMapRef": {"name": "second"}, "key": "k"},
        {"configMapRef": {"name": "gone", "optional": true}}, {"configMapRef": {"name": "first", "optional": true}, "key": "gone"},
    ]);
    let first =
        map("first", "true", &json!({"values.yaml": "a: 1 # said so\nb: {c: 1, d: 1}\non: on\ne: '{{ x }}'\n"}));
    let second = map("second", "true", &json!({"k": "b: {d: 2}\nf: null\n"}));
    let all = read(&from, &[first.clone(), second.clone()]).unwrap();
    assert_eq!(
        all.iter().map(|one| (&*one.name, &*one.key)).collect::<Vec<_>>(),
        [("first", "values.yaml"), ("second", "k")]
    );
    let own = of(&release("a: 2\n", &json!({"g": 3})), &all, &tenant()).unwrap();
    let expected = json!({"a": 2, "b": {"c": 1, "d": 2}, "on": "on", "e": "{{ x }}", "f": null, "g": 3});
    assert_eq!(Value::from(config_maps::with_own(&all, own)), expected);
    let find = |name, key, optional| config_maps::find(&all, name, key, optional).map(Value::from);
    assert_eq!(find("second", "k", false), Some(json!({"b": {"d": 2}, "f": null})));
    assert_eq!((find("gone", "values.yaml", true), find("gone", "values.yaml", false)), (Some(json!({})), None));

    let release = with_values_from(&from).spec.release;
    let digest = |all: &[ReadValues]| config_maps::digest(&release, all).unwrap();
    let comment = map("first", "true", &json!({"values.yaml": "a: 1\nb: {c: 1, d: 1}\non: on\ne: '{{ x }}'\n"}));
    assert_eq!(digest(&read(&from, &[comment, second.clone()]).unwrap()), digest(&all), "a comment is no change");
    let other = map("first", "true", &json!({"values.yaml": "a: 2"}));
    assert_ne!(digest(&read(&from, &[other, second]).unwrap()), digest(&all));
    assert_eq!(config_maps::digest(&with_values_from(&json!([{"secretRef": {"name": "s"}}])).spec.release, &[]), None);
}

#[test]
fn what_is_wrong_with_a_config_map_is_said_with_the_way_out() {
    let from = |key: &str| json!([{"configMapRef": {"name": "web"}, "key": key}]);
    let waits = |maps: &[(ObjectKey, Value)]| match read(&from("k"), maps) {
        Err(Problem::Waits(on)) => on,
        other => panic!("{other:?}"),
    };
    let lacks = "key k of ConfigMap team-a/web, which spec.valuesFrom names: create it, with the label berth.dev/app-values=true, or correct the name. What is deployed stays as it is";
    assert_eq!(waits(&[]), lacks);
    assert_eq!(waits(&[map("web", "true", &json!({"other": "a: 1"}))]), lacks);
    let wrong = |label: &str, text: &str| match read(&from("k"), &[map("web", label, &json!({"k": text}))]) {
        Err(Problem::Wrong(why)) => why,
        other => panic!("{other:?}"),
    };
    let consent = "spec.valuesFrom: ConfigMap team-a/web lacks the label berth.dev/app-values, by which its owner says that Berth may read it: kubectl -n team-a label configmap web berth.dev/app-values=true. What is deployed stays as it is";
    assert_eq!(wrong("false", "a: 1"), consent);
    let optional = json!([{"configMapRef": {"name": "web", "optional": true}, "key": "k"}]);
    assert!(read(&optional, &[map("web", "", &json!({"k": "a: 1"}))]).is_err(), "it is there");
    for (text, says) in [
        ("a: [", "is not YAML of an object"),
        ("- a", "is not YAML of an object: it has no names of values. Correct it"),
        ("a: 1\na: 2", "is not YAML of an object"),
        (&*format!("a: {}", "x".repeat(70_000)), "has 70003 bytes, more than 65536"),
    ] {
        let why = wrong("true", text);
        assert!(why.starts_with("spec.valuesFrom: key k of ConfigMap team-a/web ") && why.contains(says), "{why}");
        assert!(why.ends_with("What is deployed stays as it is"), "{why}");
    }
    let half = |name: &str| map(name, "true", &json!({"values.yaml": format!("{name}: {}", "x".repeat(40_000))}));
    let both = json!([{"configMapRef": {"name": "a"}}, {"configMapRef": {"name": "b"}}]);
    let Err(Problem::Wrong(why)) = read(&both, &[half("a"), half("b")]) else { panic!("it is taken") };
    assert!(why.starts_with("spec.valuesFrom: the values of all ConfigMaps together have 80016 bytes"), "{why}");
    let aliases = "a: &a [x, x, x, x, x, x, x, x]\nb: &b [*a, *a, *a, *a, *a, *a, *a, *a]\nc: &c [*b, *b, *b, *b, *b, *b, *b, *b]\nd: &d [*c, *c, *c, *c, *c, *c, *c, *c]\ne: [*d, *d, *d, *d, *d, *d, *d, *d]\n";
    assert!(wrong("true", aliases).contains("more than 65536"), "{}", wrong("true", aliases));

    let one = read(&json!([{"configMapRef": {"name": "a"}}]), &[half("a")]).unwrap();
    let own = release("a: 1", &json!({"b": "x".repeat(40_000)}));
    let Err(Problem::Wrong(why)) = of(&own, &one, &tenant()) else { panic!("it is taken") };
    assert!(why.starts_with("spec.values with spec.valuesTemplate and the ConfigMaps of spec.valuesFrom: "), "{why}");
}
