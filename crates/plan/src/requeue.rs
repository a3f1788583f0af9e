//! How often to reconcile what is being deleted.

use crate::model::Stage;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// Something was just asked for: it may be done in a moment.
pub const SOON: SignedDuration = SignedDuration::from_secs(2);

/// Soon, as long as there is something to do; then after a quarter of the time that it has taken so far, half a minute at most. The
/// ends of namespaces and pods are announced, and where many are deleted at once, looking at each of them all the time is what
/// slows them down.
pub fn while_deleting(meta: &ObjectMeta, now: Timestamp, stage: &Stage) -> SignedDuration {
    let since = meta.deletion_timestamp.as_ref().map_or(SignedDuration::ZERO, |at| now.duration_since(at.0));
    if stage.actions.is_empty() { (since / 4).clamp(SOON, SignedDuration::from_secs(30)) } else { SOON }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Action, StageId, State};
    use berth_render::{Kind, ObjectKey};
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    #[test]
    fn what_takes_long_is_reconciled_less_often() {
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let mut stage = Stage::new(StageId::Deletion, State::Ready);
        let after = |seconds, stage: &Stage| {
            let at = Time(now - SignedDuration::from_secs(seconds));
            while_deleting(&ObjectMeta { deletion_timestamp: Some(at), ..ObjectMeta::default() }, now, stage).as_secs()
        };
        // The API server's clock may be ahead.
        assert_eq!([-60, 0, 8, 40, 100, 100_000].map(|s| after(s, &stage)), [2, 2, 2, 10, 25, 30]);
        let key = ObjectKey::cluster(Kind::Namespace, "a");
        stage.actions.push(Action::Delete { key, uid: String::new(), grace: None });
        assert_eq!(after(100, &stage), 2);
    }
}
