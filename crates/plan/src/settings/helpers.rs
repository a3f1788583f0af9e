//! What containers beside the components get where the spec says nothing: the chart's value `helpers`.

use berth_api::common::Resources;
use berth_api::helpers::{self, Amounts};
use berth_api::quantity;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// Longest record of it: it is part of annotations.
const LONGEST: usize = 1024;

/// The platform's default of `spec.helpers`. Default: nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HelperDefaults {
    /// Of containers beside the components. A tenant keeps what it was when it took its version.
    pub resources: Option<Amounts>,
    /// Of the containers of Jobs.
    pub jobs: Option<Amounts>,
}

/// As the file has it.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct OfFile {
    resources: Given,
    jobs: Jobs,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Jobs {
    resources: Given,
}

/// Quantities may be written as numbers.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Given {
    limits: BTreeMap<String, Value>,
    requests: BTreeMap<String, Value>,
}

impl OfFile {
    pub(super) fn read(self) -> Result<HelperDefaults, String> {
        let Self { resources, jobs: Jobs { resources: of_jobs } } = self;
        Ok(HelperDefaults {
            resources: resources.read("helpers.resources")?,
            jobs: of_jobs.read("helpers.jobs.resources")?,
        })
    }
}

impl Given {
    fn read(self, field: &str) -> Result<Option<Amounts>, String> {
        let all = |of: &str, all: BTreeMap<String, Value>| {
            let one = |(name, value): (String, Value)| {
                let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                let is_name = |c: u8| c.is_ascii_alphanumeric() || b"-_./".contains(&c);
                if name.is_empty() || !name.bytes().all(is_name) {
                    return Err(format!("{field}.{of}: {name:?} is not the name of a resource, such as cpu"));
                }
                if !quantity::is_one(&text) || text.len() > helpers::LONGEST {
                    return Err(format!(
                        "{field}.{of}.{name}: {text} is not a quantity of Kubernetes, such as 100m or 64Mi"
                    ));
                }
                Ok((name, text))
            };
            all.into_iter().map(one).collect::<Result<BTreeMap<_, _>, _>>()
        };
        let amounts = Amounts { limits: all("limits", self.limits)?, requests: all("requests", self.requests)? };
        if let Some(why) = quantity::beyond_limit(&Resources::from(&amounts)) {
            return Err([field, &why].join(": "));
        }
        let most = amounts.limits.len().max(amounts.requests.len());
        if most > helpers::MOST || amounts.to_json().len() > LONGEST {
            return Err(format!(
                "{field}: it has more than {} resources, or {LONGEST} bytes. Remove some",
                helpers::MOST
            ));
        }
        Ok(amounts.given())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(file: Value) -> Result<HelperDefaults, String> {
        serde_json::from_value::<OfFile>(file).unwrap().read()
    }

    #[test]
    fn what_the_chart_gives_is_read_or_refused_by_its_field() {
        assert_eq!(read(json!({})), Ok(HelperDefaults::default()));
        assert_eq!(
            read(json!({"resources": {}, "jobs": {"resources": {"limits": {}}}})),
            Ok(HelperDefaults::default())
        );
        let given = read(json!({"resources": {"limits": {"cpu": 1}, "requests": {"cpu": "50m"}}})).unwrap();
        assert_eq!(given.resources.unwrap().to_json(), r#"{"limits":{"cpu":"1"},"requests":{"cpu":"50m"}}"#);
        let many: Value = (0..64)
            .map(|n| (format!("example.com/resource-{n}"), json!("1")))
            .collect::<serde_json::Map<_, _>>()
            .into();
        for (file, says) in [
            (
                json!({"resources": {"limits": {"memory": "64MB"}}}),
                "helpers.resources.limits.memory: 64MB is not a quantity",
            ),
            (
                json!({"jobs": {"resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}}}),
                "helpers.jobs.resources: requests.cpu is 2",
            ),
            (json!({"resources": {"requests": many}}), "helpers.resources: it has more than 16 resources"),
            (json!({"resources": {"limits": {"a b": 1}}}), "helpers.resources.limits: \"a b\" is not the name"),
        ] {
            let refusal = read(file).unwrap_err();
            assert!(refusal.starts_with(says), "{refusal}");
        }
    }
}
