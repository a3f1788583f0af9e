//! Sweeps up what objects have left behind that are gone without their finalizer's work.

use crate::context::Context;
use crate::fleet_tasks::FleetTask;
use berth_kubeio::IoError;
use std::time::Duration;

/// Deletes Jobs whose object is gone.
#[derive(Debug)]
pub(crate) struct SweepJobs;

impl FleetTask for SweepJobs {
    /// A store's keys are beside a Job that has nobody left for no longer.
    const AGAIN: Duration = Duration::from_secs(30);

    async fn pass(ctx: &Context) -> Result<Option<Duration>, IoError> {
        for job in berth_kubeio::sweep(&ctx.io).await? {
            tracing::info!(%job, "deleted a Job whose object is gone, and the Secret beside it");
        }
        Ok(Some(Self::AGAIN))
    }

    fn failed(error: &IoError, is_new: bool) {
        if is_new {
            tracing::warn!(%error, "cannot delete Jobs whose object is gone");
        }
    }
}
