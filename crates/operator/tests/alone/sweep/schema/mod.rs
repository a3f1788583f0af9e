//! The schema sweep: every field of both kinds gets values from all sides of what its schema says. Each is either refused with a
//! message that names the field, or it is accepted and its effect is seen; and the first spec brings the first state back.
//!
//! Where the pinned templates are older than the field, see [`older`], `Ready` names it.
//!
//! `make test` runs a sample, `BERTH_SWEEP=full` all, see [`berth_testkit::sweep`]; `BERTH_SWEEP_ONLY=endpoint,etcd` those whose
//! paths begin so.

mod backups;
mod effect;
mod older;
mod root;
mod subject;
mod table;
mod walk;

use crate::common::{Running, alone_at_a_server, settings};
use anyhow::{Result, ensure};
use berth_plan::Settings;
use berth_plan::settings::Writers;
use berth_testkit::oracle::{Change, Dump, changes};
use berth_testkit::schema::{Class, Field, Samples, Try, fields, put, tries};
use berth_testkit::sweep::{Choice, Passed};
use berth_testkit::{ApiServer, FaultPlan};
use effect::effect;
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Instant;
use subject::{Kind, Subject, Verdict, without_digests};
use table::{Effect, Table};

/// The platform team allows everything, and has no gateway: what its Service has of that type is no value of a field.
fn open_settings() -> Settings {
    Settings { writers: Writers::anything(), gateway: None, ..settings() }
}

/// One value of one field.
struct Case {
    field: Field,
    value: Try,
    /// The spec without the value.
    without: Value,
    spec: Value,
}

impl Case {
    fn name(&self) -> String {
        let value: String = self.value.value.to_string().chars().take(70).collect();
        format!("{} {:?} {value}", self.field.path, self.value.class)
    }
}

fn cases(kind: Kind, table: &Table) -> Vec<Case> {
    let schema = kind.schema();
    let mut all = vec![];
    for field in fields(&schema) {
        for value in tries(&field, table) {
            let mut without = kind.first();
            if let Some(beside) = table.beside(&field.path) {
                merge(&mut without, beside);
            }
            let mut spec = without.clone();
            put(&mut spec, &schema, &field.path, Some(value.value.clone()), table);
            all.push(Case { field: field.clone(), value, without, spec });
        }
    }
    all
}

fn merge(to: &mut Value, patch: &Value) {
    match (to, patch) {
        (Value::Object(to), Value::Object(patch)) => {
            for (key, value) in patch {
                merge(to.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (to, patch) => *to = patch.clone(),
    }
}

/// What became of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    /// The API server refused it.
    RefusedByServer,
    /// The operator refused it, and what runs stayed as it was.
    RefusedByOperator,
    /// It is the same as not to give it.
    Same,
    /// It took effect, and the first spec brought the first state back.
    Effective,
    /// It cannot be changed; a new object takes it, and it took effect.
    AtCreation,
    /// A new object does not take it, either.
    RefusedAtCreation,
}

struct Sweeper<'a> {
    server: &'static ApiServer,
    plan: &'a FaultPlan,
    table: &'a Table,
    /// It is pinned to a set that does not read the fields that are swept.
    older: bool,
    subject: Subject,
    first: Dump,
}

/// One that is up, and its state.
async fn start(kind: Kind, server: &ApiServer, plan: &FaultPlan, older: bool) -> Result<(Subject, Dump)> {
    let subject = Subject::new(kind, server).await;
    let state = subject.up(&kind.first(), plan).await?;
    let state = if older { subject.pin_to_older(plan).await? } else { state };
    Ok((subject, state))
}

impl Sweeper<'_> {
    async fn case(&mut self, case: &Case) -> Result<Outcome> {
        let kind = self.subject.kind;
        let class = case.value.class;
        if let Err(said) = self.subject.replace(&case.spec, true).await {
            ensure!(names(case, &said), "the message does not name the field: {said}");
            if class.is_wrong() || !said.contains("immutable") {
                return Ok(Outcome::RefusedByServer);
            }
            return self.creation(case).await;
        }
        ensure!(!class.is_wrong(), "the API server takes what the schema should refuse");
        let stored = self.subject.replace(&case.spec, false).await.map_err(anyhow::Error::msg)?;
        if stored["spec"] == self.first[&self.key()]["spec"] {
            return Ok(Outcome::Same);
        }
        let verdict = self.subject.verdict(self.plan).await?;
        let now = self.subject.dump(self.plan).await?;
        let changed = children(&self.first, &now);
        let outcome = match &verdict {
            Verdict::Refused(said) => {
                ensure!(names(case, said), "the condition does not name the field: {said}");
                ensure!(!self.older || said.starts_with("NotInTemplates"), "another refusal: {said}");
                let touched: Vec<_> = changed.iter().filter(|c| !c.object.contains(".berth.dev/")).map(place).collect();
                ensure!(touched.is_empty(), "refused ({said}), and yet: {touched:#?}");
                Outcome::RefusedByOperator
            }
            Verdict::Ready | Verdict::Waits(_) => {
                effect(kind, self.table, case, &stored["spec"], &changed)
                    .map_err(|e| e.context(format!("{verdict:?}")))?;
                Outcome::Effective
            }
        };
        self.first = self.subject.back(&kind.first(), &self.first, self.plan).await?;
        if outcome == Outcome::RefusedByOperator && class == Class::Sample {
            return self.creation(case).await;
        }
        Ok(outcome)
    }

    /// What cannot be changed is given to a new one.
    async fn creation(&self, case: &Case) -> Result<Outcome> {
        let other = Subject::new(self.subject.kind, self.server).await;
        let outcome = self.created(&other, case).await;
        other.wipe().await;
        outcome
    }

    async fn created(&self, other: &Subject, case: &Case) -> Result<Outcome> {
        let stored = match other.create(&case.spec, false).await {
            Ok(stored) => stored,
            Err(said) => {
                ensure!(names(case, &said), "the message does not name the field: {said}");
                return Ok(Outcome::RefusedAtCreation);
            }
        };
        match other.verdict(self.plan).await? {
            Verdict::Refused(said) => {
                ensure!(names(case, &said), "the condition does not name the field: {said}");
                Ok(Outcome::RefusedAtCreation)
            }
            verdict => {
                let changed =
                    children(&without_digests(self.first.clone()), &without_digests(other.dump(self.plan).await?));
                effect(other.kind, self.table, case, &stored["spec"], &changed)
                    .map_err(|e| e.context(format!("a new one: {verdict:?}")))?;
                Ok(Outcome::AtCreation)
            }
        }
    }

    fn key(&self) -> String {
        format!("TEAM/{}.berth.dev/acme", self.subject.kind.name())
    }
}

/// Changes of what is made, and of what is said; not of what was asked for.
fn children(first: &Dump, now: &Dump) -> Vec<Change> {
    let mut all = changes(first, now);
    all.retain(|c| !c.object.contains(".berth.dev/") || c.path.starts_with("/status"));
    all
}

fn place(change: &Change) -> String {
    format!("{} {}", change.object, change.path)
}

/// Whether a message says which field it means.
fn names(case: &Case, said: &str) -> bool {
    let path = &case.field.path;
    let mut names = vec![case.field.name()];
    // What is in a list is told by the list and its value.
    if let Some((list, _)) = path.rsplit_once("[]") {
        names.extend(list.rsplit('.').next());
    }
    // What refers to an object is told by the reference.
    if let Some(reference) = path.strip_suffix("Ref.name") {
        names.extend(reference.rsplit('.').next());
    }
    if case.value.class == Class::Unknown {
        names.push("sweepNoSuchField");
    }
    // What never changes, or cannot be added, is told as a whole.
    if said.contains("immutable") || said.contains("cannot be added") {
        names.extend(path.split('.'));
    }
    names.iter().any(|n| said.contains(n))
}

async fn sweep(kind: Kind, older: bool, one_in: u64) {
    let (_turn, server) = alone_at_a_server().await;
    let table = Table::new(kind);
    let name = format!("{}{}", kind.name(), if older { " with older templates" } else { "" });
    let choice = Choice::new(&format!("schema-{}", name.replace(' ', "-")), one_in);
    let mut passed = Passed::load(&choice, "fields").expect("state file");
    let plan = FaultPlan::new();
    let _running = Running::start_with(server, open_settings(), &plan);
    let (subject, first) = start(kind, server, &plan, older).await.unwrap_or_else(|e| panic!("{e:#}"));
    let mut sweeper = Sweeper { server, plan: &plan, table: &table, older, subject, first };
    let (mut failures, mut counts) = (vec![], BTreeMap::<Outcome, usize>::new());
    let only = std::env::var("BERTH_SWEEP_ONLY").unwrap_or_default();
    let wanted = |name: &str| only.split(',').any(|start| name.starts_with(start));
    let mut all = cases(kind, &table);
    all.retain(|case| !older || older::unread(kind, &case.field.path));
    let number = all.len();
    for (at, case) in (0_u64..).zip(all) {
        let value = case.name();
        if !choice.takes(at) || passed.contains(&value) || !wanted(&value) {
            continue;
        }
        let began = Instant::now();
        match sweeper.case(&case).await {
            Ok(outcome) => {
                println!("{name}: {value}: {outcome:?} {:.1?}", began.elapsed());
                *counts.entry(outcome).or_default() += 1;
                passed.add(value).expect("state file");
            }
            Err(e) => {
                println!("{name}: {value}: BROKEN {:.1?}: {e:#}", began.elapsed());
                failures.push(format!("{value}: {e:#}"));
                // The next case begins again.
                sweeper.subject.wipe().await;
                let anew = start(kind, server, &plan, older).await;
                (sweeper.subject, sweeper.first) = anew.unwrap_or_else(|e| panic!("{e:#}"));
            }
        }
    }
    sweeper.subject.wipe().await;
    println!("{name}: {number} values, seed {}: {counts:?}", choice.seed);
    assert!(failures.is_empty(), "{} of {number}:\n{}", failures.len(), failures.join("\n\n"));
}

#[tokio::test]
async fn every_value_of_a_cluster_takes_effect_or_is_refused() {
    sweep(Kind::Cluster, false, 100).await;
}

#[tokio::test]
async fn every_value_of_an_etcd_cluster_takes_effect_or_is_refused() {
    sweep(Kind::Etcd, false, 40).await;
}

#[tokio::test]
async fn a_field_that_older_templates_of_a_cluster_do_not_read_is_named() {
    sweep(Kind::Cluster, true, 8).await;
}

#[tokio::test]
async fn a_field_that_older_templates_of_an_etcd_cluster_do_not_read_is_named() {
    sweep(Kind::Etcd, true, 1).await;
}

#[test]
fn every_field_has_a_row() {
    for kind in [Kind::Cluster, Kind::Etcd] {
        let table = Table::new(kind);
        for field in fields(&kind.schema()) {
            assert!(
                table.effect(&field.path).is_some(),
                "{} {}: give it a row in schema/table.rs",
                kind.name(),
                field.path
            );
            let told = field.schema["pattern"].is_null() || !table.of(&field.path).is_empty();
            if let Some(Effect::Test(name)) = table.effect(&field.path) {
                let sources = [
                    include_str!("../../../shared/addons.rs"),
                    include_str!("../../../shared/kubelet.rs"),
                    include_str!("../../../shared/coredns.rs"),
                    include_str!("../../../shared/issuers.rs"),
                    include_str!("../../../shared/minor.rs"),
                    include_str!("../../preflight.rs"),
                    include_str!("../../../shared/refusals/life.rs"),
                    include_str!("../../../shared/revisions.rs"),
                    include_str!("../../../shared/sizes.rs"),
                    include_str!("../../../shared/vpc.rs"),
                    include_str!("../../../../src/sizes/mod.rs"),
                    include_str!("../../../../../plan-cluster/src/tests/images.rs"),
                    include_str!("../../../../../plan-cluster/src/tests/sleep.rs"),
                    include_str!("../../../../../plan-cluster/src/tests/sleep/by_itself.rs"),
                    include_str!("../../../../../plan-cluster/src/tests/registration.rs"),
                    include_str!("../../../../../plan-cluster/src/tests/sleep_backup.rs"),
                    include_str!("../../../../../plan-cluster/src/tests/sleep_by_time.rs"),
                    include_str!("../../../../../plan-etcd/src/tests/sleep.rs"),
                    include_str!("../../../../../plan-cluster/src/tests/turn.rs"),
                    include_str!("../../../../../plan-cluster/src/tests/update.rs"),
                    include_str!("../../../../../plan-backup/src/backup/tests/mod.rs"),
                    include_str!("../../../../../plan-etcd/src/tests/deletion.rs"),
                    include_str!("../../../../../plan-etcd/src/tests/images.rs"),
                    include_str!("../../../../../plan-etcd/src/tests/recovery.rs"),
                ];
                let there = sources.iter().any(|s| s.contains(&format!("fn {name}(")));
                assert!(there, "{} {}: its test {name} is gone", kind.name(), field.path);
            }
            assert!(told, "{} {}: has a pattern; give it a sample in schema/table.rs", kind.name(), field.path);
        }
    }
}
