//! What is served, and that it is what docs/metrics.md promises.

use super::*;
use berth_api::cluster::ClusterStatus;
use berth_plan::fleet::TenantId;
use berth_plan::sizes::{Size, SizedPod, Usage};
use berth_render::{Kind, ObjectKey};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};

#[test]
fn an_object_is_there_as_its_status_says_until_it_is_gone() {
    let metrics = Metrics::default();
    let condition = |status: &str| {
        let value = json!({
            "type": "Ready", "status": status, "reason": "Waiting", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        });
        json!({"conditions": [value], "certificates": {"nextExpiry": "2026-01-01T00:00:00Z"}})
    };
    let acme = ObjectKey::namespaced(Kind::Cluster, "team-a", "acme");
    metrics.tenants.say(&acme, &condition("True"));
    metrics.tenants.say(&acme, &condition("False"));
    let labels = r#"kind="Cluster",namespace="team-a",name="acme""#;
    let text = metrics.text();
    let line = format!("berth_condition{{{labels},condition=\"Ready\",reason=\"Waiting\"}} 0\n");
    assert!(text.contains(&line), "{text}");
    assert!(text.contains(&format!("berth_certificate_expiry_timestamp_seconds{{{labels}}} 1767225600\n")), "{text}");
    metrics.tenants.forget(&acme);
    assert!(!metrics.text().contains("acme"));
}

#[test]
fn installations_of_apps_are_counted_by_phase_until_they_are_gone() {
    let metrics = Metrics::default();
    let key = |name: &str| ObjectKey::namespaced(Kind::AppInstallation, "team-a", name);
    metrics.tenants.say(&key("a"), &json!({"phase": "Deployed", "drift": {"count": 2}}));
    metrics.tenants.say(&key("b"), &json!({"phase": "Failed", "failures": 3}));
    metrics.tenants.say(&ObjectKey::namespaced(Kind::Cluster, "team-a", "acme"), &json!({"phase": "Ready"}));
    let text = metrics.text();
    assert!(
        text.contains("berth_app_installations{phase=\"Failed\"} 1\n") && !text.contains("phase=\"Ready\""),
        "{text}"
    );
    let failures =
        |name: &str, n| format!("berth_app_installation_failures{{namespace=\"team-a\",name=\"{name}\"}} {n}\n");
    assert!(text.contains(&failures("a", 0)) && text.contains(&failures("b", 3)), "{text}");
    let drifted = |name: &str| format!("berth_app_drifted_objects{{namespace=\"team-a\",name=\"{name}\"}}");
    assert!(text.contains(&format!("{} 2\n", drifted("a"))) && !text.contains(&drifted("b")), "{text}");
    metrics.tenants.forget(&key("b"));
    assert!(!metrics.text().contains("phase=\"Failed\""));
}

#[test]
fn clusters_that_argo_cd_knows_are_counted_by_how_far_that_is() {
    let metrics = Metrics::default();
    let say = |kind, name: &str, status: &str, reason: &str| {
        let condition = json!({
            "type": "Registered", "status": status, "reason": reason, "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z",
        });
        metrics.tenants.say(&ObjectKey::namespaced(kind, "team-a", name), &json!({"conditions": [condition]}));
    };
    let counted = |state: &str, n| {
        let line = format!("berth_cluster_registrations{{state=\"{state}\"}} {n}\n");
        assert!(metrics.text().contains(&line), "{line} {}", metrics.text());
    };
    assert!(!metrics.text().contains("berth_cluster_registrations{"), "none asks for it");
    say(Kind::Cluster, "a", "True", "AsExpected");
    say(Kind::Cluster, "b", "False", "Rejected");
    say(Kind::Cluster, "c", "False", "ForeignObject");
    say(Kind::Cluster, "d", "False", "Waiting");
    say(Kind::EtcdCluster, "e", "False", "Waiting");
    counted("Registered", 1);
    counted("Failed", 2);
    counted("Waiting", 1);
    metrics.tenants.forget(&ObjectKey::namespaced(Kind::Cluster, "team-a", "d"));
    counted("Waiting", 0);
}

#[test]
fn a_change_is_there_until_it_is_through_and_its_duration_counts_once() {
    let metrics = Metrics::default();
    let of = |outcome: Option<&str>, state: &str, came_back: bool| {
        let started = "2026-01-01T00:00:00Z";
        let history =
            json!([{"revision": 2, "version": "1.36.3", "cause": "Upgrade", "outcome": outcome, "started": started}]);
        let turn = json!({"to": "1.36.3", "state": state, "cameBack": came_back});
        serde_json::from_value::<ClusterStatus>(json!({"history": history, "turn": turn})).unwrap()
    };
    let now = "2026-01-01T00:01:00Z".parse().unwrap();
    let acme = tenant("acme");
    let say = |old: &ClusterStatus, new: &ClusterStatus| metrics.rollouts.say(&acme, (old, new), now);
    let (running, failed) = (of(None, "Running", false), of(Some("RolledBack"), "Failed", true));
    say(&running, &running);
    let line = |state: &str, n| {
        format!("berth_rollout{{namespace=\"team-a\",name=\"acme\",version=\"1.36.3\",state=\"{state}\"}} {n}\n")
    };
    assert!(metrics.text().contains(&line("Running", 1)), "{}", metrics.text());
    say(&running, &failed);
    say(&failed, &failed);
    let text = metrics.text();
    assert!(text.contains(&line("Failed", 2)) && !text.contains("Running"), "{text}");
    assert!(text.contains("berth_rollout_duration_seconds_sum{outcome=\"RolledBack\"} 60.0\n"), "{text}");
    say(&failed, &of(Some("Succeeded"), "Succeeded", false));
    assert!(!metrics.text().contains("acme"));
}

#[test]
fn what_the_fleet_reserves_and_uses_is_a_sum_by_component() {
    let text = everything().text();
    for line in [
        "berth_fleet_requested_cpu_cores{component=\"etcd\"} 0.05\n",
        "berth_fleet_used_memory_bytes{component=\"etcd\"} 1048576\n",
    ] {
        assert!(text.contains(line), "{text}");
    }
    assert!(!text.contains("component=\"x\""), "containers of others are no time series");
    let metrics = everything();
    metrics.fleet_sizes.see(&[], &berth_plan::sizes::Metrics::Missing);
    assert!(!metrics.text().contains("component=\"etcd\""));
}

fn tenant(name: &str) -> TenantId {
    TenantId { namespace: "team-a".into(), name: name.into() }
}

/// Names of labels with their values.
type Labels = BTreeMap<String, BTreeSet<String>>;
/// By name: type and labels.
type Families = BTreeMap<String, (String, Labels)>;

/// Metrics in which every family has a value for each label that is documented.
fn everything() -> Metrics {
    let metrics = Metrics::default();
    for controller in controllers::ALL {
        metrics.duration.get_or_create(&Controller { controller: controller.name }).observe(0.1);
    }
    let since = "2026-01-01T00:00:00Z";
    let condition =
        json!({"type": "Ready", "status": "True", "reason": "Waiting", "message": "", "lastTransitionTime": since});
    let mut registered = condition.clone();
    registered["type"] = "Registered".into();
    let status = json!({
        "conditions": [condition, registered], "certificates": {"nextExpiry": since}, "lastVerifiedTime": since,
        "recovery": {"begun": since}, "restoredAt": since, "phase": "Deployed", "failures": 1, "drift": {"count": 1},
    });
    let orphan = || Orphan { namespace: "a".into(), cluster_namespace: "b".into(), cluster: "c".into() };
    metrics.tenants.orphans_from(move || vec![orphan()]);
    let of = |outcome: Option<&str>, state: &str| {
        let history =
            json!([{"revision": 1, "version": "1.36.3", "cause": "Upgrade", "outcome": outcome, "started": since}]);
        let turn = json!({"to": "1.36.3", "state": state});
        serde_json::from_value::<ClusterStatus>(json!({"history": history, "turn": turn})).unwrap()
    };
    let now = "2026-01-01T00:01:00Z".parse().unwrap();
    for outcome in ["Succeeded", "RolledBack", "Held", "Superseded"] {
        let change = (&of(None, "Running"), &of(Some(outcome), "Succeeded"));
        metrics.rollouts.say(&tenant("gone"), change, now);
    }
    for state in ["Waiting", "Window", "Blocked", "Running", "Emulating", "Failed"] {
        metrics.rollouts.say(&tenant(state), (&of(None, state), &of(None, state)), now);
    }
    let pod = json!({
        "metadata": {"namespace": "a", "name": "etcd-0", "labels": {"berth.dev/etcd-cluster": "etcd"}},
        "status": {"phase": "Running"},
        "spec": {"containers": [{"name": "etcd", "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}}}, {"name": "x"}]},
    });
    let used = [("etcd".to_owned(), Size { cpu: 20, memory: 1 << 20 })].into();
    let usage = Usage::from([(("a".to_owned(), "etcd-0".to_owned()), used)]);
    let seen = berth_plan::sizes::Metrics::Answered(usage);
    metrics.fleet_sizes.see(&[SizedPod::of(&pod).unwrap()], &seen);
    metrics.rollouts.stopped([("1.36.3".to_owned(), 3)].into());
    metrics
        .users
        .set(["Granted", "Waiting", "Failed", "NotRevoked", "NotRevokedAsleep"].map(|state| (state, 1)).into());
    for controller in controllers::ALL {
        metrics.tenants.say(&ObjectKey::namespaced(controller.kind, "team-a", "acme"), &status);
    }
    metrics
}

/// The families of a text in the format of OpenMetrics, under the names that queries use.
fn served(text: &str) -> Families {
    let mut all = Families::new();
    let mut current = None;
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, type_) = rest.split_once(' ').unwrap();
            let name = if type_ == "counter" { format!("{name}_total") } else { name.to_owned() };
            all.insert(name.clone(), (type_.to_owned(), Labels::new()));
            current = Some(name);
        } else if let Some((_, rest)) = line.split_once('{').filter(|_| !line.starts_with('#')) {
            let (_, labels) = all.get_mut(current.as_ref().unwrap()).unwrap();
            let pairs = rest.rsplit_once('}').unwrap().0.split(',').map(|pair| pair.split_once('=').unwrap());
            // Buckets are a part of what a histogram is.
            for (label, value) in pairs.filter(|(label, _)| *label != "le") {
                labels.entry(label.to_owned()).or_default().insert(value.trim_matches('"').to_owned());
            }
        }
    }
    all
}

/// The families in the table of docs/metrics.md. Behind a label there may be all its values, in parentheses.
fn documented() -> Families {
    let text = include_str!("../../../../docs/metrics.md");
    let rows = text.lines().filter(|line| line.starts_with("| `berth_"));
    rows.map(|row| {
        let columns: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [name, type_, labels, _] = columns[..] else { panic!("{row}") };
        (name.trim_matches('`').to_owned(), (type_.to_owned(), labels_of(labels)))
    })
    .collect()
}

fn labels_of(cell: &str) -> Labels {
    let mut all = Labels::new();
    let (mut label, mut inside) = (String::new(), false);
    for (i, part) in cell.split('`').enumerate() {
        match (i % 2 == 1, inside) {
            (true, false) => {
                part.clone_into(&mut label);
                all.insert(label.clone(), BTreeSet::new());
            }
            (true, true) => {
                all.get_mut(&label).unwrap().insert(part.to_owned());
            }
            (false, _) => inside = part.contains('(') || (inside && !part.contains(')')),
        }
    }
    all
}

#[test]
fn what_is_served_is_what_is_documented() {
    let (served, documented) = (served(&everything().text()), documented());
    let names = |families: &Families| families.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&served), names(&documented));
    for (name, (type_, labels)) in &documented {
        let (real_type, real) = &served[name];
        assert_eq!(real_type, type_, "{name}");
        assert_eq!(real.keys().collect::<Vec<_>>(), labels.keys().collect::<Vec<_>>(), "{name}");
        for (label, values) in labels.iter().filter(|(_, values)| !values.is_empty()) {
            assert_eq!(&real[label], values, "{name} {label}");
        }
    }
}
