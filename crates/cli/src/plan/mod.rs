//! `plan`: what Berth would change now. Nothing is written: the fence is closed.

mod foresee;
mod operator;
pub(crate) mod paths;
mod report;
mod show;

#[cfg(test)]
mod tests;

use crate::access::{Access, cluster_in, namespace_of, parse};
use crate::args::{Meta, Plan};
use crate::outcome::Outcome;
use crate::unchanged::merge_patch;
use crate::{output, world};
use anyhow::{anyhow, bail};
use berth_api::{Cluster, EtcdCluster, names};
use berth_kubeio::{ErrorKind, IoError, Snapshot, observe_cluster, observe_etcd, read_volumes};
use berth_plan::asked::Look;
use berth_plan::observed::Observed;
use berth_plan::{MetaCluster, Planner as _};
use berth_plan_cluster::{ClusterPlanner, Input, window};
use berth_plan_etcd::room;
use berth_render::{Kind, ObjectKey};
use foresee::Future;
use jiff::Timestamp;
pub(crate) use operator::{image_registry, leaf_lifetime};
use report::Report;
use serde_json::json;
use std::sync::Arc;

/// Reads, plans and prints.
pub(crate) async fn run(meta: &Meta, args: &Plan) -> anyhow::Result<Outcome> {
    let mut access = Access::to_read(meta).await?;
    let file = args.file.as_deref().map(cluster_in).transpose()?;
    let name = identify(&mut access, meta, args, file.as_ref())?;
    let (cluster, exists) = wanted(&access, &name, file).await?;
    let report = reported(&access, &cluster, exists, &args.operator_namespace).await?;
    output::show(args.output, &report, || show::show(&report))?;
    Ok(Outcome::done_if(!report.pending))
}

/// The plan for a `Cluster` that is there, with what is to become of its spec, for people.
pub(crate) async fn planned(meta: &Meta, cluster: &Cluster, operator_namespace: &str) -> anyhow::Result<String> {
    let access = Access::to_read(meta).await?;
    Ok(show::show(&reported(&access, cluster, true, operator_namespace).await?))
}

async fn reported(
    access: &Access,
    cluster: &Cluster,
    exists: bool,
    operator_namespace: &str,
) -> anyhow::Result<Report> {
    let found = operator::settings(&access.io, operator_namespace).await;
    found.notes.iter().for_each(|n| output::note(n));
    let seen = observe_cluster(&access.io, cluster, &found.settings, &found.meta).await;
    let mut snapshot = seen.map_err(|e| rights(access, e))?;
    if let Some(denied) = snapshot.denied.clone() {
        return Err(rights(access, denied));
    }
    if let Some(unread) = snapshot.unread.clone() {
        return Err(rights(access, unread));
    }
    let cp_namespace =
        names::control_plane_namespace(&access.namespace, cluster.metadata.name.as_deref().unwrap_or_default());
    // The operator waits for what it cannot find out; what cannot be found out from here it may know.
    if found.meta.addresses.is_err()
        && snapshot.observed.get(&ObjectKey::cluster(Kind::Namespace, cp_namespace)).is_none()
    {
        let meta = MetaCluster::new(Ok(found.given), &found.settings);
        snapshot.observed.meta = Arc::new(meta);
    }
    // What the operator found in the tenant is in the status.
    snapshot.observed.look = Look::Elsewhere;
    let now = Timestamp::now();
    // What is to come is shown as it comes once its window is open.
    let mut anytime = cluster.clone();
    anytime.spec.upgrade.window = anytime.spec.upgrade.window.filter(|window| window::at(window, now).is_err());
    let input = Input { object: &anytime, observed: &snapshot.observed, settings: &found.settings, now };
    let planned = ClusterPlanner::plan(input);
    let deleting = cluster.metadata.deletion_timestamp.is_some();
    // A deletion takes what it finds, round by round; whoever is paused does nothing of it.
    let future = if deleting || cluster.spec.paused {
        Future::default()
    } else {
        let etcd = etcd(access, &snapshot).await?;
        let mut world = world::found(snapshot.observed.clone(), etcd);
        foresee::foresee(&anytime, &found.settings, &mut world, now)?
    };
    Ok(report::report(cluster, exists, &snapshot.observed, &planned, future, now))
}

/// What the controller of the tenant's etcd sees, without asking the members: they are reached from the meta cluster alone.
async fn etcd(access: &Access, snapshot: &Snapshot) -> anyhow::Result<Option<Observed>> {
    let found = snapshot.observed.objects.iter().find(|(k, _)| k.kind == Kind::EtcdCluster && k.name == names::ETCD);
    let Some((key, live)) = found else { return Ok(None) };
    let etcd: EtcdCluster = parse(live.clone(), &key.to_string())?;
    let mut snapshot = observe_etcd(&access.io, &etcd, &snapshot.observed.meta).await.map_err(|e| rights(access, e))?;
    if let Some(asked) = room::asked(&etcd, &snapshot.observed) {
        snapshot.observed.volumes = read_volumes(&access.io, &asked.volumes, &asked.nodes).await;
    }
    Ok(Some(snapshot.observed))
}

/// Which `Cluster` is meant: the arguments and the file must agree.
fn identify(access: &mut Access, meta: &Meta, args: &Plan, file: Option<&Cluster>) -> anyhow::Result<String> {
    let said = file.and_then(|f| f.metadata.namespace.as_deref());
    if let Some(namespace) = namespace_of(said, meta.namespace.as_deref())? {
        namespace.clone_into(&mut access.namespace);
    }
    let in_file = file.and_then(|f| f.metadata.name.clone());
    match (&args.name, in_file) {
        (Some(name), Some(in_file)) if *name != in_file => bail!("the file holds Cluster {in_file}, not {name}"),
        (Some(name), _) => Ok(name.clone()),
        (None, Some(in_file)) => Ok(in_file),
        (None, None) => bail!("name a Cluster, or pass a file with -f"),
    }
}

/// The `Cluster` to plan for, and whether it is there.
async fn wanted(access: &Access, name: &str, file: Option<Cluster>) -> anyhow::Result<(Cluster, bool)> {
    let Some(mut file) = file else { return Ok((access.read_cluster(name).await?.2, true)) };
    let key = ObjectKey::namespaced(Kind::Cluster, &access.namespace, name);
    let Some(live) = access.get(&key).await? else {
        access.installed().await?;
        file.metadata.namespace = Some(access.namespace.clone());
        file.metadata.uid = Some("not-made-yet".to_owned());
        file.status = None;
        return Ok((file, false));
    };
    let spec = serde_json::to_value(&file.spec)?;
    let patch = json!({"metadata": {"uid": live["metadata"]["uid"]}, "spec": merge_patch(&live["spec"], &spec)});
    let live = match access.io.merge(&key, "", "dryRun=All&fieldManager=kubectl-berth", &patch).await {
        Ok(answered) => answered,
        Err(e) if e.kind == ErrorKind::Rejected => bail!("the API server refuses that spec: {}", e.message),
        Err(e) if e.kind == ErrorKind::Forbidden => {
            output::note(&format!("whether the API server would refuse that spec is not known: {}", e.message));
            let mut live = live;
            live["spec"] = spec;
            live
        }
        Err(e) => return Err(access.explain(e)),
    };
    Ok((parse(live, &key.to_string())?, true))
}

/// The rights that this takes are more than those of a team.
fn rights(access: &Access, error: IoError) -> anyhow::Error {
    if error.kind != ErrorKind::Forbidden {
        return access.explain(error);
    }
    anyhow!(
        "{error}. A plan reads what the operator reads: everything in the control-plane namespace, including Secrets, and the published kubeconfig, by an empty dry-run patch. Use a context of the platform team (--context)"
    )
}
