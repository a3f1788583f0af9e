//! The operator ends at each write that it makes for a `ClusterAccess`: what is asked for is given all the same, and what was taken back is gone.

use crate::common::team::ACME;
use crate::common::{Running, SOON, Team, alone_at_a_server};
use anyhow::ensure;
use berth_api::ClusterAccess;
use berth_testkit::fault::Fault;
use berth_testkit::fixtures::eventually;
use berth_testkit::{ApiServer, FaultPlan};
use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::{Api, Client, ResourceExt as _};
use serde_json::json;

async fn may(client: &Client, person: &str) -> anyhow::Result<bool> {
    let asked = json!({"verb": "list", "group": "", "resource": "nodes"});
    let review = json!({"spec": {"user": format!("access:{person}"), "resourceAttributes": asked}});
    let reviews = Api::<SubjectAccessReview>::all(client.clone());
    let answer = reviews.create(&PostParams::default(), &serde_json::from_value(review)?).await?;
    Ok(answer.status.is_some_and(|status| status.allowed))
}

/// Waits until it is so, through the deaths of the operator; whether it died.
async fn lives_until(
    server: &'static ApiServer,
    plan: &FaultPlan,
    running: &mut Option<Running>,
    what: &str,
    attempt: impl AsyncFn() -> anyhow::Result<()>,
) -> bool {
    let died = tokio::select! {
        () = plan.stopped() => true,
        done = eventually(SOON, what, &attempt) => { done.unwrap_or_else(|e| panic!("{what}: {e:#}")); false }
    };
    plan.clear();
    if died {
        drop(running.take());
        *running = Some(Running::start(server, plan));
        eventually(SOON, what, &attempt).await.unwrap_or_else(|e| panic!("{what}, after its death: {e:#}"));
    }
    died
}

#[tokio::test]
async fn whichever_write_is_the_last_a_right_is_given_and_one_that_was_taken_back_is_gone() {
    let (_turn, server) = alone_at_a_server().await;
    let (team, plan) = (Team::with_cluster(server).await, FaultPlan::new());
    let mut running = Some(Running::start(server, &plan));
    team.ready().await.unwrap_or_else(|e| panic!("{e:#}"));
    let all = Api::<ClusterAccess>::namespaced(team.client.clone(), &team.ns);
    let (mut deaths, mut uids) = (0, vec![]);
    for write in 1.. {
        let name = format!("jane-{write}");
        let person = format!("{name}@{}", team.ns);
        let fault = |at: usize| if at.is_multiple_of(2) { Fault::StopBefore } else { Fault::StopAfter };
        plan.at(plan.mutations() + write, fault(write));
        let spec =
            json!({"clusterRefs": [{"name": ACME}], "role": "Viewer", "subjects": [{"kind": "User", "name": person}]});
        let object = json!({"apiVersion": "berth.dev/v1alpha1", "kind": "ClusterAccess", "metadata": {"name": name}, "spec": spec});
        let made = all.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.expect("create");
        uids.push(made.uid().unwrap());
        let given = async || {
            let status = all.get(&name).await?.status.unwrap_or_default();
            ensure!(status.granted == Some(1) && may(&team.client, &person).await?, "{status:?}");
            Ok(())
        };
        let died_giving = lives_until(server, &plan, &mut running, "given", given).await;
        plan.at(plan.mutations() + write, fault(write + 1));
        all.delete(&name, &DeleteParams::default()).await.expect("delete");
        let gone = async || {
            ensure!(all.get_opt(&name).await?.is_none() && !may(&team.client, &person).await?, "it is there");
            Ok(())
        };
        let died_taking = lives_until(server, &plan, &mut running, "taken back", gone).await;
        deaths += usize::from(died_giving) + usize::from(died_taking);
        if !died_giving && !died_taking {
            break;
        }
    }
    assert!(deaths >= 6, "it died at {deaths} writes");
    // Nothing of it is left, and nothing comes back.
    drop(running);
    let running = Running::start(server, &plan);
    running.reconciled("cluster", 1).await;
    team.reconciled(&plan).await;
    let bindings =
        Api::<ClusterRoleBinding>::all(team.client.clone()).list(&ListParams::default()).await.expect("list");
    let left: Vec<String> = bindings
        .iter()
        .map(kube::ResourceExt::name_any)
        .filter(|name| uids.iter().any(|uid| name.contains(uid)))
        .collect();
    assert_eq!(left, [""; 0]);
    let roles = Api::<ClusterRole>::all(team.client.clone()).list(&ListParams::default()).await.expect("list");
    let id = team.tenant().await.expect("the tenant");
    assert!(!roles.iter().any(|role| role.name_any() == format!("berth:{id}:viewer")), "a role that nobody has");
    team.wipe().await;
}

#[tokio::test]
async fn who_has_no_access_costs_no_request_and_at_rest_nothing_is_written() {
    let (_turn, server) = alone_at_a_server().await;
    let (team, plan) = (Team::with_cluster(server).await, FaultPlan::new());
    let _running = Running::start(server, &plan);
    team.ready().await.unwrap_or_else(|e| panic!("{e:#}"));
    team.reconciled(&plan).await;
    let of_users = |from: usize| {
        let calls = plan.calls_after(from);
        let ours =
            |call: &&berth_testkit::fault::Call| call.resource == "clusteraccesses" || call.name == "berth-users";
        calls.iter().filter(ours).map(|call| format!("{call:?}")).collect::<Vec<String>>()
    };
    assert!(of_users(0).len() <= 2, "a list and a watch: {:?}", of_users(0));
    let mark = plan.calls().len();
    team.reconciled(&plan).await;
    assert_eq!(of_users(mark), [""; 0]);
    team.wipe().await;
}
