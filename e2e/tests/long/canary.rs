//! A release whose first API server is ready, and refuses work: that one alone serves so, and the release goes back at once, while a client
//! that opens a new connection each 100 ms notices nothing. One that takes the same work goes through.

use std::collections::BTreeSet;

use anyhow::ensure;
use berth_e2e::{
    Caller, Crowd, Tenant,
    revisions::{outcome, pods, same_pods},
    tenant::condition,
    until,
};
use serde_json::{Value, json};

/// Of such length that nothing in this test happens because of it.
const LONG: &str = "1h";

#[test]
#[ignore = "make test-all: what is decided is tested in memory, and here two API servers are changed three times under a load"]
fn one_that_is_ready_and_refuses_work_goes_back_at_once() {
    berth_e2e::run("canary", |world| {
        let spec = json!({"apiServer": {"replicas": 2}, "upgrade": {"soak": "0s"}});
        let tenant = Tenant::ready(world, "canary", &spec)?;
        outcome(&tenant, 1, "Succeeded")?;
        let before = pods(&tenant)?;
        let caller = Caller::start(&tenant.kubeconfig()?);

        println!("    one write at a time, of clients that write all at once");
        let crowd = Crowd::start(&tenant)?;
        let upgrade = json!({"soak": LONG, "progressDeadline": LONG});
        tenant.change(&json!({"upgrade": upgrade, "apiServer": {"extraArgs": at_once(1)}}))?;
        let mut new = BTreeSet::new();
        let message = until("it to go back, before any time is over", || {
            new.extend(pods(&tenant)?.into_iter().filter(|uid| !before.contains(uid)));
            let cluster = tenant.cluster()?;
            let ready = condition(&cluster, "Ready")?;
            ensure!(ready["status"] == "False" && ready["reason"] == "RolledBack", "{ready}");
            Ok(ready["message"].as_str().unwrap_or_default().to_owned())
        })?;
        println!("    {message}");
        let why = ["the first new kube-apiserver, answered ", " requests with 5xx or 429, the old ones ", "revision 1"];
        ensure!(why.iter().all(|what| message.contains(what)), "{message}");
        ensure!(new.len() == 1, "it served alone, and not {new:?}");
        outcome(&tenant, 2, "RolledBack")?;
        same_pods(&tenant, &before)?;
        let cluster = tenant.cluster()?;
        ensure!(condition(&cluster, "Available")?["status"] == "True", "{}", cluster["status"]);
        ensure!(cluster["spec"]["apiServer"]["extraArgs"] == at_once(1), "the spec is left alone");
        let refused = crowd.end()?.refused;
        ensure!(refused > 0, "its clients noticed nothing");

        println!("    as many as need be");
        let crowd = Crowd::start(&tenant)?;
        tenant.change(&json!({"upgrade": {"soak": "30s"}, "apiServer": {"extraArgs": at_once(200)}}))?;
        tenant.wait_ready()?;
        outcome(&tenant, 3, "Succeeded")?;
        crowd.end()?;

        caller.end()?.none_failed()?;
        tenant.nothing_restarted()?;
        tenant.let_go()
    });
}

/// Flags with which kube-apiserver answers more writes than so many at a time with 429.
fn at_once(writes: u32) -> Value {
    json!([
        {"name": "enable-priority-and-fairness", "value": "false"},
        {"name": "max-mutating-requests-inflight", "value": writes.to_string()},
    ])
}
