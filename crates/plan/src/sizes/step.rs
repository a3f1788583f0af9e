//! One look at a part, once a minute: which of its pods are resized.

use super::amount::Size;
use super::asked::Part;
use super::history::History;
use super::recommend::{recommend, with_room};
use super::seen::{Hold, SizedPod, Usage};
use super::tried::Tried;
use jiff::Timestamp;
use std::collections::BTreeMap;

/// What the operator remembers of a part.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Known {
    /// What was used.
    pub history: History,
    /// The size that its pods are to have. None: it is not known yet.
    pub size: Option<Size>,
    /// Resizes that are not to be seen in their pods, by the UIDs of these.
    pub(super) tried: BTreeMap<String, Tried>,
    /// Pods that cannot have their size, by their UIDs.
    pub(super) held: BTreeMap<String, Hold>,
}

/// A pod, and the size that its container is to have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resize {
    /// Namespace of the pod.
    pub namespace: String,
    /// Its name.
    pub pod: String,
    /// Its UID: one of the same name may be another.
    pub uid: String,
    /// The container.
    pub container: String,
    /// Its requests.
    pub size: Size,
}

impl Known {
    /// A resize was refused.
    pub fn refused(&mut self, resize: &Resize, why: String, now: Timestamp) {
        self.try_(resize, Some(why), now);
    }

    /// It was taken. It counts once the pod has it: something may change it back.
    pub fn taken(&mut self, resize: &Resize, now: Timestamp) {
        self.try_(resize, None, now);
    }

    fn try_(&mut self, resize: &Resize, why: Option<String>, now: Timestamp) {
        let tried = Tried::new(self.tried.get(&resize.uid), resize.size, why, now);
        self.tried.insert(resize.uid.clone(), tried);
    }
}

/// Takes in what a part uses, and says which of its pods are resized. `pods`: those of the part. `usage`: None, nobody tells it. `may_shrink`: it
/// may become less now.
pub fn step(
    part: &Part,
    pods: &[&SizedPod],
    usage: Option<&Usage>,
    known: &mut Known,
    (now, may_shrink): (Timestamp, bool),
) -> Vec<Resize> {
    known.held.clear();
    known.tried.retain(|uid, _| pods.iter().any(|pod| pod.uid == *uid));
    let requests = |pod: &&SizedPod| pod.containers.get(&part.container).map(|one| one.requests);
    let Some(largest) = pods.iter().filter_map(&requests).reduce(Size::max) else { return vec![] };
    let of = |pod: &&SizedPod| usage?.get(&pod.key())?.get(&part.container).copied();
    if let Some(used) = pods.iter().filter_map(of).reduce(Size::max) {
        let is_whole = pods.iter().all(|pod| of(pod).is_some() || !pod.is_old(now));
        known.history.see(now, used, is_whole);
    }
    let size = recommend(known.size.unwrap_or(largest), &known.history, part.bounds, now, may_shrink);
    known.size = Some(size);
    let mut all = vec![];
    for pod in pods {
        let Some(container) = pod.containers.get(&part.container) else { continue };
        let (has, limits) = (container.requests, container.limits);
        let size = without_harm(size, has, of(pod).filter(|_| may_shrink));
        // What runs may be of another template than the bounds.
        let size = size.each(limits, |size, limit| if limit > 0 { size.min(limit) } else { size });
        if size == has {
            known.tried.remove(&pod.uid);
        } else if let Some(hold) = pod.hold(&part.container, size) {
            known.held.insert(pod.uid.clone(), hold);
        } else if known.tried.get(&pod.uid).is_none_or(|tried| !tried.holds(size, now)) {
            let (namespace, pod, uid) = (pod.namespace.clone(), pod.name.clone(), pod.uid.clone());
            all.push(Resize { namespace, pod, uid, container: part.container.clone(), size });
        }
    }
    all
}

/// The size, of a pod that has this one: no less than it has while nobody knows what it uses itself, and of memory no less than that. A node
/// without memory ends the pods first that use more than they request. `used`: None, it is not known, or nothing may become less.
fn without_harm(size: Size, has: Size, used: Option<Size>) -> Size {
    let Some(used) = used else { return size.max(has) };
    let memory = if with_room(used.memory) > size.memory { size.memory.max(has.memory) } else { size.memory };
    Size { memory, ..size }
}
