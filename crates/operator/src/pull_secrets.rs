//! The platform's pull Secrets, read for all tenants: nothing watches them, since the operator may read these Secrets and no other.

use crate::context::Context;
use crate::fleet_tasks::FleetTask;
use berth_kubeio::{IoError, read_pull_secrets};
use berth_plan::meta_cluster::pull_secrets::PullSecret;
use std::time::Duration;

/// Reads those that the chart's values name.
#[derive(Debug)]
pub(crate) struct ReadPullSecrets;

/// When they are read again, if all are there.
const EVERY: Duration = Duration::from_mins(1);

impl FleetTask for ReadPullSecrets {
    /// Also where one is missing: somebody is about to make it.
    const AGAIN: Duration = Duration::from_secs(5);

    async fn pass(ctx: &Context) -> Result<Option<Duration>, IoError> {
        let names = &ctx.settings.pull_secrets;
        if names.is_empty() {
            return Ok(None);
        }
        let (read, failure) = read_pull_secrets(&ctx.io, &ctx.settings.backups.namespace, names).await;
        let all_there = read.values().all(|secret| matches!(secret, PullSecret::Found { .. }));
        // What could not be read is as it was. An update, also one that changes nothing, has everything of each tenant read again.
        let known = ctx.meta().pull_secrets.clone();
        if read.iter().any(|(name, seen)| known.get(name) != Some(seen)) {
            ctx.update_meta(|meta| meta.pull_secrets.extend(read));
        }
        failure.map_or(Ok(Some(if all_there { EVERY } else { Self::AGAIN })), Err)
    }

    fn failed(error: &IoError, is_new: bool) {
        if is_new {
            tracing::warn!(%error, "cannot read a Secret with which tenants' pods pull images (chart value tenants.pullSecrets)");
        }
    }
}
