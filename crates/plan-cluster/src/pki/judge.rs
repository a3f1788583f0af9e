//! Secrets as part of a stage.

use crate::ours::is_ours;
use crate::planned::ClusterPlan;
use crate::subject::Tenant;
use berth_plan::model::Stage;
use berth_plan::secrets::{Renewal, SecretSpec};

/// Judges one Secret as part of a stage.
pub(crate) fn judge_into(
    t: &Tenant<'_>,
    stage: &mut Stage,
    out: &mut ClusterPlan,
    spec: &SecretSpec,
    in_use: Option<&str>,
) {
    let renewal = Renewal {
        now: t.now,
        seed: &t.cp_namespace,
        held: t.observed.meta.clocks_are_far_apart(t.settings.leaf_lifetime),
    };
    out.certificates.judge(stage, t.observed, spec, in_use, is_ours, renewal);
}
