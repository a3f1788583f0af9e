//! The order in which the tenants of a fleet change their version.
//!
//! One pure function decides it ([`decide`]), from all `Cluster`s and the turns that are recorded in their control-plane namespaces. A
//! turn is recorded before anything changes; who decides is the only one who records turns and takes them back.

mod member;
#[cfg(test)]
mod tests;

use crate::settings::Rollouts;
use berth_api::cluster::TurnState;
use jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet};

pub use member::{DEFAULT_WAVE, Member, TenantId, wave};

/// What a tenant waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// As many as may change at once do.
    Full {
        /// How many those are: `rollouts.maxConcurrent`.
        most: usize,
        /// One of them.
        on: Option<TenantId>,
    },
    /// A lower wave is not through.
    Wave {
        /// Which.
        wave: u8,
        /// One of its tenants that is not.
        on: TenantId,
    },
    /// The waves before it are through, and `rollouts.waveSoak` is not over.
    Soak {
        /// When it is.
        until: Timestamp,
    },
    /// Too many came back from the version.
    Stopped {
        /// Which version.
        version: String,
        /// Who did.
        back: Vec<TenantId>,
        /// `rollouts.maxFailed`.
        most: usize,
    },
}

/// What is to be recorded, and what those are told who wait.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// Who does not need the turn any more that is recorded. It counts until it is taken back.
    pub take_back: Vec<TenantId>,
    /// Who gets a turn, and towards which version.
    pub grant: Vec<(TenantId, String)>,
    /// What the others wait for.
    pub answers: BTreeMap<TenantId, Answer>,
    /// Somebody waits, or has a turn: it is to be decided again.
    pub open: bool,
    /// Whoever waits is stopped, and nobody has a turn: nothing but news changes that.
    pub stands: bool,
}

/// Who gets a turn. `told`: what was answered before, which is said again as long as it is true.
pub fn decide(all: &[Member], limits: &Rollouts, told: &BTreeMap<TenantId, Answer>, now: Timestamp) -> Decision {
    let mut decision = Decision::default();
    decision.take_back.extend(all.iter().filter(|m| m.gives_back(now)).map(|m| m.id.clone()));
    decision.open = all.iter().any(|m| m.turn.is_some() || m.unseen || m.state == Some(TurnState::Waiting));
    let running: Vec<&Member> = all.iter().filter(|m| m.runs()).collect();
    let mut free = limits.max_concurrent.saturating_sub(running.len());
    let stopped = stopped(all, limits);
    let mut waiting: Vec<&Member> = all.iter().filter(|m| m.waits()).collect();
    in_turns(&mut waiting, &running);
    for (n, member) in waiting.into_iter().enumerate() {
        let before = told.get(&member.id);
        let answer = match stopped.get(&*member.to) {
            // Who failed may try again.
            Some(back) if !member.came_back => {
                let (version, back) = (member.to.clone(), back.iter().map(|id| (*id).clone()).collect());
                Some(Answer::Stopped { version, back, most: limits.max_failed })
            }
            _ => wave_before((n, member), all, before, now).or_else(|| soak(member, all, limits, now)),
        };
        let answer = answer.or_else(|| {
            // It has one, towards another version: one tenant is still one.
            let may = member.turn.is_some() || free > 0;
            (!may).then(|| full(&running, n, limits, before))
        });
        match answer {
            Some(answer) => drop(decision.answers.insert(member.id.clone(), answer)),
            None if !decision.take_back.contains(&member.id) => {
                free -= usize::from(member.turn.is_none());
                decision.grant.push((member.id.clone(), member.to.clone()));
            }
            None => {}
        }
    }
    let stopped = |m: &Member| matches!(decision.answers.get(&m.id), Some(Answer::Stopped { .. }));
    let idle = |m: &Member| m.turn.is_none() && !m.unseen && (m.state != Some(TurnState::Waiting) || stopped(m));
    decision.stands = decision.open && all.iter().all(idle);
    decision
}

/// Lower waves first; in a wave a team after the other, so that one with many tenants keeps none from its turn.
fn in_turns(waiting: &mut Vec<&Member>, running: &[&Member]) {
    waiting.sort_by_key(|m| (m.wave, &m.id));
    let mut of_team: BTreeMap<&str, usize> = BTreeMap::new();
    for member in running {
        *of_team.entry(&member.id.namespace).or_default() += 1;
    }
    let mut before: BTreeMap<(u8, &str), usize> = BTreeMap::new();
    let mut ranked = vec![];
    for member in waiting.drain(..) {
        let team = &*member.id.namespace;
        let earlier = before.entry((member.wave, team)).or_default();
        ranked.push((member.wave, *earlier + of_team.get(team).copied().unwrap_or_default(), member));
        *earlier += 1;
    }
    ranked.sort_by_key(|(wave, rank, member)| (*wave, *rank, &member.id));
    waiting.extend(ranked.into_iter().map(|(.., member)| member));
}

/// Versions towards which nobody else starts, and who came back from them.
pub fn stopped<'a>(all: &'a [Member], limits: &Rollouts) -> BTreeMap<&'a str, BTreeSet<&'a TenantId>> {
    let mut back: BTreeMap<&str, BTreeSet<&TenantId>> = BTreeMap::new();
    for member in all.iter().filter(|m| m.came_back) {
        back.entry(&member.to).or_default().insert(&member.id);
    }
    back.retain(|_, all| all.len() > limits.max_failed);
    back
}

/// A lower wave that is not through with the same version. As in [`full`], those who wait name different ones.
fn wave_before((n, member): (usize, &Member), all: &[Member], told: Option<&Answer>, now: Timestamp) -> Option<Answer> {
    let before = all.iter().filter(|m| m.wave < member.wave && m.to == member.to && m.is_open(now));
    let open: Vec<&Member> = before.collect();
    let one = open.get(n.checked_rem(open.len())?)?;
    let same = |answer: &&Answer| matches!(answer, Answer::Wave { on, .. } if open.iter().any(|m| m.id == *on));
    let said = told.filter(same).cloned();
    Some(said.unwrap_or_else(|| Answer::Wave { wave: one.wave, on: one.id.clone() }))
}

fn soak(member: &Member, all: &[Member], limits: &Rollouts, now: Timestamp) -> Option<Answer> {
    let before = all.iter().filter(|m| m.wave < member.wave && m.to == member.to && m.has_ended());
    let until = before.filter_map(|m| m.since).max()?.checked_add(limits.wave_soak).ok()?;
    (until > now).then_some(Answer::Soak { until })
}

/// Those who wait name different ones, so that the end of one is no news for all: each of them reconciles.
fn full(running: &[&Member], n: usize, limits: &Rollouts, told: Option<&Answer>) -> Answer {
    let same = |answer: &&Answer| match answer {
        Answer::Full { most, on: Some(on) } => *most == limits.max_concurrent && running.iter().any(|m| m.id == *on),
        _ => false,
    };
    let one = running.get(n.checked_rem(running.len()).unwrap_or_default());
    let new = || Answer::Full { most: limits.max_concurrent, on: one.map(|m| m.id.clone()) };
    told.filter(same).cloned().unwrap_or_else(new)
}
