//! The life of an etcd whose members are real processes: the whole operator grows, shrinks and mends it while a client writes, and while
//! members, operators and answers get lost. What the operator wrote for pods is what runs, guard included: see [`kubelet`].

mod crashes;
mod hooks;
mod kubelet;
mod life;
mod manifest;
mod watcher;
mod writer;

use berth_api::names;
use berth_testkit::Fault;
use berth_testkit::fixtures::{eventually, until};
use berth_testkit::sweep::{Choice, Passed, Random};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::Api;
use kube::api::DeleteParams;
use life::Life;
use std::path::Path;
use std::time::{Duration, Instant};
use writer::Writer;

/// Lives of `make chaos`.
const SEEDS: u64 = 50;

/// What goes wrong while it goes from one size to the next.
const TROUBLES: usize = 4;

/// Something goes wrong, by the seed.
async fn something_happens(life: &Life, random: &mut Random) {
    let running = life.kubelet().running();
    let some = |random: &mut Random, limit| Duration::from_millis(u64::try_from(random.below(limit)).unwrap());
    match random.below(11) {
        0..=2 if !running.is_empty() => {
            let victim = &running[random.below(running.len())];
            life.say(&format!("{victim} is killed"));
            life.kubelet().kill(victim);
        }
        3 => {
            life.say("all are killed");
            for member in &running {
                life.kubelet().kill(member);
            }
        }
        4 => life.trouble(Fault::LoseReply),
        5 => life.trouble(Fault::Late(some(random, 3000))),
        6 => life.trouble(Fault::StopBefore),
        7 => life.trouble(Fault::StopAfter),
        8 => life.another_operator().await,
        _ => {
            if let Some(victim) = life.harm(random, kubelet::wipe).await {
                life.say(&format!("the volume of {victim} is wiped"));
            }
        }
    }
    tokio::time::sleep(some(random, 1500)).await;
}

async fn one_life(seed: u64) {
    let began = Instant::now();
    let life = Life::new(1).await;
    let (writer, mut random) = (Writer::start(life.client.clone()), Random::new(seed));
    for replicas in [3, 5, 3, 1] {
        life.asks_for(replicas).await;
        for _ in 0..TROUBLES {
            something_happens(&life, &mut random).await;
        }
        life.calm();
        life.at_rest(replicas).await;
        life.writes_go_on(&writer).await;
    }
    let written = writer.nothing_was_lost(&life.client);
    if std::env::var_os("BERTH_STORY").is_some() {
        println!("{}", life.story());
    }
    println!("seed {seed}: {written} writes acknowledged, {:.0?}", began.elapsed());
    life.end().await;
}

/// F2, F18, F34: 1 to 3 to 5 to 3 to 1 members under a writer, while members are killed, volumes wiped, answers lost and operators ended.
/// No acknowledged write is lost, there are never two learners, and no voter is removed that leaves no quorum.
#[tokio::test(flavor = "multi_thread")]
async fn whatever_happens_no_write_is_lost_and_each_size_is_reached() {
    let choice = Choice::new("etcd-life", SEEDS);
    let seeds = if choice.one_in == 1 { SEEDS } else { 1 };
    let mut passed = Passed::load(&choice, "lives").expect("state file");
    for seed in (0..seeds).map(|n| choice.seed * 1000 + n) {
        let case = format!("{seed}");
        if passed.contains(&case) {
            continue;
        }
        println!("seed {seed}");
        one_life(seed).await;
        passed.add(case).expect("state file");
    }
}

/// F17: a random member of three is killed again and again, then all at once. Nothing changes but that they start again.
#[tokio::test(flavor = "multi_thread")]
async fn members_that_are_killed_come_back_as_they_were() {
    let life = Life::new(3).await;
    let (before, members) = (life.record().await, life.voters().await);
    let (writer, mut random) = (Writer::start(life.client.clone()), Random::new(17));
    for _ in 0..6 {
        let running = life.kubelet().running();
        let victim = &running[random.below(running.len())];
        life.say(&format!("{victim} is killed"));
        life.kubelet().kill(victim);
        life.writes_go_on(&writer).await;
    }
    life.say("all are killed");
    for member in life.kubelet().running() {
        life.kubelet().kill(&member);
    }
    life.touch().await;
    life.writes_go_on(&writer).await;
    life.at_rest(3).await;
    println!("{} writes acknowledged", writer.nothing_was_lost(&life.client));
    assert_eq!(life.record().await, before);
    assert_eq!(life.voters().await, members);
    life.end().await;
}

/// F33: a member that somebody removed with etcdctl comes back under another ID, with its old data set aside.
#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_was_removed_by_hand_comes_back() {
    let life = Life::new(3).await;
    let writer = Writer::start(life.client.clone());
    let before = life.voters().await;
    let removed = before.iter().find(|m| m.name == kubelet::member(1)).unwrap();
    // etcd refuses it as long as its members have known each other for less than 5 s. An answer may be lost.
    let remove = async || {
        let is_removed = life.client.run(&["member", "remove", &removed.id]).is_some();
        is_removed || life.voters().await.iter().all(|m| m.id != removed.id)
    };
    until(crate::common::SOON, "the removal", remove).await;
    life.until("the replacement", |s| s.operation.is_some()).await;
    life.at_rest(3).await;
    let after = life.voters().await;
    let id = |of: &[berth_plan::observed::ListedMember], n| {
        of.iter().find(|m| m.name == kubelet::member(n)).map(|m| m.id.clone()).unwrap()
    };
    assert_ne!(id(&before, 1), id(&after, 1));
    assert_eq!([id(&before, 0), id(&before, 2)], [id(&after, 0), id(&after, 2)]);
    life.writes_go_on(&writer).await;
    writer.nothing_was_lost(&life.client);
    life.end().await;
}

/// F19: etcd does not start on a damaged database. Nobody's loss is proven by that: it is waited for, and the others serve. A person who
/// deletes its claim and its pod has it replaced.
#[tokio::test(flavor = "multi_thread")]
async fn a_member_with_a_damaged_file_is_waited_for_until_its_claim_is_deleted() {
    let life = Life::new(3).await;
    let writer = Writer::start(life.client.clone());
    let damage = |volume: &Path| std::fs::write(volume.join("data/member/snap/db"), vec![7; 1 << 16]).unwrap();
    let mut random = Random::new(19);
    let harm = async || life.harm(&mut random, damage).await.ok_or("not all are well");
    let victim = eventually(crate::common::SOON, "a member to be harmed", harm).await.unwrap();
    let before = life.voters().await;
    until(crate::common::SOON, "etcd to end again and again", async || life.kubelet().ended_by_itself(&victim) > 2)
        .await;
    let says = format!("pod {victim}: container etcd: CrashLoopBackOff");
    let said = |c: &Condition| c.type_ == "MembersReady" && c.status == "False" && c.message.contains(&says);
    life.until("what is said", |s| s.conditions.iter().any(said)).await;
    life.writes_go_on(&writer).await;
    assert_eq!(life.voters().await, before, "it is waited for");
    assert!(life.status().await.operation.is_none());

    let (ns, client) = (&life.team.ns, &life.team.client);
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(client.clone(), ns);
    let pods: Api<Pod> = Api::namespaced(client.clone(), ns);
    let ordinal = names::etcd::ordinal(names::ETCD, &victim).unwrap();
    claims.delete(&names::etcd::claim(names::ETCD, ordinal), &DeleteParams::default()).await.unwrap();
    pods.delete(&victim, &DeleteParams::default()).await.unwrap();
    life.at_rest(3).await;
    writer.nothing_was_lost(&life.client);
    life.end().await;
}
