//! What comes out of the templates, whole. Few and large: a change shows in review as a diff of manifests.

use crate::fixtures::{Fixture, full, minimal};
use berth_api::etcd_bootstrap::{Bootstrap, BootstrapState, keys};
use berth_render::{Binary, Kind, Object, lint};

const MINORS: [(&str, &str); 3] = [("1.34.4", "3.5.35"), ("1.35.4", "3.6.16"), ("1.36.3", "3.6.16")];

fn text(objects: &[Object]) -> String {
    let documents = objects.iter().map(|object| {
        let json = serde_json::to_string_pretty(object).expect("JSON");
        format!("# {}\n{json}\n", object.key())
    });
    documents.collect::<Vec<_>>().join("---\n")
}

fn every() -> impl Iterator<Item = (String, Fixture)> {
    MINORS.into_iter().flat_map(|(version, etcd)| {
        [(format!("minimal-{version}"), minimal(version, etcd)), (format!("full-{version}"), full(version, etcd))]
    })
}

#[test]
fn manifests() {
    // The other minors are covered by the diffs below.
    for (name, fixture) in every().filter(|(name, _)| name.ends_with("1.36.3")) {
        insta::assert_snapshot!(name, text(&fixture.all()));
    }
}

/// What an upgrade changes: lines that only one of two neighbouring minors has.
#[test]
fn upgrades() {
    let lines =
        |version, etcd| -> Vec<String> { text(&minimal(version, etcd).all()).lines().map(str::to_owned).collect() };
    for pair in MINORS.windows(2) {
        let (old, new) = (lines(pair[0].0, pair[0].1), lines(pair[1].0, pair[1].1));
        let missing = |from: &[String], other: &[String], sign: char| {
            let lines = from.iter().filter(|line| !other.contains(line)).map(|line| format!("{sign}{line}\n"));
            lines.collect::<String>()
        };
        let diff = missing(&old, &new, '-') + &missing(&new, &old, '+');
        insta::assert_snapshot!(format!("upgrade-{}-to-{}", pair[0].0, pair[1].0), diff);
    }
}

#[test]
fn every_fixture_renders_twice_the_same_and_is_clean() {
    for (name, fixture) in every() {
        let (once, twice) = (fixture.all(), fixture.all());
        assert_eq!(text(&once), text(&twice), "{name}");
        assert!(once.iter().all(|object| object.key().kind.applied()), "{name}");
        assert_eq!(lint(&once), [], "{name}");
        for object in once.iter().filter(|object| object.key().kind == Kind::ConfigMap) {
            for (file, text) in object.get("/data").and_then(|data| data.as_object()).expect("data") {
                let text = text.as_str().expect("a string");
                let parsed: Result<serde_json::Value, _> = serde_saphyr::from_str(text);
                assert!(parsed.is_ok(), "{name}: {}: {file} is not YAML: {text}", object.key());
            }
        }
    }
}

/// Neither a finished bootstrap nor a new member may touch the pods of members that run.
#[test]
fn etcd_members_do_not_change_with_the_cluster() {
    let pods = |fixture: &Fixture| {
        let objects = fixture.component(Binary::Etcd).expect("renders");
        let set = objects.iter().find(|object| object.key().kind.has_pods()).expect("a StatefulSet").clone();
        set.get("/spec/template").expect("a template").clone()
    };
    let mut fixture = minimal("1.36.3", "3.6.16");
    let before = pods(&fixture);
    fixture.etcd.state = BootstrapState::Established;
    fixture.etcd.workload.replicas = 3;
    fixture.etcd.members = vec!["acme-0".to_owned(), "acme-1".to_owned(), "acme-2".to_owned()];
    assert_eq!(pods(&fixture), before);
}

/// Templates are text: that they say what the guard and etcd read, under the keys that the planner reads, shows only here.
#[test]
fn the_bootstrap_config_map_is_what_the_guard_reads() {
    for (name, mut fixture) in every() {
        for joined in [vec![], vec!["acme-0".to_owned(), "acme-1".to_owned()]] {
            fixture.etcd.joined.clone_from(&joined);
            let objects = fixture.component(Binary::Etcd).expect("renders");
            let map = objects.iter().find(|object| object.key().kind == Kind::ConfigMap).expect("a ConfigMap");
            let data = map.get("/data").and_then(|data| data.as_object()).expect("data");
            let all =
                [keys::BOOTSTRAP, keys::INITIAL_CLUSTER, keys::INITIAL_CLUSTER_STATE, keys::INITIAL_CLUSTER_TOKEN];
            assert_eq!(data.keys().collect::<Vec<_>>(), all, "{name}");
            let text = data[keys::BOOTSTRAP].as_str().expect("a string");
            let told: Bootstrap = serde_json::from_str(text).expect("what the guard reads");
            let values = &fixture.etcd;
            let want = Bootstrap {
                cluster_uid: values.cluster_uid.clone(),
                epoch: values.epoch,
                state: values.state,
                joined,
                keep_old_data: Some(7 * 24 * 3600),
                ..Bootstrap::default()
            };
            assert_eq!(told, want, "{name}");
        }
    }
}

#[test]
fn configuration_rolls_pods() {
    let pods = |fixture: &Fixture| {
        let objects = fixture.component(Binary::ApiServer).expect("renders");
        let deployment = objects.iter().find(|object| object.key().kind.has_pods()).expect("a Deployment").clone();
        deployment.get("/spec/template").expect("a template").clone()
    };
    let mut fixture = minimal("1.36.3", "3.6.16");
    let before = pods(&fixture);
    fixture.apiserver.jwt.push(serde_json::json!({"issuer": {"url": "https://a.example.com"}}));
    assert_ne!(pods(&fixture), before);
}
