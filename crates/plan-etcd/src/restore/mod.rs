//! Beginning a new epoch from a backup: a pure decision, one step at a time.
//!
//! Clients stop, then etcd; the record says that a new epoch begins, before anything of it is on a volume; an `EtcdRestore`'s Job puts the
//! backup onto the volume of the first member, which starts alone. Others join it by the code for members. A step is a write of the record,
//! or waiting, so a step follows from the record and from what is there, wherever the operator ended.
//!
//! Until the epoch has changed, everything can be turned back. From then on there is only the way ahead: the guard lets no data of an older
//! epoch run.

pub(super) mod view;

#[cfg(test)]
mod tests;

use berth_api::etcd_bootstrap::{MemberRecord, Operation, OperationKind, Phase};
use berth_api::restore::RestoreRequest;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// The part of the record that a restore changes.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Entry {
    pub(super) epoch: i64,
    pub(super) serial: i64,
    pub(super) replicas: i32,
    pub(super) members: Vec<MemberRecord>,
    pub(super) operation: Option<Operation>,
}

/// What a decision is made from.
#[expect(clippy::struct_excessive_bools)]
#[derive(Clone, Debug)]
pub(super) struct View<'a> {
    pub(super) now: Timestamp,
    /// What an `EtcdRestore` asks for.
    pub(super) request: Option<&'a RestoreRequest>,
    /// All members were seen together once.
    pub(super) is_formed: bool,
    /// Why it cannot be restored, if so.
    pub(super) obstacle: Option<String>,
    /// `spec.clientsStopped`.
    pub(super) clients_stopped: Option<i64>,
    /// What stops them: a `Cluster`, or a person.
    pub(super) has_cluster: bool,
    /// A quorum answers.
    pub(super) serves: bool,
    /// No pod of a member is there, and none is about to be made.
    pub(super) is_down: bool,
    /// The only member of the new epoch serves.
    pub(super) is_up: bool,
    /// The member that is restored.
    pub(super) target: String,
    pub(super) entry: Entry,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Nothing is to be restored.
    None,
    /// For what people read.
    Wait(String),
    /// It cannot be restored, and goes on as it is.
    Refuse(String),
    /// The record first.
    Write(Entry),
}

/// The next step.
pub(super) fn decide(view: &View<'_>) -> Step {
    let operation = view.entry.operation.as_ref().filter(|o| o.kind == OperationKind::Restore);
    // What was asked for is not on a volume yet.
    let asked = view.request.filter(|r| r.restored != Some(view.entry.epoch));
    let Some(operation) = operation else { return asked.map_or(Step::None, |_| view.begin(Phase::WaitingForClients)) };
    match operation.phase {
        Phase::WaitingForClients | Phase::Stop if view.request.is_none() => view.end(),
        Phase::WaitingForClients if view.serves && view.request.is_some_and(|r| r.unconfirmed) => {
            Step::Wait("its EtcdRestore to give up, or to be confirmed: etcd answers again".into())
        }
        Phase::WaitingForClients if view.clients_stopped == Some(operation.id) => view.at(Phase::Stop),
        Phase::WaitingForClients => Step::Wait(view.clients(operation.id)),
        Phase::Stop if view.is_down => view.next_epoch(),
        Phase::Stop => Step::Wait("etcd's pods to end".into()),
        Phase::Restore if view.request.is_some_and(|r| r.restored == Some(view.entry.epoch)) => view.at(Phase::Start),
        Phase::Restore => Step::Wait(match view.request {
            Some(request) => format!(
                "the Job of EtcdRestore {}/{} to put the backup onto the volume of member {}",
                request.namespace, request.name, view.target
            ),
            None => format!(
                "an EtcdRestore: the one that stopped etcd is gone, and etcd's data is of an epoch that has ended. Create another EtcdRestore; what was there is still on the volume of member {}",
                view.target
            ),
        }),
        // The backup that was restored is not to be, after all.
        Phase::Start if asked.is_some() => view.begin(Phase::WaitingForClients),
        Phase::Start if view.is_up => view.at(Phase::Done),
        Phase::Start => Step::Wait(format!("member {} to serve what was restored", view.target)),
        Phase::Done if view.request.is_none() || asked.is_some() => view.end(),
        Phase::Done => Step::Wait("its EtcdRestore to record that etcd serves".into()),
        _ => Step::Refuse("a newer operator restores this etcd, in a way that this one does not know".into()),
    }
}

impl View<'_> {
    fn clients(&self, id: i64) -> String {
        if self.has_cluster {
            "the pods of kube-apiserver, kube-controller-manager and kube-scheduler to end, so that nothing uses etcd"
                .into()
        } else {
            format!("its clients to be stopped. When nothing uses this etcd any more, set spec.clientsStopped to {id}")
        }
    }

    fn begin(&self, phase: Phase) -> Step {
        if !self.is_formed {
            return Step::Wait("etcd to be formed for the first time; then it can be restored".into());
        }
        if let Some(why) = &self.obstacle {
            return Step::Refuse(why.clone());
        }
        let mut next = self.next();
        let (id, target) = (next.serial, self.target.clone());
        next.operation = Some(Operation { id, kind: OperationKind::Restore, target, phase, since: Time(self.now) });
        Step::Write(next)
    }

    fn next(&self) -> Entry {
        Entry { serial: self.entry.serial + 1, ..self.entry.clone() }
    }

    fn at(&self, phase: Phase) -> Step {
        Step::Write(self.with_phase(phase))
    }

    fn with_phase(&self, phase: Phase) -> Entry {
        let mut next = self.next();
        if let Some(operation) = &mut next.operation {
            (operation.phase, operation.since) = (phase, Time(self.now));
        }
        next
    }

    fn end(&self) -> Step {
        Step::Write(Entry { operation: None, ..self.next() })
    }

    /// The members of the old one are none any more.
    fn next_epoch(&self) -> Step {
        let next = self.with_phase(Phase::Restore);
        let after = self.request.and_then(|request| request.after).unwrap_or_default();
        Step::Write(Entry { epoch: next.epoch.max(after) + 1, replicas: 1, members: vec![], ..next })
    }
}
