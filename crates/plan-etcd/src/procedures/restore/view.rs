//! What a decision about a restore is made from, as it was observed.

use super::decide::RestoreView;
use crate::health::Health;
use crate::subject::Subject;
use berth_api::etcd_bootstrap::BootstrapState;
use berth_api::etcd_cluster::EtcdCluster;
use berth_api::restore::RestoreRequest;
use berth_api::{labels, names};
use berth_plan::run_level;
use berth_render::{Binary, Kind};
use kube_core::ResourceExt;

/// What an `EtcdRestore` asks of it.
pub(crate) fn request(etcd: &EtcdCluster) -> Option<RestoreRequest> {
    serde_json::from_str(etcd.annotations().get(labels::RESTORE_REQUEST)?).ok()
}

/// The view of a reconcile.
pub(crate) fn view_restore<'a>(
    s: &'a Subject<'_>,
    health: &Health,
    request: Option<&'a RestoreRequest>,
) -> RestoreView<'a> {
    RestoreView {
        now: s.now,
        request,
        is_formed: s.record.bootstrap.state == BootstrapState::Established,
        obstacle: obstacle(s),
        clients_stopped: s.etcd.spec.clients_stopped,
        has_cluster: berth_plan::etcd_home::is_tenants(s.etcd),
        serves: health.quorum == Some(true),
        is_down: is_down(s),
        is_up: health.all_ready() && health.cluster_id.is_some(),
        target: names::etcd::member(s.name, 0),
        record: &s.record,
    }
}

/// The StatefulSet's controller knows that there are to be none.
pub(crate) fn is_down(s: &Subject<'_>) -> bool {
    let set = s.get(Kind::StatefulSet, s.name);
    s.children(Kind::Pod).next().is_none() && set.is_none_or(run_level::has_stopped)
}

/// Volumes of other members hold what must not run again, and the guards of earlier builds do not set it aside.
fn obstacle(s: &Subject<'_>) -> Option<String> {
    let sets_aside = s.templates().is_none_or(|set| set.reads(Binary::Etcd.folder(), "restored"));
    let claims = s.children(Kind::PersistentVolumeClaim).map(|(key, _)| key.name.clone());
    let ordinal = |claim: &String| names::etcd::ordinal(s.name, claim.strip_prefix("data-")?);
    let others: Vec<_> = claims.filter(|claim| ordinal(claim).is_some_and(|ordinal| ordinal > 0)).collect();
    (!sets_aside && !others.is_empty()).then(|| {
        format!(
            "this etcd is of an earlier Berth, whose agent sets no old data aside, so it is not restored with volumes of other members ({}). Set spec.replicas (spec.etcd.replicas of its Cluster) to 1 first",
            others.join(", ")
        )
    })
}
