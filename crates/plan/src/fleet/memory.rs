//! What nobody's status can be made to forget: how long a team is waited for, and who had a turn last.
//!
//! The statuses of a team's `Cluster`s say most of it, and go with the `Cluster`s. So whoever decides remembers it, too, as long as the
//! process lives.

use super::{Answer, Member, TenantId};
use crate::settings::Rollouts;
use berth_api::cluster::TurnState;
use jiff::{SignedDuration, Timestamp};
use std::collections::BTreeMap;

/// How long a team's lower waves are waited for, from its first request for a version: a window opens once a week at least.
pub const PATIENCE: SignedDuration = SignedDuration::from_hours(8 * 24);

/// How long a turn is counted. A change ends within its deadline and its soak, a day each at most: one that takes longer is prolonged by its
/// team, which has it to itself then.
pub const LONGEST_TURN: SignedDuration = SignedDuration::from_hours(3 * 24);

/// How long a request is remembered that nobody makes any more.
const KEPT: SignedDuration = SignedDuration::from_hours(90 * 24);

/// Requests of a team that are remembered. One more is as old as its oldest.
const MOST: usize = 64;

/// What is remembered from one decision to the next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// What those were told who wait, which is said again as long as it is true.
    pub told: BTreeMap<TenantId, Answer>,
    /// When a team first asked for a version: team, then version.
    asked: BTreeMap<String, BTreeMap<String, Timestamp>>,
    /// When a team got a turn last.
    served: BTreeMap<String, Timestamp>,
    /// Who has a turn, or is at work, and since when.
    busy: BTreeMap<TenantId, Timestamp>,
}

impl Memory {
    /// With what is seen now.
    pub(super) fn with(&self, all: &[Member], now: Timestamp) -> Self {
        let mut next = self.clone();
        for versions in next.asked.values_mut() {
            versions.retain(|_, at| now.duration_since(*at) < KEPT);
        }
        for member in all.iter().filter(|m| m.is_asked() || m.asked.is_some()) {
            let versions = next.asked.entry(member.id.namespace.clone()).or_default();
            let seen = member.asked.unwrap_or(now).min(now);
            if let Some(at) = versions.get_mut(&member.to) {
                *at = seen.min(*at);
            } else if versions.len() < MOST {
                versions.insert(member.to.clone(), seen);
            }
        }
        next.asked.retain(|_, versions| !versions.is_empty());
        for (member, at) in all.iter().filter_map(|m| Some((m, m.served?))) {
            next.serves(&member.id, at.min(now));
        }
        next.busy.retain(|id, _| all.iter().any(|m| m.id == *id && m.runs()));
        for member in all.iter().filter(|m| m.runs()) {
            next.busy.entry(member.id.clone()).or_insert(now);
        }
        next
    }

    /// A team gets a turn.
    pub(super) fn serves(&mut self, id: &TenantId, at: Timestamp) {
        let last = self.served.entry(id.namespace.clone()).or_insert(at);
        *last = at.max(*last);
    }

    /// When a team had a turn last.
    pub(super) fn last_turn(&self, member: &Member) -> Option<Timestamp> {
        self.served.get(&member.id.namespace).copied()
    }

    /// Until when higher waves wait for a tenant. Each wave before its own may soak first.
    pub(super) fn waited_for_until(&self, member: &Member, limits: &Rollouts, now: Timestamp) -> Timestamp {
        let team = self.asked.get(&member.id.namespace);
        let first = team.and_then(|all| all.get(&member.to).or_else(|| all.values().min()));
        let soaks = limits.wave_soak.saturating_mul(i32::from(member.wave));
        let first = first.copied().unwrap_or(now);
        PATIENCE.checked_add(soaks).and_then(|wait| first.checked_add(wait).ok()).unwrap_or(Timestamp::MAX)
    }

    /// It has had its turn for longer than any change takes. A status tells it, too, to whoever decides for the first time.
    pub(super) fn is_overdue(&self, member: &Member, now: Timestamp) -> bool {
        let runs = member.since.filter(|_| member.state == Some(TurnState::Running));
        let since = [self.busy.get(&member.id).copied(), runs].into_iter().flatten().min();
        since.is_some_and(|since| now.duration_since(since) > LONGEST_TURN)
    }
}
