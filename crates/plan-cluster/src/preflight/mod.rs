//! What stands in the way of the next minor: before it begins, and as `UpgradeReady` while nobody asks for it.
//!
//! All findings at once. What could not be looked at stands in the way, too.

mod apis;
mod flags;
mod request;

use super::Input;
use super::record::{Pin, pin};
use super::release;
use super::subject::Tenant;
use berth_api::cluster::Check;
use berth_api::conditions::{self, ConditionType, Reason, Verdict};
use berth_api::version::{Minor, Version};
use berth_plan::asked::{Facts, Look};
use berth_plan::observed::{ApiProbe, InsideTenant, Nodes};
use berth_render::Catalog;

pub use request::{LookRequest, answers_request, look_request};

/// Kubelets may be so many minors older than the API servers.
const KUBELET_SKEW: i64 = 3;

/// So many names fit a message.
const NAMES: usize = 5;

/// Something that stands in the way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Finding {
    /// None: nobody can skip it, since it cannot work.
    pub(super) check: Option<Check>,
    /// The object or field, what is wrong with it, and the way out.
    pub(super) message: String,
}

/// All that stands in the way from `running` to a version of `target`, but for what the spec skips.
pub(super) fn findings(t: &Tenant<'_>, running: Version, target: Minor) -> Vec<Finding> {
    let facts = match &t.observed.look {
        Look::Taken(facts) => Some(&**facts),
        Look::NotYet | Look::Elsewhere => None,
    };
    let of = |check| move |message| Finding { check: Some(check), message };
    let found = facts.into_iter().flat_map(|facts| of_facts(facts, running.minor(), target));
    let mut all: Vec<Finding> = found.collect();
    all.extend(kubelets(t, target).into_iter().map(of(Check::Kubelets)));
    all.extend(etcd(t, target).into_iter().map(of(Check::Etcd)));
    all.extend(flags::refused(&t.cluster.spec).into_iter().map(|message| Finding { check: None, message }));
    all.extend(flags::without_way_back(&t.cluster.spec, facts, running.minor()).into_iter().map(of(Check::Flags)));
    let skipped = &t.cluster.spec.upgrade.skip_checks;
    all.retain(|finding| finding.check.is_none_or(|check| !skipped.contains(&check)));
    all
}

fn of_facts(facts: &Facts, running: Minor, target: Minor) -> Vec<Finding> {
    let all = [
        (Check::ApiServers, apis::servers(facts, running)),
        (Check::RemovedApis, apis::removed(facts, target)),
        (Check::ApiServices, apis::services(facts)),
        (Check::Admission, apis::admission(facts)),
    ];
    let finding = |(check, messages): (Check, Vec<String>)| {
        messages.into_iter().map(move |message| Finding { check: Some(check), message })
    };
    all.into_iter().flat_map(finding).collect()
}

/// All in one sentence, each with the name of its check.
pub(super) fn say(findings: &[Finding]) -> String {
    let one = |finding: &Finding| match finding.check {
        Some(check) => format!("{check}: {}", finding.message),
        None => finding.message.clone(),
    };
    findings.iter().map(one).collect::<Vec<_>>().join("; ")
}

fn kubelets(t: &Tenant<'_>, target: Minor) -> Option<String> {
    let seen = match &t.observed.api {
        ApiProbe::Answered { read: InsideTenant { nodes: Some(nodes), .. }, .. } => Some(nodes.clone()),
        _ => t.status().nodes.map(|count| Nodes { count, ..Nodes::default() }),
    };
    let Some(seen) = seen else { return Some("the tenant's nodes could not be counted, see Available".into()) };
    let newest = seen.newest_kubelet.filter(|newest| target.since(newest.minor()).is_some_and(|skew| skew < 0));
    if let Some(newest) = newest {
        return Some(format!(
            "a node has kubelet {newest}, which is newer than {target}: kubelets may not be newer than the API, so remove that node, or give it an older kubelet"
        ));
    }
    let oldest = seen.count.oldest_kubelet?;
    // Of builds that are no release, such as 1.34.1+k3s1, the minor counts.
    let minor: Option<Minor> = oldest
        .rsplit_once('.')
        .filter(|(minor, _)| minor.matches('.').count() == 1)
        .and_then(|(minor, _)| minor.parse().ok());
    match minor.map(|minor| target.since(minor)) {
        Some(Some(skew)) if skew > KUBELET_SKEW => Some(format!(
            "status.nodes.oldestKubelet is {oldest}, more than three minor versions older: upgrade the kubelets of the nodes first"
        )),
        Some(Some(skew)) if skew < 0 => Some(format!(
            "status.nodes.oldestKubelet is {oldest}, which is newer: kubelets may not be newer than the API"
        )),
        Some(Some(_)) => None,
        _ => Some(format!("status.nodes.oldestKubelet is {oldest}, which is no version of Kubernetes")),
    }
}

fn etcd(t: &Tenant<'_>, target: Minor) -> Vec<String> {
    let Some(etcd) = &t.etcd else { return vec!["EtcdCluster etcd could not be read".into()] };
    let supported = Catalog::builtin().kubernetes(target).map(|set| set.etcd_minors().to_vec());
    let supported = supported.unwrap_or_default();
    let status = etcd.status.clone().unwrap_or_default();
    let mut all = [Some(&etcd.spec.version), status.version.as_ref()].into_iter().flatten();
    let fits = |version: &&String| version.parse().is_ok_and(|runs: Version| supported.contains(&runs.minor()));
    let unfit = all.rfind(|version| !fits(version)).map(|runs| {
        let supported = Minor::list(&supported);
        format!(
            "etcd runs {runs}, and {target} needs {supported}: set spec.etcd.version first, one minor version at a time"
        )
    });
    let says = |type_, bad| conditions::find(&status.conditions, type_).filter(move |c| c.status == bad);
    let unwell = says(ConditionType::Available, "False").or_else(|| says(ConditionType::Degraded, "True"));
    let unwell =
        unwell.map(|c| format!("EtcdCluster etcd is not well ({}): {}", c.reason, c.message.trim_end_matches('.')));
    unfit.into_iter().chain(unwell).collect()
}

/// The minor that comes next, if this build has it and the tenant is on its way to none.
fn next(t: &Tenant<'_>) -> Option<(Pin, Minor)> {
    let live = t.live_namespace().filter(|live| release::is_at_rest(live))?;
    let runs = pin(live)?;
    let next = runs.version.minor().next();
    Catalog::builtin().kubernetes(next).map(|_| (runs, next))
}

/// `UpgradeReady`. None: there is no next minor.
pub(super) fn verdict(input: Input<'_>) -> Option<Verdict> {
    const TYPE: ConditionType = ConditionType::UpgradeReady;
    if input.object.metadata.deletion_timestamp.is_some() || input.observed.denied {
        return None;
    }
    let t = Tenant::new(input);
    let (runs, target) = next(&t)?;
    if !matches!(t.observed.look, Look::Taken(_)) {
        let old = t.status().conditions;
        // It is of what runs, and stays as it is while the operator cannot look.
        let Some(old) = conditions::find(&old, TYPE) else {
            let message = format!("what stands in the way of {target} is looked at once the tenant is Ready");
            return Some(Verdict::new(TYPE, None, Reason::NotYetObserved, message));
        };
        let status = match &*old.status {
            "True" => Some(true),
            "False" => Some(false),
            _ => None,
        };
        return Some(Verdict::new(TYPE, status, old.reason.parse().unwrap_or(Reason::Error), old.message.clone()));
    }
    let findings = findings(&t, runs.version, target);
    let skipped: Vec<String> = t.cluster.spec.upgrade.skip_checks.iter().map(ToString::to_string).collect();
    let skipped = match skipped.as_slice() {
        [] => String::new(),
        all => format!(", but for {} (spec.upgrade.skipChecks)", all.join(", ")),
    };
    Some(if findings.is_empty() {
        let message = format!("nothing that Berth looks at stands in the way of {target}{skipped}");
        Verdict::new(TYPE, Some(true), Reason::AsExpected, message)
    } else {
        Verdict::new(TYPE, Some(false), Reason::UpgradeBlocked, format!("for {target}: {}", say(&findings)))
    })
}
