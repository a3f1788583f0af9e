//! Calls to others than an API server, in one numbering with the writes: between two writes, an operator also asks an etcd for something.

use std::future::{Future, pending};

use super::{Call, Fault, FaultPlan, Verb};

/// Makes calls in the life in which it was made, see [`FaultPlan::caller`].
#[derive(Clone, Debug)]
pub struct Caller {
    plan: FaultPlan,
    life: usize,
}

impl FaultPlan {
    /// For calls of the present life.
    pub fn caller(&self) -> Caller {
        Caller { plan: self.clone(), life: self.lock().life }
    }
}

impl Caller {
    /// Does `work` as the plan allows, and what was begun is done although nobody waits for it any more.
    ///
    /// In the log the call is `verb` of `name` in the group `to`, with the code 200, or 500 where the work failed; it takes a number if the
    /// verb changes something. Without an answer there is an error, too, which tells nothing of whether the work was done.
    pub async fn call<T: Send + 'static>(
        &self,
        to: &str,
        verb: Verb,
        name: &str,
        work: impl Future<Output = Result<T, String>> + Send + 'static,
    ) -> Result<T, String> {
        if self.dead() {
            return pending().await;
        }
        let (call, fault) = self.plan.begin(Call::outside(to, verb, name), self.life);
        match fault {
            Some(Fault::FailBefore) => return Err("fault: not sent".into()),
            Some(Fault::Status { code, .. }) => return Err(format!("fault: {code}")),
            Some(Fault::Hang) => return pending().await,
            Some(Fault::StopBefore) => {
                self.plan.end(self.life);
                return pending().await;
            }
            Some(Fault::Late(time)) => {
                self.begin(&call, async move {
                    tokio::time::sleep(time).await;
                    work.await
                });
                return Err("fault: reply lost".into());
            }
            Some(Fault::Delay(time)) => tokio::time::sleep(time).await,
            None | Some(Fault::LoseReply | Fault::StopAfter) => {}
        }
        if self.dead() {
            return pending().await;
        }
        let answer = self.begin(&call, work).await;
        if fault == Some(Fault::StopAfter) {
            self.plan.end(self.life);
        }
        if self.dead() {
            return pending().await;
        }
        match fault {
            Some(Fault::LoseReply) => Err("fault: reply lost".into()),
            _ => answer.map_err(|e| e.to_string()).flatten(),
        }
    }

    fn begin<T: Send + 'static>(
        &self,
        call: &Call,
        work: impl Future<Output = Result<T, String>> + Send + 'static,
    ) -> tokio::task::JoinHandle<Result<T, String>> {
        let (plan, seq, under_way) = (self.plan.clone(), call.seq, self.plan.sent());
        tokio::spawn(async move {
            let answer = work.await;
            plan.answered(seq, if answer.is_ok() { 200 } else { 500 });
            drop(under_way);
            answer
        })
    }

    fn dead(&self) -> bool {
        *self.plan.ended.borrow() >= self.life
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    /// What came of one call, and how often the work was done.
    async fn under(fault: Option<Fault>) -> (Option<Result<(), String>>, usize, FaultPlan) {
        let (plan, done) = (FaultPlan::new(), Arc::new(AtomicUsize::new(0)));
        if let Some(fault) = fault {
            plan.at(1, fault);
        }
        let count = done.clone();
        let work = async move {
            tokio::task::yield_now().await;
            count.fetch_add(1, Ordering::Relaxed);
            Ok(())
        };
        let (caller, log) = (plan.caller(), plan.clone());
        let call = caller.call("etcd", Verb::Create, "a member", work);
        let answer = tokio::time::timeout(Duration::from_millis(50), call).await.ok();
        tokio::time::sleep(Duration::from_millis(50)).await;
        (answer, done.load(Ordering::Relaxed), log)
    }

    #[tokio::test]
    async fn each_fault_does_to_a_call_what_it_says() {
        let lost = || Some(Err("fault: reply lost".to_owned()));
        let (answer, done, plan) = under(None).await;
        assert_eq!((answer, done, plan.mutations(), plan.is_stopped()), (Some(Ok(())), 1, 1, false));
        assert_eq!(plan.calls()[0].to_string(), "#1 Create etcd/a member -> 200");
        let (answer, done, plan) = under(Some(Fault::LoseReply)).await;
        assert_eq!((answer, done, plan.is_stopped()), (lost(), 1, false));
        let (answer, done, plan) = under(Some(Fault::StopBefore)).await;
        assert_eq!((answer, done, plan.is_stopped()), (None, 0, true));
        let (answer, done, plan) = under(Some(Fault::StopAfter)).await;
        assert_eq!((answer, done, plan.is_stopped()), (None, 1, true));
        let (answer, done, _) = under(Some(Fault::Late(Duration::from_millis(10)))).await;
        assert_eq!((answer, done), (lost(), 1));
        let (answer, done, _) = under(Some(Fault::FailBefore)).await;
        assert_eq!((answer.map(|a| a.is_err()), done), (Some(true), 0));
    }

    #[tokio::test]
    async fn what_was_begun_is_done_and_a_dead_life_begins_nothing() {
        let (plan, (go, wait)) = (FaultPlan::new(), tokio::sync::oneshot::channel::<()>());
        let (done, seen) = tokio::sync::oneshot::channel();
        let work = async move {
            let _ = wait.await;
            let _ = done.send(());
            Ok(())
        };
        let caller = plan.caller();
        let call = tokio::spawn(async move { caller.call("etcd", Verb::Create, "a", work).await });
        tokio::time::sleep(Duration::from_millis(10)).await;
        call.abort();
        let _ = go.send(());
        seen.await.expect("it is done");

        let caller = plan.caller();
        plan.restart();
        let call = caller.call("etcd", Verb::Create, "b", async { Ok(()) });
        assert!(tokio::time::timeout(Duration::from_millis(50), call).await.is_err());
        assert_eq!(plan.mutations(), 1);
    }
}
