//! One look at a part, once a minute: which of its pods are resized.

use super::amount::Size;
use super::asked::Part;
use super::history::History;
use super::recommend::recommend;
use super::seen::{SizedPod, Usage};
use jiff::{SignedDuration, Timestamp};
use std::collections::BTreeMap;

/// After a refusal; after each further one twice as long, up to [`SELDOM`].
const AGAIN: SignedDuration = SignedDuration::from_mins(10);
const SELDOM: SignedDuration = SignedDuration::from_hours(2);

/// What the operator remembers of a part.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Known {
    /// What was used.
    pub history: History,
    /// The size that its pods are to have. None: it is not known yet.
    pub size: Option<Size>,
    /// What was refused, by the UIDs of pods.
    pub(super) refused: BTreeMap<String, Refusal>,
}

/// A resize that the API server did not take.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Refusal {
    times: u32,
    until: Timestamp,
    pub(super) why: String,
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
        let times = self.refused.get(&resize.uid).map_or(0, |before| before.times).saturating_add(1);
        let pause = AGAIN.saturating_mul(1 << times.saturating_sub(1).min(6)).min(SELDOM);
        let until = now.checked_add(pause).unwrap_or(now);
        self.refused.insert(resize.uid.clone(), Refusal { times, until, why });
    }

    /// It was taken.
    pub fn taken(&mut self, resize: &Resize) {
        self.refused.remove(&resize.uid);
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
    known.refused.retain(|uid, _| pods.iter().any(|pod| pod.uid == *uid));
    let requests = |pod: &&SizedPod| pod.containers.get(&part.container).map(|one| one.requests);
    let Some(largest) = pods.iter().filter_map(&requests).reduce(Size::max) else { return vec![] };
    let of = |pod: &&SizedPod| usage?.get(&(pod.namespace.clone(), pod.name.clone()))?.get(&part.container).copied();
    if let Some(used) = pods.iter().filter_map(of).reduce(Size::max) {
        known.history.see(now, used);
    }
    let size = recommend(known.size.unwrap_or(largest), &known.history, part.bounds, now, may_shrink);
    known.size = Some(size);
    let resize = |pod: &&SizedPod| {
        let has = requests(pod)?;
        let size = if may_shrink { size } else { size.max(has) };
        let limit = pod.containers.get(&part.container)?.limits;
        // What runs may be of another template than the bounds.
        let size = size.each(limit, |size, limit| if limit > 0 { size.min(limit) } else { size });
        let waits = known.refused.get(&pod.uid).is_some_and(|refusal| now < refusal.until);
        let resize = Resize {
            namespace: pod.namespace.clone(),
            pod: pod.name.clone(),
            uid: pod.uid.clone(),
            container: part.container.clone(),
            size,
        };
        (size != has && !waits && pod.keeps_class(&part.container, size)).then_some(resize)
    };
    pods.iter().filter_map(resize).collect()
}
