//! Tenants of several versions, and what each has to do.

use anyhow::{Result, ensure};
use serde_json::json;

use crate::{Tenant, World, core, until};

/// The newest Kubernetes that tenants may run, as `spec.version` has it.
pub const NEWEST: &str = "1.36.3";
/// The patch release before [`NEWEST`].
pub const PREVIOUS_PATCH: &str = "1.36.2";
/// The oldest Kubernetes that tenants may run, as `spec.version` has it.
pub const OLDEST: &str = "1.34.4";

/// A tenant of these versions, with so many members of etcd.
pub fn of<'w>(world: &'w World, name: &'w str, version: &str, etcd: &str, members: u32) -> Result<Tenant<'w>> {
    Tenant::create(world, name, &json!({"version": version, "etcd": {"version": etcd, "replicas": members}}))
}

/// Every member and every component does what it is there for, and none was started again.
pub fn works(tenant: &Tenant<'_>, version: &str, etcd: &str, members: u32) -> Result<()> {
    let cluster = tenant.wait_ready()?;
    ensure!(cluster["status"]["version"] == version, "{}", cluster["status"]);
    let status = &tenant.etcd()?["status"];
    ensure!(status["version"] == etcd && status["readyMembers"] == format!("{members}/{members}"), "{status}");
    let api = tenant.api()?;
    ensure!(api.get("/version")?["gitVersion"] == format!("v{version}"));
    // The controller-manager works.
    until("the service account of the namespace default", || {
        api.get(&format!("{}/default", core("default", "serviceaccounts")))
    })?;
    tenant.scheduler_works()?;
    tenant.nothing_restarted()
}
