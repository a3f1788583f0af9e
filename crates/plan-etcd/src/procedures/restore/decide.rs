//! Decides the next step of a restore.

#[cfg(test)]
mod tests;

use berth_api::etcd_bootstrap::{OperationKind, Phase, Record};
use berth_api::restore::RestoreRequest;
use jiff::Timestamp;

/// What a decision is made from.
#[expect(clippy::struct_excessive_bools)]
#[derive(Clone, Debug)]
pub(crate) struct RestoreView<'a> {
    pub(crate) now: Timestamp,
    /// What an `EtcdRestore` asks for.
    pub(crate) request: Option<&'a RestoreRequest>,
    /// All members were seen together once.
    pub(crate) is_formed: bool,
    /// Why it cannot be restored, if so.
    pub(crate) obstacle: Option<String>,
    /// `spec.clientsStopped`.
    pub(crate) clients_stopped: Option<i64>,
    /// What stops them: a `Cluster`, or a person.
    pub(crate) has_cluster: bool,
    /// A quorum answers.
    pub(crate) serves: bool,
    /// No pod of a member is there, and none is about to be made.
    pub(crate) is_down: bool,
    /// The only member of the new epoch serves.
    pub(crate) is_up: bool,
    /// The member that is restored.
    pub(crate) target: String,
    pub(crate) record: &'a Record,
}

/// What to do next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum RestoreStep {
    /// Nothing is to be restored.
    #[default]
    None,
    /// For what people read.
    Wait(String),
    /// It cannot be restored, and goes on as it is.
    Refuse(String),
    /// The record first.
    Write(Box<Record>),
}

/// The next step.
pub(crate) fn decide_restore(view: &RestoreView<'_>) -> RestoreStep {
    let epoch = view.record.bootstrap.epoch;
    // What was asked for is not on a volume yet.
    let asked = view.request.filter(|r| r.restored != Some(epoch));
    let Some(operation) = view.record.under_way(OperationKind::Restore) else {
        return asked.map_or(RestoreStep::None, |_| view.begin());
    };
    match operation.phase {
        Phase::WaitingForClients | Phase::Stop if view.request.is_none() => view.end(),
        Phase::WaitingForClients if view.serves && view.request.is_some_and(|r| r.unconfirmed) => {
            RestoreStep::Wait("its EtcdRestore to give up, or to be confirmed: etcd answers again".into())
        }
        Phase::WaitingForClients if view.clients_stopped == Some(operation.id) => view.at(Phase::Stop),
        Phase::WaitingForClients => RestoreStep::Wait(view.clients(operation.id)),
        Phase::Stop if view.is_down => view.next_epoch(),
        Phase::Stop => RestoreStep::Wait("etcd's pods to end".into()),
        Phase::Restore if view.request.is_some_and(|r| r.restored == Some(epoch)) => view.at(Phase::Start),
        Phase::Restore => RestoreStep::Wait(match view.request {
            Some(request) => format!(
                "the Job of EtcdRestore {}/{} to put the backup onto the volume of member {}",
                request.namespace, request.name, view.target
            ),
            None => format!(
                "an EtcdRestore: the one that stopped etcd is gone, and the epoch of etcd's data has ended. Create another EtcdRestore; the former data is still on the volume of member {}",
                view.target
            ),
        }),
        // The backup that was restored is not to be, after all.
        Phase::Start if asked.is_some() => view.begin(),
        Phase::Start if view.is_up => view.at(Phase::Done),
        Phase::Start => RestoreStep::Wait(format!("member {} to serve what was restored", view.target)),
        Phase::Done if view.request.is_none() || asked.is_some() => view.end(),
        Phase::Done => RestoreStep::Wait("its EtcdRestore to record that etcd serves".into()),
        _ => RestoreStep::Refuse("a newer operator restores this etcd, in a way that this one does not know".into()),
    }
}

impl RestoreView<'_> {
    fn clients(&self, id: i64) -> String {
        if self.has_cluster {
            "the pods of kube-apiserver, kube-controller-manager and kube-scheduler to end, so that nothing uses etcd"
                .into()
        } else {
            format!("its clients to be stopped. When nothing uses this etcd any more, set spec.clientsStopped to {id}")
        }
    }

    fn begin(&self) -> RestoreStep {
        if !self.is_formed {
            return RestoreStep::Wait("etcd to be formed for the first time; then it can be restored".into());
        }
        if let Some(why) = &self.obstacle {
            return RestoreStep::Refuse(why.clone());
        }
        // What was under way before does not go on, nor does an earlier restore.
        let next = self.next().end();
        write(next.begin(OperationKind::Restore, &self.target, Phase::WaitingForClients, self.now))
    }

    /// A change of the version ends with it.
    fn next(&self) -> Record {
        Record { next: None, ..self.record.revise() }
    }

    fn at(&self, phase: Phase) -> RestoreStep {
        write(self.next().advance(phase, self.now))
    }

    fn end(&self) -> RestoreStep {
        write(self.next().end())
    }

    /// The members of the old one are none any more.
    fn next_epoch(&self) -> RestoreStep {
        let mut next = self.next().advance(Phase::Restore, self.now);
        let after = self.request.and_then(|request| request.after).unwrap_or_default();
        next.replicas = 1;
        let bootstrap = &mut next.bootstrap;
        (bootstrap.epoch, bootstrap.restored, bootstrap.members) = (bootstrap.epoch.max(after) + 1, true, vec![]);
        write(next)
    }
}

fn write(record: Record) -> RestoreStep {
    RestoreStep::Write(Box::new(record))
}
