//! How the members are: what they said themselves, and what their pods show.

use super::subject::Subject;
use super::{newer, stranded, way_back};
use crate::volumes::{has_lost, mounted};
use berth_api::conditions::Reason;
use berth_api::etcd_bootstrap::BootstrapState;
use berth_api::etcd_cluster::MemberState;
use berth_api::etcd_recovery::Recovery;
use berth_plan::etcd_home::give_up;
use berth_plan::object_meta::deleting;
use berth_plan::observed::{EtcdProbe, MemberProbe, RaisedAlarm};
use berth_plan::workload::{BY_NAME, SLOW_START, explained, injected_proxy, pod_problem, pod_ready, pod_start};
use berth_render::Kind;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// What one reconcile saw of the members.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// Every member that there should be, by ordinal.
    pub members: Vec<Member>,
    /// Whether a majority serves: Some after the members, or at least kubelet, were asked.
    pub quorum: Option<bool>,
    /// All members answered in one probe, with one cluster ID and one leader: the cluster is formed.
    pub complete: bool,
    /// The cluster ID that a quorum agrees on.
    pub cluster_id: Option<String>,
    /// The lowest version that members report.
    pub version: Option<String>,
    /// Raised alarms.
    pub alarms: Vec<RaisedAlarm>,
    /// A volume that is empty or another's.
    pub data: Option<(Reason, String)>,
    /// A volume whose claim is being deleted, and what a person can do while its pod runs.
    pub deleting_volume: Option<String>,
    /// What else keeps a pod from running.
    pub pods: Option<(Reason, String)>,
}

/// One member.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Member {
    /// Its name.
    pub name: String,
    /// etcd's ID, if it answered.
    pub id: Option<String>,
    /// It leads.
    pub leader: bool,
    /// Whether what it holds can be read.
    pub state: MemberState,
    /// It answered as one of those in a quorum's list: from now on its volume holds what others count on.
    pub joined: bool,
    /// Why it is not ready. None: it is.
    pub problem: Option<String>,
}

impl Member {
    /// Why it is not ready, with its name, which is its pod's, too.
    pub(super) fn trouble(&self) -> Option<String> {
        let problem = self.problem.as_ref()?;
        Some(if problem.contains(&self.name) { problem.clone() } else { format!("{}: {problem}", self.name) })
    }
}

impl Health {
    /// Members that are ready.
    pub fn ready(&self) -> usize {
        self.members.iter().filter(|m| m.problem.is_none()).count()
    }
    /// Why members are not ready. What several have in common is said of the first, with the names of the others.
    pub(crate) fn troubles(&self) -> String {
        let mut all: Vec<(String, String, Vec<&str>)> = vec![];
        for (member, text) in self.members.iter().filter_map(|m| Some((m, m.trouble()?))) {
            let pattern = text.replace(&member.name, "");
            match all.iter_mut().find(|(known, ..)| *known == pattern) {
                Some((.., others)) => others.push(&member.name),
                None => all.push((pattern, text, vec![])),
            }
        }
        let said = all.into_iter().map(|(_, text, others)| match others.as_slice() {
            [] => text,
            others => format!("{text} (the same: {})", others.join(", ")),
        });
        said.collect::<Vec<_>>().join("; ")
    }
    /// Every member is ready.
    pub fn all_ready(&self) -> bool {
        !self.members.is_empty() && self.ready() == self.members.len()
    }
    /// Who leads, if its pod is there.
    pub(crate) fn leader(&self, s: &Subject<'_>) -> Option<String> {
        self.members.iter().find(|m| m.leader && s.pod(&m.name).is_some()).map(|m| m.name.clone())
    }
    /// The alarms, for people.
    pub(crate) fn raised(&self) -> String {
        self.alarms.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    }
    /// A member's data differs from the others': etcd refuses to serve.
    pub fn corrupt(&self) -> bool {
        self.alarms.iter().any(|a| a.kind == RaisedAlarm::CORRUPT)
    }
}

/// What is told of a proxy that admission put into a member's pod: members dial each other by names.
pub(super) fn proxied(pod: &Value) -> Option<String> {
    injected_proxy(pod, &[BY_NAME.to_owned()], &[])
}

/// Judges what was observed.
pub(super) fn judge(s: &Subject<'_>) -> Health {
    let recorded = s.cluster_id();
    let probe = s.observed.etcd.as_ref();
    let alarms = s.alarms().to_vec();
    let mut out = Health { data: data(s), deleting_volume: deleting_volume(s), alarms, ..Health::default() };
    for name in s.members() {
        let mut member = probe.map_or_else(|| from_pod(s, &name), |probe| from_probe(&name, probe, recorded));
        if let Some(mut found) = s.pod(&name).and_then(pod_problem) {
            if let Some(outdated) = newer::outdated(s, &name) {
                found = (Reason::PodsNotReady, outdated);
            } else if let (Reason::Unschedulable, Some(stranded)) = (found.0, stranded::of(s, &name)) {
                found.1 =
                    format!("pod {name} finds no node: {}; {}", stranded.why, stranded::way_out(s, &name, &stranded));
            } else if let (Reason::Unschedulable, Some(claim)) = (found.0, unbound(s, &name)) {
                found.1 = format!("{}; {claim}", found.1.trim_end_matches('.'));
            }
            member.problem = Some(found.1.clone());
            if out.pods.is_none() && !is_data(found.0) {
                out.pods = Some(found);
            }
        } else if s.pod(&name).is_none() && s.sleeps() {
            member.problem = Some("it sleeps".into());
        } else if s.pod(&name).is_none() {
            let why = missing(s, &name);
            if s.observed.refused.contains_key(&name) && out.pods.is_none() {
                out.pods = Some((Reason::Rejected, why.clone()));
            }
            member.problem = Some(why);
        }
        if let Some(proxied) = s.pod(&name).filter(|pod| !pod_ready(pod)).and_then(proxied) {
            let problem = member.problem.take().map_or(proxied.clone(), |problem| format!("{problem}; {proxied}"));
            member.problem = Some(problem);
        }
        if has_lost(s, &name) {
            member.state = MemberState::DataLost;
        }
        out.members.push(member);
    }
    let answers: Vec<&MemberProbe> = s.answers().collect();
    let ids: BTreeSet<&str> = answers.iter().map(|a| a.cluster_id.as_str()).collect();
    if ids.len() > 1 || recorded.is_some_and(|r| ids.iter().any(|id| *id != r)) {
        out.data = out.data.or_else(|| Some((Reason::ForeignData, mixed_clusters(s, recorded))));
    }
    out.quorum = if let Some(probe) = probe {
        Some(probe.list.is_some())
    } else {
        // Readiness is a read that needs a quorum, but kubelet may not have looked yet.
        let ready = s.members().iter().filter(|m| s.pod(m).is_some_and(pod_ready)).count();
        (ready * 2 > out.members.len()).then_some(true)
    };
    let whole = s.listed().is_some_and(|l| l.len() == out.members.len());
    let leaders: BTreeSet<&str> = answers.iter().map(|a| a.leader.as_str()).collect();
    let agreed = ids.len() == 1 && out.data.is_none();
    out.complete = whole && agreed && leaders.len() == 1 && out.all_ready();
    out.cluster_id = ids.first().filter(|_| agreed && out.quorum == Some(true)).map(|id| (*id).to_owned());
    out.version = lowest(&answers);
    out
}

/// Why a pod is not there: what refuses it, or where to look.
fn missing(s: &Subject<'_>, pod: &str) -> String {
    let mut text = format!("pod {pod} does not exist");
    let set = s.get(Kind::StatefulSet, s.name);
    if let Some(why) = s.observed.refused.get(pod) {
        let why = explained(why, set.map_or(&Value::Null, |set| &set["spec"]["template"]), s.namespace);
        write!(text, ": the API server refuses it: {why}").ok();
    } else if set.is_some() {
        write!(text, "; if that lasts, `kubectl -n {} describe statefulset {}` says why", s.namespace, s.name).ok();
    }
    if let Some(class) = &s.etcd.spec.placement.priority_class_name {
        write!(text, "; PriorityClass {class} (placement.priorityClassName) must exist").ok();
    }
    text
}

/// What its volume waits for. The scheduler says only that there is none.
fn unbound(s: &Subject<'_>, member: &str) -> Option<String> {
    let (key, claim) = mounted(s, member).filter(|(_, claim)| claim["status"]["phase"] == "Pending")?;
    let class = claim["spec"]["storageClassName"].as_str().map(|c| format!("StorageClass {c}"));
    let class = class.unwrap_or_else(|| "the default StorageClass".into());
    Some(format!(
        "PersistentVolumeClaim {} waits for a volume: check that {class} exists and can provision one",
        key.name
    ))
}

/// A volume that goes with the pod that still uses it.
fn deleting_volume(s: &Subject<'_>) -> Option<String> {
    s.members().into_iter().find_map(|member| {
        s.pod(&member)?;
        let (key, claim) = mounted(s, &member).filter(|(_, claim)| deleting(claim))?;
        let keep = claim["spec"]["volumeName"].as_str().filter(|volume| !volume.is_empty()).map(|volume| {
            format!(
                r#" To keep the volume, before the pod ends: kubectl patch persistentvolume {volume} --type=merge -p '{{"spec":{{"persistentVolumeReclaimPolicy":"Retain"}}}}'."#
            )
        });
        let then = if s.record.replicas > 1 && s.can_join() {
            format!(
                "To go on, delete the pod: Berth then adds {member} as an empty member, which copies the data from the others: kubectl -n {} delete pod {member}",
                s.namespace
            )
        } else {
            format!("On a new volume {member} does not start before you restore its data")
        };
        Some(format!(
            "PersistentVolumeClaim {} is being deleted, which cannot be undone: when pod {member} ends, Kubernetes deletes the volume with the member's data, and until then Berth replaces no pod of this etcd.{} {then}",
            key.name,
            keep.unwrap_or_default()
        ))
    })
}

/// From what the members said.
fn from_probe(name: &str, probe: &EtcdProbe, recorded: Option<&str>) -> Member {
    let silent = |why: &str| Member { name: name.to_owned(), problem: Some(why.to_owned()), ..Member::default() };
    let said = match probe.members.get(name) {
        None => return silent("it was not probed"),
        Some(Err(why)) => return silent(why),
        Some(Ok(said)) => said,
    };
    let listed = probe.list.as_ref().map(|l| l.iter().find(|listed| listed.id == said.member_id));
    let problem = match listed {
        _ if recorded.is_some_and(|r| r != said.cluster_id) => Some(format!("it is of cluster {}", said.cluster_id)),
        _ if said.leader == "0" => Some("it has no leader".into()),
        None => Some("too few members answer for a quorum".into()),
        Some(None) => Some("it is not in the member list".into()),
        Some(Some(listed)) if listed.learner => Some("it is a learner".into()),
        Some(Some(_)) => None,
    };
    Member {
        name: name.to_owned(),
        id: Some(said.member_id.clone()),
        leader: said.leader == said.member_id,
        state: MemberState::Answers,
        joined: problem.is_none(),
        problem,
    }
}

/// From what kubelet says.
fn from_pod(s: &Subject<'_>, name: &str) -> Member {
    let ready = s.pod(name).is_some_and(pod_ready);
    let problem = || slow_start(s, name).unwrap_or_else(|| format!("pod {name} is not ready"));
    Member { name: name.to_owned(), problem: (!ready).then(problem), ..Member::default() }
}

/// What kubelet does for a pod that does not run yet, if that takes long.
fn slow_start(s: &Subject<'_>, name: &str) -> Option<String> {
    let (since, text) = s.pod(name).and_then(pod_start)?;
    (s.now.duration_since(since) >= SLOW_START).then_some(text)
}

/// A majority of the members has no such problem.
fn is_one_of_few(s: &Subject<'_>) -> bool {
    let members = s.members();
    let held = |m: &&String| s.pod(m).and_then(pod_problem).is_some_and(|(r, _)| is_data(r));
    members.iter().filter(held).count() * 2 < members.len()
}

/// What a member does whose data is not this etcd's: an old volume of its own could count votes that it has given already.
fn anew(s: &Subject<'_>, member: &str) -> String {
    format!(
        "Start {member} on an empty volume: it copies the data from the others, and its old volume is kept: {}",
        give_up(s.namespace, &[member])
    )
}

pub(super) fn is_data(reason: Reason) -> bool {
    matches!(reason, Reason::DataLost | Reason::ForeignData)
}

/// What a guard said, and what a person can do.
fn data(s: &Subject<'_>) -> Option<(Reason, String)> {
    // Whoever is being replaced is empty, and is to be.
    let replaced = |m: &str| s.record.operation.as_ref().is_some_and(|o| o.target == m);
    let (member, (reason, said)) = s.members().into_iter().find_map(|m| {
        let found = s.pod(&m).and_then(pod_problem).filter(|(r, _)| is_data(*r) && newer::outdated(s, &m).is_none())?;
        (found.0 != Reason::DataLost || !replaced(&m)).then_some((m, found))
    })?;
    let volume = format!("data-{member}");
    let (lost, left): (Vec<String>, Vec<String>) = s.members().into_iter().partition(|m| has_lost(s, m));
    let is_quorum_lost = reason == Reason::DataLost && lost.len() * 2 >= s.members().len();
    let is_automatic = s.etcd.spec.recovery == Recovery::Automatic;
    let way_out = if is_automatic && is_quorum_lost {
        "spec.recovery is Automatic: the condition Ready says what Berth does, and what it cannot do".to_owned()
    } else if is_quorum_lost {
        way_back::of(s, &lost, &left)
    } else if s.record.replicas == 1 {
        format!("Restore volume {volume} from a backup and delete pod {member}")
    } else if reason == Reason::DataLost && s.can_join() {
        "Berth replaces it by an empty member once a quorum of the others is well. Keep their volumes".to_owned()
    } else if s.can_join() && is_one_of_few(s) {
        anew(s, &member)
    } else if s.can_join() {
        format!(
            "Attach each member's own volume, which another member may have, and delete pod {member}. Keep all volumes"
        )
    } else {
        format!(
            "Restore volume {volume} from a backup and delete pod {member}. Keep the other members' volumes: this etcd is of an earlier Berth, whose agent lets no empty member join"
        )
    };
    Some((reason, format!("{said}. The member does not start, and nothing is overwritten. {way_out}")))
}

fn mixed_clusters(s: &Subject<'_>, recorded: Option<&str>) -> String {
    let mut odd: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for member in s.members() {
        if let Some(said) = s.said(&member).filter(|said| recorded != Some(&said.cluster_id)) {
            odd.entry(&said.cluster_id).or_default().push(member);
        }
    }
    let way_out = match odd.values().flatten().collect::<Vec<_>>().as_slice() {
        [one] if recorded.is_some() && s.members().len() > 2 && s.can_join() => anew(s, one),
        _ => "Restore the right volumes from a backup".to_owned(),
    };
    let found: Vec<_> =
        odd.iter().map(|(cluster, names)| format!("{} of cluster {cluster}", names.join(", "))).collect();
    let known = recorded.map(|r| format!(", and this is cluster {r}")).unwrap_or_default();
    format!(
        "the members belong to different etcd clusters: {}{known}. Nothing is overwritten. {way_out}",
        found.join("; ")
    )
}

/// Text, and not a version of ours: a registry may hold a build such as `3.6.16-rc.1+somebody`.
fn lowest(answers: &[&MemberProbe]) -> Option<String> {
    answers.iter().filter_map(|a| semver::Version::parse(&a.version).ok()).min().map(|v| v.to_string())
}

/// Members whose volume may not be empty any more although the cluster is not formed. None is ever taken off: a majority may have
/// acknowledged writes long before the last member comes.
pub(super) fn joined(s: &Subject<'_>, health: &Health) -> Vec<String> {
    if bootstrap_state(s, health) == BootstrapState::Established {
        return vec![];
    }
    let seen = |m: &&Member| m.joined || s.record.bootstrap.joined.contains(&m.name);
    health.members.iter().filter(seen).map(|m| m.name.clone()).collect()
}

/// Whether an empty volume may still start. Never goes back.
pub(super) fn bootstrap_state(s: &Subject<'_>, health: &Health) -> BootstrapState {
    if health.complete { BootstrapState::Established } else { s.record.bootstrap.state }
}
