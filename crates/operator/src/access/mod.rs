//! Signs for `berth-access`, which is one login for all tenants: connects to each of its replicas, and answers what they ask. Nothing but the Leases of
//! these two is written, and tenants that were let in go on without the operator for hours.

mod speak;

use crate::context::Context;
use crate::link::{self, Program};
use berth_api::access::{ACCESS, ADDRESS, CERTIFICATE, LABEL, LONGEST, OPERATOR};
use berth_edge::link::Names;
use tokio_util::sync::CancellationToken;

/// By what they find each other.
const NAMES: Names = Names {
    program: ACCESS,
    label: LABEL,
    address: ADDRESS,
    certificate: CERTIFICATE,
    operator: OPERATOR,
    longest: LONGEST,
};

/// For as long as this process leads. Without `access` in the configuration it has nothing to do.
pub(crate) async fn run(ctx: &Context, stop: &CancellationToken) {
    let Some(access) = &ctx.settings.access else { return };
    let program = Program { names: NAMES, name: ACCESS, namespace: access.namespace.clone() };
    link::run(ctx, stop, program, |ctx, _, lines| async move { speak::speak(&ctx, lines).await }).await;
}
