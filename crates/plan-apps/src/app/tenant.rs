//! How an app is in one `Cluster`, for people: what it says there, or why its turn has not come.

use super::after::Before;
use super::rollout::{Place, Rest, Step};
use super::wave_name;
use berth_api::AppInstallation;
use berth_api::app::{AppInstallationStatus, AppSpec, AppState};
use berth_api::conditions::{ConditionType, find};
use berth_plan::apps::is_observed;
use berth_render::ObjectKey;

/// Names in a message.
const NAMED: usize = 3;

/// How an app is in one `Cluster`.
#[derive(Clone, Debug)]
pub(super) struct InTenant {
    pub(super) cluster: ObjectKey,
    pub(super) wanted: bool,
    pub(super) state: AppState,
    pub(super) message: String,
    /// It failed, and that may keep others from it.
    pub(super) counts: bool,
    /// Something there is not as Helm left it.
    pub(super) drifted: bool,
}

/// What those wait for that have not got the newest spec.
pub(super) struct Queue<'a> {
    spec: &'a AppSpec,
    before: &'a Before,
    wave: Option<usize>,
    /// Why that wave is not through.
    holds_up: Option<String>,
    /// Those whose failures hold back all others.
    failed: Option<String>,
    /// Those that have all places.
    at_work: Option<String>,
}

impl<'a> Queue<'a> {
    /// Of all `Cluster`s with what is done about each.
    pub(super) fn of<'p>(
        spec: &'a AppSpec,
        before: &'a Before,
        all: impl Iterator<Item = ((&'p ObjectKey, &'p Place), &'p Step)>,
        wave: Option<usize>,
        held: bool,
    ) -> Self {
        let all: Vec<_> = all.collect();
        let places = || all.iter().map(|(place, _)| *place);
        let failed = named(places().filter(|(_, place)| place.counts_as_failed()).map(|(key, _)| key));
        let begins = |step: Step| matches!(step, Step::Create | Step::Update);
        let at_work: Vec<&ObjectKey> = all
            .iter()
            .filter(|((_, place), step)| place.takes_a_place() || begins(**step))
            .map(|((key, _), _)| *key)
            .collect();
        let is_full = i32::try_from(at_work.len()).is_ok_and(|count| count >= spec.max_concurrent);
        Self {
            spec,
            before,
            wave,
            holds_up: holds_up(places(), wave),
            failed: held.then_some(failed),
            at_work: is_full.then(|| named(at_work.into_iter())),
        }
    }

    /// Why its turn has not come. `turn`: that it has not.
    fn why(&self, key: &ObjectKey, place: &Place, turn: &str) -> String {
        if let Some(first) = self.before.lacks(key) {
            return format!("it comes after {first}, which is not deployed there as that says");
        }
        if let Some(failed) = &self.failed {
            return format!("{turn}: failed in {failed}, and spec.maxFailed is {}", self.spec.max_failed);
        }
        if let (Some(at), Some(why)) = (self.wave.filter(|_| place.waits_for_wave(self.wave)), &self.holds_up) {
            return format!("it waits for {}: {why}", wave_name(self.spec, at));
        }
        match &self.at_work {
            Some(at_work) => {
                format!("{turn}: spec.maxConcurrent is {}, and it is at work in {at_work}", self.spec.max_concurrent)
            }
            None => turn.to_owned(),
        }
    }
}

/// Why a wave is not through: the worst of it.
fn holds_up<'a>(all: impl Iterator<Item = (&'a ObjectKey, &'a Place)>, wave: Option<usize>) -> Option<String> {
    let state = |place: &Place| place.there.filter(|there| there.is_newest).map_or(AppState::Queued, |it| it.state);
    let worst = all.filter(|(_, place)| place.holds_up(wave)).min_by_key(|(_, place)| state(place));
    worst.map(|(key, place)| format!("{} is {:?}", short(key), state(place)))
}

/// For the status.
pub(super) fn in_tenant(
    cluster: &ObjectKey,
    place: &Place,
    there: Option<&AppInstallation>,
    queue: &Queue<'_>,
) -> InTenant {
    let wanted = place.wanted;
    let queued = |turn: &str| {
        let message = queue.why(cluster, place, turn);
        let state = AppState::Queued;
        InTenant { cluster: cluster.clone(), wanted, state, message, counts: false, drifted: false }
    };
    let Some((installation, there)) = there.zip(place.there.as_ref()) else { return queued("its turn has not come") };
    if !there.is_newest && there.state != AppState::Deleting && wanted {
        return queued("it has an older spec, and its turn has not come");
    }
    if place.stays && there.state != AppState::Deleting {
        let message = "it is not selected any more; that it loses this waits for a confirmation".to_owned();
        return InTenant { message, ..queued("") };
    }
    let unknown = AppInstallationStatus::default();
    let status = installation.status.as_ref().unwrap_or(&unknown);
    let said = find(&status.conditions, ConditionType::Ready).filter(|_| is_observed(installation));
    let said = said.map_or("nothing is known of it yet", |ready| &ready.message);
    let state = if wanted { there.state } else { AppState::Deleting };
    let message = if state == AppState::Failed { failure(cluster, place, status, said) } else { said.to_owned() };
    let drifted = status.drift.as_ref().is_some_and(|drift| drift.count.is_some_and(|count| count > 0));
    let counts = place.counts_as_failed();
    InTenant { cluster: cluster.clone(), wanted, state, message, counts, drifted: drifted && is_observed(installation) }
}

/// Helm's words, also where something else is awaited by now.
fn failure(cluster: &ObjectKey, place: &Place, status: &AppInstallationStatus, said: &str) -> String {
    let message = match status.message.as_deref() {
        Some(words) if !said.contains(words) => format!("{words}. Now: {said}"),
        _ => said.to_owned(),
    };
    match place.rests {
        Some(Rest::Asleep) => format!(
            "{message}. It is tried again once it is awake: kubectl berth wake {} -n {}",
            cluster.name,
            cluster.namespace.as_deref().unwrap_or_default()
        ),
        Some(Rest::Paused) | None => message,
    }
}

fn short(key: &ObjectKey) -> String {
    format!("{}/{}", key.namespace.as_deref().unwrap_or_default(), key.name)
}

/// The first few of them.
pub(super) fn named<'a>(all: impl Iterator<Item = &'a ObjectKey>) -> String {
    let mut names: Vec<String> = all.map(short).collect();
    let more = names.len().saturating_sub(NAMED);
    names.truncate(NAMED);
    if more == 0 { names.join(", ") } else { format!("{} and {more} more", names.join(", ")) }
}
