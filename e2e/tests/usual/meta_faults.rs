//! What keeps pods away, no capacity and a quota: it is named by a condition, other stages go on, and it heals without a touch on the
//! `Cluster`.

use anyhow::Result;
use berth_api::names;
use berth_e2e::{
    Tenant, World, core,
    faults::{REJECTED, UNSCHEDULABLE, comes_back, delete_pods, no_pods, pods_again, says},
    kube_client::path,
};
use serde_json::json;

#[test]
fn pods_that_are_refused_are_named_and_tried_again() {
    berth_e2e::run("meta_faults", |world| {
        let crowded = Tenant::ready(world, "crowded", &json!({}))?;
        no_node_takes_it(world, &crowded)?;
        a_quota(world, &crowded)?;
        crowded.let_go()
    });
}

/// Meanwhile a certificate is made, which is an earlier stage.
fn no_node_takes_it(world: &World, tenant: &Tenant<'_>) -> Result<()> {
    world.kubectl(&["cordon", &world.cluster.node()])?;
    let named = unschedulable(world, tenant);
    world.kubectl(&["uncordon", &world.cluster.node()])?;
    named?;
    tenant.wait_ready().map(drop)
}

fn unschedulable(world: &World, tenant: &Tenant<'_>) -> Result<()> {
    delete_pods(world, tenant, names::SCHEDULER)?;
    let cause = ["kube-scheduler-", "not scheduled"];
    says(tenant, UNSCHEDULABLE, &cause)?;
    comes_back(world, &format!("{}/{}", core(&tenant.cp_namespace, "secrets"), names::CONTROLLER_MANAGER_PKI))?;
    says(tenant, UNSCHEDULABLE, &cause)
}

/// Meanwhile a policy is made, which is an earlier stage. Does not wait for what comes after the quota.
fn a_quota(world: &World, tenant: &Tenant<'_>) -> Result<()> {
    no_pods(world, tenant)?;
    delete_pods(world, tenant, names::SCHEDULER)?;
    let cause = ["kube-scheduler", "exceeded quota: none"];
    says(tenant, REJECTED, &cause)?;
    comes_back(world, &path("/apis/networking.k8s.io/v1", &tenant.cp_namespace, "networkpolicies/etcd"))?;
    says(tenant, REJECTED, &cause)?;
    pods_again(world, tenant)
}
