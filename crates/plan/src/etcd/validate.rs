//! Stage 1: what the spec asks for that needs facts to be judged, and what the members are pinned to.

use super::subject::{Subject, is_ours};
use super::{Input, record};
use crate::model::{Stage, StageId, State};
use crate::objects::ensure_templates;
use berth_api::conditions::Reason;
use berth_api::etcd_bootstrap::Record;
use berth_api::etcd_cluster::{EtcdClusterSpec, LEAST_STORAGE};
use berth_api::names;
use berth_api::quantity;
use berth_api::version::{Minor, Version};
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
        format!(
            "spec.storage.size: {size} is less than {LEAST_STORAGE}, which etcd needs. The field is immutable: delete this EtcdCluster and create it with larger volumes"
        ),
    ))
}

/// Requests that are more than their limit, which no API server takes.
pub(super) fn resources(spec: &EtcdClusterSpec) -> Result<(), State> {
    match spec.resources.as_ref().and_then(quantity::beyond_limit) {
        Some(why) => Err(State::blocked(Reason::InvalidSpec, format!("spec.resources: {why}"))),
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
    let changed = |field: &str, from: &str, to: &str| {
        State::blocked(
            Reason::EtcdChangeUnsupported,
            format!(
                "spec.{field}: a running etcd cannot be changed from {from} to {to} yet. Set it back to {from}; until then etcd runs unchanged"
            ),
        )
    };
    if spec.version.parse() != Ok(record.version) {
        return Some(changed("version", &record.version.to_string(), &spec.version));
    }
    let (there, wanted) = (record.replicas, spec.replicas);
    (wanted > there && !s.can_join() && s.templates().is_some()).then(|| {
        State::blocked(
            Reason::EtcdChangeUnsupported,
            format!(
                "spec.replicas: this etcd was made by an earlier version of Berth, whose agent lets no member join: it cannot grow from {there} to {wanted} members. Set it back to {there} (spec.etcd.replicas of its Cluster); until then etcd runs unchanged"
            ),
        )
    })
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
