//! End states of two runs, made comparable; and whether the operator rests.

use super::{OPERATOR, Team};
use anyhow::{Result, ensure};
use berth_testkit::apiserver::AuditEvent;
use berth_testkit::fault::Verb;
use berth_testkit::oracle::{Counts, Dump, Dumper, audit_counts, renamed};
use berth_testkit::{ApiServer, FaultPlan, fixtures::eventually};
use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt;
use kube::api::ListParams;
use serde_json::{Value, json};
use std::time::Duration;

/// Everything that a tenant consists of, without what differs between two tenants.
pub(crate) async fn dump(team: &Team) -> Result<Dump> {
    let tenant = team.tenant().await?;
    let mut dumper = Dumper::of([&*team.ns, &*team.home, &*tenant]);
    for (from, to) in renames(team, &tenant) {
        dumper = dumper.rename(from, to);
    }
    for service in team.inside::<Service>().list(&ListParams::default()).await? {
        let ip = service.spec.as_ref().and_then(|s| s.cluster_ip.clone()).unwrap_or_default();
        if ip != "None" {
            dumper = dumper.rename(ip, format!("<address of {}>", service.name_any()));
        }
    }
    let mut dump = dumper.take(&team.client).await?;
    dump.values_mut().for_each(mask);
    Ok(dump)
}

fn renames<'a>(team: &'a Team, tenant: &'a str) -> [(&'a str, &'static str); 3] {
    [(&team.ns, "TEAM"), (&team.home, "HOME"), (tenant, "TENANT")]
}

/// Digests of texts that hold addresses, and users that follow from the namespace's name.
fn mask(value: &mut Value) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                if key.starts_with("checksum.berth.dev/")
                    || key == berth_api::labels::APPLIED_DIGEST
                    || key == super::team::TOUCHED
                {
                    *value = json!("<digest>");
                } else if ["runAsUser", "runAsGroup", "fsGroup"].contains(&&**key) {
                    *value = json!("<user>");
                } else {
                    mask(value);
                }
            }
        }
        Value::Array(list) => list.iter_mut().for_each(mask),
        _ => {}
    }
}

/// How often what was created and deleted, and Secrets written over, since a mark in the audit log: what was on its way
/// when the operator died counts too. Events are told as often as something happens, and which pods are still there to be
/// deleted is a matter of moments.
pub(crate) fn counts(server: &ApiServer, mark: u64, team: &Team, tenant: &str) -> Counts {
    let all = server.audit_since(mark);
    let within = |e: &&AuditEvent| {
        e.namespace == team.ns || e.namespace == team.home || e.uri.contains(tenant) || e.name == team.home
    };
    let told = |e: &&AuditEvent| e.resource == "events" || (e.resource == "pods" && e.verb == "delete");
    let mine: Vec<_> = all.iter().filter(|e| e.user == OPERATOR).filter(within).filter(|e| !told(e)).collect();
    let mut counts = audit_counts(mine.iter().copied());
    for over in mine.iter().filter(|e| e.is_write() && e.resource == "secrets" && e.code == 200 && e.verb != "delete") {
        *counts.entry(format!("overwrite {}/{}", over.namespace, over.name)).or_default() += 1;
    }
    renamed(&counts, &renames(team, tenant))
}

/// Waits until the operator has written nothing for a moment, makes it look again, and says what it writes then.
pub(crate) async fn second_pass(team: &Team, plan: &FaultPlan) -> Result<()> {
    settled(plan).await;
    let before = plan.calls().len();
    team.touch().await;
    let looked = async || {
        let calls = plan.calls();
        let fresh = |resource: &str| calls[before..].iter().any(|c| c.verb == Verb::Get && c.resource == resource);
        ensure!(fresh("clusters") && fresh("etcdclusters"), "no pass yet");
        Ok(())
    };
    eventually(super::SOON, "a pass", looked).await?;
    settled(plan).await;
    let calls = plan.calls();
    let written: Vec<_> = calls[before..].iter().filter(|c| c.mutation.is_some()).map(ToString::to_string).collect();
    ensure!(written.is_empty(), "a second pass wrote:\n{}", written.join("\n"));
    Ok(())
}

/// Waits until no call was made for a moment.
pub(crate) async fn settled(plan: &FaultPlan) {
    let mut last = plan.calls().len();
    loop {
        tokio::time::sleep(Duration::from_millis(120)).await;
        let now = plan.calls().len();
        if now == last {
            return;
        }
        last = now;
    }
}
