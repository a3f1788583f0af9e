//! What the `Cluster` says of itself: one pure function, called when all went well and when it did not.

use super::components::{self, Component, Workloads};
use super::subject::Tenant;
use super::{ClusterPlan, Input, Pending, adoptable, endpoint};
use berth_api::cluster::{
    CertificatesStatus, ClusterStatus, ComponentStatus, NamespaceRef, PublishedEndpoint, PublishedKubeconfig,
};
use berth_api::common::SecretRef;
use berth_api::conditions::{self, ConditionType, Reason, Verdict};
use berth_api::{EtcdCluster, labels, names};
use berth_plan::failure::Failure;
use berth_plan::model::LASTING;
use berth_plan::model::{Plan, Stage, StageId};
use berth_plan::observed::{ApiProbe, ApiVersion, InsideTenant, Published, uid};
use berth_plan::verdicts;
use berth_plan::workload;
use berth_plan_backup::schedule;
use berth_render::{Binary, Kind, ObjectKey};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// The new status.
pub fn status(input: Input<'_>, planned: &ClusterPlan, failure: Option<&Failure>) -> ClusterStatus {
    let Input { object: cluster, observed, now, .. } = input;
    let old = cluster.status.clone().unwrap_or_default();
    let (name, namespace) =
        (cluster.metadata.name.clone().unwrap_or_default(), cluster.metadata.namespace.clone().unwrap_or_default());
    let cp_namespace = names::control_plane_namespace(&namespace, &name);
    let generation = cluster.metadata.generation.unwrap_or_default();
    let verdicts = verdicts(input, planned, failure, &cp_namespace);
    let version = version(input, &old, &cp_namespace);
    let mut status = ClusterStatus {
        observed_generation: Some(generation),
        version: version.version,
        emulated_version: version.emulates,
        control_plane_namespace: namespace_ref(input, &old, &cp_namespace),
        adopt: adoptable(cluster, observed, &planned.plan),
        ..old.clone()
    };
    // What was not looked at is as it was.
    if !observed.denied {
        status.components = component_statuses(input, &cp_namespace);
    }
    if let Some(at) = planned.certificates.next_expiry {
        status.certificates = Some(CertificatesStatus { next_expiry: Some(Time(at)) });
    }
    if let Some((host, port)) = &planned.endpoint {
        let nodes = super::vpc::endpoint(&cluster.spec).map(|(host, port)| ("nodes", host, port));
        let all = std::iter::once(("admin", host.clone(), *port)).chain(nodes);
        let endpoint = |(name, host, port): (&str, _, _)| PublishedEndpoint { name: name.into(), host, port };
        status.endpoints = all.map(endpoint).collect();
    }
    match &observed.published {
        Published::Ours { .. } => {
            let secret_ref = SecretRef { name: names::kubeconfig(&name) };
            status.kubeconfigs = vec![PublishedKubeconfig { name: "admin".into(), secret_ref }];
        }
        Published::Absent | Published::Foreign(_) => status.kubeconfigs.clear(),
        Published::Unknown => {}
    }
    if let ApiProbe::Answered { read: InsideTenant { nodes: Some(nodes), .. }, .. } = &observed.api {
        status.nodes = Some(nodes.count.clone());
    }
    // Where nothing was looked at, a deadline goes on.
    if planned.plan.stage(StageId::ControlPlane(Binary::ApiServer)).is_some() {
        status.rollout.clone_from(&planned.rollout);
        status.turn.clone_from(&planned.turn);
    } else {
        status.turn = super::turn::halted(status.turn, now);
    }
    status.requests = berth_plan::fleet::requests::after(&old, status.turn.as_ref(), now);
    if let Some(history) = super::revision::history(observed, &cp_namespace).filter(|_| !observed.denied) {
        status.history = history;
    }
    if let Some(addons) = &planned.addons {
        status.addons.clone_from(addons);
    }
    status.phase = Some(phase(input, planned, &verdicts, &old).to_owned());
    status.conditions = verdicts::publish(&old.conditions, verdicts, generation, now, cluster.spec.paused);
    status
}

fn verdicts(input: Input<'_>, planned: &ClusterPlan, failure: Option<&Failure>, cp_namespace: &str) -> Vec<Verdict> {
    use ConditionType as T;
    let t = Tenant::new(input);
    let plan = &planned.plan;
    let cluster = input.object;
    let deleting = cluster.metadata.deletion_timestamp.is_some();
    let unseen = unseen(input, failure, cp_namespace);
    let unknown = |type_| unseen.as_ref().map(|(reason, m)| Verdict::new(type_, None, *reason, m.clone()));
    let etcd = unknown(T::EtcdAvailable).unwrap_or_else(|| etcd_verdict(input, cp_namespace));
    let control_plane =
        unknown(T::ControlPlaneAvailable).unwrap_or_else(|| control_plane_verdict(input, plan, cp_namespace));
    let available = match (&input.observed.api, etcd.status) {
        (ApiProbe::Answered { .. }, Some(true)) => {
            Verdict::new(T::Available, Some(true), Reason::AsExpected, "the API answers and etcd has quorum")
        }
        (ApiProbe::Answered { .. }, _) => Verdict::new(T::Available, Some(false), etcd.reason, etcd.message.clone()),
        (ApiProbe::Failed(why), _) => {
            let message = format!("the API does not answer at {}", endpoint::no_answer(&t, why));
            Verdict::new(T::Available, Some(false), Reason::APINotReachable, message)
        }
        (ApiProbe::Refused(why), _) => Verdict::new(T::Available, None, Reason::InvalidSpec, why.clone()),
        (ApiProbe::Unable(why), _) => Verdict::new(
            T::Available,
            None,
            Reason::CertificateAuthorityLost,
            format!("the operator cannot ask the API: {why}"),
        ),
        (ApiProbe::NotAsked, _) if deleting => {
            Verdict::new(T::Available, Some(false), Reason::Deleting, "being deleted")
        }
        (ApiProbe::NotAsked, _) => unknown(T::Available).unwrap_or_else(|| not_asked(input, plan, cp_namespace)),
    };
    let problem = failure.map(|f| (f.reason, f.message.clone())).or_else(|| plan.first_problem());
    let mut ready =
        verdicts::ready(&available, problem.as_ref(), planned.unread.as_ref(), cluster.spec.paused, deleting);
    if let (Some(pending), Some(true)) = (&planned.pending, ready.status) {
        (ready.reason, ready.message) = (Reason::Emulating, pending_message(pending));
    }
    if let (Some(hold), Some(true)) = (&planned.hold, ready.status) {
        (ready.reason, ready.message) = (hold.reason, hold.message.clone());
    }
    let moving = plan.stages.iter().find(|s| s.state.goes_on()).and_then(Stage::sentence);
    let progressing = verdicts::progressing(moving, cluster.spec.paused, deleting);
    let vpc = cluster.spec.vpc.is_some().then(|| unknown(T::VPCReady).unwrap_or_else(|| super::vpc::verdict(&t)));
    let status = cluster.status.as_ref();
    let was_up = status.is_some_and(|s| s.version.is_some()) && !deleting;
    let old = status.map_or(&[][..], |s| &s.conditions);
    let degraded = degraded(planned, failure, &etcd);
    // Where pods end for a restore, etcd says more than that none is ready.
    let degraded =
        [&etcd, &available].into_iter().fold(degraded, |d, of| verdicts::beside(of, d, was_up, old, input.now));
    let all = [
        ready,
        available,
        progressing,
        input.observed.meta.add_to(degraded, input.settings.leaf_lifetime),
        verdicts::pki(plan, "CAs, keys and certificates are in order"),
        etcd,
        control_plane,
    ];
    let (namespace, name) = (&cluster.metadata.namespace, &cluster.metadata.name);
    let (namespace, name) = (namespace.as_deref().unwrap_or_default(), name.as_deref().unwrap_or_default());
    let home = names::control_plane_namespace(namespace, name);
    let etcd = input.observed.get(&ObjectKey::namespaced(Kind::EtcdCluster, home, names::ETCD));
    let data = etcd.and_then(schedule::ready::Data::of);
    let backup = schedule::ready::of_cluster(input.observed, (namespace, name), data.as_ref(), input.now);
    let backup = backup.filter(|_| !deleting);
    let upgrade = super::preflight::verdict(&t);
    let update = super::update::verdict(&t);
    all.into_iter().chain(vpc).chain(backup).chain(upgrade).chain(update).collect()
}

/// Who reads it learns until when there is a way back, and which.
fn pending_message(pending: &Pending) -> String {
    let Pending { version, from, until } = pending;
    format!(
        "{version} runs and emulates {} until {}; then it serves {} and there is no way back. To go back before, set spec.version to {from}. spec.upgrade.finalizeAfter sets how long it waits",
        from.minor(),
        until.strftime("%Y-%m-%dT%H:%M:%SZ"),
        version.minor(),
    )
}

/// What keeps the operator from looking into the control-plane namespace, if anything does. What is not seen is neither up nor down.
fn unseen(input: Input<'_>, failure: Option<&Failure>, cp_namespace: &str) -> Option<(Reason, String)> {
    let told = failure.filter(|f| f.reason == Reason::PermissionDenied).map(|f| f.message.clone());
    let why = || told.unwrap_or_else(|| format!("the operator has no rights in namespace {cp_namespace}"));
    input.observed.denied.then(|| (Reason::PermissionDenied, why()))
}

/// Why nobody asked the API, which is not served where clients look for it.
fn not_asked(input: Input<'_>, plan: &Plan, cp_namespace: &str) -> Verdict {
    let mut pods = workload::pods_of(input.observed, cp_namespace, labels::COMPONENT, names::APISERVER);
    let (reason, message) = if pods.any(|(_, pod)| workload::pod_ready(pod)) {
        let address = plan.stage(StageId::Endpoint).and_then(Stage::sentence);
        address.unwrap_or_else(|| (Reason::Waiting, "the API has no address yet".to_owned()))
    } else {
        (Reason::Waiting, "no pod of kube-apiserver is ready".to_owned())
    };
    Verdict::new(ConditionType::Available, Some(false), reason, message)
}

/// Things that do not get better by waiting.
fn degraded(planned: &ClusterPlan, failure: Option<&Failure>, etcd: &Verdict) -> Verdict {
    use ConditionType as T;
    if let Some(f) = failure {
        return Verdict::new(T::Degraded, Some(true), f.reason, f.message.clone());
    }
    if let Some((reason, message)) = planned.plan.blocked().and_then(|(stage, ..)| stage.sentence()) {
        return Verdict::new(T::Degraded, Some(true), reason, message);
    }
    if let Some((reason, message)) = planned.plan.lasting().and_then(Stage::sentence) {
        return Verdict::new(T::Degraded, Some(true), reason, message);
    }
    if etcd.status == Some(false) && LASTING.contains(&etcd.reason) {
        return Verdict { type_: T::Degraded, status: Some(true), ..etcd.clone() };
    }
    let foreign = planned.plan.notes().map(|note| (Reason::ForeignFields, note));
    let note = foreign.or_else(|| Some((Reason::NodesNotReachable, planned.unreachable_nodes.clone()?)));
    verdicts::degraded(&planned.certificates.warnings, planned.unread.as_ref(), note)
}

fn etcd_verdict(input: Input<'_>, cp_namespace: &str) -> Verdict {
    use ConditionType as T;
    let key = ObjectKey::namespaced(Kind::EtcdCluster, cp_namespace, names::ETCD);
    let live = input.observed.get(&key).and_then(|e| serde_json::from_value::<EtcdCluster>(e.clone()).ok());
    let status = live.and_then(|e| e.status).unwrap_or_default();
    match conditions::find(&status.conditions, T::Available) {
        None => Verdict::new(T::EtcdAvailable, None, Reason::NotYetObserved, "EtcdCluster etcd has no status yet"),
        Some(c) => {
            let reason = c.reason.parse().unwrap_or(Reason::Waiting);
            let value = match c.status.as_str() {
                "True" => Some(true),
                "False" => Some(false),
                _ => None,
            };
            Verdict::new(T::EtcdAvailable, value, reason, c.message.clone())
        }
    }
}

fn control_plane_verdict(input: Input<'_>, plan: &Plan, cp_namespace: &str) -> Verdict {
    use ConditionType as T;
    let serves = |component: &Component| {
        Workloads::of(input.object, input.observed, cp_namespace, component.binary).rollout().is_some_and(|r| r.serving)
    };
    let down = components::ALL.into_iter().find(|component| !serves(component));
    match down {
        None => Verdict::new(
            T::ControlPlaneAvailable,
            Some(true),
            Reason::AsExpected,
            "every component has a pod that is ready",
        ),
        Some(component) => {
            let stage = plan.stage(StageId::ControlPlane(component.binary));
            let (reason, message) = stage
                .and_then(Stage::sentence)
                .unwrap_or_else(|| (Reason::PodsNotReady, format!("{}: no pod is ready", component.name())));
            Verdict::new(T::ControlPlaneAvailable, Some(false), reason, message)
        }
    }
}

/// The version that answered: asked for after a change, and kept while nothing changes.
fn version(input: Input<'_>, old: &ClusterStatus, cp_namespace: &str) -> Told {
    if let ApiProbe::Answered { version: Some(ApiVersion { version, emulates }), .. } = &input.observed.api {
        let rollout = Workloads::of(input.object, input.observed, cp_namespace, Binary::ApiServer).rollout();
        // While pods of two versions answer, the older one counts.
        let settled = rollout.is_some_and(|rollout| rollout.settled);
        if settled || old.version.is_none() {
            return Told { version: Some(version.clone()), emulates: emulates.map(|minor| minor.to_string()) };
        }
    }
    Told { version: old.version.clone(), emulates: old.emulated_version.clone() }
}

/// What the API told of its version.
struct Told {
    version: Option<String>,
    emulates: Option<String>,
}

/// Recorded as soon as it is ours, so that its loss is noticed. What was recorded is never forgotten, unless an
/// adoption puts another in its place.
fn namespace_ref(input: Input<'_>, old: &ClusterStatus, cp_namespace: &str) -> Option<NamespaceRef> {
    let Some(live) = input.observed.get(&ObjectKey::cluster(Kind::Namespace, cp_namespace)) else {
        return old.control_plane_namespace.clone();
    };
    let ours = berth_plan::observed::label(live, labels::CLUSTER_UID) == input.object.metadata.uid.as_deref();
    let adopting = input.object.metadata.annotations.as_ref().is_some_and(|a| a.contains_key(labels::ADOPT));
    let same = old.control_plane_namespace.as_ref().is_none_or(|r| r.uid == uid(live));
    if ours && (same || adopting) {
        return Some(NamespaceRef { name: cp_namespace.to_owned(), uid: uid(live).to_owned() });
    }
    old.control_plane_namespace.clone()
}

fn component_statuses(input: Input<'_>, cp_namespace: &str) -> Vec<ComponentStatus> {
    components::ALL
        .iter()
        .filter_map(|component| {
            let name = component.name();
            let workloads = Workloads::of(input.object, input.observed, cp_namespace, component.binary);
            let rollout = workloads.rollout()?;
            let version =
                workloads.version().filter(|_| rollout.settled).map(|v| v.to_string()).or_else(|| {
                    input.object.status.as_ref()?.components.iter().find(|c| c.name == name)?.version.clone()
                });
            Some(ComponentStatus { name: name.into(), version, ready: rollout.ready, desired: rollout.desired })
        })
        .collect()
}

fn phase(input: Input<'_>, planned: &ClusterPlan, verdicts: &[Verdict], old: &ClusterStatus) -> &'static str {
    let status_of = |t: ConditionType| verdicts.iter().find(|v| v.type_ == t).and_then(|v| v.status);
    let is = |t: ConditionType| status_of(t) == Some(true);
    let was_up = old.version.is_some();
    if input.object.metadata.deletion_timestamp.is_some() {
        "Deleting"
    } else if input.object.spec.paused {
        "Paused"
    } else if planned.plan.blocked().is_some() && !is(ConditionType::Available) {
        "Blocked"
    } else if is(ConditionType::Ready) {
        "Ready"
    } else if !was_up {
        if planned.plan.stages.len() < 3 { "Pending" } else { "Provisioning" }
    } else if status_of(ConditionType::Available) == Some(false) {
        "Unavailable"
    } else if is(ConditionType::Degraded) {
        "Degraded"
    } else {
        "Updating"
    }
}
