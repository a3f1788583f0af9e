//! What stands in the way of the next minor.

use super::{apis, flags};
use crate::subject::Tenant;
use crate::validate::kubelet;
use berth_api::cluster::Check;
use berth_api::conditions::{self, ConditionType};
use berth_api::version::{Minor, Version};
use berth_plan::asked::{Facts, Look};
use berth_plan::observed::{ApiProbe, InsideTenant, Nodes};
use berth_render::Catalog;

/// Kubelets may be so many minors older than the API servers.
const KUBELET_SKEW: i64 = 3;

/// Something that stands in the way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    /// None: nobody can skip it, since it cannot work.
    pub(crate) check: Option<Check>,
    /// The object or field, what is wrong with it, and the way out.
    pub(crate) message: String,
}

/// All that stands in the way from `running` to a version of `target`, but for what the spec skips.
pub(crate) fn findings(t: &Tenant<'_>, running: Version, target: Minor) -> Vec<Finding> {
    let facts = match &t.observed.look {
        Look::Taken(facts) => Some(&**facts),
        Look::NotYet | Look::Elsewhere => None,
    };
    let of = |check| move |message| Finding { check: Some(check), message };
    let found = facts.into_iter().flat_map(|facts| of_facts(facts, running.minor(), target));
    let mut all: Vec<Finding> = found.collect();
    all.extend(kubelets(t, target).into_iter().map(of(Check::Kubelets)));
    let told = kubelet::refusal_by_next(&t.cluster.spec.kubelet.config, target);
    all.extend(told.into_iter().map(of(Check::Kubelets)));
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
pub(crate) fn say(findings: &[Finding]) -> String {
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
    match apis::minor_of(&oldest).map(|minor| target.since(minor)) {
        Some(Some(skew)) if skew > KUBELET_SKEW => Some(format!(
            "status.nodes.oldestKubelet is {oldest}, more than three minor versions older: upgrade the kubelets of the nodes first"
        )),
        Some(Some(skew)) if skew < 0 => Some(format!(
            "status.nodes.oldestKubelet is {oldest}, which is newer: kubelets may not be newer than the API"
        )),
        Some(Some(_)) => None,
        _ => Some(format!("status.nodes.oldestKubelet is no Kubernetes version: {oldest}")),
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
