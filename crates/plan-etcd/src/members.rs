//! Stage 4: the members: what starts them, and how they are.

use super::membership::Step;
use super::subject::{Subject, is_ours};
use super::{alarm, growth, health, newer, parity, recovery, restore, roll, services, upgrade, upkeep, validate};
use crate::health::{Health, Member};
use crate::planned::EtcdPlan;
use crate::subject::etcdctl;
use crate::subject::told;
use berth_api::conditions::Reason;
use berth_api::etcd_bootstrap::{Bootstrap, BootstrapState, MemberRecord, MemberStage, Operation};
use berth_api::{labels, names};
use berth_plan::etcd_home::keep_old_data;
use berth_plan::model::{Action, EtcdCall, MemberChange, Stage, StageId, State};
use berth_plan::objects::diff::drift;
use berth_plan::objects::ensure;
use berth_plan::observed::{ListedMember, sha256};
use berth_plan::workload;
use berth_render::values::{EtcdSecrets, EtcdStorage, EtcdValues, HostAlias, Workload};
use berth_render::{Binary, Kind, Object, ObjectKey, render_etcd};
use serde_json::Value;
use std::collections::BTreeMap;

/// What happens next, of which one is something at most.
pub(super) struct Steps {
    /// To the members.
    pub(super) members: Step,
    /// In a restore.
    pub(super) restore: restore::Step,
    /// By itself, about a lost quorum.
    pub(super) recovery: recovery::Step,
    /// To the version.
    pub(super) upgrade: upgrade::Step,
    /// To the size of the volumes.
    pub(super) growth: growth::Step,
}

/// The stage.
pub(super) fn stage(s: &Subject<'_>, out: &mut EtcdPlan, steps: &Steps) -> Stage {
    let step = &steps.members;
    let mut stage = Stage::new(StageId::Etcd, State::Ready);
    let mut is_known = true;
    match objects(s, &out.health) {
        Err(state) => {
            // Still ours, so that nothing takes them for orphans.
            stage.owns.extend([
                s.key(Kind::PodDisruptionBudget, s.name),
                s.key(Kind::ConfigMap, names::etcd::bootstrap(s.name)),
                s.key(Kind::StatefulSet, s.name),
            ]);
            stage.state = state;
            is_known = false;
        }
        Ok(objects) => {
            let stopped = s.record.operation.as_ref().is_some_and(Operation::stops_members);
            for object in objects {
                if stopped && object.key().kind == Kind::StatefulSet {
                    stop(s, &mut stage, object.key());
                } else {
                    ensure(&mut stage, s.observed, object, |o| is_ours(o, s.name));
                }
            }
        }
    }
    if s.record.bootstrap.serial > 0 {
        on_its_version(s, &mut stage);
    }
    let mut others = out.plan.stages.iter().filter(|other| other.id != StageId::Spec);
    let is_whole = stage.state.is_done() && others.all(|other| other.state.is_done());
    let is_settled = is_known && stage.actions.is_empty() && roll::next(s, &out.health) == (None, None);
    let is_settled = is_settled && *step == Step::Rest && steps.upgrade == upgrade::Step::Rest;
    let (kept, upkeep) = upkeep::decide(&upkeep::of(s, &out.health, is_settled));
    out.upkeep = kept;
    let recovering = recovery::state(s, &steps.recovery).filter(|_| !matches!(stage.state, State::Blocked { .. }));
    stage.actions.extend(recovery::create(s, &steps.recovery));
    let judged = recovering
        .or_else(|| restoring(&stage.state, &steps.restore))
        .or_else(|| judge(s, &out.health, &stage.state, steps, &upkeep));
    if let Some(state) = judged {
        stage.state = state;
    }
    if is_known && is_whole && stage.actions.is_empty() {
        stage.actions.extend(upgrade::act::action(s, &steps.upgrade));
    }
    if is_known && stage.actions.is_empty() && out.health.deleting_volume.is_none() {
        stage.actions.extend(newer::restart(s));
    }
    if s.is_upgraded() {
        return stage;
    }
    if s.record.operation.is_some() {
        if is_known && stage.actions.is_empty() {
            stage.actions.extend(action(s, step.clone()).filter(|_| is_whole).or_else(|| roll::stuck(s, &out.health)));
        }
        return stage;
    }
    // Where nobody knows what the template is to be, it may be somebody else's.
    if is_known && stage.actions.is_empty() {
        // Not only while all is well: another template may be what helps. `roll` sees to it that no quorum is lost.
        let (roll, next) = roll::next(s, &out.health);
        let held = next.is_none();
        stage.actions.extend(next);
        match (&mut stage.state, roll) {
            (state, Some(roll)) if state.is_done() => *state = roll,
            (State::Waiting { on, .. }, Some(State::Waiting { reason: Reason::RollingOut, on: roll })) if held => {
                *on = format!("{on}; and for {roll}");
            }
            _ => {}
        }
    }
    match upkeep {
        upkeep::Step::Call { via, call } if is_whole && stage.actions.is_empty() => {
            stage.actions.push(told(s, via, call));
        }
        upkeep::Step::CatchUp(_, after) => out.upkeep_after = Some(after),
        upkeep::Step::UsedUp(_, after) => out.upkeep_after = after,
        _ => {}
    }
    if let Some(what) = parity::due(s, &out.health, is_settled).filter(|_| is_whole && stage.actions.is_empty()) {
        stage.actions.extend(leader(s, &out.health).map(|via| told(s, via, EtcdCall::Maintain(what))));
    }
    if let (true, Some(set)) = (stage.state.is_done(), s.get(Kind::StatefulSet, s.name)) {
        let pods = workload::pods_of(s.observed, s.namespace, labels::ETCD_CLUSTER, s.name);
        stage.notes.extend(workload::injected(set, pods));
    }
    stage
}

/// Ends the members' pods. The StatefulSet stays as it is otherwise: with the next epoch it gets what is new.
fn stop(s: &Subject<'_>, stage: &mut Stage, key: &ObjectKey) {
    stage.owns.push(key.clone());
    let live = s.get(Kind::StatefulSet, s.name);
    let runs = live.filter(|live| live.pointer("/spec/replicas").and_then(Value::as_i64) != Some(0));
    stage.actions.extend(runs.map(|live| Action::scale_to_zero(key, live)));
}

/// What a restore waits for.
fn restoring(so_far: &State, restore: &restore::Step) -> Option<State> {
    let waiting = |on: String| Some(State::Waiting { reason: Reason::Restoring, on });
    match restore {
        _ if matches!(so_far, State::Blocked { .. }) => None,
        restore::Step::None => None,
        restore::Step::Write(_) => waiting("Berth to record the next step of the restore".into()),
        restore::Step::Wait(on) => waiting(on.clone()),
        restore::Step::Refuse(why) => Some(State::blocked(Reason::EtcdChangeUnsupported, why.clone())),
    }
}

/// The ConfigMap with the record is written only if nobody else has written it since: what is on record happens, and a write that is late
/// does not take it back.
fn on_its_version(s: &Subject<'_>, stage: &mut Stage) {
    let map = names::etcd::bootstrap(s.name);
    let version = s.get(Kind::ConfigMap, &map).and_then(|live| live["metadata"]["resourceVersion"].as_str());
    for action in &mut stage.actions {
        if let (Action::Apply(object), Some(version)) = (action, version)
            && object.key() == &s.key(Kind::ConfigMap, &*map)
        {
            *object = object.clone().with_resource_version(version);
        }
    }
}

/// What is done to the members.
fn action(s: &Subject<'_>, step: Step) -> Option<Action> {
    let delete = |kind, name: String| {
        let key = s.key(kind, name);
        Some(Action::delete(&key, s.observed.get(&key)?, None))
    };
    match step {
        Step::Call { via, change } => {
            Some(Action::ChangeMembers { etcd: s.key(Kind::EtcdCluster, s.name), via, change })
        }
        Step::ReplacePod(member) => delete(Kind::Pod, member),
        Step::DeleteClaim(member) => delete(Kind::PersistentVolumeClaim, format!("data-{member}")),
        Step::Rest | Step::Wait(_) | Step::Going(_) | Step::Stop(..) | Step::Unknown(_) | Step::Write(_) => None,
    }
}

fn leader(s: &Subject<'_>, health: &Health) -> Option<String> {
    health.members.iter().find(|m| m.leader && s.pod(&m.name).is_some()).map(|m| m.name.clone())
}

/// What the change of members waits for.
pub(super) fn changing(s: &Subject<'_>, step: &Step) -> Option<State> {
    let waiting = |on: String| State::Waiting { reason: Reason::MembersChanging, on };
    let pod = |target: &str, said: &str| {
        let found = s.pod(target).and_then(workload::pod_problem);
        // etcd ends so when it is removed.
        let found = found.filter(|(reason, why)| !health::is_data(*reason) && !why.contains("(last exit code 0"));
        found.map_or_else(|| said.to_owned(), |(_, why)| format!("{said}; {why}"))
    };
    let target = s.record.operation.as_ref().map(|o| o.target.clone()).unwrap_or_default();
    match step {
        Step::Rest => None,
        Step::Stop(reason, message) => Some(State::blocked(*reason, message.clone())),
        Step::Unknown(stranger) => Some(State::blocked(Reason::UnknownMember, unknown(s, stranger))),
        Step::Wait(on) => Some(waiting(pod(&target, on))),
        Step::Going(message) => {
            Some(State::Reported { reason: Reason::MembersChanging, message: pod(&target, message) })
        }
        Step::Write(_) => Some(waiting(format!("Berth to record the next step with member {target}"))),
        Step::Call { via, change } => Some(waiting(match change {
            MemberChange::AddLearner { .. } => format!("etcd to add member {target}"),
            MemberChange::Promote { .. } => format!("etcd to give member {target} its vote"),
            MemberChange::Remove { .. } => format!("etcd to remove member {target}"),
            MemberChange::MoveLeader { .. } => format!("{via} to hand over the leadership, before Berth removes it"),
        })),
        Step::ReplacePod(member) => Some(waiting(format!("pod {member} to be replaced"))),
        Step::DeleteClaim(member) => Some(waiting(format!("the volume of member {member} to be deleted"))),
    }
}

/// etcd has a member that is not on record: what that means, and the command that removes it.
fn unknown(s: &Subject<'_>, stranger: &ListedMember) -> String {
    let ListedMember { name, id, peer_urls, learner } = stranger;
    let probe = s.observed.etcd.as_ref();
    let voters = probe.and_then(|p| p.list.as_ref()).map_or(0, |list| list.iter().filter(|m| !m.learner).count());
    let (kind, vote) = if *learner {
        ("learner", "It has no vote".to_owned())
    } else {
        (
            "member",
            format!("It counts as a voter, whether it runs or not: etcd now needs {} of {voters}", voters / 2 + 1),
        )
    };
    let answers =
        |m: &&String| probe.is_some_and(|p| matches!(p.members.get(*m), Some(Ok(said)) if said.leader != "0"));
    let members = s.members();
    let pod = members.iter().find(answers).or(members.first()).cloned().unwrap_or_default();
    format!(
        "etcd lists a {kind} that Berth did not add: ID {id}, {}, at {}. {vote}. Berth adds, removes and replaces no member until it is gone; etcd serves meanwhile. To remove it: {}",
        if name.is_empty() { "without a name" } else { name },
        peer_urls.join(", "),
        etcdctl(s, &pod, &format!("member remove {id}"))
    )
}

/// The ConfigMap, the StatefulSet and the PodDisruptionBudget, or what is missing for them.
fn objects(s: &Subject<'_>, health: &Health) -> Result<Vec<Object>, State> {
    let templates = s.templates_of(&s.record.rendered()).ok_or_else(|| State::waiting("the pinned templates"))?;
    validate::resources(&s.etcd.spec)?;
    let mut record = s.record.clone();
    record.bootstrap.state = health::bootstrap_state(s, health);
    record.bootstrap.joined = health::joined(s, health);
    let Bootstrap { cluster_uid, epoch, state, restored, joined, serial, members, .. } = record.bootstrap.clone();
    let values = EtcdValues {
        meta: s.meta(),
        workload: process(s)?,
        name: s.name.to_owned(),
        cluster_uid,
        epoch,
        state,
        restored,
        joined,
        serial,
        journal: members,
        members: s.members(),
        storage: EtcdStorage { class_name: s.etcd.spec.storage.class_name.clone(), size: growth::of_template(s) },
        quota_bytes: upkeep::rendered_quota(s),
        keep_old_data: keep_old_data(&s.etcd.spec).as_secs(),
        secrets: EtcdSecrets { server: names::etcd::server(s.name), peer: names::etcd::peer(s.name) },
    };
    let rendered = render_etcd(templates, &values).map_err(|e| State::blocked(Reason::Error, e.to_string()))?;
    let note = record.to_json();
    let recorded = |o: Object| match o.key().kind {
        Kind::StatefulSet | Kind::ConfigMap => o.with_annotation(labels::ETCD_RECORD, &note),
        _ => o,
    };
    let noted = |o: Object| workload::with_registry_annotation(o, &s.etcd.spec.images);
    Ok(rendered
        .into_iter()
        .map(recorded)
        .map(noted)
        .map(|o| undisturbed(s, o))
        .map(|o| upgrade::act::partitioned(s, o))
        .collect())
}

/// Whether the API server has them all.
pub(super) fn are_applied(s: &Subject<'_>, health: &Health) -> bool {
    let has = |o: &Object| s.observed.get(o.key()).is_some_and(|live| drift(live, o).is_none());
    objects(s, health).is_ok_and(|objects| objects.iter().all(has))
}

/// While two members vote neither can be spared, whatever the template says.
fn undisturbed(s: &Subject<'_>, object: Object) -> Object {
    let votes = |m: &&MemberRecord| matches!(m.stage, MemberStage::Voter | MemberStage::Leaving) && !m.id.is_empty();
    let voters = s.record.bootstrap.members.iter().filter(votes).count();
    if object.key().kind != Kind::PodDisruptionBudget || voters != 2 {
        return object;
    }
    object.with("/spec/maxUnavailable", 0.into())
}

fn process(s: &Subject<'_>) -> Result<Workload, State> {
    let addresses = services::aliases(s).ok_or_else(|| State::waiting("addresses of the members' Services"))?;
    let alias = |(member, address): &(String, std::net::IpAddr)| HostAlias {
        ip: address.to_string(),
        hostnames: vec![services::host(member, s.namespace)],
    };
    let pods = workload::pods_of(s.observed, s.namespace, labels::ETCD_CLUSTER, s.name);
    let live = s.get(Kind::StatefulSet, s.name).filter(|live| !workload::lacks_its_image(live, pods));
    let asked = &s.etcd.spec.images;
    let release = s.record.rendered();
    let component = (Binary::Etcd, release.version);
    let (image, agent_image) = workload::images(live, asked, &s.settings.registry, component, &release.agent_image);
    Ok(Workload {
        replicas: s.record.replicas,
        version: release.version,
        image,
        agent_image,
        image_pull_secrets: asked.pull_secrets.clone(),
        agent_delivery: release.agent_delivery,
        run_as_user: run_as_user(s),
        resources: s.etcd.spec.resources.clone(),
        placement: s.etcd.spec.placement.clone(),
        host_aliases: addresses.iter().map(alias).collect(),
        checksums: checksums(s).ok_or_else(|| State::waiting("the Secrets with the CAs"))?,
        ..Workload::default()
    })
}

/// etcd reads certificates at every handshake, but CAs only when it starts. What the members' own Secrets hold counts too,
/// so that the members can be looked after while a CA's Secret is missing or broken; that must not roll them.
fn checksums(s: &Subject<'_>) -> Option<BTreeMap<String, String>> {
    let digest = |secret: String, key: &str| s.observed.secrets.get(&s.secret(secret))?.digests.get(key).cloned();
    let sum = |name: &str, ca: String, leaf: String| {
        let whole = s.observed.ca(&s.secret(ca.clone())).is_some();
        let found = whole.then(|| digest(ca, "tls.crt")).flatten().or_else(|| digest(leaf, "ca.crt"))?;
        Some((name.to_owned(), found.chars().take(16).collect()))
    };
    [
        sum("client-ca", names::etcd::client_ca(s.name), names::etcd::server(s.name)),
        sum("peer-ca", names::etcd::peer_ca(s.name), names::etcd::peer(s.name)),
    ]
    .into_iter()
    .collect()
}

/// UID of the processes and owner of the files: from the name, so that clusters differ and that none ever changes.
fn run_as_user(s: &Subject<'_>) -> i64 {
    let hash = sha256(format!("{}/{}", s.namespace, s.name).as_bytes());
    100_000 + hash.get(..8).and_then(|h| i64::from_str_radix(h, 16).ok()).unwrap_or_default() % 1_000_000
}

/// How the members are, if that is worth more than what the stage says already.
fn judge(s: &Subject<'_>, health: &Health, so_far: &State, steps: &Steps, upkeep: &upkeep::Step) -> Option<State> {
    if matches!(so_far, State::Blocked { .. }) {
        return None;
    }
    if let Some((reason, message)) = &health.data {
        return Some(State::blocked(*reason, message.clone()));
    }
    if let Some(message) = &health.deleting_volume {
        return Some(State::blocked(Reason::VolumeDeleting, message.clone()));
    }
    let formed = s.record.bootstrap.state == BootstrapState::Established;
    let why = health.members.iter().find_map(Member::trouble);
    let why = why.unwrap_or_default();
    let of = health.members.len();
    if formed && health.quorum != Some(true) {
        let held = match &steps.upgrade {
            upgrade::Step::Hold(held) => held,
            _ => &why,
        };
        let on = format!("a quorum: {} of {of} members are ready; {held}", health.ready());
        return Some(State::Waiting { reason: Reason::QuorumLost, on });
    }
    if !so_far.is_done() {
        return None;
    }
    if let Some(state) = changing(s, &steps.members).filter(|_| health.corrupt()) {
        return Some(state);
    }
    if !health.alarms.is_empty() {
        return Some(alarm::state(s, health, steps, upkeep));
    }
    if let Some(state) = changing(s, &steps.members) {
        return Some(state);
    }
    if let Some(differs) = parity::problem(s) {
        return Some(State::blocked(Reason::EtcdAlarm, differs));
    }
    // What makes a member not ready is said beside, unless it is its turn.
    if let Some(state) = upgrade::act::state(&steps.upgrade).filter(|_| health.all_ready() || s.is_upgraded()) {
        return Some(state);
    }
    if !health.all_ready() {
        let reason = health.pods.as_ref().map_or(if formed { Reason::PodsNotReady } else { Reason::Waiting }, |p| p.0);
        return Some(State::Waiting {
            reason,
            on: format!("its members: {} of {of} are ready; {why}", health.ready()),
        });
    }
    if let Some(state) = growth::state(&steps.growth) {
        return Some(state);
    }
    (!formed).then(|| State::waiting("all members to report the same cluster ID and leader"))
}
