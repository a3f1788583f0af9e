use super::*;
use berth_api::cluster_access::AccessState;
use berth_api::labels;
use serde_json::json;

fn id(name: &str) -> TenantId {
    TenantId { namespace: "team-a".into(), name: name.into() }
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::namespaced(Kind::ClusterAccess, "team-a", name)
}

fn access(name: &str, generation: i64, clusters: &[&str]) -> Arc<ClusterAccess> {
    let refs: Vec<_> = clusters.iter().map(|name| json!({"name": name})).collect();
    let object = json!({
        "apiVersion": "berth.dev/v1alpha1", "kind": "ClusterAccess",
        "metadata": {"name": name, "namespace": "team-a", "uid": name, "generation": generation, "finalizers": [labels::FINALIZER]},
        "spec": {"clusterRefs": refs, "subjects": [{"kind": "User", "name": "jane"}], "role": "Viewer"},
    });
    Arc::new(serde_json::from_value(object).unwrap())
}

fn of(access: &ClusterAccess) -> AccessId {
    AccessId::of(access)
}

fn heard(name: &str, generation: i64) -> Heard {
    Heard { uid: name.into(), generation, held: true, ends: false }
}

fn names(due: &[Due]) -> Vec<&str> {
    due.iter().map(|due| &*due.id.name).collect()
}

fn now(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).unwrap()
}

/// Two tenants that are known, and nobody's rights.
fn table(at: Instant) -> Table {
    let mut table = Table::default();
    table.begin(Some("berth-system".into()), ["a", "b"].map(|name| (id(name), Facts::default())).into(), at);
    for name in ["a", "b"] {
        table.met(&id(name), Facts::default(), Some(BTreeSet::new()), at);
    }
    table.listed(&BTreeSet::new());
    table.due(now(0), 9);
    for name in ["a", "b"] {
        table.visited(&id(name), Some(granted(&[])), now(0), at);
    }
    table
}

fn granted(all: &[&AccessId]) -> Visited {
    let outcome = Outcome { state: AccessState::Granted, message: String::new() };
    let outcomes = all.iter().map(|id| ((*id).clone(), outcome.clone())).collect();
    Visited { recorded: Some(all.iter().map(|id| (*id).clone()).collect()), outcomes, until: None, again: false }
}

#[test]
fn nobody_is_visited_without_a_reason() {
    let at = Instant::now();
    let mut table = table(at);
    assert_eq!(table.due(now(0), 9).len(), 0);
    assert_eq!(table.until_next(now(0), at), None, "no timer");
    assert!(!table.met(&id("a"), Facts::default(), Some(BTreeSet::new()), at));
    assert_eq!(table.due(now(0), 9).len(), 0);
}

#[test]
fn whom_it_means_and_whom_it_meant_is_visited() {
    let at = Instant::now();
    let mut table = table(at);
    table.heard(key("devs"), heard("devs", 1), at);
    assert_eq!(table.tendings(now(0), at, 9), [key("devs")]);
    let devs = access("devs", 1, &["a"]);
    assert!(table.read(&key("devs"), Some(devs.clone()), at), "tenants come first");
    table.tended(&key("devs"), None, now(0), at);
    let due = table.due(now(0), 9);
    assert_eq!((names(&due), due[0].selecting.len(), due[0].recorded), (vec!["a"], 1, false));
    assert_eq!(table.due(now(0), 9).len(), 0, "one visit at a time");
    let later = at + QUIET;
    assert_eq!(table.tendings(now(1), later, 9), [], "what comes of it is not known yet");
    table.visited(&id("a"), Some(granted(&[&of(&devs)])), now(1), later);
    assert_eq!(table.tendings(now(1), later, 9), [key("devs")]);
    assert!(!table.read(&key("devs"), Some(devs.clone()), later));
    let told = table.told(&key("devs"));
    assert_eq!((told.all.len(), told.is_held, told.settles), (1, true, false));
    table.tended(&key("devs"), None, now(1), later);
    // Another tenant.
    table.heard(key("devs"), heard("devs", 2), later);
    assert_eq!(table.tendings(now(1), later, 9), [key("devs")]);
    assert!(table.read(&key("devs"), Some(access("devs", 2, &["b"])), later));
    table.tended(&key("devs"), None, now(1), later);
    assert_eq!(names(&table.due(now(1), 9)), ["a", "b"]);
    table.visited(&id("a"), Some(granted(&[])), now(1), later);
    table.visited(&id("b"), Some(granted(&[&of(&devs)])), now(1), later);
    // It is gone.
    table.gone(&key("devs"));
    assert_eq!(names(&table.due(now(1), 9)), ["b"]);
}

#[test]
fn time_and_failures_bring_a_visit() {
    let at = Instant::now();
    let mut table = table(at);
    table.heard(key("devs"), heard("devs", 1), at);
    table.tendings(now(0), at, 9);
    let devs = access("devs", 1, &["a"]);
    table.read(&key("devs"), Some(devs.clone()), at);
    table.tended(&key("devs"), None, now(0), at);
    table.due(now(0), 9);
    let until = Visited { until: Some(now(100)), ..granted(&[&of(&devs)]) };
    table.visited(&id("a"), Some(until.clone()), now(0), at);
    assert_eq!((table.due(now(99), 9).len(), names(&table.due(now(100), 9))), (0, vec!["a"]));
    table.visited(&id("a"), Some(Visited { again: true, until: None, ..until }), now(100), at);
    assert_eq!((table.due(now(101), 9).len(), names(&table.due(now(102), 9))), (0, vec!["a"]));
    table.visited(&id("a"), None, now(102), at);
    assert_eq!((table.due(now(105), 9).len(), names(&table.due(now(106), 9))), (0, vec!["a"]));
    assert_eq!(table.counts()["Granted"], 1, "what was known stays");
}

#[test]
fn a_tenant_that_was_restored_is_visited_though_nobody_has_anything_there() {
    let at = Instant::now();
    let mut table = table(at);
    let restored = Facts { epoch: 2, restored: true, ..Facts::default() };
    assert!(table.met(&id("a"), restored, Some(BTreeSet::new()), at));
    let due = table.due(now(0), 9);
    assert_eq!((names(&due), due[0].recorded), (vec!["a"], true), "what was taken back there may be back");
    table.visited(&id("a"), Some(granted(&[])), now(0), at);
    assert!(!table.met(&id("a"), Facts { epoch: 2, ..Facts::default() }, Some(BTreeSet::new()), at));
}

#[test]
fn tenants_that_are_slow_leave_room_for_others() {
    let at = Instant::now();
    let mut table = Table::default();
    let all: Vec<_> = (0..100).map(|n| (id(&format!("t{n:02}")), Facts::default())).collect();
    table.begin(None, all.clone(), at);
    table.listed(&BTreeSet::new());
    // Nobody knows what is recorded there.
    for (id, _) in &all[..90] {
        table.met(id, Facts::default(), None, at);
    }
    assert_eq!(table.due(now(0), 64).len(), 64);
    for (id, _) in &all[..64] {
        table.visited(id, None, now(0), at);
    }
    assert_eq!(table.due(now(60), 64).len(), 26 + 38, "those that did not fail come first");
    for (id, _) in &all[64..90] {
        table.visited(id, Some(granted(&[])), now(60), at);
    }
    assert_eq!(table.due(now(60), 26).len(), 10, "the rest of 48");
    for (id, _) in &all[90..] {
        table.met(id, Facts::default(), None, at);
    }
    assert_eq!(table.due(now(60), 16).len(), 10, "and others have room");
}

#[test]
fn one_that_is_deleted_is_held_until_every_tenant_is_known() {
    let at = Instant::now();
    let mut table = Table::default();
    table.begin(None, vec![(id("a"), Facts::default())], at);
    table.heard(key("devs"), heard("devs", 1), at);
    table.listed(&[key("devs")].into());
    table.tendings(now(0), at, 9);
    let devs = access("devs", 1, &["c"]);
    table.read(&key("devs"), Some(devs.clone()), at);
    table.tended(&key("devs"), None, now(0), at);
    assert!(table.told(&key("devs")).is_held, "what was given in a is not known");
    assert_eq!(table.told(&key("devs")).missing, [id("c")]);
    table.met(&id("a"), Facts::default(), Some([of(&devs)].into()), at);
    assert!(table.told(&key("devs")).is_held);
    assert_eq!(names(&table.due(now(0), 9)), ["a"]);
    table.visited(&id("a"), Some(granted(&[])), now(0), at);
    assert!(!table.told(&key("devs")).is_held);
    table.cluster_gone(&id("a"), at);
    assert_eq!(table.told(&key("devs")).all, []);
}

fn deleted(name: &str) -> Arc<ClusterAccess> {
    let mut object = ClusterAccess::clone(&access(name, 1, &["b"]));
    object.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now(0)));
    Arc::new(object)
}

#[test]
fn a_cluster_that_ended_before_anybody_met_it_holds_up_nothing_and_until_then_it_is_named() {
    let at = Instant::now();
    let mut table = Table::default();
    table.begin(None, vec![(id("a"), Facts::default())], at);
    table.heard(key("devs"), heard("devs", 1), at);
    table.listed(&[key("devs")].into());
    table.tendings(now(0), at, 9);
    table.read(&key("devs"), Some(deleted("devs")), at);
    table.tended(&key("devs"), None, now(0), at);
    let told = table.told(&key("devs"));
    assert_eq!((told.is_held, &told.all[0].0, told.all[0].1.state), (true, &id("a"), AccessState::NotRevoked));
    let due = table.due(now(0), 9);
    assert_eq!(
        (names(&due), due[0].recorded),
        (vec!["a"], true),
        "it means another one, and what is recorded there counts"
    );
    table.visited(&id("a"), Some(granted(&[])), now(0), at);
    let told = table.told(&key("devs"));
    assert_eq!((told.is_held, told.all.len()), (false, 0));
}

#[test]
fn what_ended_in_one_that_sleeps_counts_for_itself() {
    let at = Instant::now();
    let mut table = table(at);
    let left = Outcome { state: AccessState::NotRevoked, message: "no answer".into() };
    let devs = of(&access("devs", 1, &["a"]));
    for name in ["a", "b"] {
        let visited = Visited { outcomes: [(devs.clone(), left.clone())].into(), ..granted(&[&devs]) };
        table.visited(&id(name), Some(visited), now(0), at);
    }
    table.met(&id("b"), Facts { asleep: true, ..Facts::default() }, None, at);
    assert_eq!((table.counts()["NotRevoked"], table.counts()["NotRevokedAsleep"]), (1, 1));
    table.met(&id("a"), Facts { ends: true, ..Facts::default() }, None, at);
    assert_eq!(table.counts()["NotRevoked"], 0, "nobody has anything in one that ends");
}

#[test]
fn whom_it_means_is_named_before_anybody_has_looked() {
    let at = Instant::now();
    let mut table = table(at);
    table.heard(key("devs"), heard("devs", 1), at);
    table.tendings(now(0), at, 9);
    table.read(&key("devs"), Some(access("devs", 1, &["a"])), at);
    let named = |table: &Table| -> Vec<_> {
        table.told(&key("devs")).all.into_iter().map(|(id, outcome)| (id.name, outcome.state)).collect()
    };
    let waits = [("a".to_owned(), AccessState::Waiting)];
    assert_eq!(named(&table), waits, "it was visited for others alone");
    table.due(now(0), 9);
    assert_eq!(named(&table), waits);
    table.visited(&id("a"), Some(granted(&[])), now(0), at);
    assert_eq!(named(&table), [], "nothing is to be said there, such as of one that ended");
}

#[test]
fn the_finalizer_that_was_just_put_on_is_no_reason_to_say_anything_yet() {
    let at = Instant::now();
    let mut table = table(at);
    table.heard(key("devs"), Heard { held: false, ..heard("devs", 1) }, at);
    table.tendings(now(0), at, 9);
    let devs = access("devs", 1, &["a"]);
    assert!(table.read(&key("devs"), Some(devs.clone()), at));
    table.tended(&key("devs"), None, now(0), at);
    // The watch tells of the finalizer while its tenant is visited.
    table.due(now(0), 9);
    table.heard(key("devs"), heard("devs", 1), at);
    assert_eq!(table.tendings(now(0), at, 9), [key("devs")]);
    assert!(table.read(&key("devs"), Some(devs.clone()), at), "its status waits");
    table.tended(&key("devs"), None, now(0), at);
    let later = at + QUIET;
    assert_eq!(table.tendings(now(1), later, 9), []);
    table.visited(&id("a"), Some(granted(&[&of(&devs)])), now(1), later);
    assert_eq!(table.tendings(now(1), later, 9), [key("devs")]);
    assert!(!table.read(&key("devs"), Some(devs.clone()), later));
    // One that hangs holds its status up for a moment only.
    table.heard(key("devs"), heard("devs", 2), later);
    table.tended(&key("devs"), None, now(1), later);
    table.tendings(now(2), later, 9);
    assert!(table.read(&key("devs"), Some(access("devs", 2, &["a"])), later));
    table.tended(&key("devs"), None, now(2), later);
    table.due(now(2), 9);
    let late = later + PATIENCE_AT_FIRST;
    assert_eq!(table.tendings(now(40), late, 9), [key("devs")]);
    assert!(!table.read(&key("devs"), Some(access("devs", 2, &["a"])), late));
}
