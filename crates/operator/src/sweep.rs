//! Sweeps up what objects have left behind that are gone without their finalizer's work.

use crate::context::Context;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How often: a store's keys are beside a Job that has nobody left for no longer.
const EVERY: Duration = Duration::from_secs(30);

/// Until `stop`.
pub(crate) async fn follow(ctx: &Context, stop: CancellationToken) {
    let mut said = String::new();
    loop {
        tokio::select! { () = tokio::time::sleep(EVERY) => (), () = stop.cancelled() => return }
        match berth_kubeio::sweep(&ctx.io).await {
            Ok(jobs) => {
                said.clear();
                for job in jobs {
                    tracing::info!(%job, "deleted a Job whose object is gone, and the Secret beside it");
                }
            }
            Err(error) => {
                ctx.failed(&error);
                if said != error.to_string() {
                    tracing::warn!(%error, "cannot delete Jobs whose object is gone");
                }
                said = error.to_string();
            }
        }
    }
}
