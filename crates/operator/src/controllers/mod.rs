//! The controllers. A row in [`ALL`] runs one and counts it in metrics.

mod app;
mod app_installation;
mod cluster;
mod driver;
mod etcd_backup;
mod etcd_backup_schedule;
mod etcd_cluster;
mod etcd_restore;
mod idle;
mod report;
mod status_changes;
#[cfg(test)]
mod tests;
mod watches;

use crate::context::Context;
use berth_api::{App, AppInstallation, Cluster, EtcdBackup, EtcdBackupSchedule, EtcdCluster, EtcdRestore};
use berth_render::Kind;
use driver::Controller;
use futures::future::BoxFuture;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
pub(crate) use watches::Backoff;

/// One controller of the operator.
#[derive(Debug)]
pub struct Row {
    /// Its name in metrics and logs.
    pub name: &'static str,
    /// The kind that it reconciles.
    pub kind: Kind,
    run: fn(Arc<Context>, CancellationToken) -> BoxFuture<'static, ()>,
}

/// All of them.
pub const ALL: &[Row] = &[
    row::<Cluster>(),
    row::<EtcdCluster>(),
    row::<EtcdBackup>(),
    row::<EtcdBackupSchedule>(),
    row::<EtcdRestore>(),
    row::<App>(),
    row::<AppInstallation>(),
];

const fn row<C: Controller>() -> Row {
    Row { name: C::NAME, kind: C::KIND, run: |ctx, stop| Box::pin(driver::run::<C>(ctx, stop)) }
}

impl Row {
    /// Runs until `stop`; reconciles that are under way end first.
    pub fn run(&self, ctx: Arc<Context>, stop: CancellationToken) -> BoxFuture<'static, ()> {
        (self.run)(ctx, stop)
    }
}
