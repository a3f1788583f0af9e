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
}
