//! What a person does under `recovery: Manual`, by the words of the conditions: nothing is rolled back while members are only away, and what
//! a living member holds is restored by the command that the condition says, typed as it stands.

use super::{Writer, lost, members, wipe};
use anyhow::{Context as _, Result, ensure};
use berth_e2e::{Tenant, World, berth, network::processes_of, paths, run, s3, tenant::condition, until};
use serde_json::{Value, json};
use std::process::{Command, Output};

#[test]
#[ignore = "make test-all: Berth is installed anew, twice, and an S3 server is built"]
fn nothing_is_lost_by_following_the_words() {
    run("by-hand", |world| {
        let place = tempfile::tempdir()?;
        let _server = s3::start(world, place.path())?;
        world.install(&s3::options(world))?;
        s3::credentials(world, "secret")?;
        let result = follows(world);
        s3::end(world, &["etcdrestores", "etcdbackups"])?;
        result
    });
}

fn follows(world: &World) -> Result<()> {
    let tenant = Tenant::ready(world, "by-hand", &json!({"etcd": {"replicas": 3}}))?;
    s3::taken(world, &tenant, "first", "Verified")?;
    let writer = Writer::start(&tenant);
    written(&writer, 20)?;

    // Away, and not lost.
    let frozen = etcds(&tenant, &["etcd-0", "etcd-1"])?;
    signal("STOP", &frozen)?;
    let waits = until("etcd to be away", || {
        let etcd = tenant.etcd()?;
        ensure!(condition(&etcd, "Available")?["status"] == "False", "{}", etcd["status"]["conditions"]);
        Ok(())
    })
    .and_then(|()| {
        let arguments = ["etcd", "restore", &tenant.name, "--latest", "--as", "hasty", "--yes"];
        succeeds(&command(world, &tenant, &arguments)?.output()?)?;
        until("the restore to wait", || {
            let restore = restore(world, &tenant, "hasty")?;
            let ready = condition(&restore, "Ready")?.clone();
            let said = ready["message"].to_string();
            ensure!(
                ready["reason"] == "ConfirmationRequired" && said.contains("serves again once its members run"),
                "{ready}"
            );
            Ok(())
        })
    });
    // Those that kubelet has started anew meanwhile are no processes any more.
    let _ = signal("CONT", &frozen);
    waits?;
    tenant.wait_ready()?;
    members(&tenant, 3)?;
    world.kube.delete(&format!("{}/hasty", berth(&tenant.namespace, "etcdrestores")))?;
    let all = writer.acknowledged();
    let (of, missing) = lost(&tenant, &all)?;
    ensure!(missing.is_empty(), "{missing:?} of {of}");

    // Lost, and one is left.
    written(&writer, all.len() + 20)?;
    let before = writer.acknowledged();
    wipe(world, &tenant, &["etcd-0", "etcd-1"])?;
    let said = until("the way out to be said", || {
        let etcd = tenant.etcd()?;
        let said = condition(&etcd, "Available")?["message"].as_str().unwrap_or_default().to_owned();
        ensure!(said.contains("Data of etcd-2 may be newer than any backup"), "{said}");
        Ok(said)
    })?;
    let (_, command) = said.split_once("restore it: ").with_context(|| said.clone())?;
    let (command, backup) = command.split_once(". If that cannot be, ").with_context(|| said.clone())?;
    ensure!(command.contains("survivors") && backup.contains("EtcdBackup first"), "{said}");
    println!("    typed: {command}");
    succeeds(&shell(world, command)?)?;
    until("what was left to be restored", || {
        let all = world.kube.list(&berth(&tenant.namespace, "etcdrestores"))?;
        ensure!(all.iter().any(|r| r["status"]["phase"] == "Restored"), "{all:?}");
        Ok(())
    })?;
    tenant.wait_ready()?;
    let (of, missing) = lost(&tenant, &before)?;
    ensure!(missing.is_empty(), "{missing:?} of {of}");
    members(&tenant, 3)?;
    writer.end();
    old_data(world, &tenant)?;
    tenant.let_go()
}

/// What was set aside is read as docs/restore.md says it, with the names of this tenant.
fn old_data(world: &World, tenant: &Tenant<'_>) -> Result<()> {
    let page = std::fs::read_to_string(paths::root().join("docs/restore.md"))?;
    let (_, part) = page.split_once("### To look into it").context("the page has no such part")?;
    let typed: Vec<String> = part
        .split("```")
        .skip(1)
        .step_by(2)
        .flat_map(|block| {
            block.trim_start_matches("text").replace("\\\n", " ").lines().map(str::to_owned).collect::<Vec<_>>()
        })
        .map(|line| line.trim().replace("acme-9201d5e7", &tenant.cp_namespace))
        .filter(|line| line.starts_with("kubectl "))
        .collect();
    let [copy, start, list, _read] = typed.as_slice() else { anyhow::bail!("{typed:#?}") };
    succeeds(&shell(world, copy)?)?;
    // A test has no terminal.
    let mut second = typed_by_hand(world, &start.replace(" -it ", " "))?.spawn()?;
    let listed = until("the copy to be read", || {
        let out = shell(world, list)?;
        succeeds(&out)?;
        Ok(String::from_utf8_lossy(&out.stdout).into_owned())
    });
    let ended = signal("INT", &started_by_hand(tenant)?);
    let _ = second.wait();
    let listed = listed?;
    ensure!(listed.contains("/registry/configmaps/kube-system/"), "{listed}");
    ended
}

/// The second etcd in the member's container.
fn started_by_hand(tenant: &Tenant<'_>) -> Result<Vec<i32>> {
    let all = etcds(tenant, &["etcd-2"])?
        .into_iter()
        .filter(|pid| std::fs::read_to_string(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.contains("12379")));
    Ok(all.collect())
}

fn written(writer: &Writer, n: usize) -> Result<()> {
    until("some writes", || {
        ensure!(writer.acknowledged().len() >= n, "{}", writer.acknowledged().len());
        Ok(())
    })
}

/// Processes of these members.
fn etcds(tenant: &Tenant<'_>, members: &[&str]) -> Result<Vec<i32>> {
    let mut all = vec![];
    for pod in tenant.pods(Some("etcd"))? {
        if members.iter().any(|member| pod["metadata"]["name"] == *member) {
            all.extend(processes_of(&pod, "etcd")?);
        }
    }
    ensure!(!all.is_empty(), "no process of {members:?}");
    Ok(all)
}

fn signal(signal: &str, processes: &[i32]) -> Result<()> {
    let processes = processes.iter().map(ToString::to_string);
    succeeds(&Command::new("kill").arg(format!("-{signal}")).args(processes).output()?)
}

fn command(world: &World, tenant: &Tenant<'_>, arguments: &[&str]) -> Result<Command> {
    let mut command = Command::new(paths::program("kubectl-berth")?);
    command.args(["-n", &tenant.namespace]).args(arguments).env("KUBECONFIG", world.cluster.kubeconfig());
    Ok(command)
}

/// As a person types it, with the meta cluster's kubectl.
fn shell(world: &World, command: &str) -> Result<Output> {
    Ok(typed_by_hand(world, command)?.output()?)
}

fn typed_by_hand(world: &World, command: &str) -> Result<Command> {
    let kubectl = world.cluster.kubectl()?;
    let script = format!("kubectl() {{ '{}' \"$@\"; }}; {command}", kubectl.get_program().to_string_lossy());
    let mut bash = Command::new("bash");
    bash.args(["-c", &script]).env("KUBECONFIG", world.cluster.kubeconfig());
    Ok(bash)
}

fn restore(world: &World, tenant: &Tenant<'_>, name: &str) -> Result<Value> {
    world.kube.get(&format!("{}/{name}", berth(&tenant.namespace, "etcdrestores")))
}

fn succeeds(output: &Output) -> Result<()> {
    ensure!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}
