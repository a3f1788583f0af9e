//! What tools that wait for a Cluster make of it, by their own code: kstatus for Helm 4 and Flux, Lua for Argo CD.

use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::Write as _;
use std::process::{Command, Stdio};

const OBJECTS: &str = concat!(
    include_str!("../../../../crates/plan-cluster/src/tests/situations.jsonl"),
    include_str!("../../../../crates/plan-etcd/src/tests/situations.jsonl"),
    include_str!("../../../../crates/plan-backup/src/tests/situations.jsonl"),
    include_str!("../../../../crates/plan-apps/src/tests/situations.jsonl"),
);
const ARGOCD_CM: &str = include_str!("../../../../examples/gitops/argocd-cm.yaml");

/// kstatus, Argo CD's health and its message of each object.
fn judged(objects: &str) -> Vec<[String; 3]> {
    let health = berth_testkit::apiserver::binary("tools", "health-1", "health").expect("health");
    let settings: Value = berth_testkit::fixtures::from_yaml(ARGOCD_CM);
    let check = |kind: &str| settings["data"][format!("resource.customizations.health.berth.dev_{kind}")].as_str();
    for kind in
        ["EtcdCluster", "EtcdBackup", "EtcdBackupSchedule", "EtcdRestore", "ClusterAccess", "App", "AppInstallation"]
    {
        assert_eq!(check("Cluster"), check(kind), "{kind}");
    }
    let mut lua = tempfile::NamedTempFile::new().expect("a file");
    lua.write_all(check("Cluster").expect("a check").as_bytes()).expect("written");
    let mut child =
        Command::new(health).arg(lua.path()).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("health runs");
    let mut stdin = child.stdin.take().expect("its input");
    let input = objects.to_owned();
    let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
    let output = child.wait_with_output().expect("it ends");
    writer.join().expect("no panic").expect("it reads all");
    assert!(output.status.success(), "{}", output.status);
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let columns = |line: &str| {
        let mut columns = line.splitn(3, '\t').map(str::to_owned);
        [(); 3].map(|()| columns.next().unwrap_or_default())
    };
    text.lines().map(columns).collect()
}

/// What a person would say of it.
fn expected(object: &Value) -> (&'static str, &'static str) {
    let status = |type_: &str| {
        let all = object["status"]["conditions"].as_array().into_iter().flatten();
        all.filter(|c| c["type"] == type_).any(|c| c["status"] == "True")
    };
    let deleting = !object["metadata"]["deletionTimestamp"].is_null();
    let paused = object["spec"]["paused"] == true && !deleting;
    match (status("Ready"), status("Stalled")) {
        (true, false) => ("Current", "Healthy"),
        (false, true) if deleting => ("Terminating", "Degraded"),
        _ if deleting => ("Terminating", "Progressing"),
        (false, true) if paused => ("Failed", "Suspended"),
        (false, true) => ("Failed", "Degraded"),
        (false, false) => ("InProgress", "Progressing"),
        (true, true) => panic!("both Ready and Stalled: {object}"),
    }
}

#[test]
fn every_state_is_what_a_person_would_say() {
    let judged = judged(OBJECTS);
    let objects: Vec<Value> = OBJECTS.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert!(objects.len() > 100 && judged.len() == objects.len(), "{} of {}", judged.len(), objects.len());
    let mut met = BTreeSet::new();
    for (object, [kstatus, argo, message]) in objects.iter().zip(&judged) {
        let situation = &object["metadata"]["annotations"]["situation"];
        assert_eq!((&**kstatus, &**argo), expected(object), "{situation}: {}", object["status"]);
        assert!(!message.is_empty() && message != "nil", "{situation}: no message");
        met.insert((kstatus.clone(), argo.clone()));
    }
    assert_eq!(met.len(), 6, "each of them is met: {met:?}");
}

#[test]
fn one_that_no_operator_has_seen_is_not_ready() {
    let object = |status: Value| {
        let object = json!({
            "apiVersion": "berth.dev/v1alpha1", "kind": "Cluster",
            "metadata": {"name": "acme", "namespace": "team-a", "generation": 2},
            "spec": {"version": "1.36.3"}, "status": status,
        });
        format!("{object}\n")
    };
    let ready =
        json!([{"type": "Ready", "status": "True", "reason": "AsExpected", "message": "everything is as asked for"}]);
    let new = object(json!({"observedGeneration": -1}));
    let changed = object(json!({"observedGeneration": 1, "conditions": ready}));
    for [kstatus, argo, message] in judged(&(new + &changed)) {
        assert_eq!((&*kstatus, &*argo), ("InProgress", "Progressing"));
        assert_eq!(message, "the operator has not observed this spec yet");
    }
}
