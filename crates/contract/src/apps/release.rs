//! Which release a Job is for.

use serde::{Deserialize, Serialize};

/// A release, and whose it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Release {
    /// Its name.
    pub name: String,
    /// Its namespace in the tenant.
    pub namespace: String,
    /// Name of the `AppInstallation`.
    pub installation: String,
    /// How long Helm may take for one step, in seconds.
    pub timeout: i64,
    /// A release of that name, and objects of its, are taken over, whoever made them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub adopt: bool,
    /// What was deployed last. None: nobody knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recorded: Option<Recorded>,
}

/// What Berth deployed, on its own record: Helm's is in the tenant, where others may write it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Recorded {
    /// Helm's revision.
    pub revision: i64,
    /// SHA-256 of what Helm goes by of that revision, in hexadecimal: its manifest, and its hooks.
    pub manifest_digest: String,
    /// SHA-256 of the chart's archive.
    pub chart_digest: String,
    /// SHA-256 of all values, and of those of Secrets by their digests.
    pub values_digest: String,
}

/// How long one call of Helm may take, in seconds: hooks before, objects, and hooks after have `timeout` each.
pub fn longest_call(timeout: i64) -> i64 {
    timeout.saturating_mul(3).saturating_add(60)
}

/// How long a Job may take with all its tries, in seconds. What rolls back does all of it twice.
pub fn longest_job(timeout: i64, roll_back: bool) -> i64 {
    /// For the chart, and for tries that end soon.
    const MORE: i64 = 1800;
    const SHORTEST: i64 = 3000;
    let calls = if roll_back { 2 } else { 1 };
    longest_call(timeout).saturating_mul(calls).saturating_add(MORE).max(SHORTEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_has_the_time_of_all_that_helm_may_take() {
        assert_eq!((longest_call(300), longest_job(300, false)), (960, 3000));
        for timeout in [10, 300, 1200] {
            assert!(longest_job(timeout, false) > longest_call(timeout));
            assert!(longest_job(timeout, true) > 2 * longest_call(timeout));
        }
    }
}
