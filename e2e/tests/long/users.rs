//! Rights of people in a tenant with real pods: given and taken back by the command, over a sleep.

use anyhow::{Result, ensure};
use berth_e2e::operator::Options;
use berth_e2e::{Kubectl, Tenant, World, paths, run, until_within};
use serde_json::json;
use std::process::Command;
use std::time::Duration;

#[test]
#[ignore = "make test-all: a tenant with real pods sleeps and wakes; the roles' table is asked of a real API server in the operator's tests"]
fn rights_last_as_long_as_they_say() {
    run("users", |world| {
        let values = ["writers.access[0].namespaces={*}", "writers.access[0].roles={Viewer,Editor}"];
        world.install(&Options { values: values.map(str::to_owned).into(), ..Options::default() })?;
        let tenant = Tenant::ready(world, "users", &json!({}))?;
        let inside = Kubectl::of(&tenant)?;
        let may = |verb: &str, resource: &str| -> Result<bool> {
            let answer =
                inside.command()?.args(["auth", "can-i", verb, resource, "--as=access:jane", "-A"]).output()?;
            Ok(String::from_utf8_lossy(&answer.stdout).trim() == "yes")
        };
        ensure!(!may("list", "pods")?, "before");
        let grant =
            ["grant", "jane", "--user", "jane", "--cluster", "users", "--role", "Viewer", "--for", "1h", "--wait"];
        println!("    {}", access_verb(world, &tenant, &grant)?);
        ensure!(may("list", "pods")? && !may("list", "secrets")?, "a Viewer");
        let refused = access_verb(
            world,
            &tenant,
            &["grant", "more", "--user", "jane", "--cluster", "users", "--role", "ClusterAdmin"],
        );
        let refused = format!("{:#}", refused.err().ok_or_else(|| anyhow::anyhow!("ClusterAdmin was given"))?);
        ensure!(refused.contains("may not be given in namespace"), "{refused}");
        // Revoked while it sleeps: gone soon after the wake.
        berth(world, &tenant, &["sleep", "users", "-y", "--wait"])?;
        access_verb(world, &tenant, &["revoke", "jane"])?;
        until_within(Duration::from_secs(30), "the right to be told until it is gone", || {
            let who = access_verb(world, &tenant, &["who", "--cluster", "users"])?;
            ensure!(who.contains("User jane") && who.contains("NotRevoked"), "{who}");
            Ok(())
        })?;
        world.restart_operator()?;
        berth(world, &tenant, &["wake", "users", "--wait"])?;
        until_within(Duration::from_secs(30), "the right to be gone", || {
            ensure!(!may("list", "pods")?, "it is there");
            Ok(())
        })?;
        tenant.delete()
    });
}

fn access_verb(world: &World, tenant: &Tenant<'_>, arguments: &[&str]) -> Result<String> {
    berth(world, tenant, &[&["access"], arguments].concat())
}

fn berth(world: &World, tenant: &Tenant<'_>, arguments: &[&str]) -> Result<String> {
    let mut command = Command::new(paths::program("kubectl-berth")?);
    command.args(arguments).args(["-n", &tenant.namespace]).env("KUBECONFIG", world.cluster.kubeconfig());
    let output = command.output()?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    ensure!(output.status.success(), "{}: {}", text(&output.stdout), text(&output.stderr));
    Ok(text(&output.stdout))
}
