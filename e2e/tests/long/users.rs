//! Rights of people in a tenant with real pods: given and taken back by the command and by what they say, over a restart of the operator and over a
//! sleep.

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use berth_api::labels;
use berth_e2e::operator::{Options, SYSTEM};
use berth_e2e::{Kube, Kubectl, Tenant, World, berth, core, paths, run, until, until_within};
use serde_json::{Value, json};
use std::process::Command;
use std::time::Duration;

use crate::gateway;

/// A ClusterRole of the meta cluster that gives no more than it says.
const AUDITOR: &str = "e2e-auditor";

/// Of each role one person, who is called so. Those of whom it is true have it in the tenant's namespace `default` alone.
const PEOPLE: [(&str, &str, bool); 5] = [
    ("viewer", "Viewer", false),
    ("editor", "Editor", true),
    ("admin", "Admin", true),
    ("root", "ClusterAdmin", false),
    ("auditor", AUDITOR, false),
];

/// Verb, group, resource, namespace; and who may.
const TABLE: &[(&str, &str, &str, &str, &[&str])] = &[
    ("get", "", "pods", "default", &["viewer", "editor", "admin", "root"]),
    ("list", "apps", "deployments", "default", &["viewer", "editor", "admin", "root"]),
    ("get", "", "pods/log", "default", &["viewer", "editor", "admin", "root"]),
    ("list", "", "pods", "kube-system", &["viewer", "root"]),
    ("list", "", "nodes", "", &["viewer", "root"]),
    ("get", "", "secrets", "default", &["editor", "admin", "root"]),
    ("list", "", "secrets", "", &["root"]),
    ("get", "", "secrets", "kube-system", &["root"]),
    ("create", "", "pods", "default", &["editor", "admin", "root"]),
    ("create", "", "pods/exec", "default", &["editor", "admin", "root"]),
    ("patch", "", "configmaps", "default", &["editor", "admin", "root"]),
    ("patch", "", "configmaps", "kube-system", &["root"]),
    ("delete", "apps", "deployments", "default", &["editor", "admin", "root"]),
    ("create", "", "serviceaccounts/token", "default", &["editor", "admin", "root"]),
    ("create", "rbac.authorization.k8s.io", "rolebindings", "default", &["admin", "root"]),
    ("escalate", "rbac.authorization.k8s.io", "roles", "default", &["root"]),
    ("create", "rbac.authorization.k8s.io", "clusterrolebindings", "", &["root"]),
    ("impersonate", "", "users", "", &["root"]),
    ("get", "acme.example", "widgets", "default", &["auditor", "root"]),
    ("delete", "acme.example", "widgets", "default", &["root"]),
];

#[test]
#[ignore = "make test-all: a tenant with real pods sleeps and wakes; crashes and other fields are tested with real API servers in the operator's tests"]
fn rights_last_as_long_as_they_say() {
    run("users", |world| {
        let values = ["writers.access[0].namespaces={*}".to_owned(), format!("writers.access[0].roles={{{ROLES}}}")];
        world.install(&Options { values: values.into(), ..Options::default() })?;
        let tenant = Tenant::ready(world, "users", &json!({}))?;
        by_the_table(world, &tenant)?;
        by_the_command(world, &tenant)?;
        tenant.delete()
    });
}

/// What a team may give here.
const ROLES: &str = "Viewer,Editor,Admin,e2e-auditor";

fn by_the_table(world: &World, tenant: &Tenant<'_>) -> Result<()> {
    let inside = tenant.api()?;
    table(&inside, &[])?;
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": AUDITOR, "labels": {labels::ROLE: "true"}},
        "rules": [{"apiGroups": ["acme.example"], "resources": ["widgets"], "verbs": ["get"]}],
    });
    let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    world.kube.ensure(roles, &role)?;

    println!("    given");
    for (person, role, in_default) in PEOPLE {
        let mut spec = json!({"role": role, "subjects": [{"kind": "User", "name": person}]});
        // That one only the platform gives.
        let platform = role == "ClusterAdmin";
        spec["clusterRefs"] = if platform {
            json!([{"namespace": tenant.namespace, "name": tenant.name}])
        } else {
            json!([{"name": tenant.name}])
        };
        if in_default {
            spec["namespaces"] = json!(["default"]);
        }
        let access = json!({
            "apiVersion": "berth.dev/v1alpha1", "kind": "ClusterAccess", "metadata": {"name": person}, "spec": spec,
        });
        world.kube.create(&berth(namespace(tenant, platform), "clusteraccesses"), &access)?;
    }
    let all = PEOPLE.map(|(person, ..)| person);
    until("the table", || table(&inside, &all))?;

    println!("    it ends by itself");
    let soon = json!({"spec": {"expiresAt": in_seconds(5)?}});
    world.kube.merge(&path(tenant, "editor"), &soon)?;
    until("nothing of the editor's", || table(&inside, &["viewer", "admin", "root", "auditor"]))?;
    until("it to be said", || {
        let live = world.kube.get(&path(tenant, "editor"))?;
        let ready = berth_e2e::tenant::condition(&live, "Ready")?;
        ensure!(ready["status"] == "True" && live["status"]["granted"].as_i64().unwrap_or_default() == 0, "{live}");
        Ok(())
    })?;

    println!("    taken back, and deleted");
    access_verb(world, tenant, &["revoke", "viewer", "--wait"])?;
    table(&inside, &["admin", "root", "auditor"])?;
    world.kube.delete(&path(tenant, "admin"))?;
    until("it to be gone", || {
        ensure!(world.kube.find(&path(tenant, "admin"))?.is_none(), "it is there");
        Ok(())
    })?;
    table(&inside, &["root", "auditor"])?;

    println!("    another operator brings none of it back");
    world.restart_operator()?;
    world.operator_has_reconciled()?;
    // It has looked at this tenant once it has said so of a change.
    let seen = world.kube.merge(&path(tenant, "auditor"), &json!({"spec": {"namespaces": ["default"]}}))?;
    until("the new operator to have been there", || {
        let live = world.kube.get(&path(tenant, "auditor"))?;
        ensure!(live["status"]["observedGeneration"] == seen["metadata"]["generation"], "{}", live["status"]);
        ensure!(live["status"]["granted"] == 1, "{}", live["status"]);
        ensure!(!may(&inside, "auditor", ("get", "acme.example", "widgets", "kube-system"))?, "it is everywhere");
        Ok(())
    })?;
    table(&inside, &["root", "auditor"])?;

    println!("    nothing is left");
    for person in ["auditor", "editor", "viewer"] {
        world.kube.delete(&path(tenant, person))?;
    }
    let root = format!("{}/root", berth(SYSTEM, "clusteraccesses"));
    world.kube.delete(&root)?;
    until("all to be gone", || {
        ensure!(world.kube.list(&berth("", "clusteraccesses"))?.is_empty(), "some are there");
        Ok(())
    })?;
    table(&inside, &[])?;
    let bindings = inside.list("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings")?;
    let left = bindings.iter().filter(|b| berth_e2e::tenant::name_of(b).starts_with("berth:access:")).count();
    ensure!(left == 0, "{left} bindings are left");
    world.kube.delete(&format!("{roles}/{AUDITOR}"))
}

/// Whose it is: a team's, or the platform's.
fn namespace<'t>(tenant: &'t Tenant<'_>, platform: bool) -> &'t str {
    if platform { SYSTEM } else { &tenant.namespace }
}

fn path(tenant: &Tenant<'_>, access: &str) -> String {
    format!("{}/{access}", berth(&tenant.namespace, "clusteraccesses"))
}

/// Each row, for each person: those who have something have what their row says, and the others nothing.
fn table(inside: &Kube, given: &[&str]) -> Result<()> {
    for (verb, group, resource, namespace, who) in TABLE {
        for (person, ..) in PEOPLE {
            let wanted = given.contains(&person) && who.contains(&person);
            let found = may(inside, person, (*verb, *group, *resource, *namespace))?;
            ensure!(found == wanted, "{person}: {verb} {group}/{resource} in {namespace:?}: {found}");
        }
    }
    Ok(())
}

/// Whether somebody may whom the login calls so, by what the tenant's API server says.
fn may(inside: &Kube, person: &str, (verb, group, resource, namespace): (&str, &str, &str, &str)) -> Result<bool> {
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    let asked =
        json!({"verb": verb, "group": group, "resource": resource, "subresource": subresource, "namespace": namespace});
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
        "spec": {"user": format!("access:{person}"), "groups": ["system:authenticated"], "resourceAttributes": asked},
    });
    let said: Value = inside.create("/apis/authorization.k8s.io/v1/subjectaccessreviews", &review)?;
    said["status"]["allowed"].as_bool().with_context(|| format!("{said}"))
}

/// By this machine's clock, which is that of the meta cluster, too.
fn in_seconds(seconds: u32) -> Result<String> {
    let output =
        Command::new("date").args(["-u", "-d", &format!("{seconds} seconds"), "+%Y-%m-%dT%H:%M:%SZ"]).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

fn by_the_command(world: &World, tenant: &Tenant<'_>) -> Result<()> {
    println!("    by the command, over a sleep");
    let inside = Kubectl::of(tenant)?;
    let may = |verb: &str, resource: &str| -> Result<bool> {
        let answer = inside.command()?.args(["auth", "can-i", verb, resource, "--as=access:jane", "-A"]).output()?;
        Ok(String::from_utf8_lossy(&answer.stdout).trim() == "yes")
    };
    ensure!(!may("list", "pods")?, "before");
    let grant = ["grant", "jane", "--user", "jane", "--cluster", "users", "--role", "Viewer", "--for", "1h", "--wait"];
    println!("    {}", access_verb(world, tenant, &grant)?);
    ensure!(may("list", "pods")? && !may("list", "secrets")?, "a Viewer");
    let refused = access_verb(
        world,
        tenant,
        &["grant", "more", "--user", "jane", "--cluster", "users", "--role", "ClusterAdmin"],
    );
    let refused = format!("{:#}", refused.err().context("ClusterAdmin was given")?);
    ensure!(refused.contains("may not be given in namespace"), "{refused}");
    // Revoked while it sleeps: gone soon after the wake.
    kubectl_berth(world, tenant, &["sleep", "users", "-y", "--wait"])?;
    access_verb(world, tenant, &["revoke", "jane"])?;
    until_within(Duration::from_secs(30), "the right to be told until it is gone", || {
        let who = access_verb(world, tenant, &["who", "--cluster", "users"])?;
        ensure!(who.contains("User jane") && who.contains("NotRevoked"), "{who}");
        Ok(())
    })?;
    world.restart_operator()?;
    kubectl_berth(world, tenant, &["wake", "users", "--wait"])?;
    until_within(Duration::from_secs(30), "the right to be gone", || {
        ensure!(!may("list", "pods")?, "it is there");
        Ok(())
    })
}

/// What ended while a tenant slept is gone before the gateway hands over whoever wakes it: the first answer that they get is a refusal.
#[test]
#[ignore = "make test-all: a tenant with real pods behind the gateway sleeps, and is woken by a connection"]
fn whoever_wakes_a_tenant_gets_no_right_that_ended_meanwhile() {
    run("users asleep", |world| {
        let values = ["writers.access[0].namespaces={*}", "writers.access[0].roles={Viewer}"].map(str::to_owned);
        let address =
            gateway::install(world, &[&values[..], &["hibernation.perTenantPerHour=20".to_owned()]].concat())?;
        let asked = json!({"wake": {"onConnect": true, "stayFor": "30m"}});
        let spec = json!({"endpoint": {"type": "Gateway"}, "hibernation": asked});
        let tenant = Tenant::ready(world, "asleep", &spec)?;
        let kubectl = Kubectl::with(&gateway::through(&tenant, &address)?)?;
        kubectl.run(&["-n", "default", "create", "configmap", "here"])?;
        for person in ["jane", "joe"] {
            let grant = ["grant", person, "--user", person, "--cluster", "asleep", "--role", "Viewer", "--wait"];
            access_verb(world, &tenant, &grant)?;
            ensure!(looks(&kubectl, person)?, "{person} may not look");
        }

        println!("    revoked asleep, and woken by whom it was taken from");
        kubectl_berth(world, &tenant, &["sleep", "asleep", "-y", "--wait"])?;
        crate::sleep::sleeps(world, &tenant)?;
        access_verb(world, &tenant, &["revoke", "jane"])?;
        is_woken_by(&tenant, &kubectl, "jane")?;
        ensure!(looks(&kubectl, "joe")?, "joe lost what was not taken back");
        until("the operator to say so", || {
            let live = world.kube.get(&path(&tenant, "jane"))?;
            ensure!(live["status"]["notRevoked"] == 0 && live["status"]["granted"] == 0, "{}", live["status"]);
            Ok(())
        })?;

        println!("    an end that passes asleep, and another operator that wakes it");
        kubectl_berth(world, &tenant, &["sleep", "asleep", "-y", "--wait"])?;
        world.kube.merge(&path(&tenant, "joe"), &json!({"spec": {"expiresAt": in_seconds(1)?}}))?;
        until("the operator to say that it ended, and is not taken back", || {
            let live = world.kube.get(&path(&tenant, "joe"))?;
            ensure!(live["status"]["notRevoked"] == 1, "{}", live["status"]);
            Ok(())
        })?;
        world.restart_operator()?;
        is_woken_by(&tenant, &kubectl, "joe")?;
        ensure!(!looks(&kubectl, "jane")?, "what was taken back before is there again");
        tenant.delete()
    });
}

/// The first answer that somebody gets of one that sleeps is a refusal.
fn is_woken_by(tenant: &Tenant<'_>, kubectl: &Kubectl, person: &str) -> Result<()> {
    let found = until(&format!("{person} to be answered"), || looks(kubectl, person))?;
    ensure!(!found, "{person} sees what is there");
    tenant.wait_ready()?;
    let state = tenant.cluster()?["status"]["hibernation"].clone();
    ensure!(state["cause"] == "a connection", "{state}");
    Ok(())
}

/// Whether somebody sees what is there. Err: nobody answers.
fn looks(kubectl: &Kubectl, person: &str) -> Result<bool> {
    let path = format!("{}/here", core("default", "configmaps"));
    match kubectl.run(&["get", "--raw", &path, &format!("--as=access:{person}")]) {
        Ok(said) if said.contains("\"here\"") => Ok(true),
        Ok(said) => bail!("{said}"),
        Err(error) if format!("{error:#}").contains("orbidden") => Ok(false),
        Err(error) => Err(anyhow!("{person}: {error:#}")),
    }
}

fn access_verb(world: &World, tenant: &Tenant<'_>, arguments: &[&str]) -> Result<String> {
    kubectl_berth(world, tenant, &[&["access"], arguments].concat())
}

fn kubectl_berth(world: &World, tenant: &Tenant<'_>, arguments: &[&str]) -> Result<String> {
    let mut command = Command::new(paths::program("kubectl-berth")?);
    command.args(arguments).args(["-n", &tenant.namespace]).env("KUBECONFIG", world.cluster.kubeconfig());
    let output = command.output()?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    ensure!(output.status.success(), "{}: {}", text(&output.stdout), text(&output.stderr));
    Ok(text(&output.stdout))
}
