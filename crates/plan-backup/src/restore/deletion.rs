//! Taking a restore down. Until etcd's epoch has changed, that turns it back: etcd and its clients start as they were. Afterwards the
//! restore that is under way waits for another `EtcdRestore`.

use super::input::{RestoreInput, RestorePlan, clean};
use crate::requeue::SOON;
use berth_api::restore::phase;
use berth_plan::model::{Stage, StageId, State};
use berth_render::Kind;

/// The plan while `deletionTimestamp` is set.
pub(super) fn plan(input: RestoreInput<'_>) -> RestorePlan {
    let mut stage = Stage::new(StageId::Deletion, State::Ready);
    // A Job that is still at work writes to a volume.
    let pods = input.observed.objects.iter().filter(|(key, _)| key.kind == Kind::Pod);
    let works = pods.map(|(_, pod)| pod).any(|pod| {
        input.owner().is_ours(pod) && !["Succeeded", "Failed"].map(Some).contains(&pod["status"]["phase"].as_str())
    });
    if !(clean(input, &mut stage) & input.withdraw(&mut stage)) || works {
        stage.state = State::waiting("its Jobs and their pods to end, and Berth to take the restore back from etcd");
    }
    let mut out = RestorePlan { phase: phase::DELETING, requeue_after: Some(SOON), ..RestorePlan::default() };
    out.plan.finished = stage.state.is_done() && stage.actions.is_empty();
    out.plan.stages.push(stage);
    out
}
