//! What reconciles and the one who resizes tell each other ([`super`]).

use berth_plan::sizes::{Asked, Known};
use berth_render::{Kind, ObjectKey};
use futures::{Stream, stream};
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, broadcast};

/// Whom no reconcile has asked for in so long is gone: each is read as a whole once in a quarter of an hour.
const FORGOTTEN: SignedDuration = SignedDuration::from_hours(1);

/// What is remembered of parts, by the UID of who asks and the container.
pub(super) type Memories = BTreeMap<(String, String), Known>;

/// The same, for one pass after the other. A new process begins anew.
#[derive(Debug, Default)]
pub(crate) struct SizeMemory(Mutex<Memories>);

impl SizeMemory {
    pub(super) fn take(&self) -> Memories {
        std::mem::take(&mut self.0.lock())
    }

    pub(super) fn put(&self, memories: Memories) {
        *self.0.lock() = memories;
    }
}

/// Sizes that are asked for, and what is told of them.
#[derive(Debug)]
pub struct Sizes {
    all: Mutex<BTreeMap<String, Tenant>>,
    pub(super) news: Notify,
    changes: broadcast::Sender<ObjectKey>,
    pub(super) every: Duration,
}

#[derive(Debug)]
struct Tenant {
    asked: Arc<Asked>,
    at: Timestamp,
    /// None: nobody has looked yet.
    told: Option<Vec<String>>,
}

impl Default for Sizes {
    fn default() -> Self {
        Self::every(Duration::from_mins(1))
    }
}

impl Sizes {
    /// Usage is read so often.
    pub fn every(every: Duration) -> Self {
        let (changes, _) = broadcast::channel(1024);
        Self { all: Mutex::default(), news: Notify::new(), changes, every }
    }

    /// What the object of that UID asks for now. Returns what is told of it. None: nobody has looked yet.
    pub(crate) fn ask(&self, uid: &str, asked: Option<Asked>, now: Timestamp) -> Option<Vec<String>> {
        let mut all = self.all.lock();
        let before = all.remove(uid);
        let Some(asked) = asked else { return Some(vec![]) };
        let told = before.as_ref().and_then(|before| before.told.clone());
        let is_new = before.is_none_or(|before| *before.asked != asked);
        all.insert(uid.to_owned(), Tenant { asked: asked.into(), at: now, told: told.clone() });
        if is_new {
            self.news.notify_one();
        }
        told
    }

    /// Who asks, by UID.
    pub(super) fn asked(&self, now: Timestamp) -> Vec<(String, Arc<Asked>)> {
        let mut all = self.all.lock();
        all.retain(|_, tenant| now.duration_since(tenant.at).abs() < FORGOTTEN);
        all.iter().map(|(uid, tenant)| (uid.clone(), tenant.asked.clone())).collect()
    }

    /// What the status of that object is to tell.
    pub(super) fn tell(&self, uid: &str, told: Vec<String>) {
        let mut all = self.all.lock();
        let Some(tenant) = all.get_mut(uid) else { return };
        if tenant.told.as_ref() != Some(&told) {
            tenant.told = Some(told);
            // Without anybody who listens there is nobody to tell.
            let _ = self.changes.send(tenant.asked.of.clone());
        }
    }

    /// Objects of that kind of which something else is to be told than before.
    pub(crate) fn changes(&self, kind: Kind) -> impl Stream<Item = ObjectKey> + Send + use<> {
        stream::unfold(self.changes.subscribe(), move |mut changes: broadcast::Receiver<ObjectKey>| async move {
            loop {
                match changes.recv().await {
                    Ok(of) if of.kind == kind => return Some((of, changes)),
                    // Those who were missed learn of it when they look next.
                    Ok(_) | Err(broadcast::error::RecvError::Lagged(_)) => {}
                    Err(broadcast::error::RecvError::Closed) => return None,
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::{FutureExt as _, StreamExt as _};
    use std::pin::pin;

    fn asked(name: &str) -> Asked {
        Asked { of: ObjectKey::namespaced(Kind::Cluster, "a", name), namespace: "a-1".into(), parts: vec![] }
    }

    #[test]
    fn who_asks_is_told_once_and_forgotten_when_it_stops() {
        let (sizes, now) = (Sizes::default(), Timestamp::UNIX_EPOCH);
        let mut changes = pin!(sizes.changes(Kind::Cluster));
        let mut etcds = pin!(sizes.changes(Kind::EtcdCluster));
        let mut next = || changes.next().now_or_never().flatten().map(|of| of.name);
        assert_eq!(sizes.ask("u", Some(asked("acme")), now), None);
        assert!(sizes.news.notified().now_or_never().is_some());
        sizes.tell("u", vec!["no metrics".into()]);
        sizes.tell("u", vec!["no metrics".into()]);
        assert_eq!((next(), next()), (Some("acme".into()), None), "once");
        assert_eq!(etcds.next().now_or_never(), None);
        assert_eq!(sizes.ask("u", Some(asked("acme")), now), Some(vec!["no metrics".into()]));
        assert!(sizes.news.notified().now_or_never().is_none(), "it asks for the same");
        assert_eq!(sizes.asked(now + SignedDuration::from_mins(59)).len(), 1);
        assert_eq!(sizes.ask("u", None, now), Some(vec![]));
        sizes.tell("u", vec!["anything".into()]);
        assert_eq!((sizes.asked(now).len(), next()), (0, None));
        sizes.ask("u", Some(asked("acme")), now);
        assert_eq!(sizes.asked(now + SignedDuration::from_mins(61)).len(), 0);
    }
}
