//! What stands in the way of the next minor, before anything changes. All findings at once; what cannot be looked at stands in the way, too.

use super::seen;
use crate::cluster::components;
use crate::cluster::record::Pin;
use crate::cluster::subject::{Tenant, is_ours};
use crate::model::State;
use crate::observed::{ApiProbe, InsideTenant};
use crate::workload;
use berth_api::conditions::Reason;
use berth_api::version::{Minor, Version};
use berth_render::{Catalog, FLAGS};

/// Kubelets may be so many minors older than the API servers.
const KUBELET_SKEW: i64 = 3;

/// Whether the change may begin.
pub(super) fn judge(t: &Tenant<'_>, old: &Pin, new: &Pin) -> Result<(), State> {
    let findings: Vec<String> = kubelets(t, new).into_iter().chain(etcd(t, new)).chain(flags(t)).collect();
    if !findings.is_empty() {
        return Err(State::blocked(
            Reason::UpgradeBlocked,
            format!(
                "spec.version: {} cannot replace {} yet: {}. Nothing was changed. To stay, set spec.version to {}",
                new.version,
                old.version,
                findings.join("; "),
                old.version
            ),
        ));
    }
    // Not yet is no refusal: what runs is repaired first.
    match unfinished(t, old) {
        Some(on) => Err(State::Waiting { reason: Reason::RollingOut, on }),
        None => Ok(()),
    }
}

fn kubelets(t: &Tenant<'_>, new: &Pin) -> Option<String> {
    let counted = match &t.observed.api {
        ApiProbe::Answered { read: InsideTenant { nodes: Some(nodes), .. }, .. } => Some(nodes.count.clone()),
        _ => t.status().nodes,
    };
    let Some(nodes) = counted else { return Some("the tenant's nodes could not be counted, see Available".into()) };
    let oldest = nodes.oldest_kubelet?;
    // Of builds that are no release, such as 1.34.1+k3s1, the minor counts.
    let minor: Option<Minor> = oldest
        .rsplit_once('.')
        .filter(|(minor, _)| minor.matches('.').count() == 1)
        .and_then(|(minor, _)| minor.parse().ok());
    match minor.map(|minor| new.version.minor().since(minor)) {
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

fn etcd(t: &Tenant<'_>, new: &Pin) -> Option<String> {
    let Some(etcd) = &t.etcd else { return Some("EtcdCluster etcd could not be read".into()) };
    let supported = Catalog::builtin().kubernetes(new.version.minor()).map(|set| set.etcd_minors().to_vec());
    let supported = supported.unwrap_or_default();
    let runs: Option<Version> = etcd.spec.version.parse().ok();
    let fits = runs.is_some_and(|runs| supported.contains(&runs.minor()));
    (!fits).then(|| {
        let (runs, supported) = (&etcd.spec.version, Minor::list(&supported));
        format!(
            "etcd runs {runs}, and {} needs {supported}: Berth cannot change etcd's version yet",
            new.version.minor()
        )
    })
}

/// Arguments of the user that go with no emulation, or leave no way back.
fn flags(t: &Tenant<'_>) -> Vec<String> {
    let spec = &t.cluster.spec;
    let mut findings = vec![];
    for component in components::ALL {
        let (field, own) = (component.field, (component.asked)(spec).extra_args);
        if let Err(why) = berth_render::extra_args(FLAGS, component.binary, spec, own) {
            findings.push(format!("spec.{field}.extraArgs: {why}"));
        }
        let gates = own.iter().filter(|arg| arg.name.replace('_', "-") == "feature-gates");
        let mut gates = gates.flat_map(|arg| arg.value.split(',')).map(|gate| gate.trim().trim_start_matches("kube:"));
        if let Some(gate) = gates.find(|gate| ["AllAlpha=true", "AllBeta=true"].contains(gate)) {
            findings.push(format!(
                "spec.{field}.extraArgs: --feature-gates has {gate}, which is something else in each minor version, so there would be no way back: name single features, or remove it"
            ));
        }
    }
    findings
}

/// What is to be through before.
fn unfinished(t: &Tenant<'_>, old: &Pin) -> Option<String> {
    let before = |what: String| Some(format!("{what}, before the minor version changes"));
    for component in components::ALL {
        let live = t.workloads(component.binary).that(is_ours);
        let is_old =
            live.live().all(|w| workload::version_of(w) == Some(old.version) && workload::emulates(w).is_none());
        if !live.rollout().is_some_and(|rollout| rollout.settled) || !is_old {
            return before(format!("{} to be rolled out", component.name()));
        }
    }
    if seen::answers(t) { None } else { before("the API to answer".into()) }
}
