//! None of it while the operator looks: causes come and go while it is away.

use std::thread;

use anyhow::{Result, ensure};
use berth_api::names;
use berth_e2e::{
    Options, Tenant, World, core,
    faults::{ERROR, REJECTED, UNSCHEDULABLE, comes_back, delete_pods, is_back, says, uid},
    until,
};
use serde_json::{Value, json};

use super::{
    deployment, webhook,
    writes::{ADMISSION, TAKEN_UP, ensure_webhook, no_config_maps},
};

/// All of that, one after the other.
pub(crate) fn the_operator_is_away(world: &World, tenant: &Tenant<'_>) -> Result<()> {
    refusals_of_writes(world, tenant)?;
    no_room(world, tenant)?;
    a_webhook_that_hangs(world, tenant)?;
    a_pair_that_does_not_match(world, tenant)
}

/// A quota and a webhook come while no operator is there, and so does the loss of what they refuse; the last cause goes while none is
/// there. In between one follows the other, and meanwhile kube-scheduler's Deployment is made, which is a later stage.
fn refusals_of_writes(world: &World, tenant: &Tenant<'_>) -> Result<()> {
    let address = world.cluster.host_address();
    let denies = webhook::denies(address, "no Deployments on Sundays")?;
    let config = tenant.configuration(names::APISERVER)?;
    let manager = deployment(tenant, names::CONTROLLER_MANAGER);
    let scheduler = deployment(tenant, names::SCHEDULER);
    let before = uid(world, &scheduler)?;
    without_operator(world, || {
        no_config_maps(world, tenant)?;
        ensure_webhook(world, tenant, "denies", &denies)?;
        [&config, &manager, &scheduler].into_iter().try_for_each(|gone| world.kube.delete(gone))
    })?;
    let quota = [names::APISERVER, "exceeded quota: no-config-maps"];
    says(tenant, REJECTED, &quota)?;
    is_back(world, &scheduler, &before)?;
    says(tenant, REJECTED, &quota)?;
    ensure!(world.kube.find(&config)?.is_none(), "the quota let a ConfigMap pass");

    world.kube.delete(&format!("{}/no-config-maps", core(&tenant.cp_namespace, "resourcequotas")))?;
    comes_back(world, &scheduler)?;
    says(tenant, REJECTED, &[names::CONTROLLER_MANAGER, "denied the request: no Deployments on Sundays"])?;
    world.kube.get(&config)?;

    ensure_webhook(world, tenant, "down", &webhook::down(address)?)?;
    thread::sleep(TAKEN_UP);
    world.kube.delete(&format!("{ADMISSION}/validatingwebhookconfigurations/denies"))?;
    comes_back(world, &scheduler)?;
    says(tenant, ERROR, &[names::CONTROLLER_MANAGER, "failed calling webhook \"down.test.berth.dev\""])?;
    ensure!(world.kube.find(&manager)?.is_none(), "a webhook let a Deployment pass");

    without_operator(world, || world.kube.delete(&format!("{ADMISSION}/validatingwebhookconfigurations/down")))?;
    tenant.wait_ready().map(drop)
}

/// A pod finds no node; the operator does, or nobody would look.
fn no_room(world: &World, tenant: &Tenant<'_>) -> Result<()> {
    let node = world.cluster.node();
    let toleration = ["key=node.kubernetes.io/unschedulable", "operator=Exists"];
    let values = toleration.iter().map(|set| format!("operator.tolerations[0].{set}")).collect();
    world.install(&Options { values, ..Options::default() })?;
    let named = without_operator(world, || {
        world.kubectl(&["cordon", &node])?;
        delete_pods(world, tenant, names::SCHEDULER)
    })
    .and_then(|()| says(tenant, UNSCHEDULABLE, &["kube-scheduler-", "not scheduled"]));
    without_operator(world, || world.kubectl(&["uncordon", &node]).map(drop))?;
    named?;
    tenant.wait_ready()?;
    world.install(&Options::default())
}

fn a_webhook_that_hangs(world: &World, tenant: &Tenant<'_>) -> Result<()> {
    let manager = deployment(tenant, names::CONTROLLER_MANAGER);
    without_operator(world, || {
        ensure_webhook(world, tenant, "hangs", &webhook::hangs(world.cluster.host_address())?)?;
        thread::sleep(TAKEN_UP);
        world.kube.delete(&manager)
    })?;
    says(tenant, ERROR, &[names::CONTROLLER_MANAGER, "no answer within"])?;
    without_operator(world, || world.kube.delete(&format!("{ADMISSION}/validatingwebhookconfigurations/hangs")))?;
    tenant.wait_ready()?;
    world.kube.get(&manager).map(drop)
}

/// A root's is named, and taken as it was; a leaf's is issued anew.
fn a_pair_that_does_not_match(world: &World, tenant: &Tenant<'_>) -> Result<()> {
    let secret = |name: &str| format!("{}/{name}", core(&tenant.cp_namespace, "secrets"));
    let key = |name: &str, key: &str| Ok::<_, anyhow::Error>(world.kube.get(&secret(name))?["data"][key].clone());
    let put = |name: &str, key: &str, value: &Value| {
        let patch = json!({"data": {key: value}}).to_string();
        world.kubectl(&["-n", &tenant.cp_namespace, "patch", "secret", name, "--type=merge", "-p", &patch]).map(drop)
    };
    let (ca, leaf) = (names::ca(&tenant.name), "apiserver-kubelet-client.key");
    let (own, others) = (key(&ca, "tls.key")?, key(&names::proxy_ca(&tenant.name), "tls.key")?);
    without_operator(world, || {
        put(&ca, "tls.key", &others)?;
        put(names::APISERVER_PKI, leaf, &others)
    })?;
    says(tenant, ["Degraded", "True", "CertificateAuthorityInvalid"], &[&ca])?;
    ensure!(key(&ca, "tls.key")? == others, "a root is not replaced");
    without_operator(world, || put(&ca, "tls.key", &own))?;
    tenant.wait_ready()?;
    until("a key of its own for the leaf", || {
        ensure!(key(names::APISERVER_PKI, leaf)? != others);
        Ok(())
    })?;
    ensure!(key(&ca, "tls.key")? == own, "the root was replaced");
    tenant.api()?.get("/version").map(drop)
}

/// The operator is stopped meanwhile.
pub(crate) fn without_operator(world: &World, meanwhile: impl FnOnce() -> Result<()>) -> Result<()> {
    world.stop_operator()?;
    let done = meanwhile();
    world.start_operator()?;
    done
}
