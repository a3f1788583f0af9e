//! What is said of a reconcile that failed.

use crate::verdicts;
use berth_api::conditions::{self, ConditionType, Reason, Verdict};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

/// A call that failed in this reconcile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Kind of failure: `PermissionDenied`, `Rejected`, `Error`.
    pub reason: Reason,
    /// Object and answer.
    pub message: String,
}

impl Failure {
    /// Conditions when a reconcile could not even look: `Ready` false and `Degraded` true for that reason, and so `Reconciling` or
    /// `Stalled`; every other of `types` as it was, or Unknown.
    pub fn conditions(
        &self,
        types: &[ConditionType],
        old: &[Condition],
        generation: i64,
        now: Timestamp,
    ) -> Vec<Condition> {
        let judge = |type_: &ConditionType| match type_ {
            ConditionType::Ready => Some(Verdict::new(*type_, Some(false), self.reason, self.message.clone())),
            ConditionType::Degraded => Some(Verdict::new(*type_, Some(true), self.reason, self.message.clone())),
            other if ConditionType::TRUE_OR_ABSENT.contains(other) || conditions::find(old, *other).is_some() => None,
            _ => Some(Verdict::new(*type_, None, Reason::NotYetObserved, "not checked yet")),
        };
        let mut new = verdicts::publish(old, types.iter().filter_map(judge).collect(), generation, now, false);
        let known = types.iter().filter(|t| !ConditionType::TRUE_OR_ABSENT.contains(t));
        let known = known.filter_map(|t| conditions::find(old, *t));
        let known: Vec<_> = known.filter(|c| new.iter().all(|n| n.type_ != c.type_)).cloned().collect();
        new.extend(known);
        let place = |c: &Condition| types.iter().position(|t| t.as_str() == c.type_);
        new.sort_by_key(place);
        new
    }
}
