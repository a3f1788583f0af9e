//! A release that does not come up goes back by itself, while a client that opens a new connection each 100 ms notices nothing; and a person
//! sees what was, and sets it back.

use std::process::{Command, Output};

use anyhow::{Result, ensure};
use berth_e2e::{
    Caller, NEWEST, Tenant, World, berth, core, paths,
    revisions::{outcome, pods, same_pods},
    tenant::condition,
    until,
};
use serde_json::{Value, json};

#[test]
fn a_bad_flag_and_a_missing_image_go_back_by_themselves() {
    berth_e2e::run("revisions", |world| {
        // A pod has to have said why within it, on a machine on which everything is slow.
        let upgrade = json!({"progressDeadline": "2m", "soak": "0s"});
        let etcd = json!({"heartbeatInterval": "200ms", "electionTimeout": "2s", "snapshotCount": 20_000});
        let spec = json!({"apiServer": {"replicas": 2}, "etcd": etcd, "upgrade": upgrade});
        let tenant = Tenant::ready(world, "revisions", &spec)?;
        outcome(&tenant, 1, "Succeeded")?;
        let before = pods(&tenant)?;
        let caller = Caller::start(&tenant.kubeconfig()?);

        println!("    nodes that are not there");
        let nowhere = json!({"placement": {"nodeSelector": {"example.com/every-value": "yes"}}});
        tenant.change(&json!({"apiServer": nowhere, "etcd": nowhere}))?;
        let message = tenant.wait_condition("Ready", "False", "Unschedulable")?;
        let none = "placement.nodeSelector: no node has label example.com/every-value=yes";
        ensure!(message.contains(&format!("spec.apiServer.{none}")), "{message}");
        until("etcd to say it, too", || {
            let etcd = world.kube.get(&format!("{}/etcd", berth(&tenant.cp_namespace, "etcdclusters")))?;
            let ready = condition(&etcd, "Ready")?;
            ensure!(ready["reason"] == "Unschedulable", "{ready}");
            Ok(())
        })?;
        same_pods(&tenant, &before)?;
        tenant.change(&json!({"apiServer": {"placement": null}, "etcd": {"placement": null}}))?;
        tenant.wait_ready()?;
        same_pods(&tenant, &before)?;

        println!("    a flag that kube-apiserver does not know");
        tenant.change(&json!({"apiServer": {"extraArgs": [{"name": "no-such-flag", "value": "1"}]}}))?;
        let message = tenant.wait_condition("Ready", "False", "RolledBack")?;
        ensure!(message.contains("unknown flag: --no-such-flag") && message.contains("revision 1"), "{message}");
        outcome(&tenant, 2, "RolledBack")?;
        same_pods(&tenant, &before)?;
        let cluster = tenant.cluster()?;
        ensure!(cluster["spec"]["apiServer"]["extraArgs"][0]["name"] == "no-such-flag", "the spec is left alone");
        ensure!(condition(&cluster, "Available")?["status"] == "True", "{}", cluster["status"]);

        println!("    kubectl berth history, diff and rollback");
        let history = said(&kubectl_berth(world, &tenant, &["history"], &[])?)?;
        let lines: Vec<Vec<&str>> = history.lines().map(|line| line.split_whitespace().collect()).collect();
        ensure!(lines.len() == 3 && lines[0][0] == "REVISION", "{history}");
        ensure!(lines[1][..4] == ["2", NEWEST, "Configuration", "RolledBack"], "{history}");
        ensure!(lines[2][..4] == ["1", NEWEST, "Creation", "Succeeded"], "{history}");
        let one = said(&kubectl_berth(world, &tenant, &["history"], &["--revision", "2"])?)?;
        ensure!(one.contains("no-such-flag") && one.contains("outcome: RolledBack"), "{one}");
        let diff = said(&kubectl_berth(world, &tenant, &["diff"], &["1", "2"])?)?;
        ensure!(diff.contains("spec.apiServer.extraArgs: not set →"), "{diff}");
        let refused = kubectl_berth(world, &tenant, &["rollback"], &["--to", "2", "--yes"])?;
        let why = String::from_utf8_lossy(&refused.stderr).into_owned();
        ensure!(refused.status.code() == Some(1) && why.contains("Those that ran: 1"), "{why}");
        let back = said(&kubectl_berth(world, &tenant, &["rollback"], &["--yes"])?)?;
        ensure!(back.contains("the spec asks for revision 1 again"), "{back}");
        let cluster = tenant.wait_ready()?;
        ensure!(cluster["spec"]["apiServer"]["extraArgs"].is_null(), "{}", cluster["spec"]);
        outcome(&tenant, 3, "Succeeded")?;

        println!("    a version of which there is no image");
        // Its image is named however late the pod is.
        tenant.change(&json!({"version": "1.36.99", "upgrade": {"progressDeadline": "1m"}}))?;
        let message = tenant.wait_condition("Ready", "False", "RolledBack")?;
        ensure!(message.contains("revision 4 (1.36.99)") && message.contains("kube-apiserver:v1.36.99"), "{message}");
        same_pods(&tenant, &before)?;
        said(&kubectl_berth(world, &tenant, &["rollback"], &["--to", "3", "--yes"])?)?;
        tenant.wait_ready()?;
        outcome(&tenant, 5, "Succeeded")?;

        println!("    a configuration with which kube-apiserver ends at once");
        let path = tenant.configuration("kube-apiserver")?;
        let files = world.kube.get(&path)?["data"].clone();
        // No API server compiles that expression, and Berth leaves constants to it.
        let issuer = json!({"url": "https://issuer.example.com", "audiences": ["berth"]});
        let jwt = json!([{"issuer": issuer, "claimMappings": {"username": {"expression": "duration('an hour')"}}}]);
        tenant.change(&json!({"apiServer": {"authentication": {"jwt": jwt}}}))?;
        until("new pods to be of another configuration", || {
            ensure!(tenant.configuration("kube-apiserver")? != path, "it is the old one");
            Ok(())
        })?;
        let new = pods(&tenant)?.len().saturating_sub(before.len());
        ensure!(new <= 1, "{new} new pods");
        ensure!(world.kube.get(&path)?["data"] == files, "what the old pods read is as it was");
        tenant.wait_condition("Ready", "False", "RolledBack")?;
        outcome(&tenant, 6, "RolledBack")?;
        same_pods(&tenant, &before)?;
        ensure!(tenant.configuration("kube-apiserver")? == path, "the old configuration again");
        ensure!(world.kube.get(&path)?["data"] == files, "the old pods never saw the new one");
        println!("    files of kube-apiserver from fields");
        tenant.change(&files_of(world, &tenant)?)?;
        tenant.wait_ready()?;
        outcome(&tenant, 7, "Succeeded")?;
        let container = json!({"name": "a", "image": "a", "securityContext": {"privileged": true}});
        let pod =
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": [container]}});
        // The API servers from before end last, and answer for a while.
        let (api, pods) = (tenant.api()?, core("default", "pods"));
        until("a privileged pod to be refused", || {
            let refused = api.create(&pods, &pod);
            if refused.is_ok() {
                api.delete(&format!("{pods}/a"))?;
            }
            let why = refused.err().map(|why| format!("{why:#}")).unwrap_or_default();
            ensure!(why.contains("violates PodSecurity"), "it is not: {why}");
            Ok(())
        })?;

        caller.end()?.none_failed()?;
        tenant.nothing_restarted()?;
        tenant.let_go()
    });
}

/// In place of what did not come up. Any certificate does: that of the meta cluster is at hand.
fn files_of(world: &World, tenant: &Tenant<'_>) -> Result<Value> {
    let map = world.kube.get(&format!("{}/kube-root-ca.crt", core(&tenant.cp_namespace, "configmaps")))?;
    let configuration = json!({
        "apiVersion": "pod-security.admission.config.k8s.io/v1", "kind": "PodSecurityConfiguration",
        "defaults": {"enforce": "baseline"}, "exemptions": {"namespaces": ["kube-system"]},
    });
    let admission = json!({"configuration": [{"name": "PodSecurity", "configuration": configuration}]});
    let trusted = map["data"]["ca.crt"].clone();
    // What is to go well has time.
    let upgrade = json!({"progressDeadline": "10m"});
    Ok(json!({"apiServer": {"authentication": null, "admission": admission, "trustedCA": trusted}, "upgrade": upgrade}))
}

fn kubectl_berth(world: &World, tenant: &Tenant<'_>, verb: &[&str], more: &[&str]) -> Result<Output> {
    let mut command = Command::new(paths::program("kubectl-berth")?);
    command.args(verb).arg(&tenant.name).args(more).args(["-n", &tenant.namespace]);
    Ok(command.env("KUBECONFIG", world.cluster.kubeconfig()).output()?)
}

fn said(output: &Output) -> Result<String> {
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
