//! The crash sweep: the operator dies before and after every single write, and with the reply lost, starts again, and must
//! end where the undisturbed run ends: nothing made twice, no key made anew, nothing left to write.
//!
//! `make test` runs a sample; `BERTH_SWEEP=full` runs all, see [`berth_testkit::sweep`].

mod common;

use anyhow::Result;
use berth_testkit::oracle::{SecretKeys, assert_deletes_carry_uid, assert_keys_unchanged, secret_keys};
use berth_testkit::sweep::{Outcome, Sweep, lives};
use berth_testkit::{ApiServer, FaultPlan};
use common::state::{counts, dump, second_pass};
use common::{Team, alone, operator, server};
use std::sync::{Arc, Mutex};

/// The keys as they were at the beginning of each life.
type Seen = Arc<Mutex<Vec<SecretKeys>>>;

async fn one_life(server: &ApiServer, team: &Team, plan: &FaultPlan, seen: Seen) -> Result<()> {
    let keys = secret_keys(&team.client, &[&team.ns, &team.home]).await?;
    seen.lock().unwrap().push(keys);
    operator(server, plan).await
}

async fn create(server: &ApiServer, plan: FaultPlan) -> Result<Outcome> {
    let team = Team::with_cluster(server).await;
    let seen = Seen::default();
    let began = std::time::Instant::now();
    let done = async {
        team.ready().await?;
        second_pass(&team, &plan).await
    };
    lives(&plan, || one_life(server, &team, &plan, seen.clone()), done).await??;
    let now = secret_keys(&team.client, &[&team.ns, &team.home]).await?;
    seen.lock().unwrap().iter().for_each(|before| assert_keys_unchanged(before, &now));
    assert_deletes_carry_uid(&plan.calls());
    if std::env::var_os("BERTH_TEST_CALLS").is_some() {
        plan.calls().iter().filter(|c| c.mutation.is_some()).for_each(|c| println!("{c}"));
        println!("{} calls, {:?}", plan.calls().len(), began.elapsed());
    }
    let outcome = Outcome { state: dump(&team).await?, counts: counts(&team, &team.tenant().await?, &plan) };
    team.wipe().await;
    Ok(outcome)
}

#[tokio::test]
async fn a_crash_at_any_write_of_a_creation_changes_nothing() {
    let (_turn, server) = (alone().await, server().await);
    let sweep = Sweep::new("create", 7);
    let summary = sweep.run(async |plan| create(server, plan).await).await.unwrap_or_else(|e| panic!("{e:#}"));
    println!("{summary:?}");
}
