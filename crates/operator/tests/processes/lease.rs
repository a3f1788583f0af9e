//! Two operator processes and one lease: who was stopped past it writes nothing when it goes on, and who is asked to end hands over.

use crate::common::{SOON, Team, server};
use crate::{Operator, holder, system, taken_up};
use berth_testkit::{ApiServer, fixtures::until};
use rustix::process::Signal;
use std::time::{Duration, Instant};

/// Another may have the lease only after it ran out: 15 s and a look a second.
const FAILOVER: Duration = Duration::from_mins(2);

async fn leads(server: &ApiServer, operator: &Operator) -> Duration {
    let started = Instant::now();
    until(FAILOVER, &format!("{} leads", operator.name), async || holder(server).await == operator.name).await;
    started.elapsed()
}

#[tokio::test]
async fn one_leads_and_the_other_writes_nothing() {
    let server = server().await;
    system(server).await;
    let team = Team::with_cluster(server).await;
    let first = Operator::start(server, "first");
    leads(server, &first).await;
    taken_up(&team).await;

    // Stopped in the middle of its work, with more of it to come.
    let more = [Team::with_cluster(server).await, Team::with_cluster(server).await];
    first.signal(Signal::STOP);
    let mut second = Operator::start(server, "second");
    let late = Team::with_cluster(server).await;
    let failover = leads(server, &second).await;
    for team in more.iter().chain([&late]) {
        taken_up(team).await;
    }
    let mark = server.audit_mark();
    first.signal(Signal::CONT);
    let mut first = first;
    until(SOON, "the first to notice and to end", async || first.child.try_wait().is_ok_and(|s| s.is_some())).await;
    // A call that had passed the fence when the process was stopped still gets out; one pass over these tenants makes dozens.
    let late = first.writes(server, mark);
    assert!(late.len() <= 2, "{late:?}");
    assert_eq!(holder(server).await, "second");

    // Asked to end: the next one need not wait for the lease to run out.
    let third = Operator::start(server, "third");
    until(SOON, "the third to look at the lease", async || {
        server.audit().iter().any(|e| e.user == "third" && e.resource == "leases")
    })
    .await;
    second.signal(Signal::TERM);
    let handover = leads(server, &third).await;
    until(SOON, "the second to end", async || second.child.try_wait().is_ok_and(|s| s.is_some())).await;
    let mark = server.audit_mark();
    taken_up(&Team::with_cluster(server).await).await;
    assert!(!third.writes(server, mark).is_empty());
    println!("failover {:.1} s, hand-over {:.1} s", failover.as_secs_f32(), handover.as_secs_f32());
}
