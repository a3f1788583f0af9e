//! The stage.

use super::certificates::client;
use super::judge_into;
use super::roots::{roots, roots_in_use};
use crate::audit;
use crate::components::{ALL, Component};
use crate::planned::ClusterPlan;
use crate::subject::Tenant;
use berth_api::names;
use berth_plan::model::{SecretEntry, Stage, StageId, State};
use berth_plan::secrets::SecretSpec;

/// The certificates of every component. None while the names of one are not known.
fn leaves(t: &Tenant<'_>) -> Option<Vec<SecretSpec>> {
    let secret = |name: &str, entries| SecretSpec { key: t.secret(name), type_: "Opaque", labels: t.labels(), entries };
    let of = |c: &&Component| Some(secret(c.secret, (c.certificates)(t)?));
    let approver = secret(names::APPROVER_PKI, vec![approver(t)]);
    ALL.iter().map(of).chain([Some(approver)]).collect()
}

/// Certificate of what approves kubelets' serving certificates. It is not in the controller-manager's Secret: that one's other certificates
/// are not for it.
fn approver(t: &Tenant<'_>) -> SecretEntry {
    let spec = client(names::APPROVER_USER, &[], t.settings.leaf_lifetime);
    SecretEntry::leaf("client", spec, t.secret(names::ca(t.name)))
}

/// The stage.
pub(crate) fn stage(t: &Tenant<'_>, out: &mut ClusterPlan) -> Stage {
    let mut stage = Stage::new(StageId::Pki, State::Ready);
    let in_use = roots_in_use(t);
    let roots = roots(t);
    let leaves = leaves(t);
    if leaves.is_none() {
        stage.state = State::waiting("the API's address, for its certificate");
    }
    for spec in roots.into_iter().chain(leaves.unwrap_or_default()) {
        judge_into(t, &mut stage, out, &spec, in_use.as_deref());
    }
    audit::follow(t, &mut stage, out);
    stage
}
