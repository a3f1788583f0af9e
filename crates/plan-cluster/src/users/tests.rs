//! All of it together: a tenant in memory, and every step as the last one before a crash.

mod restored;

use super::*;
use berth_api::ClusterAccess;
use berth_api::cluster_access::AccessState;
use berth_api::conditions::{ConditionType, Reason, find};
use berth_api::names;
use berth_plan::fleet::TenantId;
use berth_plan::settings::{AllowedAccess, Writers};
use berth_render::{Kind, Object, ObjectKey};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use std::collections::BTreeMap;

const PLATFORM: &str = "berth-system";

fn now() -> Timestamp {
    "2026-11-30T12:00:00Z".parse().unwrap()
}

fn access(name: &str, spec: &Value) -> ClusterAccess {
    let mut all = json!({
        "clusterRefs": [{"name": "acme"}], "subjects": [{"kind": "Group", "name": "developers"}], "role": "Viewer",
    });
    all.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    if all["clusterRefs"].is_null() {
        all.as_object_mut().unwrap().remove("clusterRefs");
    }
    let metadata = json!({
        "name": name, "namespace": "team-a", "uid": format!("uid-of-{name}"), "generation": 1,
        "finalizers": [berth_api::labels::FINALIZER],
    });
    let object =
        json!({"apiVersion": "berth.dev/v1alpha1", "kind": "ClusterAccess", "metadata": metadata, "spec": all});
    serde_json::from_value(object).unwrap()
}

fn acme() -> TenantId {
    TenantId { namespace: "team-a".into(), name: "acme".into() }
}

fn teams(roles: &[&str]) -> Writers {
    let roles = roles.iter().map(|role| (*role).to_owned()).collect();
    Writers { access: vec![AllowedAccess { namespaces: vec!["team-*".into()], roles }], ..Writers::default() }
}

/// A tenant, and the record of it.
struct World {
    record: Record,
    tenant: BTreeMap<ObjectKey, Value>,
    writers: Writers,
    roles: Roles,
    epoch: i64,
    paused: bool,
    uids: usize,
    /// Steps that are carried out until the process dies.
    lives: usize,
    /// No namespace is there.
    without_namespaces: bool,
    /// What is written is not answered, and comes later.
    slow: bool,
    late: Vec<Object>,
}

impl World {
    fn new() -> Self {
        let (record, tenant, roles) = (Record::default(), BTreeMap::new(), Roles::new());
        Self {
            record,
            tenant,
            writers: teams(&["*"]),
            roles,
            epoch: 1,
            paused: false,
            uids: 0,
            lives: usize::MAX,
            without_namespaces: false,
            slow: false,
            late: vec![],
        }
    }

    fn judged(&self, all: &[ClusterAccess], at: Timestamp) -> Vec<Judged> {
        let (of, labels) = (acme(), BTreeMap::new());
        let asked = Asked {
            of: &of,
            labels: &labels,
            nothing_new: self.paused.then_some("spec.paused of the Cluster to be false"),
            platform: Some(PLATFORM),
            writers: &self.writers,
            roles: &self.roles,
            now: at,
        };
        let mut judged: Vec<Judged> = all.iter().map(|access| judge(access, asked, &self.record)).collect();
        let gone = self.record.given_by().into_iter().filter(|id| judged.iter().all(|one| one.id != *id));
        let gone: Vec<Judged> = gone.map(|id| Judged { id, verdict: Verdict::Ends, until: None }).collect();
        judged.extend(gone);
        judged
    }

    /// A write. False: the process is dead.
    fn lives(&mut self) -> bool {
        let lives = self.lives > 0;
        self.lives = self.lives.saturating_sub(1);
        lives
    }

    fn apply(&mut self, object: &Object) -> Value {
        self.uids += 1;
        let uid = self
            .tenant
            .get(object.key())
            .map_or_else(|| format!("u{}", self.uids), |l| l["metadata"]["uid"].as_str().unwrap().to_owned());
        let mut live = object.value().clone();
        live["metadata"]["uid"] = uid.into();
        // What is somebody else's is not written.
        for field in ["finalizers", "deletionTimestamp"] {
            if let Some(before) =
                self.tenant.get(object.key()).map(|before| &before["metadata"][field]).filter(|f| !f.is_null())
            {
                live["metadata"][field] = before.clone();
            }
        }
        if let Some(before) = self.tenant.get(object.key()).filter(|before| !before["aggregationRule"].is_null()) {
            live["aggregationRule"] = before["aggregationRule"].clone();
        }
        self.tenant.insert(object.key().clone(), live.clone());
        live
    }

    fn visit(&mut self, all: &[ClusterAccess]) -> BTreeMap<AccessId, Outcome> {
        self.visit_at(all, now())
    }

    fn visit_at(&mut self, all: &[ClusterAccess], at: Timestamp) -> BTreeMap<AccessId, Outcome> {
        let judged = self.judged(all, at);
        let begun = first(&self.record, &judged, self.epoch, at);
        if begun != self.record && !self.lives() {
            return BTreeMap::new();
        }
        self.record = begun.clone();
        let mut seen: Seen =
            begun.looked_for(self.epoch).into_iter().map(|key| (key.clone(), self.tenant.get(&key).cloned())).collect();
        let (mut unsure, mut failed) = (None, Failed::new());
        for step in steps(&begun, &judged, &seen) {
            if !self.lives() {
                return BTreeMap::new();
            }
            match step {
                Step::Apply(object) if self.without_namespaces && object.key().namespace.is_some() => {
                    failed.insert(object.key().clone(), (AccessState::Waiting, "its namespace is not there".into()));
                }
                Step::Apply(object) if self.slow => {
                    unsure = Some(object.key().clone());
                    self.late.push(object);
                    break;
                }
                Step::Apply(object) => {
                    let live = self.apply(&object);
                    seen.insert(object.key().clone(), Some(live));
                }
                Step::Delete { key, uid } => {
                    assert_eq!(self.tenant[&key]["metadata"]["uid"], *uid, "by its UID");
                    let live = self.tenant.get_mut(&key).unwrap();
                    if live["metadata"]["finalizers"].as_array().is_some_and(|all| !all.is_empty()) {
                        live["metadata"]["deletionTimestamp"] = json!(at);
                        seen.insert(key, Some(live.clone()));
                        continue;
                    }
                    self.tenant.remove(&key);
                    seen.insert(key, None);
                }
            }
        }
        let answers = Answers { seen: &seen, failed: &failed, unsure: unsure.as_ref(), epoch: self.epoch, now: at };
        let ended = done(&begun, &judged, answers);
        if ended != begun && !self.lives() {
            return BTreeMap::new();
        }
        // As it is stored.
        self.record = Record::read(&ended.to_json()).unwrap();
        outcomes(&self.record, &judged, &Failed::new())
    }

    /// Bindings that are there: name, role and subjects.
    fn bindings(&self) -> Vec<(String, String, Vec<String>)> {
        let bindings = self.tenant.iter().filter(|(key, _)| key.kind != Kind::ClusterRole);
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        bindings
            .map(|(key, live)| {
                let subjects = live["subjects"].as_array().unwrap().iter().map(|s| text(&s["name"])).collect();
                (key.to_string(), text(&live["roleRef"]["name"]), subjects)
            })
            .collect()
    }

    fn state(&mut self, all: &[ClusterAccess], name: &str) -> Option<(AccessState, String)> {
        let id = AccessId::of(&access(name, &json!({})));
        self.visit(all).remove(&id).map(|outcome| (outcome.state, outcome.message))
    }
}

#[test]
fn what_is_given_is_there_and_what_ends_is_gone() {
    let mut world = World::new();
    let devs = access("devs", &json!({}));
    assert_eq!(world.state(std::slice::from_ref(&devs), "devs"), Some((AccessState::Granted, String::new())));
    let binding = (
        "ClusterRoleBinding berth:access:uid-of-devs".to_owned(),
        "berth:viewer".to_owned(),
        vec!["access:developers".to_owned()],
    );
    assert_eq!(world.bindings(), std::slice::from_ref(&binding));
    // Whoever adds somebody, or another role, is set back.
    let key = ObjectKey::cluster(Kind::ClusterRoleBinding, "berth:access:uid-of-devs");
    world.tenant.get_mut(&key).unwrap()["subjects"]
        .as_array_mut()
        .unwrap()
        .push(json!({"kind": "User", "name": "eve"}));
    world.visit(std::slice::from_ref(&devs));
    assert_eq!(world.bindings(), std::slice::from_ref(&binding));
    // Another role and a namespace: bindings change neither, so others take their place.
    let editor = access("devs", &json!({"role": "Editor", "namespaces": ["web", "db"], "issuer": "Tenant"}));
    assert_eq!(world.state(&[editor], "devs").map(|(state, _)| state), Some(AccessState::Granted));
    let named = |ns: &str| format!("RoleBinding {ns}/berth:access:uid-of-devs");
    let all: Vec<_> =
        world.bindings().into_iter().map(|(name, role, subjects)| (name, role, subjects.concat())).collect();
    let wanted = ["db", "web"].map(|ns| (named(ns), "berth:editor".to_owned(), "developers".to_owned()));
    assert_eq!(all, wanted);
    // Another role alone.
    let viewer = access("devs", &json!({"namespaces": ["web", "db"], "issuer": "Tenant"}));
    world.visit(&[viewer]);
    assert!(world.bindings().iter().all(|(_, role, _)| role == "berth:viewer"));
    assert!(!world.tenant.keys().any(|key| key.name == "berth:editor"), "a role that nobody needs goes");
    // Its ClusterAccess is gone.
    world.visit(&[]);
    assert!(world.tenant.is_empty() && world.record.objects.is_empty(), "{:?}", world.tenant);
    assert_eq!(world.record.revoked.len(), 3);
}

#[test]
fn a_wake_is_taken_down_once_all_that_ended_is_gone() {
    let mut world = World::new();
    world.visit(&[access("devs", &json!({}))]);
    let given = |state| {
        let outcome = Outcome { state, message: String::new() };
        BTreeMap::from([(AccessId::of(&access("devs", &json!({}))), outcome)])
    };
    let (granted, left) = (given(AccessState::Granted), given(AccessState::NotRevoked));
    let since = Some(now());
    let judged = world.judged(&[access("devs", &json!({}))], now());
    let of = |outcomes: &BTreeMap<AccessId, Outcome>, since, epoch| {
        let mut record = world.record.clone();
        (settles(&mut record, (&judged, outcomes), (since, epoch)), record.woke)
    };
    assert_eq!(of(&granted, since, 1), (true, since));
    assert_eq!(of(&left, since, 1), (false, None), "something is left");
    assert_eq!(of(&granted, since, 2), (false, None), "what a restore brought back was not looked for");
    assert_eq!(of(&granted, None, 1), (false, None), "it does not wake");
    let fewer = access("devs", &json!({"subjects": [{"kind": "User", "name": "jane"}]}));
    let fewer = world.judged(&[fewer], now());
    assert!(!settles(&mut world.record.clone(), (&fewer, &granted), (since, 1)), "somebody is to have it no more");
    assert!(settles(&mut world.record, (&judged, &granted), (since, 1)));
    assert!(!settles(&mut world.record, (&judged, &granted), (since, 1)), "it is down already");
    assert_eq!(Record::read(&world.record.to_json()).unwrap().woke, since);
}

#[test]
fn a_write_that_comes_after_its_end_is_taken_back() {
    let devs = access("devs", &json!({"role": "ClusterAdmin"}));
    let id = AccessId::of(&devs);
    let mut world = World { slow: true, ..World::new() };
    world.visit(std::slice::from_ref(&devs));
    world.slow = false;
    let second = |n| now() + SignedDuration::from_secs(n);
    let told = world.visit_at(&[], second(2));
    assert_eq!((told[&id].state, world.bindings().len()), (AccessState::NotRevoked, 0));
    assert!(told[&id].message.contains("may come yet"), "{told:?}");
    let late = world.late.pop().unwrap();
    world.apply(&late);
    assert_eq!(world.bindings().len(), 1);
    assert_eq!((world.visit_at(&[], second(30)).len(), world.bindings().len()), (1, 0), "another one may come");
    assert!(world.visit_at(&[], second(91)).is_empty() && world.record.objects.is_empty());
    // One that never comes is waited for as long as it may, and no longer.
    let mut world = World { slow: true, ..World::new() };
    world.visit(std::slice::from_ref(&devs));
    world.slow = false;
    assert_eq!(world.visit_at(&[], second(89)).len(), 1);
    assert!(world.visit_at(&[], second(91)).is_empty() && world.record.objects.is_empty());
    // What changes one that is there carries its UID.
    let mut world = World::new();
    world.visit(std::slice::from_ref(&devs));
    world.slow = true;
    world.visit(&[access("devs", &json!({"role": "ClusterAdmin", "subjects": [{"kind": "User", "name": "jane"}]}))]);
    assert_eq!(world.late[0].value()["metadata"]["uid"], "u1");
}

#[test]
fn a_role_gathers_nothing_from_others() {
    let mut world = World::new();
    let devs = access("devs", &json!({}));
    world.visit(std::slice::from_ref(&devs));
    let key = ObjectKey::cluster(Kind::ClusterRole, "berth:viewer");
    let before = world.tenant[&key]["rules"].clone();
    let live = world.tenant.get_mut(&key).unwrap();
    live["aggregationRule"] = json!({"clusterRoleSelectors": [{"matchLabels": {"more": "true"}}]});
    live["rules"] = json!([{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]);
    assert_eq!(world.state(std::slice::from_ref(&devs), "devs"), Some((AccessState::Granted, String::new())));
    let live = &world.tenant[&key];
    assert!(live["aggregationRule"].is_null() && live["rules"] == before, "{live}");
    assert_eq!(world.bindings().len(), 1);
}

#[test]
fn the_record_fits_into_a_config_map_whatever_was_taken_back() {
    let long = |n: usize| {
        let (namespace, name) = ("n".repeat(63), format!("{n:0>253}"));
        AccessId { namespace, name, uid: format!("{n:0>36}") }
    };
    let entry = |n: usize| {
        let key = ObjectKey::namespaced(Kind::RoleBinding, "n".repeat(63), format!("berth:access:{n:0>36}"));
        let mut entry = Entry::new(&key, Some(long(n)));
        (entry.uid, entry.digest) = (Some(format!("{n:0>36}")), Some("d".repeat(64)));
        entry
    };
    let mut record =
        Record { woke: None, objects: (0..record::MOST).map(entry).collect(), revoked: (0..5000).map(entry).collect() };
    record.forget_the_oldest();
    assert!(record.to_json().len() < 1 << 20, "{}", record.to_json().len());
    let newest = record.revoked.last().unwrap();
    assert_eq!((record.objects.len(), newest.of.as_ref()), (record::MOST, Some(&long(4999))));
    record.objects.clear();
    record.revoked =
        (0..5000).map(|n| Entry::new(&ObjectKey::cluster(Kind::ClusterRoleBinding, format!("{n}")), None)).collect();
    record.forget_the_oldest();
    assert_eq!(record.revoked.len(), 2000);
}

#[test]
fn what_ends_is_looked_for_and_written_first() {
    let (old, stays, new) = (access("old", &json!({})), access("a", &json!({})), access("new", &json!({})));
    let mut world = World::new();
    world.visit(&[old, stays.clone()]);
    let judged = world.judged(&[stays, new], now());
    let record = first(&world.record, &judged, 1, now());
    let bindings = |keys: Vec<ObjectKey>| -> Vec<String> {
        keys.into_iter().filter_map(|key| Some(key.name.strip_prefix("berth:access:uid-of-")?.to_owned())).collect()
    };
    assert_eq!(bindings(looked_for(&record, &judged, 1)), ["old", "new", "a"]);
    let all = record.looked_for(1).into_iter().map(|key| (key.clone(), world.tenant.get(&key).cloned())).collect();
    let steps: Vec<ObjectKey> = steps(&record, &judged, &all).iter().map(|step| step.key().clone()).collect();
    assert_eq!(bindings(steps), ["old", "new"]);
    // After a restore all may be otherwise.
    assert_eq!(bindings(looked_for(&record, &judged, 2)), ["a", "new", "old"]);
}

#[test]
fn nobody_takes_the_place_of_what_was_given_before() {
    let mut world = World::new();
    let named = |n: usize, of: usize| (0..of).map(|at| format!("ns-{n}-{at}")).collect::<Vec<_>>();
    let mut auditors = access("auditors", &json!({"clusterRefs": [{"name": "acme", "namespace": "team-a"}]}));
    auditors.metadata.namespace = Some(PLATFORM.into());
    let team = |namespaces: usize| {
        (0..32).map(move |n| access(&format!("v{n}"), &json!({"namespaces": named(n, namespaces)})))
    };
    let with = |namespaces: usize| std::iter::once(auditors.clone()).chain(team(namespaces)).collect::<Vec<_>>();
    world.visit(&with(1));
    assert_eq!(world.bindings().len(), 33);
    let told = world.visit(&with(32));
    let of_platform = told.iter().find(|(id, _)| id.namespace == PLATFORM).map(|(_, outcome)| outcome.state);
    assert_eq!(of_platform, Some(AccessState::Granted));
    assert!(world.tenant.contains_key(&ObjectKey::cluster(Kind::ClusterRoleBinding, "berth:access:uid-of-auditors")));
    let of_team =
        world.record.objects.iter().filter(|entry| entry.of.as_ref().is_some_and(|of| of.namespace == "team-a"));
    assert!((32..=record::SHARE).contains(&of_team.count()));
    let (granted, failed): (Vec<_>, Vec<_>) = told.values().partition(|outcome| outcome.state == AccessState::Granted);
    assert!(granted.len() > 10 && failed.len() > 10);
    assert!(failed.iter().all(|outcome| outcome.message.contains("500 of one namespace's")), "{failed:?}");
    // What each had it has.
    for n in 0..32 {
        let key = ObjectKey::namespaced(Kind::RoleBinding, format!("ns-{n}-0"), format!("berth:access:uid-of-v{n}"));
        assert!(world.tenant.contains_key(&key), "{key}");
    }
    // A new one of the platform's has room.
    let mut more =
        access("more", &json!({"clusterRefs": [{"name": "acme", "namespace": "team-a"}], "namespaces": named(99, 32)}));
    more.metadata.namespace = Some(PLATFORM.into());
    let all: Vec<_> = with(32).into_iter().chain([more]).collect();
    let told = world.visit(&all);
    assert!(told.iter().any(|(id, outcome)| id.name == "more" && outcome.state == AccessState::Granted));
    // Room that others leave is taken.
    let told = world.visit(&all[..8]);
    assert!(told.values().all(|outcome| outcome.state != AccessState::NotRevoked), "{told:?}");
    let told = world.visit(&all[..8]);
    assert!(told.values().all(|outcome| outcome.state == AccessState::Granted), "{told:?}");
}

#[test]
fn whatever_is_the_last_step_nothing_stays_unrecorded_and_all_comes_to_what_is_asked_for() {
    let one = access("one", &json!({"namespaces": ["web", "db"]}));
    let two = access("two", &json!({"role": "ClusterAdmin"}));
    let other = access("one", &json!({"role": "Editor", "namespaces": ["web"]}));
    let specs: [&[ClusterAccess]; 4] = [&[one, two.clone()], &[other], &[two], &[]];
    for lives in 0..40 {
        let mut world = World::new();
        for (at, spec) in specs.iter().enumerate() {
            world.lives = lives;
            world.visit(spec);
            let recorded = world.record.looked_for(0);
            assert!(world.tenant.keys().all(|key| recorded.contains(key)), "after {lives} writes of {at}");
        }
        world.lives = usize::MAX;
        world.visit_at(&[], now() + SignedDuration::from_mins(2));
        assert!(world.tenant.is_empty() && world.record.objects.is_empty(), "after {lives} writes");
        world.visit(specs[0]);
        assert_eq!(world.bindings().len(), 3);
    }
}

#[test]
fn what_ends_by_itself_or_is_refused_is_taken_back() {
    let until = json!({"expiresAt": "2026-11-30T13:00:00Z"});
    let devs = access("devs", &until);
    let mut world = World::new();
    world.visit(std::slice::from_ref(&devs));
    let judged = world.judged(std::slice::from_ref(&devs), now());
    assert_eq!(judged[0].until, Some(now() + SignedDuration::from_hours(1)));
    assert_eq!(world.bindings().len(), 1);
    world.visit_at(std::slice::from_ref(&devs), now() + SignedDuration::from_mins(59));
    assert_eq!(world.bindings().len(), 1);
    assert!(world.visit_at(std::slice::from_ref(&devs), now() + SignedDuration::from_hours(1)).is_empty());
    assert_eq!(world.bindings(), []);
    // The platform lets teams give it no more.
    let mut world = World::new();
    world.visit(&[access("devs", &json!({}))]);
    world.writers = teams(&["Editor"]);
    let (state, why) = world.state(&[access("devs", &json!({}))], "devs").unwrap();
    assert_eq!((state, world.bindings()), (AccessState::Failed, vec![]));
    assert!(why.contains("spec.role: Viewer is not allowed in namespace team-a (allowed: Editor)"), "{why}");
}

#[test]
fn an_end_that_is_no_time_gives_nothing_and_says_so() {
    for text in ["9999-12-31T23:59:59Z", "2026-12-01T18:00:00+99:99", "2026-12-01T18:00:00Zt"] {
        let mut world = World::new();
        world.visit(&[access("devs", &json!({}))]);
        assert_eq!(world.bindings().len(), 1);
        let devs = access("devs", &json!({"expiresAt": text}));
        let (state, why) = world.state(std::slice::from_ref(&devs), "devs").unwrap();
        assert_eq!((state, world.bindings()), (AccessState::Failed, vec![]), "{text}");
        assert!(why.contains(&format!("spec.expiresAt: {text} is no time that Berth knows")), "{why}");
        let refused = refusal(&devs, &world.writers, Some(PLATFORM));
        assert_eq!(refused.as_ref().map(|(reason, _)| *reason), Some(Reason::InvalidSpec));
        // In the operator's namespace likewise.
        assert!(refusal(&devs, &world.writers, Some("team-a")).is_some());
        let told = status(&devs, refused, &[], &[], now());
        let ready = find(&told.conditions, ConditionType::Ready).unwrap();
        assert_eq!((&*ready.status, &*ready.reason), ("False", "InvalidSpec"));
        world.visit(&[access("devs", &json!({}))]);
        let mut deleted = devs;
        deleted.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now()));
        assert!(world.visit(&[deleted]).is_empty() && world.bindings().is_empty(), "{text}");
    }
}

#[test]
fn one_of_a_newer_berth_stays_until_it_is_deleted_or_over() {
    let of = |until: Value, deleted: Value| {
        let metadata = json!({"namespace": "team-a", "name": "devs", "uid": "u", "deletionTimestamp": deleted});
        json!({"metadata": metadata, "spec": {"ofNewer": true, "expiresAt": until}})
    };
    let later = now() + SignedDuration::from_hours(1);
    let id = AccessId { namespace: "team-a".into(), name: "devs".into(), uid: "u".into() };
    for (until, deleted, stays, ends_at) in [
        (json!(null), json!(null), true, None),
        (json!("2026-11-30T13:00:00Z"), json!(null), true, Some(later)),
        (json!("2026-11-30T12:00:00Z"), json!(null), false, None),
        (json!("9999-12-31T23:59:59Z"), json!(null), false, None),
        (json!(7), json!(null), false, None),
        (json!(null), json!("2026-11-30T11:00:00Z"), false, None),
    ] {
        let live = of(until, deleted.clone());
        let judged = judge_unread(id.clone(), &live, now());
        assert_eq!((matches!(judged.verdict, Verdict::Stays(_)), judged.until), (stays, ends_at), "{live}");
        assert_eq!(read(&live).is_ok(), !deleted.is_null(), "its metadata is enough for one that is deleted");
    }
}

#[test]
fn a_binding_that_somebody_makes_anew_under_its_name_goes_and_a_role_of_anothers_stays() {
    let mut world = World::new();
    world.visit(&[access("devs", &json!({"role": "Admin"}))]);
    let key = ObjectKey::cluster(Kind::ClusterRoleBinding, "berth:access:uid-of-devs");
    let role = ObjectKey::cluster(Kind::ClusterRole, "berth:admin");
    // Without Berth's label, and with another UID.
    let another = |key: &ObjectKey, fields: Value| {
        let mut live = json!({"metadata": {"name": key.name, "uid": "another"}});
        live.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        live
    };
    let subjects = json!([{"kind": "User", "name": "eve"}]);
    world.tenant.insert(key.clone(), another(&key, json!({"subjects": subjects, "roleRef": {"name": "berth:admin"}})));
    world.tenant.insert(role.clone(), another(&role, json!({"rules": []})));
    assert!(world.visit(&[]).is_empty());
    assert!(!world.tenant.contains_key(&key) && world.tenant.contains_key(&role) && world.record.objects.is_empty());
}

#[test]
fn a_binding_that_a_finalizer_keeps_gives_nothing() {
    let devs = access("devs", &json!({"role": "Admin", "namespaces": ["web"]}));
    let mut world = World::new();
    world.visit(std::slice::from_ref(&devs));
    let key = ObjectKey::namespaced(Kind::RoleBinding, "web", "berth:access:uid-of-devs");
    world.tenant.get_mut(&key).unwrap()["metadata"]["finalizers"] = json!(["eve.example/stay"]);
    let told = world.visit(&[]);
    let outcome = &told[&AccessId::of(&devs)];
    assert_eq!(outcome.state, AccessState::NotRevoked);
    assert!(outcome.message.contains("it gives nothing meanwhile"), "{outcome:?}");
    let live = &world.tenant[&key];
    assert_eq!((&live["subjects"], &live["roleRef"]["name"]), (&json!([]), &json!("berth:admin")));
    // Whoever fills it again has it until somebody looks.
    world.tenant.get_mut(&key).unwrap()["subjects"] = json!([{"kind": "User", "name": "eve"}]);
    world.visit(&[]);
    assert_eq!(world.tenant[&key]["subjects"], json!([]));
    // Once the finalizer is off, it goes.
    world.tenant.get_mut(&key).unwrap()["metadata"]["finalizers"] = json!([]);
    assert!(world.visit(&[]).is_empty() && world.bindings().is_empty());
}

#[test]
fn what_cannot_be_read_changes_nothing() {
    let own = access("own", &json!({"role": "auditors"}));
    let mut world = World::new();
    let role = json!({"metadata": {"labels": {"berth.dev/role": "true"}}, "rules": [{"apiGroups": ["acme.io"], "resources": ["*"], "verbs": ["get"]}]});
    world.roles.insert("auditors".into(), Some(role.clone()));
    assert_eq!(world.state(std::slice::from_ref(&own), "own").map(|(state, _)| state), Some(AccessState::Granted));
    let before = world.tenant.clone();
    assert!(before.contains_key(&ObjectKey::cluster(Kind::ClusterRole, "berth:role:auditors")));
    world.roles.clear();
    let (state, why) = world.state(std::slice::from_ref(&own), "own").unwrap();
    assert_eq!((state, &world.tenant), (AccessState::Waiting, &before));
    assert!(why.contains("ClusterRole auditors"), "{why}");
    for (live, said) in [
        (None, "is not there"),
        (Some(json!({"metadata": {}, "rules": role["rules"]})), "has no label berth.dev/role=true"),
        (Some(json!({"metadata": role["metadata"], "rules": []})), "has no rules"),
    ] {
        let mut world = World { tenant: before.clone(), record: world.record.clone(), ..World::new() };
        world.roles.insert("auditors".into(), live);
        let (state, why) = world.state(std::slice::from_ref(&own), "own").unwrap();
        assert_eq!((state, world.bindings()), (AccessState::Failed, vec![]), "{said}");
        assert!(why.contains(said), "{why}");
    }
}

#[test]
fn pausing_holds_up_what_begins_and_nothing_that_ends() {
    let mut world = World { paused: true, ..World::new() };
    let devs = access("devs", &json!({}));
    let (state, why) = world.state(std::slice::from_ref(&devs), "devs").unwrap();
    assert_eq!((state, &*why), (AccessState::Waiting, "spec.paused of the Cluster to be false"));
    world.paused = false;
    world.visit(std::slice::from_ref(&devs));
    world.paused = true;
    let ops = access("ops", &json!({}));
    assert_eq!(world.state(&[devs, ops], "ops").map(|(state, _)| state), Some(AccessState::Waiting));
    assert_eq!(world.bindings().len(), 1, "what is there stays");
    world.visit(&[]);
    assert_eq!(world.bindings(), []);
}

#[test]
fn a_tenant_that_does_not_answer_says_what_is_not_done() {
    let (devs, ops) = (access("devs", &json!({})), access("ops", &json!({})));
    let mut world = World::new();
    world.visit(std::slice::from_ref(&devs));
    let of = |world: &World, all: &[ClusterAccess]| {
        let told = without_answer(&world.record, &world.judged(all, now()), "it sleeps");
        told.into_iter().map(|(id, outcome)| (id.name, outcome.state, outcome.message)).collect::<Vec<_>>()
    };
    let granted = ("devs".to_owned(), AccessState::Granted, String::new());
    assert_eq!(of(&world, &[devs.clone(), ops]), [granted, ("ops".into(), AccessState::Waiting, "it sleeps".into())]);
    assert_eq!(of(&world, &[]), [("devs".into(), AccessState::NotRevoked, "it sleeps".into())]);
    let other = access("devs", &json!({"role": "Editor"}));
    assert_eq!(of(&world, &[other]), [("devs".into(), AccessState::Waiting, "it sleeps".into())]);
}

#[test]
fn who_gives_what_is_bounded() {
    let closed = Writers::default();
    let said = |access: &ClusterAccess, writers: &Writers| {
        refusal(access, writers, Some(PLATFORM)).unwrap_or((Reason::AsExpected, String::new()))
    };
    let viewer = access("devs", &json!({}));
    assert_eq!(said(&viewer, &closed).0, Reason::NotAllowed);
    assert_eq!(said(&viewer, &teams(&["Viewer"])).0, Reason::AsExpected);
    assert_eq!(
        said(&access("a", &json!({"role": "ClusterAdmin"})), &teams(&["Viewer", "Admin"])).0,
        Reason::NotAllowed
    );
    assert_eq!(said(&access("a", &json!({"role": "audit-all"})), &teams(&["audit-*"])).0, Reason::AsExpected);
    let elsewhere = access("a", &json!({"clusterRefs": [{"name": "acme", "namespace": "team-b"}]}));
    assert!(said(&elsewhere, &teams(&["*"])).1.contains("spec.clusterRefs: namespace team-b"));
    for name in ["system:masters", "berth:cluster-admins", "kubeadm:cluster-admins", "access:alice"] {
        let access = access("a", &json!({"subjects": [{"kind": "Group", "name": name}]}));
        assert_eq!(said(&access, &teams(&["*"])).0, Reason::InvalidSpec, "{name}");
    }
    let mut platform =
        access("a", &json!({"role": "ClusterAdmin", "clusterRefs": [{"name": "acme", "namespace": "team-b"}]}));
    platform.metadata.namespace = Some(PLATFORM.into());
    assert_eq!(said(&platform, &closed).0, Reason::AsExpected);
}

#[test]
fn a_selector_means_clusters_of_its_namespace_and_of_the_operators_all() {
    let labels = BTreeMap::from([("tier".to_owned(), "gold".to_owned())]);
    let of = |spec: Value, namespace: &str| {
        let mut access = access("a", &json!({"clusterRefs": null, "clusterSelector": spec}));
        access.metadata.namespace = Some(namespace.into());
        selects(&access, &acme(), &labels, Some(PLATFORM))
    };
    let gold = json!({"matchLabels": {"tier": "gold"}});
    assert!(of(gold.clone(), "team-a") && of(gold.clone(), PLATFORM) && !of(gold, "team-b"));
    assert!(of(json!({}), "team-a"));
    for (operator, values, fits) in [
        ("In", json!(["gold", "silver"]), true),
        ("In", json!(["silver"]), false),
        ("NotIn", json!(["silver"]), true),
        ("Exists", json!([]), true),
        ("DoesNotExist", json!([]), false),
    ] {
        let spec = json!({"matchExpressions": [{"key": "tier", "operator": operator, "values": values}]});
        assert_eq!(of(spec, "team-a"), fits, "{operator}");
    }
}

#[test]
fn a_viewer_reads_no_secret_and_nobody_but_a_cluster_admin_has_everything() {
    let mut world = World::new();
    let all: Vec<ClusterAccess> =
        ["Viewer", "Editor", "Admin"].map(|role| access(&role.to_lowercase(), &json!({"role": role}))).into();
    world.visit(&all);
    let rules = |name: &str| {
        let live = &world.tenant[&ObjectKey::cluster(Kind::ClusterRole, name)];
        live["rules"].as_array().unwrap().clone()
    };
    for name in ["berth:viewer", "berth:editor", "berth:admin"] {
        assert!(!rules(name).iter().any(|rule| rule.to_string().contains("\"*\"")), "{name}");
        // Whoever writes Endpoints leads traffic of one namespace to another's pods; whoever writes a Namespace says what its pods may do.
        let may = |verb: &str, resource: &str| {
            rules(name).iter().any(|rule| {
                let has = |field: &str, of: &str| rule[field].as_array().unwrap().contains(&json!(of));
                has("verbs", verb) && has("resources", resource)
            })
        };
        for verb in ["update", "patch"] {
            assert!(!may(verb, "namespaces") && !may(verb, "endpoints") && !may(verb, "nodes"), "{name} {verb}");
        }
        let escalates = ["escalate", "bind", "impersonate"]
            .iter()
            .any(|verb| rules(name).iter().any(|rule| rule["verbs"].as_array().unwrap().contains(&json!(verb))));
        assert!(!escalates, "{name}");
    }
    assert!(!json!(rules("berth:viewer")).to_string().contains("\"secrets\""));
    assert!(rules("berth:viewer").iter().all(|rule| rule["verbs"] == json!(["get", "list", "watch"])));
}

#[test]
fn the_status_says_where_it_is_not_as_asked_for() {
    let devs = access("devs", &json!({"grantedBy": "jane", "expiresAt": "2026-11-30T13:00:00Z"}));
    let of = |name: &str, state, message: &str| {
        (TenantId { namespace: "team-a".into(), name: name.into() }, Outcome { state, message: message.into() })
    };
    let ready = |all: &[(TenantId, Outcome)], missing: &[TenantId], at: Timestamp| {
        let status = status(&devs, None, all, missing, at);
        let ready = find(&status.conditions, ConditionType::Ready).unwrap().clone();
        (ready.status, ready.message, status)
    };
    let (state, message, told) = ready(&[of("acme", AccessState::Granted, "")], &[], now());
    assert_eq!((&*state, &*message), ("True", "Viewer is given in 1 Cluster until 2026-11-30T13:00:00Z, by jane"));
    assert_eq!((told.granted, told.granted_by.as_deref(), told.clusters.len()), (Some(1), Some("jane"), 0));
    let many: Vec<_> = (0..40).map(|n| of(&format!("c{n:02}"), AccessState::Waiting, "it sleeps")).collect();
    let (state, message, told) = ready(&many, &[], now());
    assert_eq!((&*state, &*message), ("False", "waiting in 40 of 40 Clusters, such as team-a/c00: it sleeps"));
    assert_eq!((told.waiting, told.clusters.len()), (Some(40), 16));
    let late = now() + SignedDuration::from_hours(2);
    let bad = [of("a", AccessState::Granted, ""), of("b", AccessState::NotRevoked, "no answer")];
    let (state, message, told) = ready(&bad, &[], late);
    assert_eq!(state, "False");
    assert_eq!(
        message,
        "rights that ended are not taken back yet in 1 of 2 Clusters, such as team-a/b: no answer. It is tried again"
    );
    assert_eq!(told.not_revoked, Some(1));
    let (state, message, _) = ready(&[], &[], late);
    assert_eq!((&*state, &*message), ("True", "it ended at 2026-11-30T13:00:00Z, and all rights are taken back"));
    let (state, message, _) = ready(&[of("acme", AccessState::Granted, "")], &[], late);
    assert_eq!(
        (&*state, &*message),
        (
            "False",
            "it ended at 2026-11-30T13:00:00Z; rights are still to be taken back in 1 Cluster, such as team-a/acme"
        )
    );
    let (_, message, _) = ready(&[], &[acme()], now());
    assert_eq!(message, "spec.clusterRefs: there is no Cluster team-a/acme");
    // Nothing is written where nothing changed.
    let mut again = devs.clone();
    again.status = Some(ready(&many, &[], now()).2);
    assert_eq!(Some(status(&again, None, &many, &[], late - SignedDuration::from_mins(61))), again.status);
}

#[test]
fn a_record_of_a_newer_berth_is_not_read() {
    assert_eq!(Record::read(""), Ok(Record::default()));
    let newer = r#"{"objects": [{"kind": "PodPreset", "name": "a"}]}"#;
    assert!(Record::read(newer).unwrap_err().contains("newer Berth"));
    let foreign = r#"{"objects": [{"kind": "ClusterRoleBinding", "name": "cluster-admin", "uid": "x"}]}"#;
    assert!(Record::read(foreign).unwrap_err().contains("no name of Berth's"));
    let bindings = r#"{"objects": [{"kind": "ClusterRoleBinding", "name": "berth:cluster-admins", "uid": "x"}]}"#;
    assert!(Record::read(bindings).unwrap_err().contains("no name of Berth's"), "no ClusterAccess gave it");
    assert!(Record::read("{").is_err());
}
