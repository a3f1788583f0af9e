//! Tenants that connections wake: the chart's value `hibernation`.

use serde::Deserialize;

/// How many of them may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Hibernation {
    /// Tenants that connections wake at once; others wait for their turn. Default 10.
    pub max_waking: usize,
    /// How often connections wake one tenant within an hour. Default 6.
    pub per_tenant_per_hour: usize,
}

impl Default for Hibernation {
    fn default() -> Self {
        Self { max_waking: 10, per_tenant_per_hour: 6 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Config;

    #[test]
    fn what_is_not_set_has_a_default() {
        let read = |text: &str| Config::parse(text).map(|config| config.hibernation);
        assert_eq!(read("{}"), Ok(Hibernation { max_waking: 10, per_tenant_per_hour: 6 }));
        let both = read("hibernation: {maxWaking: 0, perTenantPerHour: 2}");
        assert_eq!(both, Ok(Hibernation { max_waking: 0, per_tenant_per_hour: 2 }));
        assert!(read("hibernation: {maxWaking: -1}").is_err());
    }
}
