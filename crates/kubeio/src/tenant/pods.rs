//! Why pods of add-ons do not serve.

use crate::calls::{Io, encode};
use crate::error::IoError;
use berth_api::text::TenantText;
use berth_plan::workload::why_not as why;

/// Pods that are read: what keeps one from serving mostly keeps all. One has some 8 KiB.
const PAGE: usize = 16;

/// What is said of them, at the most.
const LONGEST: usize = 300;

/// What the first of those pods in `kube-system` says that does not serve. None: those that were read serve.
pub(super) async fn why_not(tenant: &Io, app: &str) -> Result<Option<TenantText>, IoError> {
    let selector = encode(&format!("k8s-app={app}"));
    let url = format!("/api/v1/namespaces/kube-system/pods?labelSelector={selector}&limit={PAGE}");
    let list = tenant.raw(&url).await?;
    let pods = list["items"].as_array().into_iter().flatten();
    Ok(why(pods).map(|why| TenantText::of(&why, LONGEST)))
}
