//! Taking a tenant down. Needs no part of it to be healthy, and no spec to be valid.

use super::ours::is_ours;
use super::subject::Tenant;
use super::validate::writers;
use super::{ClusterPlan, backups, kubeconfig, registration};
use berth_api::Cluster;
use berth_api::cluster::DataPolicy;
use berth_api::conditions::Reason;
use berth_api::{labels, names};
use berth_plan::ending;
use berth_plan::model::{Action, Stage, StageId, State};
use berth_plan::object_meta::{deleting, label};
use berth_plan::observed::Published;
use berth_plan::settings::Writers;
use berth_plan::{requeue, run_level};
use berth_render::{Kind, ObjectKey};
use serde_json::Value;

/// Seconds that pods get: enough to close files, and nobody is served any more.
const GRACE: i64 = 1;

/// The plan while `deletionTimestamp` is set.
pub(super) fn plan(t: &Tenant<'_>) -> ClusterPlan {
    let mut out = ClusterPlan::default();
    let mut stage = Stage::new(StageId::Deletion, State::Ready);
    if t.cluster.spec.deletion.protected {
        stage = team_namespace_ends(t).unwrap_or(stage);
        if stage.state.is_done() {
            stage.state = State::blocked(
                Reason::Deleting,
                "spec.deletion.protected is true, so nothing is deleted. Set it to false to delete this Cluster with its control plane",
            );
        }
        out.requeue_after = Some(requeue::while_deleting(&t.cluster.metadata, t.now, &stage));
        out.plan.stages.push(stage);
        return out;
    }
    if let Err(refused) = writers::data_policy(t.cluster.spec.deletion.data_policy, &t.settings.writers)
        && own_namespace(t).is_some()
    {
        stage.state = refused;
        out.requeue_after = Some(requeue::while_deleting(&t.cluster.metadata, t.now, &stage));
        out.plan.stages.push(stage);
        return out;
    }
    if let Published::Ours { uid, .. } = &t.observed.published {
        stage.actions.push(Action::Delete { key: kubeconfig::published_key(t), uid: uid.clone(), grace: None });
        stage.state = State::waiting(format!("{} to be deleted", kubeconfig::published_key(t)));
    }
    backups::end(t, &mut stage);
    let key = ObjectKey::cluster(Kind::Namespace, t.cp_namespace.clone());
    if let Some(cp_namespace) = own_namespace(t) {
        let retain = t.cluster.spec.deletion.data_policy == DataPolicy::Retain;
        down(t, &mut stage, cp_namespace, &key, retain);
    }
    // In a stage of its own: what Argo CD's namespace refuses holds nothing else up.
    let stages: Vec<_> = [Some(stage), registration::end(t)].into_iter().flatten().collect();
    out.plan.finished = stages.iter().all(|stage| stage.state.is_done());
    let again = stages.iter().map(|stage| requeue::while_deleting(&t.cluster.metadata, t.now, stage));
    out.requeue_after = again.min();
    out.plan.stages.extend(stages);
    out
}

/// Whether it is deleted and yet nothing is taken down, until its spec is changed: it serves on.
pub(crate) fn is_held(cluster: &Cluster, asked: &Writers) -> bool {
    let spec = &cluster.spec.deletion;
    cluster.metadata.deletion_timestamp.is_some()
        && (spec.protected || writers::data_policy(spec.data_policy, asked).is_err())
}

/// The control-plane namespace, if it is this `Cluster`'s.
fn own_namespace<'a>(t: &Tenant<'a>) -> Option<&'a Value> {
    t.live_namespace().filter(|n| is_ours(n) && label(n, labels::CLUSTER_UID) == Some(t.uid))
}

/// The namespace of a protected Cluster is being deleted: what that costs, and the ways out.
pub(super) fn team_namespace_ends(t: &Tenant<'_>) -> Option<Stage> {
    if !(t.observed.team_namespace_ends && t.cluster.spec.deletion.protected) {
        return None;
    }
    let (ns, published) = (t.namespace, kubeconfig::published_key(t));
    let message = format!(
        "namespace {ns} is being deleted, and that cannot be undone: everything else in it is lost, {published} as well. spec.deletion.protected is true, so this Cluster and its control plane in namespace {} stay. To keep them, see docs/troubleshoot.md, \"A team's namespace was deleted\"; to delete them, too, set spec.deletion.protected to false",
        t.cp_namespace
    );
    Some(Stage::new(StageId::Deletion, State::blocked(Reason::NamespaceDeleting, message)))
}

fn down(t: &Tenant<'_>, stage: &mut Stage, cp_namespace: &serde_json::Value, key: &ObjectKey, retain: bool) {
    if t.observed.denied && !deleting(cp_namespace) {
        // Without a view of what runs there, an end in order is not possible.
        super::namespace::rights(t, stage);
        return;
    }
    let mut left = vec![];
    // 1. What holds everything else. In a namespace that ends nothing is started again, so that pods can be deleted before
    // those who would replace them. Its controller waits five seconds before it looks, and longer whenever something is left
    // then: what would keep it waiting is deleted now, and gone by then.
    if !retain {
        if !deleting(cp_namespace) {
            stage.actions.push(Action::delete(key, cp_namespace, None));
        }
        let why = deleting(cp_namespace).then(|| ending::namespace(cp_namespace)).flatten();
        left.push(why.map_or(key.to_string(), |why| format!("{key} ({})", why.trim_end_matches('.'))));
    }
    // 2. etcd ends by its own controller, which keeps volumes and CAs.
    for (key, e) in t.observed.of_kind(Kind::EtcdCluster, &t.cp_namespace).filter(|(_, e)| is_ours(e)) {
        if !deleting(e) {
            stage.actions.push(Action::delete(key, e, None));
        }
        left.push(key.to_string());
    }
    // 3. Pods, quickly: their grace is for clients, and there are none. Whoever tells a pod first sets the pace, and a
    // ReplicaSet gives it all of its grace; so Deployments come after it, unless the namespace stays and they would start
    // another one.
    if retain {
        workloads(t, stage, &mut left, retain);
    }
    let mut pods = pods(t, stage);
    if !retain {
        workloads(t, stage, &mut left, retain);
        // 4. Volumes, which Kubernetes keeps as long as a pod uses them.
        for (key, claim) in
            t.observed.of_kind(Kind::PersistentVolumeClaim, &t.cp_namespace).filter(|(_, c)| !deleting(c))
        {
            stage.actions.push(Action::delete(key, claim, None));
        }
    }
    // What holds a pod up holds up everything that it is in.
    pods.extend(left);
    if !pods.is_empty() {
        stage.state = State::waiting(format!("{} to be deleted", ending::first(&pods)));
        return;
    }
    leave_data(t, stage);
    if !stage.actions.is_empty() {
        stage.state = State::waiting("the deletion of all but volumes, CAs and keys (spec.deletion.dataPolicy Retain)");
    }
}

/// Ends pods, and tells which are there.
fn pods(t: &Tenant<'_>, stage: &mut Stage) -> Vec<String> {
    // Members of an etcd that still has its owner are ended by that: here they would only be started again.
    let etcd_there = t.observed.of_kind(Kind::EtcdCluster, &t.cp_namespace).next().is_some();
    let mut all = vec![];
    for (key, p) in t.observed.of_kind(Kind::Pod, &t.cp_namespace) {
        let short = p.pointer("/metadata/deletionGracePeriodSeconds").and_then(serde_json::Value::as_i64);
        let member = etcd_there && label(p, labels::ETCD_CLUSTER).is_some();
        if !member && short.is_none_or(|g| g > GRACE) {
            stage.actions.push(Action::delete(key, p, Some(GRACE)));
        }
        all.push(ending::pod(key, p, t.now));
    }
    all
}

/// Nothing may start pods again.
fn workloads(t: &Tenant<'_>, stage: &mut Stage, left: &mut Vec<String>, retain: bool) {
    // etcd's is the matter of the EtcdCluster.
    let ours = |d: &serde_json::Value| is_ours(d) && label(d, labels::ETCD_CLUSTER).is_none();
    let all = [Kind::Deployment, Kind::StatefulSet].map(|kind| t.observed.of_kind(kind, &t.cp_namespace));
    for (key, d) in all.into_iter().flatten().filter(|(_, d)| ours(d)) {
        run_level::stop(stage, key, d);
        if retain {
            if !deleting(d) {
                stage.actions.push(Action::delete(key, d, None));
            }
            left.push(key.to_string());
        }
    }
}

/// `Retain`: the namespace stays with etcd's volumes and CAs, the cluster's CAs, keys and templates.
fn leave_data(t: &Tenant<'_>, stage: &mut Stage) {
    let keep = [
        names::ca(t.name),
        names::proxy_ca(t.name),
        names::service_account(t.name),
        names::APISERVER_ENCRYPTION.to_owned(),
    ];
    for kind in [Kind::Secret, Kind::Service, Kind::ConfigMap, Kind::PodDisruptionBudget] {
        for (key, o) in t.observed.of_kind(kind, &t.cp_namespace).filter(|(_, o)| is_ours(o)) {
            let kept = keep.contains(&key.name)
                || label(o, labels::ETCD_CLUSTER).is_some()
                || key.name.starts_with("templates-");
            if !kept && !deleting(o) {
                stage.actions.push(Action::delete(key, o, None));
            }
        }
    }
}
