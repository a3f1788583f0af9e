//! What keeps one tenant from taking its node's memory, and its readers from going unseen.

use crate::fixtures::{Fixture, minimal};
use berth_render::{Kind, Object};
use k8s_openapi::api::core::v1::ResourceRequirements;
use serde_json::{Value, json};

const MINORS: [(&str, &str); 3] = [("1.34.4", "3.5.35"), ("1.35.4", "3.6.16"), ("1.36.3", "3.6.16")];

/// The component's own container of each workload, by its name.
fn containers(fixture: &Fixture) -> Vec<(String, Value)> {
    let all = fixture.all();
    let workloads = all.iter().filter(|object| object.key().kind.has_pods());
    let first = |object: &Object| object.get("/spec/template/spec/containers/0").expect("a container").clone();
    workloads.map(|object| (object.key().name.clone(), first(object))).collect()
}

#[test]
fn every_component_has_a_memory_limit_and_go_knows_it() {
    for (version, etcd) in MINORS {
        let all = containers(&minimal(version, etcd));
        assert_eq!(all.len(), 4);
        for (name, container) in all {
            let env = container["env"].as_array().expect("env");
            let of = |name: &str| env.iter().find(|e| e["name"] == name).expect("a variable");
            let limit = json!({"resource": "limits.memory", "divisor": "1Mi"});
            assert_eq!(of("MEMORY_LIMIT_MIB")["valueFrom"]["resourceFieldRef"], limit, "{name}");
            // A million bytes for each MiB, so that Go's limit is 95 % of it whatever it is.
            assert_eq!(of("GOMEMLIMIT")["value"], "$(MEMORY_LIMIT_MIB)000000", "{name}");
            let limits = &container["resources"]["limits"];
            assert!(limits["memory"].is_string() && limits["cpu"].is_null(), "{name}: {limits}");
        }
    }
}

#[test]
fn etcds_limit_has_room_for_the_whole_database() {
    for (version, etcd) in MINORS {
        for gib in [1, 2, 8] {
            let mut fixture = minimal(version, etcd);
            fixture.etcd.quota_bytes = gib << 30;
            let limit = format!("{}Mi", gib * 1024 + 2048);
            let all = containers(&fixture);
            assert!(all.iter().any(|(_, container)| container["resources"]["limits"]["memory"] == limit), "{limit}");
        }
    }
}

#[test]
fn a_request_alone_raises_the_limit_and_a_limit_wins() {
    let memory = |resources: Value| {
        let mut fixture = minimal("1.36.3", "3.6.16");
        let resources: ResourceRequirements = serde_json::from_value(resources).expect("resources");
        fixture.apiserver.workload.resources = Some(resources);
        let all = containers(&fixture);
        let (_, container) = all.into_iter().find(|(name, _)| name == "kube-apiserver").expect("kube-apiserver");
        let of = |what: &str| container["resources"][what]["memory"].as_str().expect("memory").to_owned();
        (of("requests"), of("limits"))
    };
    let (request, limit) = memory(json!({}));
    let pair = |request: &str, limit: &str| (request.to_owned(), limit.to_owned());
    assert_eq!(memory(json!({"requests": {"memory": "1Gi"}})), pair("1Gi", &limit));
    assert_eq!(memory(json!({"requests": {"memory": "9Gi"}})), pair("9Gi", "9Gi"));
    assert_eq!(memory(json!({"requests": {"cpu": "9"}})), (request, limit));
    assert_eq!(memory(json!({"limits": {"memory": "512Mi"}})), pair("512Mi", "512Mi"));
    assert_eq!(memory(json!({"requests": {"memory": "1Gi"}, "limits": {"memory": "20Gi"}})), pair("1Gi", "20Gi"));
}

/// What kube-apiserver logs of a request: the level of the first rule that matches.
fn level(policy: &Value, user: &str, groups: &[&str], verb: &str, resource: &str) -> String {
    let has = |rule: &Value, key: &str, wanted: &[&str]| {
        let list = rule[key].as_array();
        list.is_none_or(|list| list.iter().any(|entry| wanted.contains(&entry.as_str().unwrap_or_default())))
    };
    let of_resources = |rule: &Value| match rule["resources"].as_array() {
        Some(all) => all.iter().any(|one| one["group"] == "" && has(one, "resources", &[resource])),
        None => rule["nonResourceURLs"].is_null(),
    };
    let rules = policy["rules"].as_array().expect("rules");
    let matches = |rule: &&Value| {
        has(rule, "users", &[user])
            && has(rule, "userGroups", groups)
            && has(rule, "verbs", &[verb])
            && of_resources(rule)
    };
    rules.iter().find(matches).expect("a rule")["level"].as_str().expect("a level").to_owned()
}

#[test]
fn whoever_takes_an_account_in_kube_system_is_in_the_audit_log() {
    for (version, etcd) in MINORS {
        let all = minimal(version, etcd).all();
        let mut files = all.iter().filter(|o| o.key().kind == Kind::ConfigMap).filter_map(|o| o.get("/data"));
        let policy = files.find_map(|data| data["audit-policy.yaml"].as_str()).expect("a policy");
        let policy: Value = serde_saphyr::from_str(policy).expect("YAML");
        let account = |name: &str| format!("system:serviceaccount:kube-system:{name}");
        let groups = ["system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"];
        for verb in ["get", "list", "watch"] {
            let of = |name: &str, resource: &str| level(&policy, &account(name), &groups, verb, resource);
            for resource in ["configmaps", "pods", "secrets", "pods/exec", "pods/log", "nodes/proxy"] {
                for name in ["default", "cilium", "anybody", "deployment-controller2"] {
                    assert_eq!(of(name, resource), "Metadata", "{version}: {verb} {resource} by {name}");
                }
            }
            for name in ["generic-garbage-collector", "endpointslice-controller", "namespace-controller"] {
                assert_eq!(of(name, "pods"), "None", "{version}: {verb} by {name}");
                for resource in ["secrets", "pods/exec", "services/proxy"] {
                    assert_eq!(of(name, resource), "Metadata", "{version}: {verb} {resource} by {name}");
                }
            }
        }
    }
}
