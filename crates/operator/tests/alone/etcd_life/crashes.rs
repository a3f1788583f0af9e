//! The crash sweep with real members: the operator ends before and after every write and every call to etcd, or an answer is lost, while
//! one member becomes three, one of three is replaced, and three become one.

use berth_api::labels;
use berth_plan::observed::ListedMember;
use berth_testkit::Fault;
use berth_testkit::fault::Call;
use berth_testkit::fixtures::until;
use berth_testkit::sweep::{Choice, Passed, Random};
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, ResourceExt as _};
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use super::hooks::ETCD;
use super::kubelet::{self, member};
use super::life::Life;
use super::writer::Writer;
use crate::common::state::settled;
use crate::common::{SOON, full};

/// What is done to an etcd, in this order, again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Workload {
    /// One member, then three.
    Grow,
    /// One of three loses its data.
    Replace,
    /// Three members, then one. The last of them leads at first.
    Shrink,
}

impl Workload {
    const ALL: [Self; 3] = [Self::Grow, Self::Replace, Self::Shrink];

    /// Writes to the meta cluster, at least.
    fn writes(self) -> usize {
        match self {
            Self::Grow | Self::Shrink => 20,
            Self::Replace => 10,
        }
    }

    /// Calls that change etcd's members, at least.
    fn changes(self) -> usize {
        match self {
            Self::Grow => 4,
            Self::Replace | Self::Shrink => 3,
        }
    }
}

/// Who is asked. Each has numbers of its own: runs differ a little in which of their calls comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum To {
    Etcd,
    Api,
}

impl To {
    fn has(self, call: &Call) -> bool {
        call.mutation.is_some() && (call.group == ETCD) == (self == Self::Etcd)
    }
}

/// The so-manieth call that changes something, from 1, and what happens to it.
type Case = (To, usize, Fault);

const FAULTS: [Fault; 3] = [Fault::StopBefore, Fault::StopAfter, Fault::LoseReply];

/// Members, and the pods that they run in.
type Seen = BTreeMap<String, (String, Option<String>)>;

async fn seen(life: &Life) -> Seen {
    let pods: Api<Pod> = Api::namespaced(life.team.client.clone(), &life.team.ns);
    let selector = kube::api::ListParams::default().labels(labels::ETCD_CLUSTER);
    let pods: BTreeMap<String, Option<String>> =
        pods.list(&selector).await.unwrap().iter().map(|pod| (pod.name_any(), pod.uid())).collect();
    let pod = |m: &ListedMember| pods.get(&m.name).cloned().flatten();
    life.voters().await.iter().map(|m| (m.name.clone(), (m.id.clone(), pod(m)))).collect()
}

/// From rest to rest: the calls that it made.
async fn run(life: &Life, workload: Workload, case: Option<&Case>) -> Vec<Call> {
    if workload == Workload::Shrink {
        let voters = life.voters().await;
        let last = voters.iter().find(|m| m.name == member(2)).unwrap();
        let leads = async || life.client.run(&["move-leader", &last.id]).is_some();
        until(SOON, "the last member to lead", leads).await;
    }
    settled(&life.plan).await;
    let before = seen(life).await;
    life.plan.reset_log();
    if let Some((to, n, fault)) = case.cloned() {
        let seen = AtomicUsize::new(0);
        let is_it = move |call: &Call| to.has(call) && seen.fetch_add(1, Ordering::Relaxed) + 1 == n;
        life.plan.when_times(1, is_it, fault);
    }
    life.say(&format!("{workload:?}, {case:?}"));
    let (wanted, mut stay) = match workload {
        Workload::Grow => (3, vec![member(0)]),
        Workload::Replace => (3, (0..3).map(member).collect()),
        Workload::Shrink => (1, vec![member(0)]),
    };
    if workload == Workload::Replace {
        let mut random = Random::new(before.len() as u64 + case.map_or(0, |(_, n, _)| *n as u64));
        let mut victim = None;
        until(SOON, "a member to lose its data", async || {
            victim = life.harm(&mut random, kubelet::wipe).await;
            victim.is_some()
        })
        .await;
        stay.retain(|name| Some(name) != victim.as_ref());
    } else {
        life.asks_for(wanted).await;
    }
    life.at_rest(wanted).await;
    settled(&life.plan).await;
    life.plan.clear();
    let after = seen(life).await;
    for name in stay {
        assert_eq!(before.get(&name), after.get(&name), "{name} stays as it is\n{}", life.story());
    }
    let calls = life.plan.calls();
    calls.into_iter().filter(|call| call.mutation.is_some()).collect()
}

/// All three, with a trouble in each or none. No acknowledged write is lost.
async fn round(life: &Life, cases: &[Option<Case>; 3]) -> [Vec<Call>; 3] {
    let writer = Writer::start(life.client.clone());
    let mut calls = [vec![], vec![], vec![]];
    for (n, workload) in Workload::ALL.into_iter().enumerate() {
        let (began, case) = (Instant::now(), &cases[n]);
        calls[n] = run(life, workload, case.as_ref()).await;
        life.writes_go_on(&writer).await;
        let hit = case.as_ref().map(|(to, k, fault)| {
            let hit = calls[n].iter().filter(|call| to.has(call)).nth(k - 1);
            format!("{fault:?} {to:?} {k}: {}", hit.map_or("not reached".into(), Call::to_string))
        });
        let hit = hit.unwrap_or_else(|| "undisturbed".into());
        println!("{workload:?}: {hit}: ok, {} calls, {:.1?}", calls[n].len(), began.elapsed());
    }
    writer.nothing_was_lost(&life.client);
    calls
}

/// One of each workload, by the seed: two calls to etcd, and a write.
fn sample(seed: u64) -> [Option<Case>; 3] {
    let mut random = Random::new(seed);
    let (write, first) = (random.below(3), random.below(3));
    let mut case = |n: usize| {
        let workload = Workload::ALL[n];
        let (to, calls) = if n == write { (To::Api, workload.writes()) } else { (To::Etcd, workload.changes()) };
        Some((to, 1 + random.below(calls), FAULTS[(first + n) % 3].clone()))
    };
    [case(0), case(1), case(2)]
}

/// F2: whichever call is the operator's last one, or gets no answer: the size is reached with so many voters and no learner, no operation is
/// left, whoever stays keeps its pod and its ID, and no acknowledged write is lost.
#[tokio::test(flavor = "multi_thread")]
async fn an_operator_that_ends_at_any_call_leads_to_the_same_members() {
    let choice = Choice::new("etcd-crashes", u64::MAX);
    if !full() {
        let life = Life::new(1).await;
        round(&life, &sample(choice.seed)).await;
        life.end().await;
        return;
    }
    let mut passed = Passed::load(&choice, "crashes").expect("state file");
    let life = Life::new(1).await;
    let undisturbed = round(&life, &[None, None, None]).await;
    let mut left: [VecDeque<Case>; 3] = Default::default();
    for (n, workload) in Workload::ALL.into_iter().enumerate() {
        let calls = &undisturbed[n];
        for call in calls {
            println!("{workload:?} {call}");
        }
        // First what etcd was asked for, since that cannot be taken back.
        let counts = [To::Etcd, To::Api].map(|to| (to, calls.iter().filter(|call| to.has(call)).count()));
        let least = [workload.changes(), workload.writes()];
        assert!(counts.iter().zip(least).all(|((_, count), least)| *count >= least), "{workload:?}: {calls:#?}");
        let numbers = counts.into_iter().flat_map(|(to, count)| (1..=count).map(move |n| (to, n)));
        let all = numbers.flat_map(|(to, n)| FAULTS.map(|fault| (to, n, fault)));
        left[n] = all.filter(|case| !passed.contains(&name(workload, case))).collect();
        println!("{workload:?}: {counts:?}; {} cases are left", left[n].len());
    }
    while left.iter().any(|cases| !cases.is_empty()) {
        let cases = left.each_mut().map(VecDeque::pop_front);
        round(&life, &cases).await;
        for (workload, case) in Workload::ALL.into_iter().zip(cases) {
            if let Some(case) = case {
                passed.add(name(workload, &case)).expect("state file");
            }
        }
    }
    life.end().await;
}

fn name(workload: Workload, (to, n, fault): &Case) -> String {
    format!("{workload:?} {to:?} {n} {fault:?}")
}
