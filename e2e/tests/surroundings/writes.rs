//! What refuses the operator's own writes, or does not answer them: a quota, a policy, webhooks. And none of it while it looks.

use std::{
    thread,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use berth_api::names;
use berth_e2e::{Tenant, World, core, until};
use serde_json::{Value, json};

use crate::{ERROR, REJECTED, comes_back, deployment, is_back, says, uid, webhook};

const ADMISSION: &str = "/apis/admissionregistration.k8s.io/v1";
/// Everything that refuses and is not in a tenant's namespace.
const REFUSERS: [&str; 5] = [
    "validatingadmissionpolicybindings/no-deployments",
    "validatingadmissionpolicies/no-deployments",
    "validatingwebhookconfigurations/denies",
    "validatingwebhookconfigurations/down",
    "validatingwebhookconfigurations/hangs",
];
/// API servers take up policies and webhooks a moment after they were made.
const TAKEN_UP: Duration = Duration::from_secs(3);

/// Takes it all away.
pub(crate) fn nothing_refuses(world: &World) -> Result<()> {
    REFUSERS.iter().try_for_each(|refuser| world.kube.delete(&format!("{ADMISSION}/{refuser}")))
}

/// Meanwhile a certificate is made, which is an earlier stage. What was refused is tried again without any news.
pub(crate) fn a_policy_that_refuses(world: &World, tenant: &Tenant<'_>) -> Result<()> {
    let rules =
        json!([{"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["deployments"]}]);
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "no-deployments"},
        "spec": {
            "matchConstraints": {"resourceRules": rules},
            "validations": [{"expression": "false", "message": "no Deployments on Saturdays"}],
        },
    });
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "no-deployments"},
        "spec": {
            "policyName": "no-deployments", "validationActions": ["Deny"],
            "matchResources": {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": tenant.home}}},
        },
    });
    world.kube.ensure(&format!("{ADMISSION}/validatingadmissionpolicies"), &policy)?;
    world.kube.ensure(&format!("{ADMISSION}/validatingadmissionpolicybindings"), &binding)?;
    thread::sleep(TAKEN_UP);
    world.kube.delete(&deployment(tenant, names::SCHEDULER))?;
    let cause = ["kube-scheduler", "no Deployments on Saturdays"];
    says(tenant, REJECTED, &cause)?;
    comes_back(world, &format!("{}/{}", core(&tenant.home, "secrets"), names::CONTROLLER_MANAGER_PKI))?;
    says(tenant, REJECTED, &cause)?;
    tenant.api()?.get("/version")?;
    world.kube.delete(&format!("{ADMISSION}/validatingadmissionpolicybindings/no-deployments"))?;
    world.kube.delete(&format!("{ADMISSION}/validatingadmissionpolicies/no-deployments"))?;
    tenant.wait_ready().map(drop)
}

/// A quota and a webhook come while no operator is there, and so does the loss of what they refuse; the last cause goes while none is
/// there. In between one follows the other, and meanwhile kube-scheduler's Deployment is made, which is a later stage.
pub(crate) fn the_operator_is_away(world: &World, tenant: &Tenant<'_>) -> Result<()> {
    let address = world.cluster.host_address();
    let denies = webhook::denies(address, "no Deployments on Sundays")?;
    let config = format!("{}/{}", core(&tenant.home, "configmaps"), names::APISERVER);
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

    world.kube.delete(&format!("{}/no-config-maps", core(&tenant.home, "resourcequotas")))?;
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

/// The operator is stopped meanwhile.
fn without_operator(world: &World, meanwhile: impl FnOnce() -> Result<()>) -> Result<()> {
    world.stop_operator()?;
    let done = meanwhile();
    world.start_operator()?;
    done
}

fn no_config_maps(world: &World, tenant: &Tenant<'_>) -> Result<()> {
    let hard = json!({"count/configmaps": "0"});
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "no-config-maps"}, "spec": {"hard": hard}});
    let quotas = core(&tenant.home, "resourcequotas");
    world.kube.ensure(&quotas, &quota)?;
    until("the quota to have been counted", || {
        let quota = world.kube.get(&format!("{quotas}/no-config-maps"))?;
        ensure!(quota["status"]["hard"] == hard && quota["status"]["used"].is_object(), "{}", quota["status"]);
        Ok(())
    })
}

fn ensure_webhook(world: &World, tenant: &Tenant<'_>, name: &str, client: &Value) -> Result<()> {
    let configuration = webhook::configuration(&tenant.home, name, client);
    world.kube.ensure(&format!("{ADMISSION}/validatingwebhookconfigurations"), &configuration)
}

/// The write is given up, said, and tried again; a later stage goes on, and another tenant does not notice.
pub(crate) fn a_webhook_that_hangs(world: &World, tenant: &Tenant<'_>, other: &Tenant<'_>) -> Result<()> {
    ensure_webhook(world, tenant, "hangs", &webhook::hangs(world.cluster.host_address())?)?;
    thread::sleep(TAKEN_UP);
    let manager = deployment(tenant, names::CONTROLLER_MANAGER);
    world.kube.delete(&manager)?;
    let cause = [names::CONTROLLER_MANAGER, "no answer within"];
    says(tenant, ERROR, &cause)?;
    comes_back(world, &deployment(tenant, names::SCHEDULER))?;
    is_repaired(world, other)?;
    // All that while the webhook did not answer, and nothing came past it.
    says(tenant, ERROR, &cause)?;
    ensure!(world.kube.find(&manager)?.is_none(), "the webhook let a Deployment pass");
    world.kube.delete(&format!("{ADMISSION}/validatingwebhookconfigurations/hangs"))?;
    tenant.wait_ready().map(drop)
}

/// What goes missing of a tenant comes back, and it is ready again.
fn is_repaired(world: &World, tenant: &Tenant<'_>) -> Result<()> {
    let started = Instant::now();
    let scheduler = deployment(tenant, names::SCHEDULER);
    comes_back(world, &scheduler)?;
    // A condition may be from before: that the new one's pod is ready is not.
    until("the other tenant's scheduler to be available", || {
        ensure!(world.kube.get(&scheduler)?["status"]["availableReplicas"] == 1);
        Ok(())
    })?;
    tenant.wait_ready()?;
    println!("    repaired meanwhile in {:.1?}", started.elapsed());
    Ok(())
}
