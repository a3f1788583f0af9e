//! The ConfigMap, the StatefulSet and the PodDisruptionBudget of the members.

use crate::health::{self, Health};
use crate::procedures::{growth, upgrade, upkeep};
use crate::subject::Subject;
use crate::{room, services, validate};
use berth_api::etcd_bootstrap::{Bootstrap, MemberRecord, MemberStage};
use berth_api::etcd_tuning::milliseconds;
use berth_api::{labels, names};
use berth_plan::digest::sha256;
use berth_plan::etcd_home::keep_old_data;
use berth_plan::objects::diff::differs;
use berth_plan::{State, workload};
use berth_render::values::{EtcdSecrets, EtcdStorage, EtcdValues, HostAlias, Workload};
use berth_render::{Binary, Kind, Object, render_etcd};
use std::collections::BTreeMap;

/// Of 3.6; that of 3.5 (100000) doubles the memory.
const SNAPSHOT_COUNT: i64 = 10_000;

/// The ConfigMap, the StatefulSet and the PodDisruptionBudget, or what is missing for them.
pub(super) fn objects(s: &Subject<'_>, health: &Health) -> Result<Vec<Object>, State> {
    let templates = s.templates_of(&s.record.rendered()).ok_or_else(|| State::waiting("the pinned templates"))?;
    validate::resources(&s.etcd.spec)?;
    validate::timing(&s.etcd.spec)?;
    let mut record = s.record.clone();
    record.bootstrap.state = health::bootstrap_state(s, health);
    record.bootstrap.joined = health::joined(s, health);
    let Bootstrap { cluster_uid, epoch, state, restored, joined, serial, members, .. } = record.bootstrap.clone();
    let values = EtcdValues {
        meta: s.meta(),
        workload: process(s)?,
        name: s.name.to_owned(),
        cluster_uid,
        epoch,
        state,
        restored,
        joined,
        serial,
        journal: members,
        members: s.members(),
        storage: EtcdStorage { class_name: s.etcd.spec.storage.class_name.clone(), size: growth::of_template(s) },
        quota_bytes: upkeep::rendered_quota(s),
        heartbeat_ms: s.etcd.spec.heartbeat_interval.as_deref().and_then(milliseconds),
        election_ms: s.etcd.spec.election_timeout.as_deref().and_then(milliseconds),
        snapshot_count: s.etcd.spec.snapshot_count.unwrap_or(SNAPSHOT_COUNT),
        keep_old_data: keep_old_data(&s.etcd.spec).as_secs(),
        secrets: EtcdSecrets { server: names::etcd::server(s.name), peer: names::etcd::peer(s.name) },
    };
    let rendered = render_etcd(templates, &values)?;
    let note = record.to_json();
    let recorded = |o: Object| match o.key().kind {
        Kind::StatefulSet | Kind::ConfigMap => o.with_annotation(labels::ETCD_RECORD, &note),
        _ => o,
    };
    let noted = |o: Object| workload::with_registry_annotation(o, &s.etcd.spec.images, Binary::Etcd);
    Ok(rendered
        .into_iter()
        .map(recorded)
        .map(noted)
        .map(|o| undisturbed(s, o))
        .map(|o| room::with_room(s, o))
        .map(|o| upgrade::partitioned(s, o))
        .collect())
}

/// Whether the API server has them all.
pub(crate) fn are_applied(s: &Subject<'_>, health: &Health) -> bool {
    let may = &s.observed.meta.may_change;
    let has = |o: &Object| s.observed.get(o.key()).is_some_and(|live| !differs(live, o, may));
    objects(s, health).is_ok_and(|objects| objects.iter().all(has))
}

/// While two members vote neither can be spared, whatever the template says.
fn undisturbed(s: &Subject<'_>, object: Object) -> Object {
    let votes = |m: &&MemberRecord| matches!(m.stage, MemberStage::Voter | MemberStage::Leaving) && !m.id.is_empty();
    let voters = s.record.bootstrap.members.iter().filter(votes).count();
    if object.key().kind != Kind::PodDisruptionBudget || voters != 2 {
        return object;
    }
    object.with("/spec/maxUnavailable", 0.into())
}

fn process(s: &Subject<'_>) -> Result<Workload, State> {
    let addresses = services::aliases(s).ok_or_else(|| State::waiting("addresses of the members' Services"))?;
    let alias = |(member, address): &(String, std::net::IpAddr)| HostAlias {
        ip: address.to_string(),
        hostnames: vec![services::host(member, s.namespace)],
    };
    let pods = s.children(Kind::Pod);
    let live = s.get(Kind::StatefulSet, s.name).filter(|live| !workload::lacks_its_image(live, pods));
    let asked = &s.etcd.spec.images;
    let release = s.record.rendered();
    let component = (Binary::Etcd, release.version);
    let (image, agent_image) = workload::images(live, asked, &s.settings.registry, component, &release.agent_image);
    Ok(Workload {
        replicas: s.record.replicas,
        version: release.version,
        image,
        agent_image,
        image_pull_secrets: asked.pull_secrets.clone(),
        agent_delivery: release.agent_delivery,
        run_as_user: run_as_user(s),
        resources: s.etcd.spec.resources.clone(),
        helpers: workload::helpers(release.helper_resources.as_ref(), s.etcd.spec.helpers.resources.as_ref()),
        placement: s.etcd.spec.placement.clone(),
        host_aliases: addresses.iter().map(alias).collect(),
        checksums: checksums(s).ok_or_else(|| State::waiting("the Secrets with the CAs"))?,
        ..Workload::default()
    })
}

/// etcd reads certificates at every handshake, but CAs only when it starts. What the members' own Secrets hold counts too,
/// so that the members can be looked after while a CA's Secret is missing or broken; that must not roll them.
fn checksums(s: &Subject<'_>) -> Option<BTreeMap<String, String>> {
    let digest = |secret: String, key: &str| s.observed.secrets.get(&s.secret(secret))?.digests.get(key).cloned();
    let sum = |name: &str, ca: String, leaf: String| {
        let whole = s.observed.root(&s.secret(ca.clone())).is_some();
        let found = whole.then(|| digest(ca, "tls.crt")).flatten().or_else(|| digest(leaf, "ca.crt"))?;
        Some((name.to_owned(), found.chars().take(16).collect()))
    };
    [
        sum("client-ca", names::etcd::client_ca(s.name), names::etcd::server(s.name)),
        sum("peer-ca", names::etcd::peer_ca(s.name), names::etcd::peer(s.name)),
    ]
    .into_iter()
    .collect()
}

/// UID of the processes and owner of the files: from the name, so that clusters differ and that none ever changes.
fn run_as_user(s: &Subject<'_>) -> i64 {
    let hash = sha256(format!("{}/{}", s.namespace, s.name).as_bytes());
    100_000 + hash.get(..8).and_then(|h| i64::from_str_radix(h, 16).ok()).unwrap_or_default() % 1_000_000
}
