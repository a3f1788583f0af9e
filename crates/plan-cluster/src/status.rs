//! What the `Cluster` says of itself: one pure function, called when all went well and when it did not.

use super::admission;
use super::components::{self, Component};
use super::endpoint::Routed;
use super::inside::serving;
use super::required;
use super::sizes;
use super::sleep;
use super::subject::Tenant;
use super::{ClusterPlan, Input, Pending, adoptable, endpoint, registration, since, validate};
use berth_api::cluster::{
    CertificatesStatus, ClusterStatus, ComponentStatus, NamespaceRef, PublishedEndpoint, PublishedKubeconfig,
};
use berth_api::common::SecretRef;
use berth_api::conditions::{self, ConditionType, Reason, Verdict};
use berth_api::{Cluster, EtcdCluster, labels, names};
use berth_plan::asked::ApiVersion;
use berth_plan::etcd_home::Home;
use berth_plan::failure::Failure;
use berth_plan::model::{LASTING, Plan, Stage, StageId};
use berth_plan::object_meta::{label, uid};
use berth_plan::observed::{ApiProbe, InsideTenant, Published};
use berth_plan::verdicts;
use berth_plan::workload;
use berth_plan_backup::schedule;
use berth_render::{Binary, Kind};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube_core::ResourceExt;
use serde_json::Value;

/// The new status.
pub fn status(input: Input<'_>, planned: &ClusterPlan, failure: Option<&Failure>) -> ClusterStatus {
    let Input { object: cluster, observed, now, .. } = input;
    let t = sleep::tenant(input);
    let old = t.status();
    let generation = cluster.metadata.generation.unwrap_or_default();
    let failure = failure.map(|failure| admission::explain(&t, failure));
    let verdicts = verdicts(&t, planned, failure.as_ref());
    let (version, emulated_version) = versions(&t, &old);
    let mut status = ClusterStatus {
        observed_generation: Some(generation),
        version,
        emulated_version,
        control_plane_namespace: namespace_ref(&t, &old),
        adopt: adoptable(cluster, observed, &planned.plan),
        ..old.clone()
    };
    // What was not looked at is as it was.
    if !observed.denied {
        status.components = component_statuses(&t);
    }
    if let Some(at) = planned.certificates.next_expiry {
        status.certificates = Some(CertificatesStatus { next_expiry: Some(Time(at)) });
    }
    if let Some((host, port)) = &planned.endpoint {
        let nodes = super::vpc::endpoint(&cluster.spec).map(|(host, port)| ("nodes", host, port));
        let all = std::iter::once(("admin", host.clone(), *port)).chain(nodes);
        let endpoint = |(name, host, port): (&str, _, _)| PublishedEndpoint { name: name.into(), host, port };
        let all: Vec<_> = all.map(endpoint).collect();
        status.endpoints = match endpoint::routed(&t).filter(|_| endpoint::is_behind_routes_alone(&t)) {
            None | Some(Routed { leads: Some(true), .. }) => all,
            // At its name nobody is led to it.
            Some(Routed { leads: Some(false), .. }) => all.into_iter().skip(1).collect(),
            Some(Routed { leads: None, .. }) => status.endpoints,
        };
    }
    match &observed.published {
        Published::Ours { .. } => {
            let secret_ref = SecretRef { name: names::kubeconfig(t.name) };
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
        status.former_service_account_issuers.clone_from(&planned.former_issuers);
    } else {
        status.turn = super::turn::halted(status.turn, now);
    }
    if planned.plan.stage(StageId::Endpoint).is_some() {
        status.refused_node_port = endpoint::node_port_status(&t);
    }
    status.requests = berth_plan::fleet::requests::after(&old, status.turn.as_ref(), now);
    if let Some(history) = super::revision::history(observed, &t.cp_namespace).filter(|_| !observed.denied) {
        status.history = history;
    }
    status.since = since::since(&t, status.since);
    status.registration = registration::status(&t);
    status.hibernation = sleep::status(&t).or(status.hibernation.filter(|_| observed.denied));
    if let Some(addons) = &planned.addons {
        status.addons.clone_from(addons);
    }
    status.phase = Some(phase(cluster, planned, &verdicts, &old).to_owned());
    status.conditions = verdicts::publish(&old.conditions, verdicts, generation, now, cluster.spec.paused);
    status
}

fn verdicts(t: &Tenant<'_>, planned: &ClusterPlan, failure: Option<&Failure>) -> Vec<Verdict> {
    use ConditionType as T;
    let (cluster, plan) = (t.cluster, &planned.plan);
    let deleting = cluster.metadata.deletion_timestamp.is_some();
    let unseen = unseen(t, failure);
    let unknown = |type_| unseen.as_ref().map(|(reason, m)| Verdict::new(type_, None, *reason, m.clone()));
    let etcd = unknown(T::EtcdAvailable).unwrap_or_else(|| etcd_verdict(t));
    let control_plane = unknown(T::ControlPlaneAvailable).unwrap_or_else(|| control_plane_verdict(t, plan));
    let available = api_verdict(t, &etcd).unwrap_or_else(|| {
        if deleting {
            Verdict::new(T::Available, Some(false), Reason::Deleting, "being deleted")
        } else {
            unknown(T::Available).unwrap_or_else(|| not_asked(t, plan))
        }
    });
    let problem = failure.map(|f| (f.reason, f.message.clone())).or_else(|| plan.first_problem());
    let mut ready =
        verdicts::ready(&available, problem.as_ref(), planned.unread.as_ref(), cluster.spec.paused, deleting);
    if let (Some((reason, message)), Some(true)) = (sizes::note(t).filter(|_| !deleting), ready.status) {
        (ready.reason, ready.message) = (reason, message);
    }
    if let (Some(pending), Some(true)) = (&planned.pending, ready.status) {
        (ready.reason, ready.message) = (Reason::Emulating, pending_message(pending));
    }
    if let (Some(hold), Some(true)) = (&planned.hold, ready.status) {
        (ready.reason, ready.message) = (hold.reason, hold.message.clone());
    }
    let told = planned.addons.as_deref().unwrap_or(cluster.status.as_ref().map_or(&[], |s| &s.addons));
    let pods_reach = unknown(T::PodsReachAPI).unwrap_or_else(|| endpoint::pods_reach(t, told));
    let addons =
        serving::verdict(t, told).map(|addons| unknown(T::AddonsReady).unwrap_or(addons)).filter(|_| !deleting);
    let missed = endpoint::missed_by_pods(t, &pods_reach).or_else(|| serving::down(t, told).filter(|_| !deleting));
    if let (Some((reason, message)), Some(true)) = (sleep::note(t), ready.status) {
        (ready.reason, ready.message) = (reason, message);
    }
    let missed = missed.filter(|_| ready.status == Some(true) && !t.sleep.is_asleep());
    let unrouted = endpoint::unrouted(t).filter(|_| ready.status == Some(true) && !deleting);
    let awaited = unrouted.clone().filter(|(reason, _)| *reason == Reason::Waiting);
    let missed = unrouted.or(missed);
    let over = |own: Verdict, status| match &missed {
        // What comes by itself is nothing that is wrong.
        Some((Reason::Waiting, _)) if own.type_ == T::Degraded => own,
        Some(missed) => endpoint::over(own, status, missed),
        None => own,
    };
    let ready = over(ready, false);
    let apps = required::judge(t).filter(|_| !deleting);
    let lacks = apps.as_ref().and_then(required::Judged::lacks);
    let lacks = lacks.filter(|_| ready.status == Some(true) && !t.sleep.is_asleep());
    let short = |own: Verdict, status| match &lacks {
        Some(lacks) => endpoint::over(own, status, lacks),
        None => own,
    };
    let ready = short(ready, false);
    let has_failed = apps.as_ref().is_some_and(|apps| apps.failed);
    let awaited = awaited.or_else(|| lacks.clone().filter(|_| !has_failed));
    let moving = plan.stages.iter().find(|s| s.state.goes_on()).and_then(Stage::sentence).or(awaited);
    let progressing = verdicts::progressing(moving, cluster.spec.paused, deleting);
    let vpc = cluster.spec.vpc.is_some().then(|| unknown(T::VPCReady).unwrap_or_else(|| super::vpc::verdict(t)));
    let routed = endpoint::routed(t).map(|routed| unknown(T::RouteAccepted).unwrap_or(routed.verdict));
    let routed = routed.filter(|_| !deleting);
    let status = cluster.status.as_ref();
    let was_up = status.is_some_and(|s| s.version.is_some()) && !deleting;
    let old = status.map_or(&[][..], |s| &s.conditions);
    let degraded = over(degraded(t, planned, failure, &etcd), true);
    let degraded = if has_failed { short(degraded, true) } else { degraded };
    // Where pods end for a restore, etcd says more than that none is ready.
    let degraded = [&etcd, &available].into_iter().fold(degraded, |d, of| verdicts::beside(of, d, was_up, old, t.now));
    let all = [
        ready,
        available,
        progressing,
        t.observed.meta.add_to(degraded, t.settings.leaf_lifetime),
        verdicts::pki(plan, "CAs, keys and certificates are in order"),
        etcd,
        control_plane,
        pods_reach,
    ];
    let home = Home { namespace: t.namespace, field: "clusterRef", name: t.name };
    let backup = schedule::ready::verdict(t.observed, home, t.get(Kind::EtcdCluster, names::ETCD), t.now);
    let backup = backup.filter(|_| !deleting);
    let registered = registration::verdict(t).map(|registered| unknown(T::Registered).unwrap_or(registered));
    let registered = registered.filter(|_| !deleting);
    let upgrade = super::preflight::verdict(t);
    let update = super::update::verdict(t);
    let apps = apps.map(|apps| apps.verdict);
    let all = all.into_iter().chain(addons).chain(apps).chain(vpc).chain(routed).chain(registered).chain(backup);
    let all = all.chain(upgrade).chain(update).collect();
    sleep::judged(t, all, planned.hold.as_ref().map(|hold| &*hold.message))
}

/// What the API's answer says. None: it was not asked.
fn api_verdict(t: &Tenant<'_>, etcd: &Verdict) -> Option<Verdict> {
    let (status, reason, message) = match &t.observed.api {
        ApiProbe::Answered { .. } if etcd.status == Some(true) => {
            (Some(true), Reason::AsExpected, "the API answers and etcd has quorum".to_owned())
        }
        ApiProbe::Answered { .. } => (Some(false), etcd.reason, etcd.message.clone()),
        ApiProbe::Failed(why) => {
            let message = format!("the API does not answer at {}", endpoint::no_answer(t, why));
            (Some(false), Reason::APINotReachable, message)
        }
        ApiProbe::Refused(why) => (None, Reason::InvalidSpec, why.to_string()),
        ApiProbe::Unable(why) => {
            (None, Reason::CertificateAuthorityLost, format!("the operator cannot ask the API: {why}"))
        }
        ApiProbe::NotAsked => return None,
    };
    Some(Verdict::new(ConditionType::Available, status, reason, message))
}

/// Who reads it learns until when there is a way back, and which.
fn pending_message(pending: &Pending) -> String {
    let Pending { version, from, until } = pending;
    format!(
        "{version} runs and emulates {} until {} (spec.upgrade.finalizeAfter); then it serves {} for good. To roll back before, set spec.version to {from}",
        from.minor(),
        until.strftime("%Y-%m-%dT%H:%M:%SZ"),
        version.minor(),
    )
}

/// What keeps the operator from looking into the control-plane namespace, if anything does. What is not seen is neither up nor down.
fn unseen(t: &Tenant<'_>, failure: Option<&Failure>) -> Option<(Reason, String)> {
    let told = failure.filter(|f| f.reason == Reason::PermissionDenied).map(|f| f.message.clone());
    let why = || told.unwrap_or_else(|| format!("the operator has no rights in namespace {}", t.cp_namespace));
    t.observed.denied.then(|| (Reason::PermissionDenied, why()))
}

/// Why nobody asked the API, which is not served where clients look for it.
fn not_asked(t: &Tenant<'_>, plan: &Plan) -> Verdict {
    if let Some((reason, message)) = sleep::said(t) {
        return Verdict::new(ConditionType::Available, Some(false), reason, message);
    }
    let mut pods = workload::pods_of(t.observed, &t.cp_namespace, labels::COMPONENT, names::APISERVER);
    let (reason, message) = if pods.any(|(_, pod)| workload::pod_ready(pod)) {
        let address = plan.stage(StageId::Endpoint).and_then(Stage::sentence);
        address.unwrap_or_else(|| (Reason::Waiting, "the API has no address yet".to_owned()))
    } else {
        (Reason::Waiting, "no pod of kube-apiserver is ready".to_owned())
    };
    Verdict::new(ConditionType::Available, Some(false), reason, message)
}

/// Things that do not get better by waiting.
fn degraded(t: &Tenant<'_>, planned: &ClusterPlan, failure: Option<&Failure>, etcd: &Verdict) -> Verdict {
    use ConditionType as T;
    if let Some(f) = failure {
        return Verdict::new(T::Degraded, Some(true), f.reason, f.message.clone());
    }
    if let Some((reason, message)) = planned.plan.blocked().and_then(|(stage, ..)| stage.sentence()) {
        return Verdict::new(T::Degraded, Some(true), reason, message);
    }
    // It may be why others wait, and only the tenant's admins can do something about it; but pods fail by themselves.
    let by = |reasons: &[Reason]| planned.plan.stages.iter().find(|stage| stage.is_for(reasons));
    let first = by(&admission::OF_PODS).or_else(|| by(&[Reason::WebhookInTheWay])).or_else(|| planned.plan.lasting());
    if let Some((reason, message)) = first.and_then(Stage::sentence) {
        return Verdict::new(T::Degraded, Some(true), reason, message);
    }
    if etcd.status == Some(false) && LASTING.contains(&etcd.reason) {
        return Verdict { type_: T::Degraded, status: Some(true), ..etcd.clone() };
    }
    if let Some(why) = planned.pull_secrets.as_ref().filter(|_| planned.says_nothing_else()) {
        return Verdict::new(T::Degraded, Some(true), Reason::PullSecretUnavailable, why.clone());
    }
    if let Some(why) = planned.audit_webhook.as_ref().filter(|_| planned.says_nothing_else()) {
        return Verdict::new(T::Degraded, Some(true), Reason::AuditWebhookUnavailable, why.clone());
    }
    let foreign = planned.plan.notes().map(|note| (Reason::ForeignFields, note));
    let note = foreign.or_else(|| Some((Reason::NodesNotReachable, planned.unreachable_nodes.clone()?)));
    let note = note.or_else(|| Some((Reason::WebhookInTheWay, admission::note(t, &planned.plan)?)));
    let note = note.or_else(|| Some((Reason::RoomForOneNode, validate::room_for_one_node(&t.cluster.spec)?)));
    verdicts::degraded(&planned.certificates.warnings, planned.unread.as_ref(), note)
}

fn etcd_verdict(t: &Tenant<'_>) -> Verdict {
    use ConditionType as T;
    let live = t.get(Kind::EtcdCluster, names::ETCD);
    let live = live.and_then(|live| serde_json::from_value::<EtcdCluster>(live.clone()).ok());
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

fn control_plane_verdict(t: &Tenant<'_>, plan: &Plan) -> Verdict {
    use ConditionType as T;
    let serves = |component: &Component| t.workloads(component.binary).rollout().is_some_and(|r| r.serving);
    let down = components::ALL.into_iter().find(|component| !serves(component));
    let idle = components::ALL.iter().find_map(|component| super::leads::not_leading(t, component.binary));
    match down {
        None if let Some(message) = idle => {
            Verdict::new(T::ControlPlaneAvailable, Some(false), Reason::NotLeading, message)
        }
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

/// The version that answered, and the one that it emulates: asked for after a change, and kept while nothing changes.
fn versions(t: &Tenant<'_>, old: &ClusterStatus) -> (Option<String>, Option<String>) {
    // While pods of two versions answer, the older one counts.
    let settled = || t.workloads(Binary::ApiServer).rollout().is_some_and(|rollout| rollout.settled);
    match &t.observed.api {
        ApiProbe::Answered { version: Some(ApiVersion { version, emulates }), .. }
            if old.version.is_none() || settled() =>
        {
            (Some(version.clone()), emulates.map(|minor| minor.to_string()))
        }
        _ => (old.version.clone(), old.emulated_version.clone()),
    }
}

/// Recorded as soon as it is ours, so that its loss is noticed. What was recorded is never forgotten, unless an
/// adoption puts another in its place.
fn namespace_ref(t: &Tenant<'_>, old: &ClusterStatus) -> Option<NamespaceRef> {
    let is_ours = |live: &&Value| label(live, labels::CLUSTER_UID) == t.cluster.metadata.uid.as_deref();
    let adopting = t.cluster.annotations().contains_key(labels::ADOPT);
    let same = |live: &Value| old.control_plane_namespace.as_ref().is_none_or(|r| r.uid == uid(live));
    let live = t.live_namespace().filter(is_ours).filter(|live| adopting || same(live));
    live.map(|live| NamespaceRef { name: t.cp_namespace.clone(), uid: uid(live).to_owned() })
        .or_else(|| old.control_plane_namespace.clone())
}

fn component_statuses(t: &Tenant<'_>) -> Vec<ComponentStatus> {
    components::ALL
        .iter()
        .filter_map(|component| {
            let name = component.name();
            let workloads = t.workloads(component.binary);
            let rollout = workloads.rollout()?;
            let version = workloads
                .version()
                .filter(|_| rollout.settled)
                .map(|v| v.to_string())
                .or_else(|| t.cluster.status.as_ref()?.components.iter().find(|c| c.name == name)?.version.clone());
            Some(ComponentStatus { name: name.into(), version, ready: rollout.ready, desired: rollout.desired })
        })
        .collect()
}

fn phase(cluster: &Cluster, planned: &ClusterPlan, verdicts: &[Verdict], old: &ClusterStatus) -> &'static str {
    let status_of = |t: ConditionType| verdicts.iter().find(|v| v.type_ == t).and_then(|v| v.status);
    let is = |t: ConditionType| status_of(t) == Some(true);
    let was_up = old.version.is_some();
    if cluster.metadata.deletion_timestamp.is_some() {
        "Deleting"
    } else if cluster.spec.paused {
        "Paused"
    } else if planned.plan.blocked().is_some() && !is(ConditionType::Available) {
        "Blocked"
    } else if is(ConditionType::Ready) {
        if is(ConditionType::Available) { "Ready" } else { "Asleep" }
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
