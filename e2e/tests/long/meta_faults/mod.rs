//! Faults of the meta cluster: each is named by a condition, other stages and other tenants go on, and it heals without a touch on the `Cluster`.

mod away;
mod birth;
mod webhook;
mod writes;

use anyhow::Result;
use berth_api::names;
use berth_e2e::{
    Tenant, World, apps,
    faults::{Verdict, delete_pods, no_pods, pods_again, says},
};
use serde_json::json;

const QUORUM_LOST: Verdict = ["Degraded", "True", "QuorumLost"];

#[test]
#[ignore = "make test-all: where names do not resolve, each pull takes half a minute to fail, and kubelet pulls one after the other"]
fn what_is_missing_at_birth_is_named_and_awaited() {
    berth_e2e::run("meta_faults", birth::missing);
}

#[test]
#[ignore = "make test-all: a StatefulSet takes minutes to try again, and so do the others as a whole"]
fn writes_that_are_refused_are_named_and_tried_again() {
    berth_e2e::run("meta_faults", |world| {
        // A run that was cut off may have left them, and they would refuse this one's tenants.
        writes::nothing_refuses(world)?;
        let result = refused_later(world);
        writes::nothing_refuses(world)?;
        result
    });
}

fn refused_later(world: &World) -> Result<()> {
    let short = Tenant::ready(world, "short", &json!({}))?;
    a_quota_for_etcd(world, &short)?;
    let refused = Tenant::ready(world, "refused", &json!({}))?;
    writes::a_policy_that_refuses(world, &refused)?;
    away::the_operator_is_away(world, &refused)?;
    short.wait_ready()?;
    writes::a_webhook_that_hangs(world, &refused, &short)?;
    refused.delete()?;
    short.let_go()
}

/// A StatefulSet has no condition for that, and takes minutes to try again. Does not wait for that.
fn a_quota_for_etcd(world: &World, tenant: &Tenant<'_>) -> Result<()> {
    no_pods(world, tenant)?;
    delete_pods(world, tenant, names::ETCD)?;
    says(tenant, QUORUM_LOST, &["etcd-0 does not exist", "exceeded quota: none"])?;
    pods_again(world, tenant)
}

fn deployment(tenant: &Tenant<'_>, component: &str) -> String {
    format!("{}/{component}", apps(&tenant.cp_namespace, "deployments"))
}
