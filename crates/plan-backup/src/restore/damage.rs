//! What becomes of a backup that a restore found damaged: its `EtcdBackup` says so before the restore ends, so that nobody is offered it again.

use super::input::{RestoreInput, RestorePlan, ends};
use super::source::{Source, whose};
use super::validate::ValidRestore;
use crate::backup::damage::Found;
use crate::backup::proven::{self, Wanted};
use crate::jobs::task_of;
use crate::objects::list;
use berth_api::EtcdCluster;
use berth_api::backup::{At, EtcdBackup, Failure, Task};
use berth_plan::model::{Stage, State};
use berth_render::{Kind, ObjectKey};

/// A Job of it failed, at that phase.
pub(super) fn failed(
    input: RestoreInput<'_>,
    valid: &ValidRestore<'_>,
    stage: &mut Stage,
    out: &mut RestorePlan,
    (job, failure): (&ObjectKey, Failure),
    at: &'static str,
) -> (&'static str, State) {
    let read = input.observed.get(job).and_then(task_of).and_then(read_by).filter(|_| failure.at == At::Damaged);
    let marked = read.and_then(|(key, sha256)| {
        let (store, by) = (&valid.source.store, format!("EtcdRestore {}", input.name()));
        Found { store, key: &key, sha256: &sha256, by: &by, message: &failure.message }.mark(&input, stage)
    });
    marked.map_or_else(|| ends(out, failure), |state| (at, state))
}

/// What a Job has read: key and SHA-256.
fn read_by(task: Task) -> Option<(String, String)> {
    match task {
        Task::Check(task) => Some((task.key, task.sha256)),
        Task::Restore(task) => Some((task.key, task.sha256)),
        Task::Take(_) | Task::Read(_) | Task::Delete(_) => None,
    }
}

/// Whether what is on the volume by now was whole when it was read.
pub(super) fn is_over(input: RestoreInput<'_>) -> bool {
    input.request().is_some_and(|request| request.restored.is_some())
}

/// What is said of a backup that is known to be damaged, and which one is left.
pub(super) fn known(input: RestoreInput<'_>, etcd: &EtcdCluster, name: &str, of: &Source) -> String {
    let said = proven::damage(&of.status).map(|d| d.message).unwrap_or_default();
    let own = etcd.status.as_ref().and_then(|s| s.identity.as_deref());
    let (source, wanted) = (&input.object.spec.source, whose(input.object));
    let identity = if source.of.is_some() { of.status.identity.as_deref() } else { own };
    let until = source.latest_before.as_ref().map(|at| at.0);
    let all: Vec<EtcdBackup> = list(input.observed, Kind::EtcdBackup, input.namespace()).collect();
    let left = proven::newest(&all, &Wanted { of: &wanted, identity, until });
    let left = left.and_then(|b| Some((b.metadata.name.as_deref()?, proven::taken(b)?)));
    let Some((next, taken)) = left else {
        return format!("{name} is damaged: {said}. No other proven backup of this data is left in this namespace");
    };
    let command = if source.of.is_none() { format!(": {} --backup {next}", input.command()) } else { String::new() };
    format!(
        "{name} is damaged: {said}. The newest proven one that is left is EtcdBackup {next}, taken at {taken:.0}{command}"
    )
}
