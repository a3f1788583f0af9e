//! Many Clusters: `rollouts`, and `upgrade` of those that labels choose.

use super::*;

impl Team {
    /// What the operator says of acme, of its spec as it is now.
    async fn says(&self, ready: &str, reason: &str, turn: &Value) {
        let generation = self.cluster().await["metadata"]["generation"].clone();
        let status = json!({"status": {
            "observedGeneration": generation, "turn": turn,
            "history": [{"revision": 1, "version": "1.36.3", "cause": "Creation", "outcome": "Succeeded"}],
            "conditions": [{
                "type": "Ready", "status": ready, "reason": reason, "message": "it waits for globex",
                "observedGeneration": generation, "lastTransitionTime": "2026-01-01T00:00:00Z",
            }],
        }});
        self.merge("/acme/status", &status).await;
    }
}

#[tokio::test]
async fn upgrade_of_many_leaves_alone_who_is_not_ready_and_rollouts_counts() {
    let team = Team::new(ADMIN).await;
    let none = team.here(&["rollouts"]);
    exits(&none, 0);
    assert!(err(&none).contains("there are no Clusters that are up"), "{}", err(&none));
    let labels = json!({"metadata": {"labels": {"tier": "test", "berth.dev/wave": "2"}}});
    team.merge("/acme", &labels).await;
    team.says("False", "PodsNotReady", &Value::Null).await;
    let mark = team.server.audit_mark();
    let many = |more: &[&'static str]| [&["upgrade", "-l", "tier=test", "--to", "1.36.4"], more].concat();
    let dry = team.here(&many(&["--dry-run"]));
    exits(&dry, 3);
    assert!(out(&dry).contains("not ready") && out(&dry).contains("PodsNotReady: it waits"), "{}", out(&dry));
    assert!(out(&dry).contains("0 to be set to 1.36.4, 1 not ready"), "{}", out(&dry));
    exits(&team.here(&many(&["--yes"])), 3);
    let other = team.here(&["upgrade", "-l", "tier=none", "--to", "1.36.4"]);
    exits(&other, 1);
    assert!(err(&other).contains("no Cluster fits"), "{}", err(&other));
    for wrong in [
        &["upgrade", "--to", "1.36.4"][..],
        &["upgrade", "acme", "-A", "--to", "1.36.4"],
        &["upgrade", "acme", "--dry-run", "--to", "1.36.4"],
        &["upgrade", "-l", "tier=test", "--wait", "--to", "1.36.4"],
    ] {
        exits(&team.run(wrong), 2);
    }
    team.says("True", "AsExpected", &Value::Null).await;
    let through = team.here(&["rollouts"]);
    exits(&through, 0);
    assert!(out(&through).contains("1.36.3   2     1     0        0        0        0"), "{}", out(&through));
    let asked = team.here(&many(&[]));
    exits(&asked, 1);
    assert!(err(&asked).contains("no terminal"), "{}", err(&asked));
    assert_eq!(team.written(mark), Vec::<String>::new());

    exits(&team.here(&many(&["--yes", "--now"])), 0);
    let cluster = team.cluster().await;
    assert_eq!(cluster["spec"]["version"], "1.36.4");
    let roll = |cluster: &Value| cluster["metadata"]["annotations"]["berth.dev/roll"].as_str().unwrap().to_owned();
    assert_eq!(roll(&cluster), cluster["metadata"]["generation"].to_string(), "of the spec that it set");
    assert_eq!(team.written(mark).len(), 1);

    team.says("True", "WaitingForTurn", &json!({"to": "1.36.4", "state": "Waiting"})).await;
    let waits = team.here(&["rollouts", "-l", "tier=test"]);
    exits(&waits, 3);
    assert!(out(&waits).contains("waiting") && out(&waits).contains("it waits for globex"), "{}", out(&waits));
    let json: Value = serde_json::from_slice(&team.here(&["rollouts", "-o", "json"]).stdout).unwrap();
    let row = json!({"version": "1.36.4", "wave": 2, "done": 0, "running": 0, "waiting": 1, "blocked": 0, "failed": 0});
    assert_eq!(json["versions"], json!([row]));
    let plan = team.here(&["plan", "acme"]);
    assert!(out(&plan).contains("wave 2 of the fleet") && out(&plan).contains("waits: it waits"), "{}", out(&plan));

    // Asked for it already: it waits for no window any more.
    exits(&team.here(&["upgrade", "acme", "--to", "1.36.4", "--now"]), 0);
    let again = team.cluster().await;
    assert_eq!(again["metadata"]["generation"], cluster["metadata"]["generation"]);
    assert_eq!(roll(&again), format!("{}-2", cluster["metadata"]["generation"]), "another value asks again");
}
