//! Intervals that etcd refuses are refused by Berth, and what it takes is taken.

use berth_api::etcd_tuning::timing_fault;
use berth_testkit::apiserver::binary;
use std::process::{Command, Stdio};

const VERSIONS: [&str; 2] = ["v3.5.35", "v3.6.16"];

/// What etcd says of a flag that it judges after the intervals.
const AFTERWARDS: &str = "unknown auto-compaction-mode";

#[test]
fn etcd_and_berth_refuse_the_same_intervals() {
    let heartbeats = [1, 100, 200, 201, 1000, 9999, 10_000, 10_001];
    let elections = [5, 499, 500, 1000, 1004, 1005, 5000, 49_999, 50_000, 50_001, 60_000];
    for version in VERSIONS {
        let etcd = binary("etcd", version, "etcd").unwrap();
        let dir = tempfile::tempdir().unwrap();
        for (heartbeat, election) in heartbeats.iter().flat_map(|h| elections.map(|e| (h, e))) {
            let mut command = Command::new(&etcd);
            command.stdin(Stdio::null()).current_dir(dir.path()).args([
                format!("--heartbeat-interval={heartbeat}"),
                format!("--election-timeout={election}"),
                "--auto-compaction-mode=none".to_owned(),
            ]);
            let output = command.output().unwrap();
            assert!(!output.status.success());
            let said = String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
            let ours = timing_fault(Some(&format!("{heartbeat}ms")), Some(&format!("{election}ms")));
            assert_eq!(ours.is_some(), !said.contains(AFTERWARDS), "{version} {heartbeat} {election}: {ours:?} {said}");
        }
    }
}
