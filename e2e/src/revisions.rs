//! What became of releases, and whose pods run.

use anyhow::{Result, ensure};
use serde_json::Value;

use crate::{Tenant, until};

/// Waits until the record of a release says that.
pub fn outcome(tenant: &Tenant<'_>, revision: i64, outcome: &str) -> Result<()> {
    until(&format!("revision {revision}: {outcome}"), || {
        let history = tenant.cluster()?["status"]["history"].clone();
        let found = history.as_array().into_iter().flatten().find(|r| r["revision"] == revision);
        ensure!(found.is_some_and(|found| found["outcome"] == outcome), "{history}");
        Ok(())
    })
}

/// UIDs of all pods of the control plane, as soon as none of them is on its way out.
pub fn pods_that_stay(tenant: &Tenant<'_>) -> Result<Vec<String>> {
    until("no pod to be ending", || {
        let ends = |pod: &&Value| !pod["metadata"]["deletionTimestamp"].is_null();
        let ending = tenant.pods(None)?.iter().filter(ends).count();
        ensure!(ending == 0, "{ending} end");
        Ok(())
    })?;
    pods(tenant)
}

/// UIDs of all pods of the control plane.
pub fn pods(tenant: &Tenant<'_>) -> Result<Vec<String>> {
    let uid = |pod: &Value| pod["metadata"]["uid"].as_str().map(str::to_owned);
    let mut all: Vec<_> = tenant.pods(None)?.iter().filter_map(uid).collect();
    all.sort();
    Ok(all)
}

/// Waits until the pods that were there run on, and no other is left.
pub fn same_pods(tenant: &Tenant<'_>, before: &[String]) -> Result<()> {
    until("the pods from before, and no other", || {
        let now = pods(tenant)?;
        ensure!(now == before, "{now:?}, not {before:?}");
        Ok(())
    })
}
