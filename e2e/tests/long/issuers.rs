//! Another issuer of service-account tokens, with several API servers: who has a token notices nothing. And an issuer of the platform's people.

use anyhow::{Context, Result, bail, ensure};
use berth_e2e::operator::{Options, SYSTEM};
use berth_e2e::tenant::condition;
use berth_e2e::{
    Caller, Issuer, Kube, Kubectl, Tenant, World, berth, issuer, kube_client::status_of, revisions::outcome, until,
};
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
    as_whoever_has(kubectl, token.trim())
}

/// The same kubeconfig with that token alone.
fn as_whoever_has(kubectl: &Kubectl, token: &str) -> Result<String> {
    let mut kubeconfig: Value = serde_json::from_str(&kubectl.run(&["config", "view", "--raw", "-o", "json"])?)?;
    let user = kubeconfig.pointer_mut("/users/0/user").context("a user")?;
    *user = json!({"token": token});
    Ok(kubeconfig.to_string())
}

/// Who has a token of it comes in, in tenants that took the value up, and may what a `ClusterAccess` gives their group.
#[test]
#[ignore = "make test-all: an issuer, two tenants with real pods, and a release; what is refused and recorded is tested in memory"]
fn people_of_the_platforms_issuer_have_what_their_group_is_given() {
    berth_e2e::run("platform_issuer", |world| {
        let issuer = Issuer::serve(world.cluster.host_address())?;
        let spec = json!({"upgrade": {"soak": "0s"}});
        let older = Tenant::ready(world, "older-issuer", &spec)?;
        outcome(&older, 1, "Succeeded")?;
        let pods = older.pod_identities()?;
        world.install(&Options { values: values(&issuer), ..Options::default() })?;
        let claims = json!({"email": "jane@example.com", "email_verified": true, "groups": ["developers"]});
        let token = issuer.token("/people", &claims)?;

        println!("    a tenant that was there takes it with its next release");
        let said = older.wait_condition("UpdateAvailable", "True", "OtherTemplates")?;
        ensure!(said.starts_with("the chart's authentication.jwt differs from the tenant's"), "{said}");
        ensure!(older.pod_identities()? == pods, "something was restarted for it");
        is_refused(&older, &token)?;

        println!("    a new one has it");
        let new = Tenant::ready(world, "new-issuer", &spec)?;
        let me = until("the API server to know the issuer", || who(&new, &token))?;
        let groups = me["groups"].to_string();
        ensure!(me["username"] == "corp:jane@example.com" && groups.contains("\"corp:developers\""), "{me}");
        who_is_refused(world, &issuer, &new)?;

        println!("    a group gets a role");
        ensure!(!may(&new, &token, "pods")?, "before anybody gave it");
        let access = json!({
            "apiVersion": "berth.dev/v1alpha1", "kind": "ClusterAccess", "metadata": {"name": "developers"},
            "spec": {
                "clusterSelector": {}, "issuer": "Tenant", "role": "Viewer",
                "subjects": [{"kind": "Group", "name": "corp:developers"}],
            },
        });
        world.kube.create(&berth(SYSTEM, "clusteraccesses"), &access)?;
        until("what a Viewer may", || {
            ensure!(may(&new, &token, "pods")?, "they may not");
            Ok(())
        })?;
        ensure!(!may(&new, &token, "secrets")?, "a Viewer reads Secrets");
        let colleague = issuer.token("/people", &json!({"email": "joe@example.com", "groups": ["others"]}))?;
        ensure!(!may(&new, &colleague, "pods")?, "somebody of no such group has it");

        println!("    the older one has it after its next release");
        older.change(&json!({"upgrade": {"templates": "Newest"}}))?;
        outcome(&older, 2, "Succeeded")?;
        let cluster = older.wait_ready()?;
        ensure!(condition(&cluster, "UpdateAvailable").is_err(), "{}", cluster["status"]["conditions"]);
        until("what a Viewer may", || {
            ensure!(may(&older, &token, "pods")? && !may(&older, &token, "secrets")?, "they may not");
            Ok(())
        })?;
        let revisions = world.kube.list(&berth(&older.cp_namespace, "clusterrevisions"))?;
        let recorded = revisions.iter().filter(|r| r["spec"]["pin"]["jwt"].to_string().contains(&issuer.url)).count();
        ensure!(recorded == 1 && revisions.len() == 2, "{recorded} of {} revisions have it", revisions.len());

        println!("    taken back");
        world.kube.delete(&format!("{}/developers", berth(SYSTEM, "clusteraccesses")))?;
        until("nothing of it", || {
            ensure!(!may(&new, &token, "pods")? && !may(&older, &token, "pods")?, "it is there");
            Ok(())
        })?;
        who(&new, &token)?;
        older.delete()?;
        new.delete()
    });
}

/// Two issuers: of people with a prefix, and one whose names count as they are.
fn values(of: &Issuer) -> Vec<String> {
    let one = |at: usize, path: &str, prefix: &str| {
        [
            ("issuer.url", format!("{}{path}", of.url)),
            ("issuer.audiences", format!("{{{}}}", issuer::AUDIENCE)),
            ("issuer.certificateAuthority", of.certificate.clone()),
            ("claimMappings.username.claim", "email".to_owned()),
            ("claimMappings.username.prefix", prefix.to_owned()),
            ("claimMappings.groups.claim", "groups".to_owned()),
            ("claimMappings.groups.prefix", prefix.to_owned()),
        ]
        .map(|(field, value)| format!("authentication.jwt[{at}].{field}={value}"))
    };
    [one(0, "/people", "corp:"), one(1, "/names", "")].concat()
}

/// Names that are Kubernetes', Berth's or the login's; and what another key signed.
fn who_is_refused(world: &World, issuer: &Issuer, tenant: &Tenant<'_>) -> Result<()> {
    let named = |email: &str, groups: &[&str]| issuer.token("/names", &json!({"email": email, "groups": groups}));
    let me = until("the second issuer to be known", || who(tenant, &named("eve", &["readers"])?))?;
    ensure!(me["username"] == "eve", "{me}");
    for name in ["system:admin", "berth:apps", "kubeadm:x", "access:jane"] {
        is_refused(tenant, &named(name, &[])?)?;
        is_refused(tenant, &named("eve", &[name])?)?;
    }
    is_refused(tenant, &named("eve", &["readers", "system:masters"])?)?;
    let stranger = Issuer::serve(world.cluster.host_address())?;
    let claims = json!({"email": "jane@example.com", "groups": ["developers"]});
    is_refused(tenant, &stranger.token_of(&format!("{}/people", issuer.url), &claims)?)?;
    is_refused(tenant, &issuer.token("/people", &json!({"email": "jane@example.com", "aud": "others"}))?)
}

/// Who somebody is there who has that token.
fn who(tenant: &Tenant<'_>, token: &str) -> Result<Value> {
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let api = Kube::with_token(&tenant.kubeconfig()?, token)?;
    let said = api.create("/apis/authentication.k8s.io/v1/selfsubjectreviews", &review)?;
    Ok(said["status"]["userInfo"].clone())
}

/// With that token one is nobody.
fn is_refused(tenant: &Tenant<'_>, token: &str) -> Result<()> {
    match who(tenant, token) {
        Err(error) if status_of(&error) == Some(401) => Ok(()),
        other => bail!("it is taken: {other:?}"),
    }
}

/// Whether whoever has that token may list these in all namespaces, as they are told themselves.
fn may(tenant: &Tenant<'_>, token: &str, resource: &str) -> Result<bool> {
    let kubectl = Kubectl::with(&as_whoever_has(&Kubectl::of(tenant)?, token)?)?;
    let output = kubectl.command()?.args(["auth", "can-i", "list", resource, "-A"]).output()?;
    let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    match &*said {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => bail!("{said}{}", String::from_utf8_lossy(&output.stderr)),
    }
}
