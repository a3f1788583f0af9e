//! What the operator does for all tenants at once, beside the reconciles of single objects: one pass after the other, while the process
//! leads. A [`FleetTask`] says only what differs.

use crate::context::Context;
use crate::panics::catch_panic;
use crate::pull_secrets::ReadPullSecrets;
use crate::sizes::FollowUsage;
use crate::sweep::SweepJobs;
use crate::turns::GiveTurns;
use berth_kubeio::IoError;
use std::time::Duration;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// A task for the whole fleet. A pass may be the last one before the process ends, and the next one may be another process's.
pub(crate) trait FleetTask {
    /// When the first pass is, and the next one after a failure, if there is no news.
    const AGAIN: Duration;

    /// Ends once there is something to look at. Default: never.
    fn news(_ctx: &Context) -> impl Future<Output = ()> + Send {
        std::future::pending()
    }

    /// One pass. Ok: when the next one is without news; None: not without.
    fn pass(ctx: &Context) -> impl Future<Output = Result<Option<Duration>, IoError>> + Send;

    /// A pass failed. `is_new`: not as the one before.
    fn failed(error: &IoError, is_new: bool);
}

/// Runs all tasks until `stop`, and does not end before.
pub(crate) async fn run_all(ctx: &Context, stop: &CancellationToken) {
    tokio::join!(
        run::<GiveTurns>(ctx, stop),
        run::<SweepJobs>(ctx, stop),
        run::<ReadPullSecrets>(ctx, stop),
        run::<FollowUsage>(ctx, stop),
    );
}

async fn run<T: FleetTask>(ctx: &Context, stop: &CancellationToken) {
    let mut again = Some(T::AGAIN);
    let mut said = String::new();
    loop {
        let pause = async {
            match again {
                Some(again) => drop(timeout(again, T::news(ctx)).await),
                None => T::news(ctx).await,
            }
        };
        tokio::select! { () = pause => (), () = stop.cancelled() => return }
        again = match catch_panic(T::pass(ctx)).await {
            Ok(again) => {
                said.clear();
                again
            }
            Err(error) => {
                ctx.failed(&error);
                let text = error.to_string();
                T::failed(&error, said != text);
                said = text;
                Some(T::AGAIN)
            }
        };
    }
}
