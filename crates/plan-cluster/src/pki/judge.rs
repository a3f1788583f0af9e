//! Secrets as part of a stage.

use crate::ours::is_ours;
use crate::planned::ClusterPlan;
use crate::subject::Tenant;
use berth_plan::model::Stage;
use berth_plan::secrets::{Renewal, SecretSpec, judge};

/// Judges one Secret as part of a stage.
pub(crate) fn judge_into(
    t: &Tenant<'_>,
    stage: &mut Stage,
    out: &mut ClusterPlan,
    spec: &SecretSpec,
    in_use: Option<&str>,
) {
    stage.owns.push(spec.key.clone());
    let renewal = Renewal {
        now: t.now,
        seed: &t.cp_namespace,
        held: t.observed.meta.clocks_are_far_apart(t.settings.leaf_lifetime),
    };
    let judged = judge(t.observed, spec, in_use, is_ours, renewal);
    out.certificates.add(stage, judged, t.now);
}
