//! What API servers said.

use berth_api::text::TenantText;
use berth_api::version::Minor;
use berth_plan::asked::{Facts, Server};
use std::collections::BTreeMap;

/// So many names fit a message.
const NAMES: usize = 5;

/// Some of many, and how many more there are.
fn some(all: &[String]) -> String {
    let more = all.len().saturating_sub(NAMES);
    let shown = all.iter().take(NAMES).cloned().collect::<Vec<_>>().join(", ");
    if more > 0 { format!("{shown} and {more} more") } else { shown }
}

fn asked(facts: &Facts) -> impl Iterator<Item = (&String, &Server)> {
    facts.servers.iter().filter_map(|(pod, said)| Some((pod, said.as_ref().ok()?)))
}

pub(super) fn servers(facts: &Facts, running: Minor) -> Vec<String> {
    if facts.servers.is_empty() {
        return vec!["no pod of kube-apiserver was ready at the last check".into()];
    }
    let one = |(pod, said): (&String, &Result<Server, TenantText>)| match said {
        Err(why) => Some(format!("pod {pod} could not be asked: {why}")),
        Ok(Server { unwell: Some(why), .. }) => Some(format!("pod {pod} is not well: {why}")),
        Ok(Server { version, .. }) => {
            let emulates = version.emulates.map(|minor| format!(", emulating {minor}")).unwrap_or_default();
            (minor_of(&version.version) != Some(running) || version.emulates.is_some()).then(|| {
                format!(
                    "pod {pod} reports {}{emulates}, and {running} is expected: delete the pod if that lasts",
                    version.version
                )
            })
        }
    };
    facts.servers.iter().filter_map(one).collect()
}

/// Of builds that are no release, such as `1.34.1+k3s1`, too.
pub(super) fn minor_of(version: &str) -> Option<Minor> {
    let mut parts = version.split('.');
    format!("{}.{}", parts.next()?, parts.next()?).parse().ok()
}

pub(super) fn removed(facts: &Facts, target: Minor) -> Vec<String> {
    let mut used: BTreeMap<String, Minor> = BTreeMap::new();
    for (_, server) in asked(facts) {
        let gone = server.metrics.deprecated.iter().filter(|api| api.removed_in <= target);
        used.extend(gone.map(|api| (format!("{} {}", api.group_version, api.resource), api.removed_in)));
    }
    let used: Vec<String> = used.into_iter().map(|(api, gone)| format!("{api} (until {gone})")).collect();
    if used.is_empty() {
        return vec![];
    }
    vec![format!(
        "clients use APIs that {target} does not have: {}. Move them to newer versions of these APIs; the audit log names them. Then delete the pods of kube-apiserver one by one: each remembers until its restart",
        some(&used)
    )]
}

pub(super) fn services(facts: &Facts) -> Vec<String> {
    match &facts.services_down {
        Err(why) => vec![format!("APIServices could not be listed: {why}")],
        Ok(down) if down.is_empty() => vec![],
        Ok(down) => {
            let all: Vec<String> = down.iter().map(|(name, why)| format!("{name} ({why})")).collect();
            vec![format!(
                "APIService {} in the tenant is not available: repair what serves it, or delete it",
                some(&all)
            )]
        }
    }
}

pub(super) fn admission(facts: &Facts) -> Vec<String> {
    let Err(why) = &facts.admission else { return vec![] };
    vec![format!(
        "a ClusterRole could not be created in the tenant, in a dry run: {why}. A new API server writes its own, and ends without them: correct or delete the webhook or admission policy"
    )]
}
