//! What is read and written in a tenant.

use crate::context::Context;
use berth_api::cluster_access::AccessState;
use berth_api::labels;
use berth_kubeio::{ErrorKind, Io, IoError, TenantTarget};
use berth_plan_cluster::users::{Failed, Seen, Step};
use berth_render::{Kind, ObjectKey};
use futures::{StreamExt, stream};
use std::pin::pin;
use std::time::{Duration, Instant};

/// How long a call may take.
const DEADLINE: Duration = Duration::from_secs(5);

/// After so long nothing more is read, and nothing more is written: visits of other tenants wait for this one, and the next one goes on.
const READS: Duration = Duration::from_secs(10);
const WRITES: Duration = Duration::from_secs(20);

/// Why something was not done.
const SLOW: &str = "the API of the tenant is slow; the rest is done with the next visit";

/// Objects that are read at once.
const AT_ONCE: usize = 8;

/// An open connection, and what came of it.
pub(super) struct Inside {
    io: Io,
    pub(super) seen: Seen,
    pub(super) failed: Failed,
    /// What was to be written when nobody answered any more.
    pub(super) unsure: Option<ObjectKey>,
    /// What the time did not suffice for.
    pub(super) left: Failed,
    began: Instant,
    /// Nobody answers, or no more.
    pub(super) no_answer: Option<String>,
}

impl Inside {
    pub(super) async fn open(ctx: &Context, target: &TenantTarget) -> Result<Self, String> {
        let client = (ctx.connect)(target.clone()).await?;
        let io = Io::new(client, ctx.tenant_calls.clone(), DEADLINE);
        let (seen, failed, left) = (Seen::new(), Failed::new(), Failed::new());
        Ok(Self { io, seen, failed, unsure: None, left, began: Instant::now(), no_answer: None })
    }

    /// Reads these, in this order. After one that is not answered nothing else is asked.
    pub(super) async fn look(&mut self, keys: &[ObjectKey]) {
        let io = self.io.clone();
        let reads = stream::iter(keys.iter().cloned()).map(|key| async { (io.get(&key).await, key) });
        let mut reads = pin!(reads.buffer_unordered(AT_ONCE));
        while self.no_answer.is_none()
            && self.began.elapsed() < READS
            && let Some((live, key)) = reads.next().await
        {
            match live {
                Ok(live) => drop(self.seen.insert(key, live)),
                Err(error) => self.fails(key, &error),
            }
        }
        let is_left = |key: &&ObjectKey| !self.seen.contains_key(key) && !self.failed.contains_key(key);
        let left: Vec<ObjectKey> = keys.iter().filter(is_left).cloned().collect();
        for key in left {
            self.leave(key);
        }
    }

    fn leave(&mut self, key: ObjectKey) {
        self.left.insert(key, (AccessState::Waiting, SLOW.to_owned()));
    }

    /// One after the other. After one that is not answered nothing else is asked. Err: this process may not write any more.
    pub(super) async fn carry_out(&mut self, steps: Vec<Step>) -> Result<(), IoError> {
        for step in steps {
            if self.no_answer.is_some() {
                break;
            }
            if self.began.elapsed() >= WRITES {
                self.leave(step.key().clone());
                continue;
            }
            let writes = matches!(step, Step::Apply(_));
            let (key, answer) = match step {
                Step::Apply(object) => {
                    let key = object.key().clone();
                    // Where it could not be deleted first, it cannot be another one.
                    if self.failed.contains_key(&key) {
                        continue;
                    }
                    (key, self.io.apply(&object, labels::MANAGER_USERS).await.map(Some))
                }
                Step::Delete { key, uid } => {
                    let deleted = self.io.delete(&key, &uid, None).await;
                    let gone = match deleted {
                        Ok(()) => self.io.get(&key).await,
                        Err(error) => Err(error),
                    };
                    (key, gone)
                }
            };
            match answer {
                Ok(live) => drop(self.seen.insert(key, live)),
                Err(error) if error.kind == ErrorKind::Fenced => return Err(error),
                Err(error) => {
                    self.fails(key.clone(), &error);
                    self.unsure = Some(key).filter(|_| writes && self.no_answer.is_some());
                }
            }
        }
        Ok(())
    }

    fn fails(&mut self, key: ObjectKey, error: &IoError) {
        let answers = error.kind != ErrorKind::Transient && error.kind != ErrorKind::Refused;
        if !answers {
            self.no_answer = Some(error.message.clone());
        }
        let told = match (error.kind, key.kind, &key.namespace) {
            (ErrorKind::NotFound, Kind::RoleBinding, Some(namespace)) => {
                (AccessState::Waiting, format!("namespace {namespace} is not there in the tenant"))
            }
            _ => (AccessState::Failed, error.message.clone()),
        };
        self.failed.insert(key, told);
    }
}
