//! What idleness and connections ask of a tenant.

use super::problem::{idle_problem, wake_problem};
use crate::sleep::wish::Wish;
use crate::subject::Tenant;
use berth_api::hibernation::{ByItself, CONNECTION, Event, Happened, SleepRecord, SleepState, UNUSED};
use berth_plan::heard::{Heard, Uses};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// For so long wakes by connections are counted.
pub(super) const HOUR: SignedDuration = SignedDuration::from_hours(1);

/// When it is looked again whether use is known.
const SOON: SignedDuration = SignedDuration::from_mins(1);

/// What is asked for is made from.
#[derive(Clone, Debug)]
pub(crate) struct Facts<'a> {
    pub(super) now: Timestamp,
    /// `spec.hibernation.afterIdle`. None: it does not sleep by itself.
    pub(super) after_idle: Option<SignedDuration>,
    /// `spec.hibernation.wake.onConnect`, and it can be.
    pub(super) wakes: bool,
    /// `spec.hibernation.wake.stayFor`.
    pub(super) stay_for: SignedDuration,
    /// Connections wake it so often within an hour.
    pub(super) most: usize,
    /// So many wake at once.
    pub(super) at_once: usize,
    pub(super) created: Timestamp,
    pub(super) heard: &'a Heard,
    pub(super) record: Option<&'a SleepRecord>,
}

/// What is asked for by itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Told {
    /// What happened, and what it asks for.
    pub(crate) events: Vec<(Happened, Wish)>,
    /// What people are told.
    pub(crate) note: Option<String>,
    /// When time alone changes it.
    pub(crate) until: Option<Timestamp>,
}

/// Of a tenant with that record.
pub(crate) fn facts<'a>(t: &'a Tenant<'_>, record: Option<&'a SleepRecord>) -> Facts<'a> {
    let asked = &t.cluster.spec.hibernation;
    let created = t.cluster.metadata.creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |Time(at)| *at);
    let after_idle = asked.after_idle.as_deref().and_then(|after| after.parse().ok());
    Facts {
        now: t.now,
        after_idle: after_idle.filter(|_| idle_problem(t).is_none()),
        wakes: asked.wake.on_connect && wake_problem(t).is_none(),
        stay_for: asked.wake.stay_for.parse().unwrap_or(SignedDuration::from_mins(10)),
        most: t.settings.hibernation.per_tenant_per_hour,
        at_once: t.settings.hibernation.max_waking,
        created,
        heard: &t.observed.heard,
        record,
    }
}

/// What idleness and connections ask for.
pub(crate) fn events(facts: &Facts<'_>) -> Told {
    let state = facts.record.map(|record| record.state).unwrap_or_default();
    match state {
        SleepState::FallingAsleep | SleepState::Asleep => asleep(facts),
        SleepState::Waking => Told { events: woken(facts).into_iter().collect(), ..Told::default() },
        SleepState::Awake => awake(facts),
    }
}

fn recorded<'a>(facts: &'a Facts<'_>) -> Option<&'a ByItself> {
    facts.record.map(|record| &record.by_itself)
}

fn last<'a>(facts: &'a Facts<'_>) -> Option<&'a Event> {
    recorded(facts)?.by.as_ref()
}

/// What a connection asked for holds until something later does not.
fn woken(facts: &Facts<'_>) -> Option<(Happened, Wish)> {
    let Event { what, at: Time(at) } = last(facts)?;
    (*what == Happened::Connection).then(|| (*what, wish(*what, *at)))
}

fn wish(what: Happened, at: Timestamp) -> Wish {
    let (sleep, cause) = match what {
        Happened::Connection => (false, CONNECTION),
        Happened::Unused => (true, UNUSED),
        Happened::Idle | Happened::Other => (true, "spec.hibernation.afterIdle"),
    };
    Wish { at, sleep, cause: cause.to_owned() }
}

fn asleep(facts: &Facts<'_>) -> Told {
    let sleeps = last(facts).filter(|event| match event.what {
        Happened::Idle => facts.after_idle.is_some(),
        Happened::Unused => facts.wakes,
        Happened::Connection | Happened::Other => false,
    });
    let mut told = Told::default();
    told.events.extend(sleeps.map(|Event { what, at: Time(at) }| (*what, wish(*what, *at))));
    let by_itself = recorded(facts).cloned().unwrap_or_default();
    let Some(call) = facts.heard.call.filter(|_| facts.wakes) else { return told };
    // Whoever called is gone by then.
    told.until = Some(facts.now + SOON);
    match deaf(facts, &by_itself) {
        Some(why) => told.note = Some(why),
        None if !call.turn => {
            told.note = Some(format!(
                "somebody calls it, and it wakes in its turn: {} tenants wake at once at most (hibernation.maxWaking in the values of Berth's chart)",
                facts.at_once
            ));
        }
        None => told.events.push((Happened::Connection, wish(Happened::Connection, call.at))),
    }
    told
}

/// Why no connection wakes it now.
fn deaf(facts: &Facts<'_>, by_itself: &ByItself) -> Option<String> {
    let at = |time: Timestamp| time.strftime("%Y-%m-%dT%H:%M:%SZ");
    if let Some(quiet) = by_itself.quiet.as_ref().map(|Time(quiet)| *quiet).filter(|quiet| facts.now < *quiet) {
        return Some(format!(
            "somebody calls it, and no connection wakes it before {}, since a connection woke it and nobody used it",
            at(quiet)
        ));
    }
    let mut lately = by_itself.woken.iter().map(|Time(woken)| *woken).filter(|woken| facts.now < *woken + HOUR);
    let count = lately.clone().count();
    if count < facts.most {
        return None;
    }
    let until = lately.nth(count - facts.most).map_or(facts.now, |woken| woken + HOUR);
    Some(format!(
        "somebody calls it, and no connection wakes it before {}, since connections woke it {count} {} within an hour (hibernation.perTenantPerHour in the values of Berth's chart)",
        at(until),
        if count == 1 { "time" } else { "times" }
    ))
}

fn awake(facts: &Facts<'_>) -> Told {
    let mut told = Told { events: woken(facts).into_iter().collect(), ..Told::default() };
    let called = last(facts).filter(|event| event.what == Happened::Connection && facts.wakes);
    if facts.after_idle.is_none() && called.is_none() {
        return told;
    }
    let since_awake = facts.record.map_or(facts.created, |record| record.since.0.max(facts.created));
    let (since, last, now) = match &facts.heard.uses {
        Uses::Known { since, last, now } => (*since, *last, *now),
        Uses::NotYet => {
            told.until = Some(facts.now + SOON);
            return told;
        }
        Uses::Unknown(why) => {
            told.note = facts.after_idle.map(|_| format!("spec.hibernation.afterIdle: it stays awake, since {why}"));
            told.until = Some(facts.now + SOON);
            return told;
        }
    };
    let begun = if now { facts.now } else { since.max(since_awake) };
    let unused = called.filter(|call| !now && last.is_none_or(|last| last <= call.at.0));
    let unused = unused.map(|_| (Happened::Unused, begun + facts.stay_for));
    let idle = facts.after_idle.map(|after| (Happened::Idle, begun.max(last.unwrap_or(begun)) + after));
    for (what, at) in [unused, idle].into_iter().flatten() {
        if at <= facts.now {
            told.events.push((what, wish(what, at)));
        } else {
            told.until = told.until.into_iter().chain([at]).min();
        }
    }
    told
}

#[cfg(test)]
mod tests;
