//! End states of two runs, made comparable; and whether the operator rests.

use super::Team;
use anyhow::{Result, ensure};
use berth_api::{EtcdCluster, names};
use berth_testkit::FaultPlan;
use berth_testkit::fault::{Call, Verb};
use berth_testkit::oracle::{Counts, Dump, Dumper, call_counts, diff, renamed};
use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt;
use kube::api::ListParams;
use serde_json::{Value, json};
use std::time::Duration;

/// Everything that a tenant consists of, without what differs between two tenants.
pub(crate) async fn dump(team: &Team) -> Result<Dump> {
    dump_by(team, dumper(team).await?).await
}

/// Likewise, by a dumper that was told more.
pub(crate) async fn dump_by(team: &Team, dumper: Dumper) -> Result<Dump> {
    let mut dump = dumper.take(&team.client).await?;
    dump.values_mut().for_each(mask);
    // The world says how a tenant's own workloads go, in its own time, and nothing waits for that.
    let is_a_workload = |name: &str| [".apps/", "/Pod/"].iter().any(|kind| name.contains(kind));
    for (_, object) in dump.iter_mut().filter(|(name, _)| name.starts_with("TENANT-") && is_a_workload(name)) {
        object.as_object_mut().and_then(|object| object.remove("status"));
    }
    Ok(dump)
}

/// What a dump of a tenant is taken by.
pub(crate) async fn dumper(team: &Team) -> Result<Dumper> {
    let tenant = team.tenant().await?;
    let inside = super::tenant::namespaces(&tenant).map(|(_, name)| name);
    let mut dumper = Dumper::of([&team.ns, &team.cp_namespace].into_iter().chain(&inside).map(String::as_str));
    for (from, to) in renames(team, &tenant) {
        dumper = dumper.rename(from, to);
    }
    for service in team.inside::<Service>().list(&ListParams::default()).await? {
        let ip = service.spec.as_ref().and_then(|s| s.cluster_ip.clone()).unwrap_or_default();
        if ip != "None" {
            dumper = dumper.rename(ip, format!("<address of {}>", service.name_any()));
        }
        // The part of a URL; as a number they are masked with every Service.
        for port in service.spec.iter().flat_map(|s| s.ports.iter().flatten()).filter_map(|p| p.node_port) {
            dumper = dumper.rename(format!(":{port}"), format!(":<node port of {}>", service.name_any()));
        }
        let given = service.status.and_then(|s| s.load_balancer?.ingress?.into_iter().next()?.ip);
        if let Some(given) = given {
            dumper = dumper.rename(given, "<address of the load balancer>");
        }
    }
    Ok(dumper)
}

/// Takes out counters of what happened, and the record of releases: two ways to one state may differ in them.
pub(crate) fn without_counters(dump: &mut Dump) {
    dump.retain(|name, _| !name.contains("/ClusterRevision."));
    for object in dump.values_mut() {
        if let Some(notes) = object["metadata"]["annotations"].as_object_mut() {
            notes.remove("deployment.kubernetes.io/revision");
        }
        if let Some(status) = object["status"].as_object_mut() {
            status.remove("observedGeneration");
            status.remove("history");
            status.remove("rollout");
        }
        for condition in object["status"]["conditions"].as_array_mut().into_iter().flatten() {
            condition.as_object_mut().and_then(|c| c.remove("observedGeneration"));
        }
    }
}

fn renames<'a>(team: &'a Team, tenant: &'a str) -> [(&'a str, &'static str); 3] {
    [(&team.ns, "TEAM"), (&team.cp_namespace, "HOME"), (tenant, "TENANT")]
}

/// Digests of texts that hold addresses, and users that follow from the namespace's name.
pub(crate) fn mask(value: &mut Value) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                if key.starts_with("checksum.berth.dev/")
                    || key == berth_api::labels::APPLIED_DIGEST
                    || key == super::team::TOUCHED
                    || key == "digest"
                {
                    *value = json!("<digest>");
                } else if key == berth_api::labels::ADDITIONS {
                    // Who added something, and when; after a crash it may be Berth itself.
                    *value = json!("<writers>");
                } else if ["runAsUser", "runAsGroup", "fsGroup"].contains(&&**key) {
                    *value = json!("<user>");
                } else if key == "kubeconfig" && value.is_string() {
                    *value = json!("<with a CA of its own>");
                } else if key == "port" && value.as_u64().is_some_and(|p| (30000..32768).contains(&p)) {
                    *value = json!("<node port>");
                } else {
                    mask(value);
                }
            }
        }
        Value::Array(list) => list.iter_mut().for_each(mask),
        _ => {}
    }
}

/// How often what was created and deleted, and Secrets written over. Events are told as often as something happens, and which
/// pods are still there to be deleted is a matter of moments.
pub(crate) fn counts(team: &Team, tenant: &str, plan: &FaultPlan) -> Counts {
    let calls = plan.calls();
    let told = |c: &&Call| c.resource == "events" || (c.resource == "pods" && c.verb == Verb::Delete);
    let mut counts = call_counts(calls.iter().filter(|c| !told(c) && !is_swept(team, c)));
    let writes = |c: &&Call| c.committed() && c.resource == "secrets" && matches!(c.verb, Verb::Patch | Verb::Update);
    for over in calls.iter().filter(writes) {
        *counts.entry(format!("overwrite {}", over.object())).or_default() += 1;
    }
    renamed(&counts, &renames(team, tenant))
}

/// Waits until the operator has written nothing for a moment, makes it look again, and says what it writes then.
pub(crate) async fn second_reconcile(team: &Team, plan: &FaultPlan) -> Result<()> {
    settled(plan).await;
    let (before, then) = (plan.calls().len(), statuses(team).await);
    team.try_reconciled(plan).await?;
    settled(plan).await;
    let (calls, now) = (plan.calls(), statuses(team).await);
    let written = calls[before..].iter().filter(|c| c.mutation.is_some() && !is_swept(team, c));
    let written: Vec<_> = written.map(ToString::to_string).collect();
    let changed = || diff(&then, &now);
    ensure!(written.is_empty(), "a second reconcile wrote:\n{}\n{}", written.join("\n"), changed());
    Ok(())
}

/// What a write at rest most often changes.
async fn statuses(team: &Team) -> Dump {
    let cluster = team.clusters().get_opt("acme").await.ok().flatten();
    let etcd = team.inside::<EtcdCluster>().get_opt(names::ETCD).await.ok().flatten();
    let status = [
        ("Cluster".to_owned(), json!(cluster.map(|c| c.status))),
        ("EtcdCluster".to_owned(), json!(etcd.map(|e| e.status))),
    ];
    status.into_iter().collect()
}

/// What a test before this one left elsewhere, such as a Job, what is beside it, or an etcd of its own team that is deleted: the operator clears that
/// up whenever it comes to it.
fn is_swept(team: &Team, call: &Call) -> bool {
    let is_own = [&team.ns, &team.cp_namespace].contains(&&call.namespace);
    let is_of_a_team = call.namespace.starts_with("team-");
    let is_beside_a_job = ["jobs", "secrets", "networkpolicies"].contains(&&*call.resource);
    call.verb == Verb::Delete && !is_own && (is_of_a_team || is_beside_a_job)
}

/// Waits until no call was made, and none was under way, for a moment.
pub(crate) async fn settled(plan: &FaultPlan) {
    let mut last = None;
    loop {
        let now = plan.at_rest();
        if now.is_some() && now == last {
            return;
        }
        last = now;
        tokio::time::sleep(Duration::from_millis(120)).await;
    }
}
