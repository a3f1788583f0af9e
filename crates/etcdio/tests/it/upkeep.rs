//! What looks after databases, told to real etcd processes.

use crate::common::{Etcd, Options, versions};
use berth_etcdio::{MAINTENANCE_DEADLINE, maintain, probe};
use berth_plan::Maintenance;
use berth_plan::observed::{EtcdProbe, MemberProbe};
use std::time::{Duration, Instant};

/// On a machine on which everything is slow.
const LIMIT: Duration = Duration::from_secs(15);
const MIB: i64 = 1024 * 1024;

async fn until(etcd: &Etcd, what: &str, good: impl Fn(&EtcdProbe) -> bool) -> EtcdProbe {
    let end = Instant::now() + Duration::from_mins(6);
    loop {
        let said = probe(&etcd.target(), LIMIT).await;
        // Without the list nothing is known about alarms, either.
        if said.list.is_some() && good(&said) {
            return said;
        }
        assert!(Instant::now() < end, "no {what}: {said:#?}\n{}", etcd.log());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

fn each(probe: &EtcdProbe) -> impl Iterator<Item = &MemberProbe> {
    probe.members.values().flatten()
}

/// Compact, defragment each, disarm, write: then etcd takes what its clients write.
#[tokio::test(flavor = "multi_thread")]
async fn a_full_database_takes_writes_again() {
    for version in versions() {
        let etcd = Etcd::start(&Options { quota: 16 * MIB, ..Options::new(version, 3) });
        until(&etcd, "cluster", |p| each(p).filter(|m| m.leader != "0").count() == 3).await;
        assert!(etcd.fill(version, "k", 1 << 20, 40) < 40, "the quota was never reached");
        let full = until(&etcd, "alarm", |p| !p.alarms.is_empty()).await;
        let first = &full.members["etcd-0"].as_ref().unwrap().progress;
        assert_eq!(first.quota, if version.starts_with("3.5") { 0 } else { 16 * MIB }, "{first:?}");
        let target = etcd.target();
        let tell = async |via: &str, what: Maintenance| maintain(&target, via, &what, MAINTENANCE_DEADLINE).await;

        let refused = tell("etcd-0", Maintenance::Put).await.unwrap_err().to_string();
        assert!(refused.contains("database space exceeded"), "{refused}");
        let revision = each(&full).map(|m| m.progress.revision).max().unwrap();
        assert!(revision > 5, "{revision}");
        tell("etcd-0", Maintenance::Compact { revision }).await.unwrap();
        // The answer was lost, and it is asked again.
        tell("etcd-1", Maintenance::Compact { revision }).await.unwrap();
        // A member that is behind compacts later than it is told to defragment, and then it has to be told again.
        let end = Instant::now() + Duration::from_mins(6);
        let small = loop {
            for member in ["etcd-2", "etcd-1", "etcd-0"] {
                tell(member, Maintenance::Defragment).await.unwrap();
            }
            let now = until(&etcd, "answer", |_| true).await;
            if each(&now).all(|m| m.progress.db_size < 4 * MIB) {
                break now;
            }
            assert!(Instant::now() < end, "no small databases: {now:#?}");
            let revision = each(&now).map(|m| m.progress.revision).max().unwrap();
            tell("etcd-0", Maintenance::Compact { revision }).await.unwrap();
        };
        for alarm in &small.alarms {
            let disarm = Maintenance::Disarm { alarm: alarm.kind.clone(), id: alarm.id.clone() };
            tell("etcd-0", disarm.clone()).await.unwrap();
            tell("etcd-0", disarm).await.unwrap();
        }
        until(&etcd, "end of the alarm", |p| p.alarms.is_empty()).await;
        tell("etcd-0", Maintenance::Put).await.unwrap();
        assert!(etcd.ctl(version, &["put", "k", "v"]), "etcd {version} takes no write");
    }
}
