//! What refuses the operator's own writes, or does not answer them: a quota, a policy, webhooks.

use std::{
    thread,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use berth_api::names;
use berth_e2e::{
    Tenant, World, core,
    faults::{ERROR, REJECTED, comes_back, says},
    until,
};
use serde_json::{Value, json};

use super::{deployment, webhook};

pub(crate) const ADMISSION: &str = "/apis/admissionregistration.k8s.io/v1";
/// Everything that refuses and is not in a tenant's namespace.
const REFUSERS: [&str; 5] = [
    "validatingadmissionpolicybindings/no-deployments",
    "validatingadmissionpolicies/no-deployments",
    "validatingwebhookconfigurations/denies",
    "validatingwebhookconfigurations/down",
    "validatingwebhookconfigurations/hangs",
];
/// API servers take up policies and webhooks a moment after they were made.
pub(crate) const TAKEN_UP: Duration = Duration::from_secs(3);

/// Takes it all away.
pub(crate) fn nothing_refuses(world: &World) -> Result<()> {
    REFUSERS.iter().try_for_each(|refuser| world.kube.delete(&format!("{ADMISSION}/{refuser}")))
}

/// Meanwhile a certificate is made, which is an earlier stage. What was refused is tried again without any event.
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
            "matchResources": {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": tenant.cp_namespace}}},
        },
    });
    world.kube.ensure(&format!("{ADMISSION}/validatingadmissionpolicies"), &policy)?;
    world.kube.ensure(&format!("{ADMISSION}/validatingadmissionpolicybindings"), &binding)?;
    thread::sleep(TAKEN_UP);
    world.kube.delete(&deployment(tenant, names::SCHEDULER))?;
    let cause = ["kube-scheduler", "no Deployments on Saturdays"];
    says(tenant, REJECTED, &cause)?;
    comes_back(world, &format!("{}/{}", core(&tenant.cp_namespace, "secrets"), names::CONTROLLER_MANAGER_PKI))?;
    says(tenant, REJECTED, &cause)?;
    tenant.api()?.get("/version")?;
    world.kube.delete(&format!("{ADMISSION}/validatingadmissionpolicybindings/no-deployments"))?;
    world.kube.delete(&format!("{ADMISSION}/validatingadmissionpolicies/no-deployments"))?;
    tenant.wait_ready().map(drop)
}

pub(crate) fn no_config_maps(world: &World, tenant: &Tenant<'_>) -> Result<()> {
    let hard = json!({"count/configmaps": "0"});
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "no-config-maps"}, "spec": {"hard": hard}});
    let quotas = core(&tenant.cp_namespace, "resourcequotas");
    world.kube.ensure(&quotas, &quota)?;
    until("the quota to have been counted", || {
        let quota = world.kube.get(&format!("{quotas}/no-config-maps"))?;
        ensure!(quota["status"]["hard"] == hard && quota["status"]["used"].is_object(), "{}", quota["status"]);
        Ok(())
    })
}

pub(crate) fn ensure_webhook(world: &World, tenant: &Tenant<'_>, name: &str, client: &Value) -> Result<()> {
    let configuration = webhook::configuration(&tenant.cp_namespace, name, client);
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
