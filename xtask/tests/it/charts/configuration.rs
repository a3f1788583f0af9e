//! The operator's configuration: what the chart's values say, as the operator reads it.

use super::render;
use berth_api::etcd_bootstrap::vpc::Rules;
use berth_plan::meta_cluster::addresses::{MetaRanges, network};
use berth_plan::settings::Config;
use berth_plan::settings::{AllowedAccess, Isolation, Limits, MayChange, Retain, Rollouts, VpcSettings, Writers};
use berth_render::images::Layout;
use berth_testkit::fixtures::from_yaml;
use jiff::SignedDuration;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Every value that is for the configuration, each with something of its own.
fn values() -> Value {
    let namespace = |name: &str| json!({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}}});
    json!({
        "meta": {
            "podCIDRs": ["10.1.0.0/16", "fd00:1::/48"],
            "serviceCIDRs": ["10.2.0.0/16"],
            "nodeCIDRs": ["10.3.0.0/16"],
            "apiServerIPs": ["10.4.0.9", "fd00:4::9"],
            "autoscaling": true,
        },
        "isolation": {
            "dns": [namespace("dns")],
            "monitoring": [namespace("monitoring"), {"podSelector": {"matchLabels": {"app": "prometheus"}}}],
            "apiServerEgress": [{"to": [namespace("policy-webhooks")], "ports": [{"protocol": "TCP", "port": 8443}]}],
            "privateNetworks": {"allowed": ["10.20.0.0/16"], "olderTenants": "Closed"},
        },
        "writers": {
            "service": {
                "annotations": ["service.example.com/*", "what: \"YAML\" # {takes} 'otherwise'"],
                "loadBalancerClasses": ["internal"],
                "nodePorts": ["30440-30459"],
            },
            "hosts": ["*.acme.example"],
            "placement": {
                "nodeSelectors": ["pool=control-planes"],
                "tolerations": ["pool"],
                "priorityClasses": ["tenant-control-plane"],
            },
            "storage": {"classes": ["fast-ssd"]},
            "images": {"registries": ["mirror.example.com/k8s"], "pullSecrets": ["mirror-credentials"]},
            "limits": {"replicas": 3, "cpu": 2, "memory": "8Gi", "storage": "50Gi"},
            "networks": ["10.32.0.0/11"],
            "vpc": ["example.com/ip=$(IP)"],
            "retain": "Refused",
            "backups": {"endpoints": ["https://s3.team:9000"]},
            "access": [{"namespaces": ["team-a"], "roles": ["Viewer", "audit-*"]}],
            "apps": {"sources": ["oci://reg.example.com/charts/*"]},
        },
        "vpc": {"rules": "Interface"},
        "admission": {"mayChange": [{"kinds": ["StatefulSet"], "paths": ["/spec/template/spec/containers/*/resources"]}]},
        "rollouts": {"maxConcurrent": 3, "maxFailed": 0, "waveSoak": "30m"},
        "tenants": {
            "pullSecrets": ["reg"],
            "proxy": {"http": "http://a:1", "https": "http://b", "noProxy": [".example.com"]},
        },
        "authentication": {"jwt": [{
            "issuer": {"url": "https://login.example.com", "audiences": ["kubernetes"]},
            "claimMappings": {"username": {"claim": "email", "prefix": "corp:"}},
        }]},
        "imageLayout": "Upstream",
    })
}

/// What the operator reads where the chart was given these values.
fn read(values: &Value) -> Config {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), values.to_string()).expect("written");
    let objects = render("berth", &["-f", file.path().to_str().expect("UTF-8")]);
    let map = objects.iter().find(|o| o["kind"] == "ConfigMap" && o["metadata"]["name"] == "berth-operator");
    let text = map.and_then(|m| m["data"]["config.yaml"].as_str()).expect("the operator's ConfigMap");
    Config::parse(text).unwrap_or_else(|e| panic!("{e}: {text}"))
}

/// Paths of everything that is no object.
fn paths(value: &Value, path: &str) -> BTreeSet<String> {
    match value {
        Value::Object(fields) => fields.iter().flat_map(|(name, v)| paths(v, &format!("{path}/{name}"))).collect(),
        _ => BTreeSet::from([path.to_owned()]),
    }
}

#[test]
fn each_value_arrives_in_its_own_field() {
    let values = values();
    let texts = |path: &str| -> Vec<String> {
        let list = values.pointer(path).and_then(Value::as_array).unwrap_or_else(|| panic!("{path}"));
        list.iter().map(|v| v.as_str().expect("a text").to_owned()).collect()
    };
    let nets = |path: &str| texts(path).iter().map(|n| network(n).expect("a network")).collect();
    let config = read(&values);
    assert_eq!(config.unknown, Vec::<String>::new());
    let meta = MetaRanges {
        pods: nets("/meta/podCIDRs"),
        services: nets("/meta/serviceCIDRs"),
        nodes: nets("/meta/nodeCIDRs"),
        api_servers: nets("/meta/apiServerIPs"),
    };
    assert_eq!(config.given, meta);
    assert!(config.nodes_are_added);
    let writers = Writers {
        service_annotations: texts("/writers/service/annotations"),
        load_balancer_classes: texts("/writers/service/loadBalancerClasses"),
        node_ports: texts("/writers/service/nodePorts"),
        hosts: texts("/writers/hosts"),
        node_selectors: texts("/writers/placement/nodeSelectors"),
        tolerations: texts("/writers/placement/tolerations"),
        priority_classes: texts("/writers/placement/priorityClasses"),
        storage_classes: texts("/writers/storage/classes"),
        image_registries: texts("/writers/images/registries"),
        pull_secrets: texts("/writers/images/pullSecrets"),
        limits: Limits {
            replicas: Some(3),
            cpu: Some("2".into()),
            memory: Some("8Gi".into()),
            storage: Some("50Gi".into()),
        },
        networks: nets("/writers/networks"),
        vpc: texts("/writers/vpc"),
        retain: Retain::Refused,
        access: vec![AllowedAccess {
            namespaces: texts("/writers/access/0/namespaces"),
            roles: texts("/writers/access/0/roles"),
        }],
    };
    assert_eq!(config.writers, writers);
    assert_eq!(config.backups.endpoints, texts("/writers/backups/endpoints"));
    assert_eq!(config.apps.sources, texts("/writers/apps/sources"));
    assert!(!config.apps.are_enabled(), "what installs apps is off until it is asked for");
    let peer = json!({"ipBlock": {"cidr": "10.0.0.8/32"}});
    let apps = read(&json!({"apps": {"enabled": true, "image": {"tag": "1"}, "peers": [peer]}})).apps;
    assert_eq!((&*apps.image, &apps.peers[..]), ("ghcr.io/berth-dev/apps:1", &[peer][..]));
    assert_eq!(config.argo_cd, None, "nobody is registered until it is asked for");
    let argo_cd = json!({"argoCD": {"namespace": "argocd", "projects": {"team-a": "shops"}}});
    let argo_cd = read(&json!({"registration": argo_cd})).argo_cd.expect("an Argo CD");
    assert_eq!((&*argo_cd.namespace, &*argo_cd.projects["team-a"]), ("argocd", "shops"));
    let given = read(&json!({"backups": {
        "stores": [{"name": "main", "endpoint": "https://s3:9000", "bucket": "b", "secretName": "s"}],
        "default": {"store": "main", "schedule": "0 3 * * *", "keep": {"daily": 2}},
    }}));
    assert_eq!((given.backups.default.expect("a schedule").keep.daily, given.unknown.len()), (2, 0));
    let rollouts = Rollouts { max_concurrent: 3, max_failed: 0, wave_soak: SignedDuration::from_mins(30) };
    assert_eq!(config.rollouts, rollouts);
    let may_change =
        Config::parse(&json!({"admission": values["admission"]}).to_string()).expect("it is right").may_change;
    assert_eq!(config.may_change, may_change);
    assert_ne!(config.may_change, MayChange::default());
    assert_eq!(config.image_layout, Layout::Upstream);
    assert_eq!(config.pull_secrets, texts("/tenants/pullSecrets"));
    assert_eq!(serde_json::to_value(&config.proxy).expect("a value"), values["tenants"]["proxy"]);
    assert_eq!(Value::from(config.jwt.clone()), values["authentication"]["jwt"]);
    assert_eq!(config.vpc, VpcSettings { rules: Rules::Interface, pods_are_held: true });
    let Isolation { dns, monitoring, api_server_egress, private_networks, older_tenants } = config.isolation();
    let allowed: Vec<_> = private_networks.iter().map(ToString::to_string).collect();
    let networks = json!({"allowed": allowed, "olderTenants": format!("{older_tenants:?}")});
    let isolation = json!({
        "dns": dns, "monitoring": monitoring, "apiServerEgress": api_server_egress, "privateNetworks": networks,
    });
    assert_eq!(isolation, values["isolation"]);
}

/// A value that is new in the chart is to be followed by the other test, too; and what the chart says without being told is what the
/// operator takes without a file.
#[test]
fn the_chart_has_these_values_and_the_operators_defaults() {
    let file = berth_testkit::fixtures::package().join("../charts/berth/values.yaml");
    let all: Value = from_yaml(&std::fs::read_to_string(file).expect("values.yaml"));
    let ours = values();
    for section in
        ["meta", "isolation", "writers", "vpc", "admission", "rollouts", "tenants", "authentication", "imageLayout"]
    {
        assert_eq!(paths(&all[section], section), paths(&ours[section], section));
    }
    let (chart, none) = (read(&json!({})), Config::default());
    assert_eq!((&chart.rollouts, &chart.may_change), (&none.rollouts, &none.may_change));
    assert_eq!((&chart.given, &chart.writers, &chart.unknown), (&none.given, &none.writers, &none.unknown));
    assert_eq!(chart.vpc.rules, none.vpc.rules);
    assert_eq!(chart.backups, none.backups);
    assert_eq!((&chart.apps, &chart.argo_cd), (&none.apps, &none.argo_cd));
    let policies = |config: &Config| format!("{:?}", config.isolation());
    assert_eq!(policies(&chart), policies(&none));
}
