//! What is refused of a spec: one table, for the plan and for whoever has to know whether a change can begin at all.

use super::networks::{NETWORK_IS_IMMUTABLE, disjoint_from_meta, networks};
use super::{kubelet, new_tenant, vpc, writers};
use crate::endpoint::refused_without_berths;
use crate::isolation::private;
use crate::proxy;
use crate::sleep::wrong_schedules;
use crate::subject::Tenant;
use crate::turn::wrong_window;
use berth_api::conditions::Reason;
use berth_plan::model::State;

/// Which tenants a check is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    /// Those of which nothing is made yet: what an earlier build took keeps running.
    New,
    /// All.
    Always,
}

/// A check of the spec.
struct Check {
    when: When,
    /// What of the spec it is about: a test holds it against the CustomResourceDefinition.
    #[cfg_attr(not(test), expect(dead_code))]
    field: &'static str,
    /// Why it is refused.
    refuses: fn(&Tenant<'_>) -> Option<State>,
}

/// In the order in which people are told.
const CHECKS: &[Check] = &[
    Check { when: When::Always, field: "network", refuses: can_start },
    Check { when: When::New, field: "", refuses: |t| new_tenant(&t.cluster.spec).err() },
    Check { when: When::Always, field: "network.nodeCIDRs", refuses: private::refusal },
    Check { when: When::Always, field: "proxy", refuses: proxy::refusal },
    Check { when: When::Always, field: "endpoint.gateway", refuses: refused_without_berths },
    Check {
        when: When::Always,
        field: "deletion.dataPolicy",
        refuses: |t| writers::data_policy(t.cluster.spec.deletion.data_policy, &t.settings.writers).err(),
    },
    // Of a tenant that is there, what its nodes are told stays: the stage inside it says so.
    Check { when: When::New, field: "kubelet.config", refuses: |t| kubelet_config(t).map(invalid) },
    Check { when: When::New, field: "upgrade.window", refuses: |t| wrong_window(t).map(invalid) },
    Check { when: When::New, field: "hibernation.schedules", refuses: |t| wrong_schedules(t).map(invalid) },
    Check {
        when: When::New,
        field: "network",
        refuses: |t| disjoint_from_meta(&t.cluster.spec.network, &t.observed.meta).err(),
    },
    Check { when: When::New, field: "vpc", refuses: |t| vpc::new_tenant(t).err() },
];

/// What is refused first, beside the version, the components and what they may have.
pub(crate) fn refusal(t: &Tenant<'_>) -> Option<State> {
    let is_new = t.is_new();
    CHECKS.iter().filter(|row| is_new || row.when == When::Always).find_map(|row| (row.refuses)(t))
}

fn can_start(t: &Tenant<'_>) -> Option<State> {
    let why = networks(&t.cluster.spec.network).err()?;
    Some(invalid(if t.is_new() { format!("{why}. {NETWORK_IS_IMMUTABLE}") } else { why }))
}

fn kubelet_config(t: &Tenant<'_>) -> Option<String> {
    kubelet::refusal(&t.cluster.spec.kubelet.config, t.cluster.spec.asked_version()?.minor())
}

fn invalid(message: String) -> State {
    State::blocked(Reason::InvalidSpec, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[test]
    fn every_check_is_about_a_field_of_the_spec() {
        let crds = serde_json::to_value(berth_api::crds::all()).unwrap();
        let crd = crds.as_array().unwrap().iter().find(|crd| crd["spec"]["names"]["kind"] == "Cluster").unwrap();
        let spec = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
        for row in CHECKS {
            let names = row.field.split('.').filter(|name| !name.is_empty());
            let found = names.fold(spec, |schema, name| &schema["properties"][name]);
            assert!(*found != Value::Null, "spec.{}", row.field);
        }
    }
}
