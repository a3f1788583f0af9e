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
    /// It was a write inside the tenant; any other was one in the meta cluster, or of the object itself.
    pub in_tenant: bool,
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
        let judge = |type_: &ConditionType| {
            let verdict = match type_ {
                ConditionType::Ready => Verdict::new(*type_, Some(false), self.reason, self.message.clone()),
                ConditionType::Degraded => Verdict::new(*type_, Some(true), self.reason, self.message.clone()),
                _ => match conditions::find(old, *type_) {
                    Some(known) => return vec![known.clone()],
                    None => Verdict::new(*type_, None, Reason::NotYetObserved, "not checked yet"),
                },
            };
            conditions::merge(old, &[verdict], generation, now)
        };
        let judged = types.iter().filter(|t| !ConditionType::TRUE_OR_ABSENT.contains(t)).flat_map(judge).collect();
        verdicts::with_kstatus(old, judged, generation, now, false)
    }
}
