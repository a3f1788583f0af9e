//! What keeps pods away: no capacity, a quota.

use anyhow::Result;
use berth_api::names;
use berth_e2e::{Tenant, World, core, kube_client::path};
use serde_json::json;

use crate::{REJECTED, UNSCHEDULABLE, Verdict, comes_back, says};

const QUORUM_LOST: Verdict = ["Degraded", "True", "QuorumLost"];

/// Meanwhile a certificate is made, which is an earlier stage.
pub(crate) fn no_node_takes_it(world: &World, tenant: &Tenant<'_>) -> Result<()> {
    world.kubectl(&["cordon", &world.cluster.node()])?;
    let named = unschedulable(world, tenant);
    world.kubectl(&["uncordon", &world.cluster.node()])?;
    named?;
    tenant.wait_ready().map(drop)
}

fn unschedulable(world: &World, tenant: &Tenant<'_>) -> Result<()> {
    delete(world, tenant, names::SCHEDULER)?;
    let cause = ["kube-scheduler-", "not scheduled"];
    says(tenant, UNSCHEDULABLE, &cause)?;
    comes_back(world, &format!("{}/{}", core(&tenant.cp_namespace, "secrets"), names::CONTROLLER_MANAGER_PKI))?;
    says(tenant, UNSCHEDULABLE, &cause)
}

/// Meanwhile a policy is made, which is an earlier stage. Does not wait for what comes after the quota.
pub(crate) fn a_quota(world: &World, tenant: &Tenant<'_>) -> Result<()> {
    no_pods(world, tenant)?;
    delete(world, tenant, names::SCHEDULER)?;
    let cause = ["kube-scheduler", "exceeded quota: none"];
    says(tenant, REJECTED, &cause)?;
    comes_back(world, &path("/apis/networking.k8s.io/v1", &tenant.cp_namespace, "networkpolicies/etcd"))?;
    says(tenant, REJECTED, &cause)?;
    pods_again(world, tenant)
}

/// A StatefulSet has no condition for that, and takes minutes to try again. Does not wait for that.
pub(crate) fn a_quota_for_etcd(world: &World, tenant: &Tenant<'_>) -> Result<()> {
    no_pods(world, tenant)?;
    delete(world, tenant, names::ETCD)?;
    says(tenant, QUORUM_LOST, &["etcd-0 does not exist", "exceeded quota: none"])?;
    pods_again(world, tenant)
}

fn no_pods(world: &World, tenant: &Tenant<'_>) -> Result<()> {
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}});
    world.kube.ensure(&core(&tenant.cp_namespace, "resourcequotas"), &quota)
}

fn pods_again(world: &World, tenant: &Tenant<'_>) -> Result<()> {
    world.kube.delete(&format!("{}/none", core(&tenant.cp_namespace, "resourcequotas")))
}

pub(crate) fn delete(world: &World, tenant: &Tenant<'_>, component: &str) -> Result<()> {
    let selector = format!("app.kubernetes.io/component={component}");
    world.kubectl(&["-n", &tenant.cp_namespace, "delete", "pod", "-l", &selector, "--wait=false"]).map(drop)
}
