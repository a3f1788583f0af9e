//! Between the operator and etcd: what goes wrong with calls, and what must never be seen.

use anyhow::{Context as _, Result};
use berth_api::etcd_cluster::EtcdCluster;
use berth_api::names;
use berth_etcdio::EtcdTarget;
use berth_operator::Context;
use berth_plan::observed::{EtcdProbe, ListedMember};
use berth_plan::{EtcdAnswer, EtcdCall, Maintenance, MemberChange};
use berth_testkit::fault::{Call, Caller, Verb};
use berth_testkit::{ApiServer, FaultPlan};
use kube::Api;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::kubelet::Kubelet;
use super::writer::Client;
use crate::common::{Running, me};

/// Calls to etcd, in the log of a [`FaultPlan`].
pub(crate) const ETCD: &str = "etcd";

/// Whether it is asked to change its members.
pub(crate) fn changes_members(call: &Call) -> bool {
    call.group == ETCD && call.mutation.is_some() && !call.name.starts_with(MAINTENANCE)
}

const MAINTENANCE: &str = "maintenance: ";

/// How it is written down.
fn logged(call: &EtcdCall) -> (Verb, String) {
    let verb = match call {
        EtcdCall::Change(MemberChange::AddLearner { .. }) => Verb::Create,
        EtcdCall::Change(MemberChange::Remove { .. }) => Verb::Delete,
        EtcdCall::Maintain(Maintenance::CompareHashes { .. }) => Verb::Get,
        EtcdCall::Change(MemberChange::Promote { .. } | MemberChange::MoveLeader { .. }) | EtcdCall::Maintain(_) => {
            Verb::Update
        }
    };
    let kind = if matches!(call, EtcdCall::Maintain(_)) { MAINTENANCE } else { "" };
    (verb, format!("{kind}{}", call.describe()))
}

/// What hooks and the test share.
pub(crate) struct Shared {
    pub(crate) kubelet: Kubelet,
    pub(crate) target: Mutex<Option<EtcdTarget>>,
    /// One call, or one harm, at a time.
    pub(crate) turn: tokio::sync::Mutex<()>,
    /// `spec.replicas`, or the larger one while it changes.
    pub(crate) wanted: AtomicI32,
    /// IDs whose data are gone.
    pub(crate) gone: Mutex<BTreeSet<String>>,
    /// In order, with times.
    pub(crate) told: Mutex<Vec<String>>,
    pub(crate) broken: Mutex<Vec<String>>,
    pub(crate) began: Instant,
}

impl Shared {
    pub(crate) fn say(&self, what: &str) {
        self.told.lock().unwrap().push(format!("{:>6.2?} {what}", self.began.elapsed().as_secs_f32()));
    }

    fn broke(&self, what: String) {
        self.say(&format!("BROKEN: {what}"));
        self.broken.lock().unwrap().push(what);
    }

    /// Of a linearizable list, for whoever asks.
    fn check_list(&self, list: &[ListedMember]) {
        let learners = list.iter().filter(|m| m.learner).count();
        if learners > 1 {
            self.broke(format!("{learners} learners: {list:?}"));
        }
    }

    pub(crate) async fn probe(&self) -> Result<(EtcdTarget, EtcdProbe)> {
        let target = self.target.lock().unwrap().clone().context("the operator has not asked yet")?;
        let probe = berth_etcdio::probe(&target, berth_etcdio::DEADLINE).await;
        Ok((target, probe))
    }

    /// Who votes now, by a linearizable list.
    pub(crate) async fn voters(&self) -> Result<Vec<ListedMember>> {
        let list = self.probe().await?.1.list.context("no quorum answered")?;
        self.check_list(&list);
        Ok(list.into_iter().filter(|m| !m.learner).collect())
    }

    /// Whether a removal leaves a quorum of members that have their data, and hits only who is to go or has lost its data.
    async fn check_removal(&self, id: &str) {
        let Ok(voters) = self.voters().await else { return };
        let Some(victim) = voters.iter().find(|m| m.id == id) else { return };
        let gone = self.gone.lock().unwrap().clone();
        let rest = voters.iter().filter(|m| m.id != id).count();
        let whole = voters.iter().filter(|m| m.id != id && !gone.contains(&m.id)).count();
        if whole < rest / 2 + 1 {
            self.broke(format!("removing {victim:?} leaves no quorum: {voters:?}, without data: {gone:?}"));
        }
        let ordinal = names::etcd::ordinal(names::ETCD, &victim.name).unwrap_or(i32::MAX);
        if !gone.contains(id) && ordinal < self.wanted.load(Ordering::Relaxed) {
            self.broke(format!("{victim:?} is removed although it has its data, and stays"));
        }
    }

    async fn call(&self, target: EtcdTarget, via: String, call: EtcdCall) -> Result<EtcdAnswer, String> {
        let _turn = self.turn.lock().await;
        if let EtcdCall::Change(MemberChange::Remove { id }) = &call {
            self.check_removal(id).await;
        }
        let answer = berth_etcdio::call(&target, &via, &call).await.map_err(|e| e.to_string());
        self.say(&format!("{via}: {} {answer:?}", call.describe()));
        answer
    }

    /// As the plan allows.
    async fn planned(
        self: Arc<Self>,
        caller: Caller,
        target: EtcdTarget,
        via: String,
        call: EtcdCall,
    ) -> Result<EtcdAnswer, String> {
        let (verb, name) = logged(&call);
        let work = async move { self.call(target, via, call).await };
        caller.call(ETCD, verb, &name, work).await
    }
}

pub(crate) fn operator(server: &'static ApiServer, plan: &FaultPlan, shared: &Arc<Shared>) -> Running {
    let (shared, plan_of) = (shared.clone(), plan.clone());
    let change = move |context: &mut Context| {
        let asks = shared.clone();
        context.ask_etcd = Arc::new(move |target| {
            let asks = asks.clone();
            Box::pin(async move {
                *asks.target.lock().unwrap() = Some(target.clone());
                let probe = berth_etcdio::probe(&target, berth_etcdio::DEADLINE).await;
                probe.list.iter().for_each(|list| asks.check_list(list));
                probe
            })
        });
        let caller = plan_of.caller();
        context.call_etcd =
            Arc::new(move |target, via, call| Box::pin(shared.clone().planned(caller.clone(), target, via, call)));
    };
    Running::start_changed(server, me(server), plan, change)
}

/// Begins another operator where one is to end.
pub(crate) async fn again(
    server: &'static ApiServer,
    plan: FaultPlan,
    shared: Arc<Shared>,
    running: Arc<tokio::sync::Mutex<Option<Running>>>,
) {
    loop {
        plan.stopped().await;
        let mut running = running.lock().await;
        // A test may have begun one.
        if !plan.is_stopped() {
            continue;
        }
        running.take();
        shared.say("another operator");
        *running = Some(operator(server, &plan, &shared));
    }
}

/// Tells the client what clients are told, and looks at the members.
pub(crate) async fn watch(api: Api<EtcdCluster>, shared: Arc<Shared>, client: Arc<Client>) {
    loop {
        tokio::time::sleep(Duration::from_millis(300)).await;
        if let Ok(etcd) = api.get(names::ETCD).await {
            let told = etcd.status.unwrap_or_default().endpoints;
            client.told(told.into_iter().map(|e| e.address));
        }
        let _ = shared.voters().await;
    }
}
