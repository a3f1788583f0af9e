//! Leases of a tenant's control plane that nobody renews, since a webhook of the tenant's own hangs on them.

use crate::common::{Running, SOON, Team, alone_at_a_server, tenant};
use crate::faults::webhook::{guards, install};
use anyhow::{Context as _, ensure};
use berth_api::conditions::ConditionType;
use berth_api::names;
use berth_testkit::FaultPlan;
use berth_testkit::fixtures::{eventually, until};
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::json;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

const LEASES: [&str; 2] = [names::CONTROLLER_MANAGER, names::SCHEDULER];

/// Shorter than a webhook that hangs, as the client of a controller is.
const RENEWAL: Duration = Duration::from_secs(1);

/// So that nobody has to wait for long.
const DURATION: i32 = 2;

fn renewed() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}

/// Renews both, as long as that works in time.
fn hold(leases: Api<Lease>) -> JoinHandle<()> {
    tokio::spawn(async move {
        loop {
            for name in LEASES {
                let patch = Patch::Merge(json!({"spec": {"renewTime": renewed()}}));
                let _late = tokio::time::timeout(RENEWAL, leases.patch(name, &PatchParams::default(), &patch)).await;
            }
            tokio::time::sleep(RENEWAL / 2).await;
        }
    })
}

async fn made(team: &Team) -> Api<Lease> {
    let id = team.tenant().await.expect("the tenant");
    let [_, (_, system), _] = tenant::namespaces(&id);
    let leases = Api::<Lease>::namespaced(team.client.clone(), &system);
    for name in LEASES {
        let lease =
            json!({"metadata": {"name": name}, "spec": {"renewTime": renewed(), "leaseDurationSeconds": DURATION}});
        let lease = serde_json::from_value(lease).expect("a Lease");
        leases.create(&PostParams::default(), &lease).await.expect("create");
    }
    leases
}

#[tokio::test]
async fn a_webhook_that_hangs_on_leases_is_named_until_it_is_gone() {
    let (_turn, server) = alone_at_a_server().await;
    let (team, plan) = (Team::with_cluster(server).await, FaultPlan::new());
    let running = Running::start(server, &plan);
    team.ready().await.unwrap_or_else(|e| panic!("{e:#}"));
    let leases = made(&team).await;
    let holder = hold(leases.clone());
    drop(running);
    // It takes connections, and never answers.
    let hung = TcpListener::bind("127.0.0.1:0").await.expect("listen");
    let address = hung.local_addr().expect("address").to_string();
    let system = leases.namespace().expect("a namespace").to_owned();
    install(&team, &address, ["coordination.k8s.io", "leases"], [&system, ""]).await;
    let patience = jiff::SignedDuration::from_secs(i64::from(2 * DURATION));
    until(SOON, "leases that nobody renews", async || {
        let lease = leases.get(names::SCHEDULER).await.expect("get");
        let at = lease.spec.and_then(|spec| spec.renew_time).expect("a time");
        jiff::Timestamp::now().duration_since(at.0) > patience
    })
    .await;

    let _running = Running::start(server, &plan);
    let message = team.says(ConditionType::Degraded, "WebhookInTheWay").await;
    let home = format!("kubectl berth connect acme -n {}", team.ns);
    let way_out = format!("{home} -- kubectl delete validatingwebhookconfiguration {}", team.cp_namespace);
    for part in [&*way_out, "webhook guard.test.berth.dev of", "in the way of leases since", "timeoutSeconds 30"] {
        assert!(message.contains(part), "{part}: {message}");
    }
    let lost = team.says(ConditionType::ControlPlaneAvailable, "NotLeading").await;
    assert!(lost.contains("Lease kube-system/kube-controller-manager in the tenant has not been renewed"), "{lost}");
    let ready = team.says(ConditionType::Ready, "WebhookInTheWay").await;
    assert!(ready.contains(&way_out), "{ready}");
    assert_eq!(team.condition(ConditionType::Available).await.expect("Available").status, "True");

    guards(&team).delete(&team.cp_namespace, &DeleteParams::default()).await.expect("delete");
    team.ready().await.unwrap_or_else(|e| panic!("{e:#}"));
    let well = async || {
        let all = [ConditionType::ControlPlaneAvailable, ConditionType::Degraded];
        for (type_, wanted) in all.into_iter().zip(["True", "False"]) {
            let now = team.condition(type_).await.context("a condition")?;
            ensure!(now.status == wanted, "{}: {}", now.reason, now.message);
        }
        Ok(())
    };
    eventually(SOON, "all is well", well).await.unwrap_or_else(|e| panic!("{e:#}"));
    holder.abort();
    team.wipe().await;
}
