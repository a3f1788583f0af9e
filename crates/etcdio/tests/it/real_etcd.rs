//! What a probe says of real etcd processes, in good and in bad times.

use crate::common::{Etcd, Options, ca, versions};
use berth_etcdio::{CHANGE_DEADLINE, Credential, EtcdTarget, Member, change, probe};
use berth_pki::Usage;
use berth_plan::MemberChange;
use berth_plan::observed::EtcdProbe;
use jiff::Timestamp;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(2);

/// Probes until `good` says so.
async fn until(target: &EtcdTarget, etcd: &Etcd, what: &str, good: impl Fn(&EtcdProbe) -> bool) -> EtcdProbe {
    let end = Instant::now() + Duration::from_mins(1);
    loop {
        let said = probe(target, LIMIT).await;
        if good(&said) {
            return said;
        }
        assert!(Instant::now() < end, "no {what}: {said:#?}\n{}", etcd.log());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

fn whole(members: usize) -> impl Fn(&EtcdProbe) -> bool {
    move |p| {
        p.members.values().all(|m| m.as_ref().is_ok_and(|m| m.leader != "0"))
            && p.list.as_ref().is_some_and(|l| l.len() == members && l.iter().all(|m| !m.name.is_empty()))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_member_answers_for_itself_and_for_the_cluster() {
    for version in versions() {
        let etcd = Etcd::start(&Options::new(version, 1));
        let target = etcd.target();
        let said = until(&target, &etcd, "answer", whole(1)).await;
        let member = said.members["etcd-0"].as_ref().unwrap();
        assert_eq!(member.version, version);
        assert_eq!(member.leader, member.member_id);
        let list = said.list.unwrap();
        assert_eq!(
            (list.len(), &list[0].name, &list[0].id, list[0].learner),
            (1, &"etcd-0".to_owned(), &member.member_id, false)
        );
        assert!(list[0].peer_urls[0].starts_with("https://127.0.0.1:"), "{list:?}");
        let progress = member.progress;
        assert!(progress.raft_index >= progress.applied_index && progress.applied_index > 0, "{progress:?}");
        assert!(progress.db_size >= progress.db_size_in_use && progress.db_size_in_use > 0, "{progress:?}");
        assert!(said.alarms.is_empty(), "{:?}", said.alarms);
        assert!(member.cluster_id.len() > 10 && member.cluster_id.chars().all(|c| c.is_ascii_hexdigit()));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn three_members_lose_one_then_the_quorum_and_come_back() {
    for version in versions() {
        let mut etcd = Etcd::start(&Options::new(version, 3));
        let target = etcd.target();
        let said = until(&target, &etcd, "cluster of three", whole(3)).await;
        let ids: std::collections::BTreeSet<_> =
            said.members.values().map(|m| m.as_ref().unwrap().cluster_id.clone()).collect();
        assert_eq!(ids.len(), 1, "one cluster");

        etcd.down(2);
        let said = until(&target, &etcd, "quorum of two", |p| p.list.is_some()).await;
        assert_eq!(said.members["etcd-2"].as_ref().unwrap_err(), "127.0.0.1: connection refused");
        assert_eq!(said.list.unwrap().len(), 3, "a member that is down is still a member");

        etcd.down(1);
        let start = Instant::now();
        let said = until(&target, &etcd, "lost quorum", |p| p.list.is_none()).await;
        assert!(said.members["etcd-0"].is_ok(), "its own status needs no quorum: {said:?}");
        assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());

        etcd.up(1);
        etcd.up(2);
        until(&target, &etcd, "cluster again", whole(3)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_database_raises_an_alarm_that_names_the_member() {
    for version in versions() {
        let etcd = Etcd::start(&Options { quota: 4 << 20, ..Options::new(version, 1) });
        let target = etcd.target();
        until(&target, &etcd, "answer", whole(1)).await;
        let value = "x".repeat(100 << 10);
        let full = (0..200).any(|i| !etcd.ctl(version, &["put", &format!("k{i}"), &value]));
        assert!(full, "the quota was never reached");
        let said = until(&target, &etcd, "alarm", |p| !p.alarms.is_empty()).await;
        assert_eq!(said.alarms.iter().map(ToString::to_string).collect::<Vec<_>>(), ["NOSPACE on etcd-0"]);
        assert!(said.list.is_some(), "a full etcd still has a quorum");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_trust_says_tls_on_either_side() {
    let version = versions()[0];
    let etcd = Etcd::start(&Options::new(version, 1));
    let good = etcd.target();
    until(&good, &etcd, "answer", whole(1)).await;
    let other = ca("another-ca-1");
    let now = Timestamp::now();

    // Another CA: the member's certificate is not believed.
    let stranger = Credential::issue(other.cert_pem.as_bytes(), other.key_pem.expose_bytes(), now).unwrap();
    let said = probe(&EtcdTarget { credential: stranger, ..good.clone() }, LIMIT).await;
    let why = said.members["etcd-0"].as_ref().unwrap_err();
    assert!(why.starts_with("127.0.0.1: TLS: invalid peer certificate"), "{why}");

    // The right member under a wrong name.
    let misnamed = Member::new("etcd-0", "etcd-7.tenant-1.svc", good.members[0].address).unwrap();
    let said = probe(&EtcdTarget { members: vec![misnamed], credential: good.credential.clone() }, LIMIT).await;
    let why = said.members["etcd-0"].as_ref().unwrap_err();
    assert!(why.contains("TLS") && why.contains("not valid for name"), "{why}");

    // We believe the member, but it does not know our CA.
    let ca = &etcd.client_ca;
    let unknown_ca = crate::common::ca("etcd-client-ca-1");
    let mixed = format!("{}{}", unknown_ca.cert_pem, ca.cert_pem);
    let unknown = Credential::issue(mixed.as_bytes(), unknown_ca.key_pem.expose_bytes(), now).unwrap();
    let said = probe(&EtcdTarget { credential: unknown, ..good.clone() }, LIMIT).await;
    let why = said.members["etcd-0"].as_ref().unwrap_err();
    assert!(why.starts_with("127.0.0.1: TLS: received fatal alert"), "{why}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_member_costs_no_more_than_the_deadline() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let ca = ca("etcd-client-ca-1");
    let credential = Credential::issue(ca.cert_pem.as_bytes(), ca.key_pem.expose_bytes(), Timestamp::now()).unwrap();
    let silent = Member::new("etcd-0", "etcd-0.tenant-1.svc", listener.local_addr().unwrap()).unwrap();
    let start = Instant::now();
    let limit = Duration::from_millis(500);
    let said = probe(&EtcdTarget { members: vec![silent], credential }, limit).await;
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
    let why = said.members["etcd-0"].as_ref().unwrap_err();
    assert_eq!(why, "127.0.0.1: no answer within 0.5 s while negotiating TLS");
    assert_eq!(said.list, None);
}

/// Why the plan issues the server's certificate for both usages: the gateway is a client of its own port.
#[tokio::test(flavor = "multi_thread")]
async fn the_gateway_needs_a_server_certificate_that_is_also_a_clients() {
    for version in versions() {
        let etcd = Etcd::start(&Options { server_usage: Usage::Server, ..Options::new(version, 1) });
        let target = etcd.target();
        let end = Instant::now() + Duration::from_secs(8);
        while Instant::now() < end {
            let said = probe(&target, LIMIT).await;
            assert!(said.members["etcd-0"].is_err(), "etcd {version} answers with a mere server certificate");
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        let said = probe(&target, LIMIT).await;
        println!("{version}: {}", said.members["etcd-0"].as_ref().unwrap_err());
    }
}

/// Each call of a change of members, as Berth makes them: a learner is added, runs, gets its vote, leads, and the first member goes.
#[tokio::test(flavor = "multi_thread")]
async fn a_learner_is_added_promoted_leads_and_the_first_member_is_removed() {
    for version in versions() {
        let mut etcd = Etcd::start(&Options::new(version, 1));
        let said = until(&etcd.target(), &etcd, "answer", whole(1)).await;
        let first = said.list.unwrap().remove(0);
        let peer_url = etcd.next_peer_url();
        let target = etcd.target();
        let tell = async |via: &str, what: &MemberChange| change(&target, via, what, CHANGE_DEADLINE).await;
        let add = MemberChange::AddLearner { peer_url: peer_url.clone() };
        // A member takes changes once it has run for a few seconds.
        let end = Instant::now() + Duration::from_mins(1);
        while let Err(why) = tell("etcd-0", &add).await {
            assert!(Instant::now() < end, "{why}\n{}", etcd.log());
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
        let list =
            until(&target, &etcd, "learner", |p| p.list.as_ref().is_some_and(|l| l.len() == 2)).await.list.unwrap();
        let learner = list.iter().find(|m| m.id != first.id).unwrap().clone();
        assert_eq!((learner.name.as_str(), learner.learner, &learner.peer_urls), ("", true, &vec![peer_url.clone()]));

        // The answer was lost, and it is asked again: nobody is added twice.
        let again = tell("etcd-0", &add).await.unwrap_err().to_string();
        assert!(again.contains("already exist"), "{again}");
        let early = tell("etcd-0", &MemberChange::Promote { id: learner.id.clone() }).await.unwrap_err().to_string();
        assert!(early.contains("in sync with leader"), "{early}");

        etcd.join(&format!("etcd-0={},etcd-1={peer_url}", first.peer_urls[0]));
        let started = |p: &EtcdProbe| {
            let runs = p.members.get("etcd-1").is_some_and(|m| m.as_ref().is_ok_and(|m| m.learner && m.leader != "0"));
            runs && p.list.as_ref().is_some_and(|l| l.iter().all(|m| m.name.starts_with("etcd-")))
        };
        until(&target, &etcd, "learner that runs", started).await;
        let end = Instant::now() + Duration::from_mins(1);
        while let Err(why) = tell("etcd-0", &MemberChange::Promote { id: learner.id.clone() }).await {
            assert!(Instant::now() < end, "{why}\n{}", etcd.log());
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
        let votes = |p: &EtcdProbe| p.list.as_ref().is_some_and(|l| l.len() == 2 && l.iter().all(|m| !m.learner));
        until(&target, &etcd, "second voter", votes).await;

        tell("etcd-0", &MemberChange::MoveLeader { id: learner.id.clone() }).await.unwrap();
        let leads = |p: &EtcdProbe| p.members["etcd-1"].as_ref().is_ok_and(|m| m.leader == m.member_id);
        until(&target, &etcd, "other leader", leads).await;
        let end = Instant::now() + Duration::from_mins(1);
        while let Err(why) = tell("etcd-1", &MemberChange::Remove { id: first.id.clone() }).await {
            assert!(Instant::now() < end, "{why}\n{}", etcd.log());
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
        let alone = until(&target, &etcd, "single member", |p| p.list.as_ref().is_some_and(|l| l.len() == 1)).await;
        assert_eq!(alone.list.unwrap()[0].id, learner.id, "by its ID, not by its place");
        let gone = tell("etcd-1", &MemberChange::Remove { id: first.id.clone() }).await.unwrap_err().to_string();
        assert!(gone.contains("not found"), "{gone}");
        let nobody = tell("etcd-7", &MemberChange::Remove { id: first.id.clone() }).await.unwrap_err();
        assert_eq!(nobody.to_string(), "no member etcd-7 is known");
    }
}
