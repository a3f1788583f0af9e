//! Where members' volumes are, while a node with room for what the spec asks for is looked for: read ever less often, as long as nothing changes
//! that was asked. What was found a while ago only holds a change back: one that fits begins with the reading that says so, and a reading that
//! failed says nothing.

use crate::memory::{Memory, uid};
use berth_api::etcd_cluster::EtcdCluster;
use berth_kubeio::{Io, read_volumes};
use berth_plan::observed::Observed;
use berth_plan::room::Volume;
use berth_plan_etcd::room::{self, Asked};
use jiff::{SignedDuration, Timestamp};
use std::collections::BTreeMap;
use std::sync::Arc;

/// How long the first reading counts; each further one counts twice as long, up to [`SELDOM`].
const FIRST: SignedDuration = SignedDuration::from_secs(30);
const SELDOM: SignedDuration = SignedDuration::from_mins(5);

/// What was read.
#[derive(Debug, PartialEq)]
pub(crate) struct Volumes {
    asked: Asked,
    found: BTreeMap<String, Volume>,
    at: Timestamp,
    counts: SignedDuration,
}

/// What is known of them now.
pub(crate) async fn read(
    io: &Io,
    known: &Memory<Volumes>,
    etcd: &EtcdCluster,
    observed: &Observed,
    now: Timestamp,
) -> BTreeMap<String, Volume> {
    let uid = uid(etcd);
    let Some(asked) = room::asked(etcd, observed) else {
        known.forget(uid);
        return BTreeMap::new();
    };
    let before = known.get(uid);
    let counts = match next(before.as_deref(), &asked, now) {
        Ok(before) => return before.found.clone(),
        Err(counts) => counts,
    };
    let found = read_volumes(io, &asked.volumes, &asked.nodes).await;
    known.put(uid, Arc::new(Volumes { asked, found: found.clone(), at: now, counts }), now);
    found
}

/// What still counts, or how long what is read now will.
fn next<'a>(before: Option<&'a Volumes>, asked: &Asked, now: Timestamp) -> Result<&'a Volumes, SignedDuration> {
    let Some(before) = before.filter(|before| before.asked == *asked) else { return Err(FIRST) };
    // Of a clock that was set back, too.
    let counts = now.duration_since(before.at).abs() < before.counts;
    if counts { Ok(before) } else { Err((before.counts * 2).min(SELDOM)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_plan::room::Node;
    use berth_render::{Kind, ObjectKey};
    use serde_json::json;

    fn asked(cpu: &str) -> Asked {
        let etcd = json!({
            "apiVersion": "berth.dev/v1alpha1", "kind": "EtcdCluster", "metadata": {"name": "etcd", "namespace": "a"},
            "spec": {"version": "3.6.16", "replicas": 1, "clients": [], "resources": {"requests": {"cpu": cpu}}},
        });
        let set = json!({
            "metadata": {"name": "etcd", "namespace": "a", "labels": {"berth.dev/etcd-cluster": "etcd"}},
            "spec": {"template": {"spec": {"containers": [{"resources": {"requests": {"cpu": "1"}}}]}}},
        });
        let node = json!({"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "64"}}});
        let mut observed = Observed::default();
        observed.objects.insert(ObjectKey::namespaced(Kind::StatefulSet, "a", "etcd"), set);
        let meta = Arc::make_mut(&mut observed.meta);
        meta.room = Some(vec![Node::of(&node)].into());
        room::asked(&serde_json::from_value(etcd).unwrap(), &observed).unwrap()
    }

    #[test]
    fn they_are_read_ever_less_often_while_the_same_is_asked() {
        let (mut now, mut before, mut reads) = (Timestamp::UNIX_EPOCH, None, vec![]);
        for _ in 0..360 {
            if let Err(counts) = next(before.as_ref(), &asked("2"), now) {
                reads.push(now.as_second());
                before = Some(Volumes { asked: asked("2"), found: BTreeMap::new(), at: now, counts });
            }
            now += SignedDuration::from_secs(5);
        }
        assert_eq!(reads, [0, 30, 90, 210, 450, 750, 1050, 1350, 1650]);
        assert_eq!(next(before.as_ref(), &asked("3"), now), Err(FIRST), "another wish is looked into at once");
    }
}
