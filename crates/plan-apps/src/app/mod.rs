//! The plan for an `App`: an `AppInstallation` for each `Cluster` that it is for, so many at once.

mod after;
mod removal;
mod rollout;
mod status;
mod tenant;
mod waves;

#[cfg(test)]
pub(crate) mod tests;

pub use berth_plan::apps::{ValuesDigests, is_newest, newest, scope, selector, selector_of, state, wanted};
pub use waves::{name as wave_name, of as wave_of, says_namespace_ends};

use crate::requeue::{AT_REST, SLOW, WAITING};
use crate::source;
use crate::values::{self, config_maps, secrets};
use after::Before;
use berth_api::app::{
    AppInstallationSpec, AppState, AppStatus, InstalledApp, InstalledIn, OnRemoval, ReadSecret, ReadValues,
};
use berth_api::conditions::Reason;
use berth_api::{App, AppInstallation, labels, names};
use berth_plan::apps::{has_failed, is_observed, labels_of, runs};
use berth_plan::model::{Action, Plan, Stage, StageId, State};
use berth_plan::object_meta::{label, uid};
use berth_plan::requeue::SOON;
use berth_plan::{Input, Observed, Planner};
use berth_render::{Kind, Object, ObjectKey};
use jiff::SignedDuration;
use kube_core::ResourceExt;
use removal::Removal;
use rollout::{Decision, Place, Step, There, decide};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use tenant::{InTenant, Queue, in_tenant};

/// What a deletion waits for, as long as there are no Jobs.
const OFF: &str = ". Apps are switched off, so nothing is uninstalled: set apps.enabled to true in the values of Berth's chart, or spec.onRemoval to Keep, with which all releases stay";

/// A plan, and what the status needs beside it.
#[derive(Clone, Debug, Default)]
pub struct AppPlan {
    /// What to do.
    pub plan: Plan,
    /// Reconcile again after this long, even without an event.
    pub requeue_after: Option<SignedDuration>,
    /// How it is in each `Cluster` that has it or is to have it.
    tenants: Vec<InTenant>,
    /// Others are held back by failures.
    held: bool,
    /// What becomes of those that are not selected any more.
    removal: Removal,
    /// The first wave that is not through, from 0. None: there are no waves, or all are.
    wave: Option<usize>,
    /// `Cluster`s that are named, and are not there.
    missing: Vec<ObjectKey>,
    /// Of what is in its ConfigMaps and Secrets.
    values: ValuesDigests,
    /// After this long another look is due, whatever these are: it is not at rest.
    due: Option<SignedDuration>,
}

/// What each tenant is to have.
struct Newest {
    /// What is in its ConfigMaps.
    config_maps: Vec<ReadValues>,
    /// What its Secrets hold.
    secrets: Vec<ReadSecret>,
    digest: String,
}

/// Decides for an `App`.
#[derive(Clone, Copy, Debug)]
pub struct AppPlanner;

impl Planner for AppPlanner {
    type Object = App;
    type Planned = AppPlan;
    type Status = AppStatus;

    fn plan(input: Input<'_, App>) -> AppPlan {
        let mut out = AppPlan::default();
        let id = if input.is_deleted() { StageId::Deletion } else { StageId::App };
        let mut stage = Stage::new(id, State::Ready);
        let before = Before::of(input);
        let release = &input.object.spec.release;
        let read = config_maps::read(input.object, |key| input.observed.get(key));
        let looked_at = secrets::read(release, input.namespace(), input.observed);
        // While one cannot be used, the last ones that could count.
        let last = ValuesDigests::recorded(input.object);
        out.values = ValuesDigests {
            config_maps: read.as_ref().map_or(last.config_maps, |read| config_maps::digest(release, read)),
            secrets: looked_at.as_ref().map_or(last.secrets, |read| secrets::digest(release, read)),
        };
        let unread = || read.as_ref().err().or(looked_at.as_ref().err()).cloned().map(State::from);
        let refused = if input.is_deleted() {
            None
        } else {
            refused(input).or_else(|| before.as_ref().err().cloned()).or_else(unread)
        };
        let newest = Newest {
            digest: newest(input.object, &out.values),
            config_maps: read.unwrap_or_default(),
            secrets: looked_at.unwrap_or_default(),
        };
        let before = before.unwrap_or_default();
        let (clusters, missing) = wanted(input.object, &input.observed.objects, &input.settings.apps.namespace);
        let mut all: BTreeMap<ObjectKey, (Option<&Value>, Option<AppInstallation>)> = BTreeMap::new();
        for (key, cluster) in clusters {
            all.entry(key).or_default().0 = Some(cluster);
        }
        for installation in installations_of(input.observed, input.object) {
            let namespace = installation.namespace().unwrap_or_default();
            let key = ObjectKey::namespaced(Kind::Cluster, namespace, &*installation.spec.cluster.name);
            all.entry(key).or_default().1 = Some(installation);
        }
        leave_out(&mut all);
        let spec = &input.object.spec;
        let place = |(key, (cluster, there)): (&ObjectKey, &(Option<&Value>, Option<AppInstallation>))| Place {
            lacks: before.lacks(key).is_some(),
            ..place(input, &newest, key, (*cluster, there.as_ref()))
        };
        let mut places: Vec<Place> = all.iter().map(place).collect();
        let with_place = all.iter().zip(&places).map(|((key, (_, there)), place)| (key, place, there.as_ref()));
        let removal = removal::judge(input, with_place);
        for (key, place) in all.keys().zip(&mut places) {
            place.stays = removal.stays.contains(key);
        }
        let count = |number: i32| usize::try_from(number).unwrap_or(1).max(1);
        let Decision { steps, held, wave } = decide(&places, count(spec.max_concurrent), count(spec.max_failed));
        // What is refused changes nothing that is there.
        let steps = if refused.is_some() { vec![Step::None; places.len()] } else { steps };
        let queue = Queue::of(spec, &before, all.keys().zip(&places).zip(&steps), wave, held);
        let mut clusters = vec![];
        for (((key, (cluster, there)), place), step) in all.iter().zip(&places).zip(&steps) {
            out.tenants.push(in_tenant(key, place, there.as_ref(), &queue));
            let action = match (step, cluster, there) {
                (Step::Delete, _, Some(there)) => Ok(delete(there)),
                // Applied from the beginning: else a value that goes would stay, as that of whoever created it.
                (Step::Create | Step::Update, Some(cluster), _) => {
                    object(input, &newest, key, cluster).map(Action::Apply)
                }
                _ => continue,
            };
            // Each has a stage of its own: one that is refused there keeps it from no other.
            let of = Stage { of: Some(key.clone()), ..Stage::new(id, State::Ready) };
            clusters.push(match action {
                Ok(action) => Stage { actions: vec![action], ..of },
                Err(error) => Stage { state: State::blocked(Reason::Error, error), ..of },
            });
        }
        if let Some(refused) = refused {
            stage.state = refused;
        } else if input.is_deleted() && !all.is_empty() {
            let apps = &input.settings.apps;
            let off = if apps.are_enabled() || spec.on_removal == OnRemoval::Keep { "" } else { OFF };
            stage.state = State::waiting(format!("its AppInstallations to be gone: {}{off}", all.len()));
        }
        (out.held, out.missing) = (held, missing);
        // What is confirmed is put on record, and done then.
        let is_recorded = removal.stays.is_empty() || removal.asks.is_some();
        out.wave = wave.filter(|_| !spec.waves.is_empty());
        out.plan.finished = input.is_deleted() && all.is_empty();
        let at_rest = out.tenants.iter().all(|tenant| tenant.state == AppState::Deployed);
        let is_held_up = places.iter().any(|place| place.lacks);
        let is_new = |(cluster, there): &(Option<&Value>, Option<AppInstallation>)| {
            there.is_none() && cluster.is_some_and(|c| waves::since(c).is_none())
        };
        let is_held_up = is_held_up || all.values().any(is_new);
        out.removal = removal;
        out.plan.stages.push(stage);
        out.plan.stages.extend(clusters);
        out.requeue_after = Some(match (out.plan.is_empty() && is_recorded, at_rest) {
            (false, _) => SOON,
            // Of its ConfigMaps and Secrets no watch tells.
            (true, true) if !out.values.is_empty() => SLOW,
            (true, true) => AT_REST,
            // Of those of others it is not told.
            (true, false) if is_held_up => WAITING,
            // Each change of an installation is announced.
            (true, false) => SLOW,
        });
        out.due = out.requeue_after.filter(|_| !at_rest);
        out
    }

    fn outcome(planned: &AppPlan) -> berth_plan::Outcome<'_> {
        berth_plan::Outcome { plan: &planned.plan, requeue_after: planned.requeue_after, due: planned.due }
    }

    fn status(input: Input<'_, App>, planned: &AppPlan, failure: Option<&berth_plan::Failure>) -> AppStatus {
        status::status(input, planned, failure)
    }
}

/// Why nothing is done for it.
fn refused(input: Input<'_, App>) -> Option<State> {
    let apps = &input.settings.apps;
    if !apps.are_enabled() {
        let message = "apps are switched off: set apps.enabled to true in the values of Berth's chart";
        return Some(State::blocked(Reason::NotAllowed, message));
    }
    let spec = &input.object.spec;
    let source = spec.release.source();
    if let Some(why) = source::refused(apps, input.namespace(), &source) {
        return Some(State::blocked(Reason::NotAllowed, format!("spec.chart: {why}")));
    }
    if let Some(Err(why)) = spec.release.values_template.as_deref().map(values::check) {
        return Some(State::blocked(Reason::InvalidSpec, why));
    }
    let scope = scope(input.object, &apps.namespace)?;
    let other = spec
        .cluster_refs
        .iter()
        .find_map(|named| named.namespace.as_deref().filter(|namespace| *namespace != scope))?;
    Some(State::blocked(
        Reason::NotAllowed,
        format!(
            "spec.clusterRefs: namespace {other} is another one than that of this App, which only an App in the operator's namespace may name. Leave namespace out"
        ),
    ))
}

/// Installations of an `App`, wherever they are. Labels can be put on others: it is one by what its spec says, and by its name.
fn installations_of<'a>(observed: &'a Observed, app: &'a App) -> impl Iterator<Item = AppInstallation> + 'a {
    let all = observed.objects.iter().filter(|(key, _)| key.kind == Kind::AppInstallation);
    let own = (app.namespace().unwrap_or_default(), app.name_any(), app.uid().unwrap_or_default());
    let is_ours = move |installation: &AppInstallation| {
        let (of, cluster) = (&installation.spec.app, &installation.spec.cluster.name);
        (&of.namespace, &of.name, &of.uid) == (&own.0, &own.1, &own.2)
            && installation.name_any() == names::app_installation(&of.namespace, &of.name, cluster)
    };
    all.filter(|(_, live)| label(live, labels::MANAGED_BY) == Some(labels::MANAGED_BY_VALUE))
        .filter_map(|(_, live)| serde_json::from_value(live.clone()).ok())
        .filter(is_ours)
}

/// Takes out `Cluster`s that can get none, since their namespace ends. What of it is there stays in view until it is gone.
fn leave_out(all: &mut BTreeMap<ObjectKey, (Option<&Value>, Option<AppInstallation>)>) {
    for (cluster, there) in all.values_mut() {
        let is_going = there.as_ref().is_none_or(|there| there.metadata.deletion_timestamp.is_some());
        *cluster = cluster.filter(|cluster| !(is_going && waves::namespace_ends(cluster)));
    }
    all.retain(|_, (cluster, there)| cluster.is_some() || there.is_some());
}

/// How it is there, for the decision.
fn place(
    input: Input<'_, App>,
    newest: &Newest,
    key: &ObjectKey,
    (cluster, there): (Option<&Value>, Option<&AppInstallation>),
) -> Place {
    // Also of one that is not meant any more it counts whether it can be asked.
    let live = cluster.or_else(|| input.observed.get(key));
    let there = there.map(|there| There {
        is_newest: there.spec.digest == newest.digest,
        is_of_former: cluster.is_some_and(|cluster| uid(cluster) != there.spec.cluster.uid),
        failed: has_failed(there),
        is_foreign: is_observed(there) && there.status.as_ref().is_some_and(|status| status.foreign == Some(true)),
        runs: runs(there),
        is_bare: there.status.as_ref().is_none_or(|status| status.asked.is_none() && status.release.is_none()),
        state: state(there),
    });
    Place {
        wanted: cluster.is_some(),
        there,
        lacks: false,
        wave: cluster.map_or(0, |cluster| wave_of(&input.object.spec, &labels_of(cluster))),
        stays: false,
        is_away: live.is_some_and(waves::is_away),
        rests: live.and_then(waves::rests),
        is_young: cluster.is_some_and(|cluster| waves::is_younger(cluster, input.object)),
    }
}

fn delete(there: &AppInstallation) -> Action {
    let key = ObjectKey::namespaced(Kind::AppInstallation, there.namespace().unwrap_or_default(), there.name_any());
    Action::Delete { key, uid: there.uid().unwrap_or_default(), grace: None }
}

/// The installation as it is to be.
fn object(input: Input<'_, App>, newest: &Newest, cluster: &ObjectKey, live: &Value) -> Result<Object, String> {
    let (app, namespace) = (input.name(), input.namespace());
    let release = input.object.spec.release_of(app);
    let spec = AppInstallationSpec {
        digest: newest.digest.clone(),
        config_maps: newest.config_maps.clone(),
        secrets: newest.secrets.clone(),
        app: InstalledApp { namespace: namespace.to_owned(), name: app.to_owned(), uid: input.uid().to_owned() },
        cluster: InstalledIn { name: cluster.name.clone(), uid: uid(live).to_owned() },
        release,
    };
    let labels: BTreeMap<&str, &str> = BTreeMap::from([
        (labels::MANAGED_BY, labels::MANAGED_BY_VALUE),
        (labels::APP, app),
        (labels::APP_NAMESPACE, namespace),
        (labels::CLUSTER_NAME, &*cluster.name),
        (labels::CLUSTER_NAMESPACE, cluster.namespace.as_deref().unwrap_or_default()),
    ]);
    Object::new(json!({
        "apiVersion": "berth.dev/v1alpha1", "kind": "AppInstallation",
        "metadata": {
            "name": names::app_installation(namespace, app, &cluster.name), "namespace": cluster.namespace, "labels": labels,
        },
        "spec": spec,
    }))
}
