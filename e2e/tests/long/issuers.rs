//! Another issuer of service-account tokens, with several API servers: who has a token notices nothing.

use anyhow::{Context, Result, ensure};
use berth_e2e::{Caller, Kubectl, Tenant, revisions::outcome, until};
use serde_json::{Value, json};

const ISSUER: &str = "https://issuers.example.com";

#[test]
#[ignore = "make test-all: an issuer changes in two rollouts of two API servers"]
fn with_another_issuer_no_token_is_refused() {
    berth_e2e::run("issuers", |world| {
        let spec = json!({"apiServer": {"replicas": 2}, "upgrade": {"soak": "0s"}});
        let tenant = Tenant::ready(world, "issuers", &spec)?;
        outcome(&tenant, 1, "Succeeded")?;
        let kubectl = Kubectl::of(&tenant)?;
        let role = ["create", "clusterrolebinding", "caller", "--clusterrole=cluster-admin"];
        kubectl.run(&[&role[..], &["--serviceaccount=default:default"]].concat())?;
        let before = Caller::start(&with_token(&kubectl)?);

        println!("    spec.apiServer.serviceAccountIssuers");
        tenant.change(&json!({"apiServer": {"serviceAccountIssuers": [ISSUER]}}))?;
        outcome(&tenant, 2, "Succeeded")?;
        // Of an API server of either step.
        let between = Caller::start(&with_token(&kubectl)?);
        outcome(&tenant, 3, "Succeeded")?;
        let cluster = tenant.wait_ready()?;
        let former = &cluster["status"]["formerServiceAccountIssuers"];
        ensure!(former[0]["issuer"] == "https://kubernetes.default.svc.cluster.local", "{former}");
        // The API servers from before end last, and answer for a while.
        until("the new issuer to be shown", || {
            let shown = kubectl.run(&["get", "--raw", "/.well-known/openid-configuration"])?;
            let shown: Value = serde_json::from_str(&shown)?;
            ensure!(shown["issuer"] == ISSUER, "{shown}");
            Ok(())
        })?;
        let after = Caller::start(&with_token(&kubectl)?);
        tenant.scheduler_works()?;
        for caller in [before, between, after] {
            caller.end()?.none_failed()?;
        }
        tenant.let_go()
    });
}

/// A kubeconfig with a token for an hour, and no certificate: that would win.
fn with_token(kubectl: &Kubectl) -> Result<String> {
    let token = kubectl.until("a token", &["create", "token", "default", "--duration=1h"])?;
    let mut kubeconfig: Value = serde_json::from_str(&kubectl.run(&["config", "view", "--raw", "-o", "json"])?)?;
    let user = kubeconfig.pointer_mut("/users/0/user").context("a user")?;
    *user = json!({"token": token.trim()});
    Ok(kubeconfig.to_string())
}
