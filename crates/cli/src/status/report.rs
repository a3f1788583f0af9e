//! What is to be said of one `Cluster`, as a value: the same for one and for each of many. docs/status-fields.md has its fields.

use super::next;
use super::read::Seen;
use super::sizes::Share;
use crate::paint::{bad, good, warn};
use berth_api::conditions::{ConditionType, Reason, find, is_true};
use berth_api::hibernation::{HibernationStatus, SleepState};
use berth_api::{labels, names};
use berth_plan::object_meta::label;
use berth_plan::workload;
use berth_plan_cluster::components;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde::Serialize;
use serde_json::Value;

/// All of it.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) ready: bool,
    pub(super) available: bool,
    pub(super) phase: Option<String>,
    /// Since when it is ready, or not.
    pub(super) since: Option<Timestamp>,
    pub(super) version: Option<String>,
    /// What the spec asks for.
    pub(super) wanted_version: String,
    pub(super) endpoint: Option<String>,
    pub(super) control_plane_namespace: Option<String>,
    /// The operator has seen the newest spec.
    pub(super) observed: bool,
    pub(super) conditions: Vec<Told>,
    /// Whether it sleeps. None: it was never asked to, and no schedule will.
    pub(super) hibernation: Option<Hibernation>,
    pub(super) etcd: Option<Etcd>,
    pub(super) components: Vec<Component>,
    pub(super) next_expiry: Option<Timestamp>,
    /// What could not be read, and what protects it better.
    pub(super) notes: Vec<String>,
    /// What to do.
    pub(super) next: String,
}

/// A condition.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Told {
    #[serde(rename = "type")]
    pub(super) type_: String,
    pub(super) status: String,
    pub(super) reason: String,
    pub(super) message: String,
    pub(super) since: Timestamp,
}

impl Told {
    /// It is not as it should be.
    pub(super) fn is_problem(&self) -> bool {
        let calm = [ConditionType::Progressing, ConditionType::Degraded].map(ConditionType::as_str);
        let said = [
            Reason::ForeignFields,
            Reason::NodesNotReachable,
            Reason::RoomForOneNode,
            Reason::WebhookInTheWay,
            Reason::SizeHeld,
        ];
        said.iter().any(|reason| self.reason == reason.as_str())
            || self.status != if calm.contains(&self.type_.as_str()) { "False" } else { "True" }
    }
}

/// Whether it sleeps.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Hibernation {
    pub(super) state: SleepState,
    pub(super) since: Timestamp,
    /// What led to it.
    pub(super) cause: String,
    /// What changes it next by time.
    pub(super) next: Option<NextSleep>,
}

/// When a schedule changes it.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct NextSleep {
    pub(super) state: SleepState,
    pub(super) at: Timestamp,
    pub(super) cause: String,
}

/// etcd.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Etcd {
    pub(super) version: Option<String>,
    pub(super) ready_members: Option<String>,
    pub(super) conditions: Vec<Told>,
    /// What its members request and use.
    pub(super) size: Option<Share>,
    pub(super) members: Vec<Member>,
}

/// A member of etcd.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Member {
    pub(super) name: String,
    pub(super) ready: bool,
    pub(super) message: Option<String>,
    pub(super) pod: Option<Pod>,
}

/// A component of the control plane.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Component {
    pub(super) name: String,
    pub(super) version: Option<String>,
    pub(super) ready: i32,
    pub(super) desired: i32,
    /// What its pods request and use.
    pub(super) size: Option<Share>,
    pub(super) pods: Vec<Pod>,
}

/// A pod.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Pod {
    pub(super) name: String,
    pub(super) ready: bool,
    pub(super) deleting: bool,
    pub(super) created: Option<Timestamp>,
    pub(super) restarts: i64,
    pub(super) problem: Option<String>,
}

impl Report {
    /// A text in the colour of how it is.
    pub(super) fn painted(&self, text: &str) -> String {
        match (self.ready, self.available) {
            (true, _) => good(text),
            (false, true) => warn(text),
            (false, false) => bad(text),
        }
    }

    /// What `Ready` says, unless it is true.
    pub(super) fn not_ready(&self) -> Option<&str> {
        let ready = self.conditions.iter().find(|c| c.type_ == ConditionType::Ready.as_str())?;
        ready.is_problem().then_some(&*ready.message)
    }
}

/// Judges what was read.
pub(super) fn report(seen: &Seen, now: Timestamp) -> Report {
    let cluster = &seen.cluster;
    let meta = &cluster.metadata;
    let status = cluster.status.clone().unwrap_or_default();
    let ready = find(&status.conditions, ConditionType::Ready);
    let endpoint = status.endpoints.iter().find(|e| e.name == "admin").map(|e| {
        let host = if e.host.contains(':') { format!("[{}]", e.host) } else { e.host.clone() };
        format!("https://{host}:{}", e.port)
    });
    let observed = status.observed_generation.is_some() && status.observed_generation == meta.generation;
    let mut report = Report {
        namespace: meta.namespace.clone().unwrap_or_default(),
        name: meta.name.clone().unwrap_or_default(),
        ready: is_true(&status.conditions, ConditionType::Ready) && observed,
        available: is_true(&status.conditions, ConditionType::Available),
        phase: status.phase.clone(),
        since: ready.map(|c| c.last_transition_time.0),
        version: status.version.clone(),
        wanted_version: cluster.spec.version.clone(),
        endpoint,
        control_plane_namespace: status.control_plane_namespace.as_ref().map(|n| n.name.clone()),
        observed,
        conditions: told(&status.conditions),
        hibernation: status.hibernation.as_ref().map(hibernation),
        etcd: etcd(seen),
        components: components(seen),
        next_expiry: status.certificates.as_ref().and_then(|c| c.next_expiry.as_ref()).map(|t| t.0),
        notes: seen.notes.clone(),
        next: String::new(),
    };
    report.next = next::next(cluster, &report, seen.leaf_lifetime, now);
    report
}

fn told(all: &[Condition]) -> Vec<Told> {
    let one = |c: &Condition| Told {
        type_: c.type_.clone(),
        status: c.status.clone(),
        reason: c.reason.clone(),
        message: c.message.clone(),
        since: c.last_transition_time.0,
    };
    all.iter().map(one).collect()
}

fn hibernation(said: &HibernationStatus) -> Hibernation {
    let next = said.next.as_ref();
    let next = next.map(|next| NextSleep { state: next.state, at: next.at.0, cause: next.cause.clone() });
    Hibernation { state: said.state, since: said.since.0, cause: said.cause.clone(), next }
}

fn etcd(seen: &Seen) -> Option<Etcd> {
    let status = seen.etcd.as_ref()?.status.clone().unwrap_or_default();
    let pod_of = |name: &str| seen.pods.iter().find(|p| p["metadata"]["name"] == name).map(pod);
    let members = status.members.iter().map(|m| Member {
        name: m.name.clone(),
        ready: m.ready,
        message: m.message.clone(),
        pod: pod_of(&m.name),
    });
    Some(Etcd {
        version: status.version.clone(),
        ready_members: status.ready_members.clone(),
        conditions: told(&status.conditions),
        size: seen.sizes.of(names::ETCD),
        members: members.collect(),
    })
}

fn components(seen: &Seen) -> Vec<Component> {
    let status = seen.cluster.status.clone().unwrap_or_default();
    let one = |name: &str| {
        let told = status.components.iter().find(|c| c.name == name);
        let live = seen.deployments.iter().find(|d| d["metadata"]["name"] == name);
        let pods: Vec<Pod> = seen.pods.iter().filter(|p| label(p, labels::COMPONENT) == Some(name)).map(pod).collect();
        if told.is_none() && live.is_none() && pods.is_empty() {
            return None;
        }
        // What is there now is newer than what the operator wrote down.
        let rollout = live.map(workload::rollout);
        Some(Component {
            name: name.to_owned(),
            version: told.and_then(|c| c.version.clone()),
            ready: rollout.as_ref().map_or_else(|| told.map_or(0, |c| c.ready), |r| r.ready),
            desired: rollout.as_ref().map_or_else(|| told.map_or(0, |c| c.desired), |r| r.desired),
            size: seen.sizes.of(name),
            pods,
        })
    };
    components::ALL.iter().filter_map(|c| one(c.name())).collect()
}

fn pod(pod: &Value) -> Pod {
    let statuses = pod["status"]["containerStatuses"].as_array().into_iter().flatten();
    Pod {
        name: pod["metadata"]["name"].as_str().unwrap_or_default().to_owned(),
        ready: workload::pod_ready(pod),
        deleting: berth_plan::object_meta::deleting(pod),
        created: pod["metadata"]["creationTimestamp"].as_str().and_then(|t| t.parse().ok()),
        restarts: statuses.filter_map(|c| c["restartCount"].as_i64()).sum(),
        problem: workload::pod_problem(pod).map(|(_, text)| text),
    }
}
