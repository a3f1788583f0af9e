//! A panic is an error of what panicked.

use berth_kubeio::{ErrorKind, IoError};
use futures::FutureExt;
use std::panic::AssertUnwindSafe;

/// A panic is an error like any other: it is about one object, and others go on. Why is for the log alone, since nobody chose its words.
pub(crate) async fn catch_panic<T>(work: impl Future<Output = Result<T, IoError>>) -> Result<T, IoError> {
    let panic = match AssertUnwindSafe(work).catch_unwind().await {
        Ok(result) => return result,
        Err(panic) => panic,
    };
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    tracing::error!(panic = text.unwrap_or_default(), "a reconcile panicked");
    let message = "panicked: this is a bug in the operator; its log says why".into();
    Err(IoError { kind: ErrorKind::Other, what: "reconcile".into(), message, in_tenant: false })
}
