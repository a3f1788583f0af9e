//! Which release a tenant is to run, by its spec and by what is recorded.

use super::decide::{Ask, MinorFacts, MinorWrite, Step, decide_minor};
use super::model::{Change, Pending, Release};
use super::record::{self, Upgrade};
use super::{preflight, seen};
use crate::record::{Pin, new_pin, pin};
use crate::sizes::come_to;
use crate::subject::Tenant;
use crate::turn::hold_of_second_step;
use berth_api::ClusterSpec;
use berth_api::conditions::{self, ConditionType, Reason};
use berth_api::version::{Minor, Version};
use berth_plan::model::State;
use berth_render::Catalog;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// What a tenant is to be rendered with, and why a wish is refused. None: nothing can be made.
pub(crate) fn decide_release(t: &Tenant<'_>) -> (Option<Release>, Option<State>) {
    let live = t.live_namespace();
    let served = live.and_then(record::served);
    let upgrade = live.and_then(record::upgrade);
    // A change that is under way goes on, whatever became of the pin beside it.
    let from = || sized_pin(upgrade.as_ref()?.from, t);
    let old = live.and_then(pin).or_else(from);
    match (upgrade, old) {
        (Some(upgrade), Some(old)) => {
            let (release, refusal) = under_way(t, upgrade, old, served);
            (Some(release), refusal)
        }
        (_, old) => at_rest(t, old.filter(|old| Some(old.version.minor()) >= served), served),
    }
}

/// What the tenant is rendered with by this operator once it has that version: all pods are made anew, and begin with what those before had come
/// to.
fn sized_pin(version: Version, t: &Tenant<'_>) -> Option<Pin> {
    new_pin(version, t.settings).map(|pin| Pin { sizes: come_to(t), ..pin })
}

/// No minor changes.
fn at_rest(t: &Tenant<'_>, old: Option<Pin>, served: Option<Minor>) -> (Option<Release>, Option<State>) {
    let spec = &t.cluster.spec;
    let release = |pin| Release { pin, served, ..Release::default() };
    let asked = spec.asked_version();
    if let Some(old) = old.clone().filter(|old| Some(old.version) == asked) {
        return (Some(release(old)), None);
    }
    let Some(new) = asked.and_then(|asked| sized_pin(asked, t)) else {
        return (old.map(release), Some(unsupported(spec)));
    };
    let minor = new.version.minor();
    let Some(old) = old else {
        return match served {
            Some(served) if minor < served => (None, Some(downgrade(&new.version, served))),
            _ => (Some(release(new)), None),
        };
    };
    match minor.since(old.version.minor()) {
        Some(0) => (Some(Release { next: Some(new), ..release(old) }), None),
        Some(1) => match preflight::judge(t, &old, &new) {
            Ok(()) => {
                let begun = Some(Upgrade::new(old.version, new.clone()));
                let waits = Some(waits(format!("the change from {} to {} to begin", old.version, new.version)));
                (Some(Release { upgrade: begun, waits, ..release(old) }), None)
            }
            Err(state) => (Some(release(old)), Some(state)),
        },
        Some(n) if n < 0 => {
            let served = old.version.minor();
            (Some(release(old)), Some(downgrade(&new.version, served)))
        }
        _ => {
            let state = too_far(&new.version, &old.version);
            (Some(release(old)), Some(state))
        }
    }
}

/// What the spec asks of a change that is under way.
struct Wish {
    ask: Ask,
    upgrade: Upgrade,
    old: Pin,
    new: Pin,
    refusal: Option<State>,
    /// The minor after the new one, which has to wait.
    later: Option<Version>,
}

fn wish(t: &Tenant<'_>, upgrade: Upgrade, old: Pin, step: Step) -> Wish {
    let spec = &t.cluster.spec;
    let (from, new) = (upgrade.from, upgrade.to.clone());
    let running = new.version;
    let mut wish = Wish { ask: Ask::Neither, upgrade, old, new, refusal: None, later: None };
    let Some(asked) = spec.asked_version() else {
        return Wish { refusal: Some(unsupported(spec)), ..wish };
    };
    let wanted = sized_pin(asked, t).filter(|_| asked.minor() >= from.minor());
    match (wanted, step, asked.minor().since(running.minor())) {
        _ if asked == running => wish.ask = Ask::New,
        (_, Step::One, _) if asked == wish.old.version => wish.ask = Ask::Old,
        (Some(wanted), _, Some(0)) => {
            // Another patch version of it: what was proven was another one.
            wish.ask = Ask::New;
            wish.upgrade = Upgrade::new(from, wanted.clone());
            wish.new = wanted;
        }
        (Some(wanted), Step::One, _) if asked.minor() == wish.old.version.minor() => {
            wish.ask = Ask::Old;
            wish.old = wanted;
        }
        (Some(_), _, Some(1)) => {
            wish.ask = Ask::New;
            wish.later = Some(asked);
        }
        (Some(_), Step::Two, Some(n)) if n < 0 => wish.refusal = Some(downgrade(&asked, running.minor())),
        (Some(_), ..) => wish.refusal = Some(too_far(&asked, &running)),
        (None, Step::Two, _) if asked.minor() < running.minor() => {
            wish.refusal = Some(downgrade(&asked, running.minor()));
        }
        (None, ..) => wish.refusal = Some(unsupported(spec)),
    }
    wish
}

/// A minor changes. `old`: what is pinned, which is the old release until the second step begins.
fn under_way(t: &Tenant<'_>, upgrade: Upgrade, old: Pin, served: Option<Minor>) -> (Release, Option<State>) {
    let from = upgrade.from;
    let step = if served >= Some(upgrade.to.version.minor()) { Step::Two } else { Step::One };
    let Wish { ask, upgrade, mut old, new, refusal, later } = wish(t, upgrade, old, step);
    if step == Step::Two {
        old = new.clone();
    }
    let emulates = from.minor();
    let look = |binary| seen::look(t, binary, (&old, &new, emulates), step);
    let until = upgrade.proven.as_ref().map(|Time(since)| *since.min(&t.now) + finalize_after(t));
    let facts = MinorFacts {
        step,
        ask,
        proven: upgrade.proven.as_ref().is_some_and(|Time(since)| counts(t, *since)),
        due: until.is_some_and(|until| t.now >= until),
        answers: seen::answers(t),
        api: look(t.distribution.api()),
        clients: t.distribution.clients().map(look).collect(),
    };
    let mut next = decide_minor(&facts);
    // Only now it could begin: a turn that waits for pods would be kept from others.
    let second = next.write == Some(MinorWrite::StepTwo);
    let hold = second.then(|| hold_of_second_step(t, &old.version, &new.version)).flatten();
    if hold.is_some() || (second && t.refused) {
        next.write = None;
    }
    let pending = until.filter(|_| next.write.is_none() && step == Step::One && ask == Ask::New);
    let pending = pending.map(|until| Pending { version: new.version, from: old.version, until });
    let waits = match (&pending, later) {
        _ if refusal.is_some() => None,
        (_, Some(later)) => Some(waits(format!("the change to {}; the one to {later} follows", new.version))),
        (Some(_), None) => None,
        (None, None) => Some(waits(seen::progress(t, &facts, &old.version, &new.version))),
    };
    let counts_as = if step == Step::Two && !facts.api_is_new() { from } else { old.version };
    let runs = t.distribution.awaited().zip(std::iter::once(next.api).chain(next.clients)).collect();
    let change = Change { old: old.clone(), new: new.clone(), emulates, runs, back: ask == Ask::Old, counts_as };
    let (upgrade, pin) = match next.write {
        Some(MinorWrite::Proven) => (Some(upgrade.proven_since(Some(t.now))), old),
        Some(MinorWrite::NotProven) => (Some(upgrade.proven_since(None)), old),
        Some(MinorWrite::StepTwo) => (Some(upgrade), new),
        Some(MinorWrite::Done) => (None, old),
        None => (Some(upgrade), old),
    };
    (Release { pin, change: Some(change), upgrade, served, waits, pending, hold, ..Release::default() }, refusal)
}

/// Whether what `spec.upgrade.finalizeAfter` waits for began then. After a pause, and where the clock was set meanwhile, it begins anew.
fn counts(t: &Tenant<'_>, since: Timestamp) -> bool {
    !was_paused(t, since) && !t.observed.meta.was_set_since(since)
}

/// Whether it was paused until now, and since is before that: what `spec.upgrade.finalizeAfter` waits for begins anew.
fn was_paused(t: &Tenant<'_>, since: Timestamp) -> bool {
    let conditions = t.status().conditions;
    let paused = conditions::find(&conditions, ConditionType::Progressing).is_some_and(|c| c.reason == "Paused");
    paused && !t.cluster.spec.paused && t.now.duration_since(since) >= SignedDuration::from_secs(1)
}

/// From the spec. What cannot be read as a duration, no API server takes.
fn finalize_after(t: &Tenant<'_>) -> SignedDuration {
    let asked = &t.cluster.spec.upgrade.finalize_after;
    asked.parse().unwrap_or(SignedDuration::from_mins(10))
}

fn waits(on: String) -> State {
    State::Waiting { reason: Reason::RollingOut, on }
}

fn downgrade(asked: &Version, served: Minor) -> State {
    State::blocked(
        Reason::DowngradeUnsafe,
        format!(
            "spec.version: {asked} is older than {served}, which this tenant has served: etcd may hold data that only {served} can read. Set a patch version of {served}. For a tenant of {}, create another Cluster and move the workloads",
            asked.minor()
        ),
    )
}

fn too_far(asked: &Version, running: &Version) -> State {
    let next = running.minor().next();
    State::blocked(
        Reason::MinorChangeUnsupported,
        format!(
            "spec.version: {asked} is more than one minor version from {running}, which runs. Minor versions change one at a time: set a patch version of {next} first, or of {}",
            running.minor()
        ),
    )
}

/// Why a version that this operator does not have is refused.
fn unsupported(spec: &ClusterSpec) -> State {
    let supported = Minor::list(&Catalog::builtin().minors());
    State::blocked(
        Reason::VersionUnsupported,
        format!("spec.version: {} is not supported. Set a patch version of {supported}", spec.version),
    )
}
