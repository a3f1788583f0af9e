//! Stage 1: what the spec asks for that needs facts to be judged, and what the members are pinned to.

use super::subject::{Subject, is_ours};
use super::{record, room};
use crate::procedures::{growth, upgrade};
use crate::subject::Input;
use berth_api::conditions::Reason;
use berth_api::etcd_bootstrap::Record;
use berth_api::etcd_cluster::{EtcdClusterSpec, LEAST_STORAGE};
use berth_api::etcd_tuning::timing_fault;
use berth_api::version::{Minor, Version};
use berth_api::{names, quantity};
use berth_plan::model::{Stage, StageId, State};
use berth_plan::objects::ensure_templates;
use berth_plan::room::recorded_without_nodes;
use berth_plan::workload;
use berth_render::{Catalog, Kind};

/// The stage, and what the members run with. Without a record nothing can be made.
pub(super) fn stage(input: Input<'_>) -> (Stage, Option<Record>) {
    let mut stage = Stage::new(StageId::Spec, State::Ready);
    let s = match record::of(input) {
        Ok(record) => Subject::new(input, record),
        Err(state) => {
            stage.state = state;
            return (stage, None);
        }
    };
    pinned(&s, &mut stage);
    next(&s, &mut stage);
    if let Some(refusal) = refusal(&s)
        && !matches!(stage.state, State::Blocked { .. })
    {
        stage.state = refusal;
    }
    (stage, Some(s.record))
}

/// The version that new members are to run, if this operator has templates for it.
pub(super) fn supported(asked: &str) -> Result<Version, State> {
    let catalog = Catalog::builtin();
    asked.parse().ok().filter(|v: &Version| catalog.etcd(v.minor()).is_some()).ok_or_else(|| {
        State::blocked(
            Reason::VersionUnsupported,
            format!(
                "spec.version: {asked} is not supported. Set a patch version of {}",
                Minor::list(&catalog.etcd_minors())
            ),
        )
    })
}

/// Whether new volumes can be made as asked. Those that are there stay as they are.
pub(super) fn volumes(spec: &EtcdClusterSpec) -> Result<(), State> {
    let size = &spec.storage.size;
    if !quantity::is_less(size, LEAST_STORAGE) {
        return Ok(());
    }
    Err(State::blocked(
        Reason::InvalidSpec,
        format!("spec.storage.size: {size} is less than {LEAST_STORAGE}, which etcd needs. Set a larger one"),
    ))
}

/// Requests that are more than their limit, which no API server takes.
pub(super) fn resources(spec: &EtcdClusterSpec) -> Result<(), State> {
    let of_etcd = spec.resources.as_ref().and_then(quantity::beyond_limit).map(|why| format!("spec.resources: {why}"));
    let of_helpers = || spec.helpers.beyond_limit().map(|(field, why)| format!("spec.{field}.resources: {why}"));
    match of_etcd.or_else(of_helpers) {
        Some(why) => Err(State::blocked(Reason::InvalidSpec, why)),
        None => Ok(()),
    }
}

/// Bounds of requests that follow usage, of which the least is more than the most.
pub(super) fn autoscaling(spec: &EtcdClusterSpec) -> Result<(), State> {
    let why = spec.autoscaling.beyond_max();
    why.map_or(Ok(()), |why| Err(State::blocked(Reason::InvalidSpec, format!("spec.autoscaling: {why}"))))
}

/// Intervals with which etcd does not start.
pub(super) fn timing(spec: &EtcdClusterSpec) -> Result<(), State> {
    match timing_fault(spec.heartbeat_interval.as_deref(), spec.election_timeout.as_deref()) {
        Some(why) => Err(State::blocked(Reason::InvalidSpec, format!("spec.{why}"))),
        None => Ok(()),
    }
}

/// A wish that cannot be fulfilled. What runs goes on as it is, and the rest of the spec still takes effect.
fn refusal(s: &Subject<'_>) -> Option<State> {
    let (spec, record) = (&s.etcd.spec, &s.record);
    if spec.clients.iter().any(|c| c.name == "ca") {
        let message = "spec.clients: the name ca is reserved for the client CA's Secret. Choose another name";
        return Some(State::blocked(Reason::InvalidSpec, message));
    }
    if let Err(refusal) = wanted_version(s) {
        return Some(refusal);
    }
    if let Some(why) = another_image(s) {
        return Some(State::blocked(Reason::InvalidSpec, why));
    }
    if let Err(refusal) = autoscaling(spec) {
        return Some(refusal);
    }
    if let Some(refusal) = room::refusal(s) {
        return Some(refusal);
    }
    if let growth::GrowthStep::Refuse(refusal) = growth::decide_growth(s) {
        return Some(refusal);
    }
    let (there, wanted) = (record.replicas, spec.replicas);
    (wanted > there && !s.can_join() && s.templates().is_some()).then(|| {
        State::blocked(
            Reason::EtcdChangeUnsupported,
            format!(
                "spec.replicas: this etcd is of an earlier Berth, whose agent lets no member join: it cannot grow from {there} to {wanted} members. Set it back to {there} (spec.etcd.replicas of its Cluster); until then etcd runs unchanged"
            ),
        )
    })
}

/// What is wrong with the image that the spec names for etcd: what runs goes on, and no change of the version begins.
fn another_image(s: &Subject<'_>) -> Option<String> {
    let version = s.etcd.spec.version.parse().ok()?;
    workload::of_another_version(&s.etcd.spec.images, names::ETCD, version, "spec.version")
}

/// The version that members are to run. Err: they go on as they are, and the rest of the spec still takes effect.
pub(super) fn wanted_version(s: &Subject<'_>) -> Result<Version, State> {
    let (runs, asked) = (s.record.version, &s.etcd.spec.version);
    let refused = |reason, why: String| {
        Err(State::blocked(
            reason,
            format!("spec.version (spec.etcd.version of its Cluster): {why}; until then etcd runs {runs} unchanged"),
        ))
    };
    // What runs may be of a minor that this build has no templates for.
    let wanted = match asked.parse() {
        Ok(wanted) if wanted == runs => return Ok(wanted),
        _ => supported(asked)?,
    };
    if wanted < runs {
        let why = format!(
            "etcd does not go back from {runs} to {wanted}, which may not read its data. Set it back to {runs}"
        );
        return refused(Reason::DowngradeUnsafe, why);
    }
    if !wanted.minor().since(runs.minor()).is_some_and(|by| (0..=1).contains(&by)) {
        let why = format!(
            "etcd changes from {} to {} one minor version at a time. Set a patch version of {} first",
            runs.minor(),
            wanted.minor(),
            runs.minor().next()
        );
        return refused(Reason::MinorChangeUnsupported, why);
    }
    let least = upgrade::LEAST_FOR_3_6.parse().ok().filter(|least: &Version| least.minor() == runs.minor());
    let lowest = upgrade::lowest(s).map_or(runs, |lowest| lowest.min(runs));
    if let Some(least) = least.filter(|least| wanted.minor() > runs.minor() && lowest < *least) {
        let why = format!(
            "a member runs etcd {lowest}, and before {} all have to run {least} or newer: members that were removed could come back. Set a patch version of {} from {least} on first",
            wanted.minor(),
            runs.minor()
        );
        return refused(Reason::UpgradeBlocked, why);
    }
    match s.record.failed.as_ref().filter(|failed| failed.version == wanted) {
        Some(failed) => refused(
            Reason::RolledBack,
            format!(
                "etcd {wanted} did not come up: {}. Berth went back to {runs}. Correct what the message names; then set it to {runs}, and to {wanted} again",
                recorded_without_nodes(&failed.why)
            ),
        ),
        None => another_image(s).map_or(Ok(wanted), |why| Err(State::blocked(Reason::InvalidSpec, why))),
    }
}

/// Likewise of the version that members are getting.
fn next(s: &Subject<'_>, stage: &mut Stage) {
    let Some(next) = &s.record.next else { return };
    let key = s.key(Kind::ConfigMap, names::etcd::templates(s.name, &next.templates));
    match s.templates_of(next) {
        Some(set) => ensure_templates(stage, s.observed, (&key, s.labels()), set, |o| is_ours(o, s.name)),
        None => stage.owns.push(key),
    }
}

/// Keeps the template set beside the members, for operators that no longer have it built in.
fn pinned(s: &Subject<'_>, stage: &mut Stage) {
    let key = s.key(Kind::ConfigMap, names::etcd::templates(s.name, &s.record.templates));
    if let Some(set) = s.templates() {
        return ensure_templates(stage, s.observed, (&key, s.labels()), set, |o| is_ours(o, s.name));
    }
    stage.state = if s.observed.get(&key).is_some() {
        State::blocked(
            Reason::VersionUnsupported,
            format!(
                "this operator cannot read the templates in {key}. Run the operator version that wrote them; until then the members run unchanged"
            ),
        )
    } else {
        State::blocked(
            Reason::Error,
            format!(
                "{key}, which holds the members' pinned templates, is gone, and this operator has others. Restore it from a backup; until then the members run unchanged"
            ),
        )
    };
    stage.owns.push(key);
}
