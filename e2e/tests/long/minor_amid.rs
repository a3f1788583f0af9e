//! What may happen amid the first step of a minor, with a client that opens a new connection each 100 ms and an object of every kind: it
//! does not come up, somebody pauses it, changes their mind, or deletes the tenant. And after the second step: every status is lost.

use anyhow::{Result, ensure};
use berth_api::labels;
use berth_e2e::{
    Caller, NEWEST, PREVIOUS_PATCH, Tenant, World,
    minors::{COMPONENTS, Objects, Watch, ready, serves},
    tenant::{Pods, condition},
    until,
};
use serde_json::{Value, json};

const OLD: &str = "1.35.4";

/// Of the new minor, and without an image.
const BAD: &str = "1.36.99";

#[test]
#[ignore = "make test-all: the binaries of the minor between take minutes to build, and six rollouts of two API servers minutes to run"]
fn a_first_step_fails_is_paused_changes_its_mind_and_is_deleted() {
    berth_e2e::run("minor_amid", |world| {
        let upgrade = json!({"soak": "0s", "finalizeAfter": "168h"});
        let gone = Tenant::create(world, "amid-gone", &json!({"version": OLD, "upgrade": upgrade}))?;
        let spec = json!({"version": OLD, "apiServer": {"replicas": 2}, "upgrade": upgrade});
        let tenant = Tenant::ready(world, "amid", &spec)?;
        let kept = Objects::keep(&tenant)?;
        let (caller, watch) = (Caller::start(&tenant.kubeconfig()?), Watch::start(&world.kube, &tenant));
        fails(&tenant, &kept)?;
        is_paused(world, &tenant, &kept)?;
        changes_its_mind(&tenant, &kept)?;
        forgets(world, &tenant, &kept)?;
        caller.end()?.none_failed()?;
        watch.end(&[OLD, BAD, PREVIOUS_PATCH, NEWEST])?;
        tenant.nothing_restarted()?;
        tenant.let_go()?;
        is_deleted(&gone)
    });
}

/// It goes back by itself, before anything of the new minor served.
fn fails(tenant: &Tenant<'_>, kept: &Objects) -> Result<()> {
    println!("    a minor of which there is no image");
    let before = tenant.pod_identities()?;
    tenant.change(&json!({"version": BAD, "upgrade": {"progressDeadline": "30s"}}))?;
    let message = tenant.wait_condition("Ready", "False", "RolledBack")?;
    ensure!(message.contains(BAD) && message.contains(&format!("kube-apiserver:v{BAD}")), "{message}");
    until("the pods from before, and no other", || same_pods(tenant, &before))?;
    serves(tenant, 2, OLD, "35")?;
    kept.are_the_same(tenant)?;
    let cluster = tenant.cluster()?;
    ensure!(cluster["spec"]["version"] == BAD, "the spec is left alone");
    ensure!(cluster["status"]["version"] == OLD && cluster["status"]["emulatedVersion"].is_null(), "{cluster}");
    ensure!(condition(&cluster, "Available")?["status"] == "True", "{cluster}");
    tenant.change(&json!({"version": OLD, "upgrade": {"progressDeadline": "5m"}}))?;
    ready(tenant, "AsExpected")?;
    same_pods(tenant, &before)
}

/// What Kubernetes has begun it ends; Berth goes no further, and on when it may.
fn is_paused(world: &World, tenant: &Tenant<'_>, kept: &Objects) -> Result<()> {
    println!("    paused");
    let [server, manager, scheduler] = COMPONENTS;
    let before = [pods_of(tenant, manager)?, pods_of(tenant, scheduler)?];
    tenant.change(&json!({"version": NEWEST}))?;
    begun(tenant, NEWEST)?;
    tenant.change(&json!({"paused": true}))?;
    tenant.wait_condition("Progressing", "False", "Paused")?;
    let mark = world.audit_mark()?;
    until("API servers to be replaced, as their Deployment has it", || {
        let status = &tenant.deployment(server)?["status"];
        ensure!(
            status["updatedReplicas"] == 2 && status["availableReplicas"] == 2 && status["replicas"] == 2,
            "{status}"
        );
        Ok(())
    })?;
    // It is looked at with all API servers there; a pass that had begun before is over then.
    for look in ["1", "2"] {
        let passes = world.operator_reconciles("cluster")?;
        world.kube.merge(&tenant.path(), &json!({"metadata": {"annotations": {"example.com/look": look}}}))?;
        until("the operator to look again", || {
            ensure!(world.operator_reconciles("cluster")? > passes, "it did not");
            Ok(())
        })?;
    }
    let writes = world.writes_since(mark)?;
    // It says that it is paused, and others need not wait for its turn.
    let says = |write: &&String| write.contains("/status?") || write.ends_with("fieldManager=berth-fleet");
    let inside: Vec<_> = writes.iter().filter(|w| w.contains(&tenant.cp_namespace)).filter(|w| !says(w)).collect();
    ensure!(inside.is_empty(), "paused, it wrote {inside:?}");
    ensure!([pods_of(tenant, manager)?, pods_of(tenant, scheduler)?] == before, "they are the same");
    tenant.change(&json!({"paused": false}))?;
    ready(tenant, "Emulating")?;
    serves(tenant, 2, NEWEST, "35")?;
    kept.are_the_same(tenant)
}

/// Back, and then a patch version of the new minor; once that has begun, back and another one at once.
fn changes_its_mind(tenant: &Tenant<'_>, kept: &Objects) -> Result<()> {
    println!("    back, and a version that has begun when the next two come at once");
    tenant.change(&json!({"version": OLD}))?;
    ready(tenant, "AsExpected")?;
    serves(tenant, 2, OLD, "35")?;
    kept.are_the_same(tenant)?;
    tenant.change(&json!({"version": PREVIOUS_PATCH}))?;
    begun(tenant, PREVIOUS_PATCH)?;
    tenant.change(&json!({"version": OLD}))?;
    tenant.change(&json!({"version": NEWEST}))?;
    ready(tenant, "Emulating")?;
    serves(tenant, 2, NEWEST, "35")?;
    let newest = tenant.cluster()?["status"]["history"][0].clone();
    ensure!(newest["version"] == NEWEST && newest["outcome"] == "Succeeded", "{newest}");
    kept.are_the_same(tenant)
}

/// The second step, and then the objects of the meta cluster are restored without a status: there is no way back all the same.
fn forgets(world: &World, tenant: &Tenant<'_>, kept: &Objects) -> Result<()> {
    println!("    through, and no status is left");
    tenant.change(&json!({"upgrade": {"finalizeAfter": "0s"}}))?;
    ready(tenant, "AsExpected")?;
    serves(tenant, 2, NEWEST, "36")?;
    let before = tenant.pod_identities()?;
    world.stop_operator()?;
    tenant.forget_statuses()?;
    tenant.change(&json!({"version": OLD}))?;
    world.start_operator()?;
    let message = tenant.wait_condition("Ready", "False", "DowngradeUnsafe")?;
    ensure!(message.contains("Set a patch version of 1.36"), "{message}");
    ensure!(condition(&tenant.cluster()?, "Available")?["status"] == "True", "it serves on");
    tenant.change(&json!({"version": NEWEST}))?;
    ready(tenant, "AsExpected")?;
    same_pods(tenant, &before)?;
    kept.are_the_same(tenant)
}

/// Nothing is left of it.
fn is_deleted(tenant: &Tenant<'_>) -> Result<()> {
    println!("    deleted");
    ready(tenant, "AsExpected")?;
    tenant.change(&json!({"version": NEWEST}))?;
    begun(tenant, NEWEST)?;
    tenant.delete()
}

/// The first step has begun: a new API server is there, which emulates the old minor, and the other components are the old ones.
fn begun(tenant: &Tenant<'_>, version: &str) -> Result<()> {
    until("the first step to have begun", || {
        let pods = tenant.pods(Some(COMPONENTS[0]))?;
        let is_new = |pod: &&Value| pod["metadata"]["labels"][labels::VERSION] == version;
        let new = pods.iter().find(is_new);
        ensure!(new.is_some(), "no pod of {version} is there");
        let args = new.map(|pod| pod["spec"]["containers"][0]["args"].to_string()).unwrap_or_default();
        ensure!(args.contains("--emulated-version=1.35"), "{args}");
        Ok(())
    })?;
    for component in &COMPONENTS[1..] {
        let template = tenant.deployment(component)?["spec"]["template"]["metadata"]["labels"][labels::VERSION].clone();
        ensure!(template == OLD, "{component} is of {template} already");
    }
    Ok(())
}

fn pods_of(tenant: &Tenant<'_>, component: &str) -> Result<Vec<Value>> {
    let mut all: Vec<Value> = tenant.pods(Some(component))?.iter().map(|pod| pod["metadata"]["uid"].clone()).collect();
    all.sort_by_key(Value::to_string);
    Ok(all)
}

fn same_pods(tenant: &Tenant<'_>, before: &Pods) -> Result<()> {
    let now = tenant.pod_identities()?;
    ensure!(now == *before, "{now:?}, not {before:?}");
    Ok(())
}
