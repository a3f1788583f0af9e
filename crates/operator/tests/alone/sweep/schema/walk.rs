//! Random walks: whatever way led to a spec, what is there in the end is what a new object of that spec becomes.

use super::subject::{Kind, Subject, Verdict, without_digests};
use super::table::Table;
use super::{merge, open_settings};
use crate::common::{Running, SOON, alone_at_a_server};
use anyhow::{Context as _, Result, ensure};
use berth_testkit::oracle::diff;
use berth_testkit::schema::{Class, Samples, fields, put, tries};
use berth_testkit::sweep::{Choice, Passed, Random};
use berth_testkit::{ApiServer, FaultPlan};
use serde_json::Value;
use std::time::{Duration, Instant};

/// A field and a value that it should take.
type Step = (String, Value);

fn steps(kind: Kind, table: &Table) -> Vec<Step> {
    let good = |class| matches!(class, Class::Min | Class::Max | Class::Each | Class::Sample);
    let mut all = vec![];
    for field in fields(&kind.schema()).into_iter().filter(|f| !table.one_way(&f.path)) {
        let mut values: Vec<_> = tries(&field, table).into_iter().filter(|t| good(t.class)).map(|t| t.value).collect();
        // The first sample is good, others are there to be judged.
        if let Some(best) = table.nth(&field.path, 1) {
            values = vec![best];
        }
        all.extend(values.into_iter().map(|v| (field.path.clone(), v)));
    }
    all
}

async fn walk(server: &'static ApiServer, kind: Kind, seed: u64, length: usize, plan: &FaultPlan) -> Result<()> {
    let (table, schema) = (Table::new(kind), kind.schema());
    let (steps, mut random) = (steps(kind, &table), Random::new(seed));
    let subject = Subject::new(kind, server).await;
    subject.up(&kind.first(), plan).await?;
    let mut way: Vec<Value> = vec![kind.first()];
    let mut said = vec![];
    while way.len() <= length {
        let (path, value) = &steps[random.below(steps.len())];
        let mut next = way.last().cloned().unwrap_or_default();
        if let Some(beside) = table.beside(path) {
            merge(&mut next, beside);
        }
        // Now and then something is taken away again.
        let value = (random.below(5) > 0).then(|| value.clone());
        put(&mut next, &schema, path, value, &table);
        if subject.replace(&next, false).await.is_err() {
            continue;
        }
        said.push(path.clone());
        way.push(next);
        match random.below(3) {
            0 if subject.verdict(plan).await? != Verdict::Ready => {
                way.pop();
                let last = way.last().context("the first spec")?;
                if subject.replace(last, false).await.is_err() {
                    break;
                }
            }
            0 => {}
            _ => tokio::time::sleep(Duration::from_millis(u64::try_from(random.below(300))?)).await,
        }
    }
    // The target is the last spec that can be fulfilled, and not paused: of a new one that is paused nothing is made.
    let target = loop {
        let mut last = way.pop().context("the first spec is ready")?;
        last.as_object_mut().context("a spec")?.remove("paused");
        subject.replace(&last, false).await.map_err(anyhow::Error::msg)?;
        if subject.verdict(plan).await? == Verdict::Ready {
            break last;
        }
    };
    println!("{} walk {seed}: {said:?}", kind.name());
    let fresh = Subject::new(kind, server).await;
    let mut made = fresh.up(&target, plan).await?;
    let began = Instant::now();
    // Controllers of the tenant may still roll what Berth has changed.
    let difference = loop {
        let walked = without_digests(subject.dump(plan).await?);
        let difference = diff(&without_digests(made), &walked);
        if difference.is_empty() || began.elapsed() > SOON {
            break difference;
        }
        made = fresh.dump(plan).await?;
    };
    subject.wipe().await;
    fresh.wipe().await;
    ensure!(difference.is_empty(), "by way of {said:?} to {target}:\n{difference}");
    Ok(())
}

async fn walks(kind: Kind, number: u64, length: usize) {
    let (_turn, server) = alone_at_a_server().await;
    let name = format!("walk-{}", kind.name());
    // A sample is a short one.
    let choice = Choice::new(&name, number);
    let (number, length) = if choice.one_in == 1 { (number, length) } else { (1, length / 2) };
    let mut passed = Passed::load(&choice, "walks").expect("state file");
    let plan = FaultPlan::new();
    let _running = Running::start_with(server, open_settings(), &plan);
    for seed in (0..number).map(|n| choice.seed * 1000 + n) {
        let case = format!("{seed}");
        if passed.contains(&case) {
            continue;
        }
        walk(server, kind, seed, length, &plan).await.unwrap_or_else(|e| panic!("{name} seed {seed}: {e:#}"));
        passed.add(case).expect("state file");
    }
}

#[tokio::test]
async fn whatever_way_leads_to_a_cluster_it_is_the_same() {
    walks(Kind::Cluster, 12, 8).await;
}

#[tokio::test]
async fn whatever_way_leads_to_an_etcd_cluster_it_is_the_same() {
    walks(Kind::Etcd, 12, 6).await;
}
