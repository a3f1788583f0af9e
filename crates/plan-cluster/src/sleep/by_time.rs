//! What `spec.hibernation.schedules` asks for: it follows from the spec and the time alone, never from who was there.

#[cfg(test)]
mod tests;

use super::wish::Wish;
use berth_api::Cluster;
use berth_api::hibernation::{NextSleep, SleepSchedule, SleepState};
use berth_plan::times::{Times, Written};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// Those of a fleet that wake at one time do so within this.
const SPREAD: SignedDuration = SignedDuration::from_mins(2);

/// So many times are compared to find two schedules that ask for both at one minute.
const COMPARED: u32 = 1500;

/// When schedules ask for what.
#[derive(Clone, Debug, Default)]
pub(crate) struct Schedules {
    all: Vec<Boundary>,
}

/// When a schedule asks for one of both.
#[derive(Clone, Debug)]
struct Boundary {
    sleep: bool,
    /// `spec.hibernation.schedules[0].sleep`.
    field: String,
    cause: String,
    times: Times,
}

impl Schedules {
    /// Reads those of a spec. `uid`: of the `Cluster`.
    ///
    /// # Errors
    ///
    /// The field that is wrong, and the way out.
    pub(crate) fn read(schedules: &[SleepSchedule], uid: &str, now: Timestamp) -> Result<Self, String> {
        let mut all = Vec::new();
        for (place, schedule) in schedules.iter().enumerate() {
            let of = format!("spec.hibernation.schedules[{place}]");
            let asked = [(true, &schedule.sleep), (false, &schedule.wake)];
            if asked.iter().all(|(_, times)| times.is_none()) {
                return Err(format!("{of}: neither sleep nor wake is set: set one of them, or both"));
            }
            let (zone, zone_field) = (&*schedule.time_zone, &*format!("{of}.timeZone"));
            for (sleep, text) in asked.into_iter().filter_map(|(sleep, text)| Some((sleep, text.as_deref()?))) {
                let verb = if sleep { "sleep" } else { "wake" };
                let field = format!("{of}.{verb}");
                let written = Written { schedule: text, field: &field, zone, zone_field };
                let times = Times::read_spread(written, SPREAD, uid, now)?;
                let cause = format!("schedules[{place}].{verb} ({text} {zone})");
                all.push(Boundary { sleep, field, cause, times });
            }
        }
        let read = Self { all };
        read.contradiction(now).map_or(Ok(read), Err)
    }

    fn of(&self, sleep: bool) -> impl Iterator<Item = &Boundary> {
        self.all.iter().filter(move |boundary| boundary.sleep == sleep)
    }

    /// Two that ask for both at one minute.
    fn contradiction(&self, now: Timestamp) -> Option<String> {
        let mut steps = COMPARED;
        let mut both = self.of(true).flat_map(|sleep| self.of(false).map(move |wake| (sleep, wake)));
        both.find_map(|(sleep, wake)| {
            let at = sleep.times.shared(&wake.times, now, &mut steps)?;
            Some(format!(
                "{} and {} are both at {}: a tenant cannot sleep and wake at one minute. Change one of them",
                sleep.field,
                wake.field,
                at.strftime("%Y-%m-%dT%H:%M:%SZ")
            ))
        })
    }

    /// What each asked for last, after `since`.
    pub(crate) fn wishes(&self, since: Timestamp, now: Timestamp) -> impl Iterator<Item = Wish> {
        self.all.iter().filter_map(move |Boundary { sleep, cause, times, .. }| {
            Some(Wish { at: times.due(since, now)?, sleep: *sleep, cause: cause.clone() })
        })
    }

    /// When one asks next to sleep, or to be awake.
    pub(crate) fn next(&self, sleep: bool, now: Timestamp) -> Option<NextSleep> {
        let next = |boundary: &Boundary| Some((boundary.times.due_next(now)?, boundary.cause.clone()));
        let (at, cause) = self.of(sleep).filter_map(next).min()?;
        let state = if sleep { SleepState::Asleep } else { SleepState::Awake };
        Some(NextSleep { state, at: Time(at), cause })
    }
}

/// When a schedule next changes it, if a person puts it to sleep now, or wakes it.
pub fn next_by_schedule(cluster: &Cluster, sleeps: bool, now: Timestamp) -> Option<NextSleep> {
    let uid = cluster.metadata.uid.as_deref().unwrap_or_default();
    Schedules::read(&cluster.spec.hibernation.schedules, uid, now).ok()?.next(!sleeps, now)
}
