//! Stage 4: the tenant's `EtcdCluster`.

use super::components::{self, Component, ETCD_CLIENT};
use super::ours::ensure_manifest;
use super::subject::Tenant;
use super::validate::{self, limits, writers};
use berth_api::autoscaling::Mode;
use berth_api::cluster::{DataPolicy, Window};
use berth_api::common::{Images, Layout};
use berth_api::conditions::{self, ConditionType, Reason};
use berth_api::etcd_bootstrap::{BootstrapState, OperationKind};
use berth_api::etcd_cluster::{EtcdClient, EtcdClusterSpec};
use berth_api::hibernation::EtcdHibernation;
use berth_api::version::{Minor, Version};
use berth_api::{Cluster, EtcdCluster, labels, names, quantity};
use berth_plan::model::{Action, Stage, StageId, State};
use berth_plan::object_meta::{self, label};
use berth_plan::workload::{OwnImage, own_image};
use berth_plan::{RunLevel, run_level};
use berth_render::{Catalog, Kind, TemplateSet};
use kube_core::ResourceExt;
use serde_json::{Map, Value, json};

/// The API server, and what takes backups where a store is configured. Another client restarts nothing.
fn clients(t: &Tenant<'_>) -> Vec<EtcdClient> {
    let backup = t.settings.backups.are_enabled().then_some(names::BACKUP_CLIENT);
    [ETCD_CLIENT].into_iter().chain(backup).map(|name| EtcdClient { name: name.into() }).collect()
}

/// The version to run: the one asked for, or the newest that the Kubernetes minor supports.
fn wanted_version(t: &Tenant<'_>) -> Result<Version, State> {
    let Some(asked) = &t.cluster.spec.etcd.version else {
        return t.templates().and_then(TemplateSet::default_etcd).ok_or_else(|| State::waiting("the pinned templates"));
    };
    let supported = t.templates().map(TemplateSet::etcd_minors).unwrap_or_default();
    let known = |v: &Version| supported.contains(&v.minor()) && Catalog::builtin().etcd(v.minor()).is_some();
    asked.parse().ok().filter(known).ok_or_else(|| {
        State::blocked(
            Reason::VersionUnsupported,
            format!(
                "spec.etcd.version: {asked} is not supported with Kubernetes {}. Set a patch version of {}",
                t.pin().version,
                Minor::list(supported)
            ),
        )
    })
}

/// The version, unless the image that the spec names is of none that is to run.
fn fits(t: &Tenant<'_>, live: Option<&EtcdCluster>, runs: Option<Version>, version: Version) -> Result<Version, State> {
    let images = &t.cluster.spec.images;
    let (Some(runs), None) = (runs, &t.cluster.spec.etcd.version) else {
        let is_asked = t.cluster.spec.etcd.version.is_some();
        let field = if is_asked { "spec.etcd.version" } else { "goes with spec.version" };
        return validate::image(images, names::ETCD, version, field).map(|()| version);
    };
    let (to_run, comes) = ahead(t, live, runs);
    match own_image(images, names::ETCD, to_run, comes) {
        OwnImage::Refused => validate::image(images, names::ETCD, comes, "goes with spec.version").map(|()| version),
        OwnImage::Runs | OwnImage::Waits => Ok(version),
    }
}

/// Whether the image that the spec names is of the version that comes: until then what runs keeps its own.
fn image_waits(t: &Tenant<'_>, live: Option<&EtcdCluster>, runs: Version) -> bool {
    let (to_run, comes) = ahead(t, live, runs);
    t.cluster.spec.etcd.version.is_none()
        && own_image(&t.cluster.spec.images, names::ETCD, to_run, comes) == OwnImage::Waits
}

/// What of the images is etcd's: the rest is written down nowhere else.
fn images(all: &Images) -> Images {
    let overrides = all.overrides.iter().filter(|(name, _)| *name == names::ETCD);
    let overrides = overrides.map(|(name, image)| (name.clone(), image.clone())).collect();
    Images { overrides, layout: Layout::Flat, ..all.clone() }
}

/// Whether volumes of that class may be made, or may grow. Those that are there stay, whatever is allowed by now.
fn volumes(t: &Tenant<'_>, live: Option<&EtcdCluster>) -> Result<(), State> {
    let asked = &t.cluster.spec.etcd.storage;
    if live.is_some_and(|live| quantity::is_less(&live.spec.storage.size, &asked.size)) {
        return limits::storage(asked, &t.settings.writers.limits);
    }
    if live.is_some() || t.get(Kind::ConfigMap, &names::etcd::bootstrap(names::ETCD)).is_some() {
        return Ok(());
    }
    writers::storage(asked, &t.settings.writers)?;
    limits::storage(asked, &t.settings.writers.limits)
}

/// The version that runs, or that the data was kept of: the record beside it says so, whatever became of the `EtcdCluster`, which can be
/// recreated, or changed by hand. What no record says is as it is there.
fn running(t: &Tenant<'_>, live: Option<&EtcdCluster>, spec: &EtcdClusterSpec) -> Option<Version> {
    let mut etcd = live.cloned().unwrap_or_else(|| EtcdCluster::new(names::ETCD, spec.clone()));
    etcd.metadata.namespace = Some(t.cp_namespace.clone());
    let recorded = berth_plan_etcd::running(&etcd, t.observed).map(|r| r.version);
    recorded.or_else(|| live?.spec.version.parse().ok())
}

/// What the `Cluster` asks of its etcd.
fn spec_of(t: &Tenant<'_>, wanted: Option<&Version>) -> EtcdClusterSpec {
    let etcd = &t.cluster.spec.etcd;
    EtcdClusterSpec {
        version: wanted.map(Version::to_string).unwrap_or_default(),
        replicas: etcd.replicas,
        storage: etcd.storage.clone(),
        resources: etcd.resources.clone(),
        autoscaling: etcd.autoscaling.clone(),
        shrink_window: shrink_window(t),
        placement: etcd.placement.clone(),
        images: images(&t.cluster.spec.images),
        helpers: t.cluster.spec.helpers.clone(),
        quota_backend_bytes: etcd.quota_backend_bytes,
        heartbeat_interval: etcd.heartbeat_interval.clone(),
        election_timeout: etcd.election_timeout.clone(),
        snapshot_count: etcd.snapshot_count,
        clients: clients(t),
        // The namespace decides; an EtcdCluster that is deleted by mistake must not take the data along.
        data_policy: DataPolicy::Retain,
        paused: t.etcd.as_ref().map_or(!t.acts(), |live| is_paused(t, live)),
        clients_stopped: clients_stopped(t),
        hibernation: EtcdHibernation { enabled: t.sleep.next.level == RunLevel::Down },
        recovery: etcd.recovery,
        keep_old_data: etcd.keep_old_data.clone(),
    }
}

/// When requests of members may become less.
fn shrink_window(t: &Tenant<'_>) -> Option<Window> {
    let Cluster { spec, .. } = t.cluster;
    spec.upgrade.window.clone().filter(|_| spec.etcd.autoscaling.mode == Mode::InPlace)
}

/// What runs is not changed by a wish that cannot be fulfilled; the rest of the spec still is.
fn keep(spec: &mut EtcdClusterSpec, live: &EtcdCluster, is_refused: bool, are_resources_refused: bool) {
    if is_refused {
        spec.storage.clone_from(&live.spec.storage);
        spec.version.clone_from(&live.spec.version);
        spec.placement.clone_from(&live.spec.placement);
        spec.images.clone_from(&live.spec.images);
        spec.replicas = live.spec.replicas;
        spec.heartbeat_interval.clone_from(&live.spec.heartbeat_interval);
        spec.election_timeout.clone_from(&live.spec.election_timeout);
    }
    if are_resources_refused {
        spec.resources.clone_from(&live.spec.resources);
        spec.autoscaling.clone_from(&live.spec.autoscaling);
        spec.helpers.clone_from(&live.spec.helpers);
    }
}

/// The stage.
pub(super) fn stage(t: &Tenant<'_>) -> Stage {
    let mut stage = Stage::new(StageId::Etcd, State::Ready);
    let live = t.etcd.as_ref();
    let etcd = &t.cluster.spec.etcd;
    let policy = &t.settings.writers;
    let resources = validate::resources("etcd", etcd.resources.as_ref()).and_then(|()| {
        limits::component("etcd", ("etcd.replicas", etcd.replicas), etcd.resources.as_ref(), &policy.limits)
    });
    let resources = resources.and_then(|()| validate::helpers(&t.cluster.spec.helpers, &policy.limits));
    let resources = resources.and_then(|()| validate::autoscaling("etcd", &etcd.autoscaling, &policy.limits));
    let allowed = writers::placement("etcd", &etcd.placement, policy)
        .and_then(|()| writers::images(&t.cluster.spec.images, policy))
        .and_then(|()| resources.clone())
        .and_then(|()| validate::etcd_timing(etcd))
        .and_then(|()| volumes(t, live));
    let supported = allowed.clone().and_then(|()| wanted_version(t));
    let mut spec = spec_of(t, supported.as_ref().ok());
    let running = running(t, live, &spec);
    let wanted = supported.and_then(|version| fits(t, live, running, version));
    let unfit = match (live, &running) {
        (Some(_), _) => None,
        (None, Some(_)) => allowed.err(),
        (None, None) => wanted.clone().err(),
    };
    if let Some(state) = unfit {
        stage.owns.push(t.key(Kind::EtcdCluster, names::ETCD));
        stage.state = state;
        return stage;
    }
    if let Some(live) = live {
        spec.storage.class_name.clone_from(&live.spec.storage.class_name);
        keep(&mut spec, live, wanted.is_err(), resources.is_err());
        if running.is_some_and(|runs| image_waits(t, Some(live), runs)) {
            spec.images.overrides.clone_from(&live.spec.images.overrides);
        }
    }
    let mut refusal = None;
    let mut named = t.templates().and_then(TemplateSet::default_etcd);
    if let Some(running) = running {
        refusal = wanted.clone().err().filter(|state| matches!(state, State::Blocked { .. }));
        (spec.version, named) = match (&etcd.version, wanted) {
            // What it cannot be changed to, its own controller says.
            (Some(_), Ok(asked)) if live.is_some() => (asked.to_string(), named),
            (None, Ok(_)) => {
                let (to_run, noted) = followed(t, live, running);
                (to_run.to_string(), noted)
            }
            _ => (running.to_string(), noted(live)),
        };
    }
    write(t, &mut stage, &spec, named);
    if stage.state.is_done() {
        stage.state = live.map_or_else(|| State::waiting("EtcdCluster etcd to be created"), judge);
    }
    // A refusal is worth saying, but a sick etcd comes first.
    if let (true, Some(refused)) = (stage.state.is_done(), refusal) {
        stage.state = refused;
    }
    stage
}

/// The version that the tenant's templates named when they were looked at last.
fn noted(live: Option<&EtcdCluster>) -> Option<Version> {
    live?.annotations().get(labels::ETCD_DEFAULT)?.parse().ok()
}

/// The version of an etcd for which the `Cluster` asks for none, and what is noted. It takes the one that the templates begin to name, once
/// their release is through: so neither a new operator nor a release that goes back changes it.
fn followed(t: &Tenant<'_>, live: Option<&EtcdCluster>, running: Version) -> (Version, Option<Version>) {
    let named = t.templates().and_then(TemplateSet::default_etcd);
    let noted = noted(live);
    let is_through = t.release.upgrade.is_none() && t.release.change.is_none() && t.status().rollout.is_none();
    let (Some(new), Some(old)) = (named, noted) else { return (running, named) };
    if new > running && new > old && is_through {
        return (new, named);
    }
    // It is on its way there.
    let goes_on = live.is_some_and(|live| live.spec.version == old.to_string()) && old > running;
    (if goes_on { old } else { running }, noted)
}

/// The version to which it is to go now, or that goes on, and the one that it takes once the release of the spec is through.
fn ahead(t: &Tenant<'_>, live: Option<&EtcdCluster>, running: Version) -> (Version, Version) {
    let (to_run, _) = followed(t, live, running);
    let named = t.templates_of(&t.release.wanted_pin()).and_then(TemplateSet::default_etcd);
    let noted = noted(live).or_else(|| t.templates()?.default_etcd());
    let comes = named.filter(|named| *named > to_run && Some(*named) > noted);
    (to_run, comes.unwrap_or(to_run))
}

/// `named`: the version that the tenant's templates name, to be noted.
fn write(t: &Tenant<'_>, stage: &mut Stage, spec: &EtcdClusterSpec, named: Option<Version>) {
    let asked = t.cluster.annotations().get(labels::DEFRAG);
    let asked = asked.filter(|value| !value.is_empty()).cloned();
    let annotations = [(labels::ETCD_DEFAULT, named.map(|named| named.to_string())), (labels::DEFRAG, asked)];
    let annotations: Map<String, Value> =
        annotations.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?.into()))).collect();
    let mut object = json!({
        "apiVersion": "berth.dev/v1alpha1", "kind": "EtcdCluster",
        "metadata": {"name": names::ETCD, "namespace": t.cp_namespace, "labels": t.labels()},
        "spec": spec,
    });
    if !annotations.is_empty() {
        object["metadata"]["annotations"] = annotations.into();
    }
    ensure_manifest(stage, t.observed, object);
}

/// The restore that may go on, since no pod is left that uses etcd.
fn clients_stopped(t: &Tenant<'_>) -> Option<i64> {
    let operation = t.etcd.as_ref()?.status.as_ref()?.operation.as_ref().filter(|_| !t.run_level.runs_clients())?;
    if operation.kind != OperationKind::Restore {
        return None;
    }
    let uses = |pod: &Value| components::ALL.iter().any(|c| label(pod, labels::COMPONENT) == Some(c.name()));
    let left = t.observed.of_kind(Kind::Pod, &t.cp_namespace).any(|(_, pod)| uses(pod));
    let stopped = |c: &&Component| t.workloads(c.binary).live().all(run_level::has_stopped);
    (!left && components::ALL.iter().all(stopped)).then_some(operation.id)
}

/// Whether the etcd is to be paused. One that is still forming is not: until it is formed, nothing says that a member without data lost them.
fn is_paused(t: &Tenant<'_>, live: &EtcdCluster) -> bool {
    let established = BootstrapState::Established;
    let recorded = || berth_plan_etcd::running(live, t.observed).is_some_and(|r| r.bootstrap.state == established);
    let formed = || live.status.as_ref().is_some_and(|s| s.cluster_id.is_some()) || recorded();
    !t.acts() && (live.spec.paused || formed())
}

/// Has the etcd paused, or going on, with its `Cluster`, and as it runs: wherever else the plan may be stuck, but for a namespace that this
/// `Cluster` has not taken over.
pub(super) fn follow_pause(t: &Tenant<'_>) -> Vec<Action> {
    let recorded = t.status().control_plane_namespace;
    let cp_namespace = t.live_namespace().filter(|cp_namespace| {
        label(cp_namespace, labels::CLUSTER_UID) == Some(t.uid)
            && recorded.is_none_or(|r| r.uid == object_meta::uid(cp_namespace))
    });
    let (Some(_), Some(live)) = (cp_namespace, &t.etcd) else { return vec![] };
    let paused = is_paused(t, live);
    if paused == live.spec.paused {
        return vec![];
    }
    let quota_backend_bytes = t.cluster.spec.etcd.quota_backend_bytes;
    let spec = EtcdClusterSpec { paused, quota_backend_bytes, ..live.spec.clone() };
    let mut stage = Stage::new(StageId::Etcd, State::Ready);
    write(t, &mut stage, &spec, noted(Some(live)));
    stage.actions
}

fn judge(live: &EtcdCluster) -> State {
    let status = live.status.clone().unwrap_or_default();
    // The CRD gives a new object a status without conditions.
    let Some(ready) = conditions::find(&status.conditions, ConditionType::Ready) else {
        return State::waiting("EtcdCluster etcd to get its first status");
    };
    if status.observed_generation != live.metadata.generation {
        return State::waiting("EtcdCluster etcd to observe its new spec");
    }
    if ready.status == "True" {
        return State::Ready;
    }
    let reason = ready.reason.parse().unwrap_or(Reason::Waiting);
    let message = ready.message.clone();
    match reason {
        Reason::DataLost
        | Reason::VolumeDeleting
        | Reason::ForeignData
        | Reason::ForeignObject
        | Reason::CertificateAuthorityLost
        | Reason::CertificateAuthorityInvalid
        | Reason::EtcdChangeUnsupported
        | Reason::InvalidSpec
        | Reason::RecoveryHeld
        | Reason::RestoreFailed
        | Reason::DowngradeUnsafe
        | Reason::MinorChangeUnsupported
        | Reason::UpgradeBlocked
        | Reason::RolledBack
        | Reason::Held
        | Reason::NotInTemplates
        | Reason::UnknownMember
        | Reason::VersionUnsupported => State::Blocked { reason, message },
        _ => State::Reported { reason, message },
    }
}
