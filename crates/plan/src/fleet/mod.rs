//! The order in which the tenants of a fleet change their version.
//!
//! One pure function decides it ([`decide`]), from all `Cluster`s and the turns that are recorded in their control-plane namespaces. A
//! turn is recorded before anything changes; who decides is the only one who records turns and takes them back.

mod member;
mod memory;
pub mod requests;
#[cfg(test)]
mod tests;

use crate::settings::Rollouts;
use berth_api::cluster::TurnState;
use jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet};

pub use member::{DEFAULT_WAVE, Member, TenantId, wave};
pub use memory::{LONGEST_TURN, Memory, PATIENCE};

/// The last wave.
const LAST_WAVE: u8 = 9;

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
        /// All of them are of this team, which alone is stopped.
        only: Option<String>,
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
    /// For the next decision.
    pub memory: Memory,
}

/// Who gets a turn. `before`: what the decision before remembered; empty for the first one of a process.
///
/// Whatever one team does in its namespace, others wait for it no longer than [`PATIENCE`] (with the soaks of lower waves) and
/// [`LONGEST_TURN`], and for no place of it where there is more than one.
pub fn decide(all: &[Member], limits: &Rollouts, before: &Memory, now: Timestamp) -> Decision {
    let fleet = Fleet { all, limits, memory: before.with(all, now), now };
    let mut decision = Decision::default();
    decision.take_back.extend(all.iter().filter(|m| m.gives_back(now)).map(|m| m.id.clone()));
    decision.open = all.iter().any(|m| m.turn.is_some() || m.unseen || m.state == Some(TurnState::Waiting));
    let running: Vec<&Member> = all.iter().filter(|m| m.runs()).collect();
    let mut places = Places::left_by(&running, &fleet);
    let stopped = stopped(all, limits);
    for (n, member) in fleet.in_turns(&running).into_iter().enumerate() {
        let told = before.told.get(&member.id);
        let answer = match stopped.get(&*member.to).filter(|stop| stop.holds(member)) {
            // Who failed may try again.
            Some(stop) if !member.came_back => {
                let only = (!stop.all).then(|| member.id.namespace.clone());
                let (version, back) = (member.to.clone(), stop.named(member));
                Some(Answer::Stopped { version, back, only, most: limits.max_failed })
            }
            _ => fleet.wave_before((n, member), told).or_else(|| fleet.soak(member)),
        };
        let answer = answer.or_else(|| {
            // It has one, towards another version: one tenant is still one.
            let may = member.turn.is_some() || places.has(member);
            (!may).then(|| full(&running, n, limits, told))
        });
        match answer {
            Some(answer) => drop(decision.answers.insert(member.id.clone(), answer)),
            None if !decision.take_back.contains(&member.id) => {
                if member.turn.is_none() {
                    places.take(member);
                }
                decision.grant.push((member.id.clone(), member.to.clone()));
            }
            None => {}
        }
    }
    let stopped = |m: &Member| matches!(decision.answers.get(&m.id), Some(Answer::Stopped { .. }));
    let idle = |m: &Member| m.turn.is_none() && !m.unseen && (m.state != Some(TurnState::Waiting) || stopped(m));
    decision.stands = decision.open && all.iter().all(idle);
    decision.memory = fleet.memory;
    decision.memory.told.clone_from(&decision.answers);
    for (id, _) in &decision.grant {
        decision.memory.serves(id, now);
    }
    decision
}

/// Who may begin beside those that run.
struct Places<'a> {
    /// Those that count for everybody.
    taken: usize,
    /// All of a team, also those that count for itself alone.
    of_team: BTreeMap<&'a str, usize>,
    most: usize,
    /// A team leaves one to others, if there are others and more than one place: nobody waits for all of its turns to end.
    most_of_team: usize,
}

impl<'a> Places<'a> {
    fn left_by(running: &[&'a Member], fleet: &Fleet<'a>) -> Self {
        let most = fleet.limits.max_concurrent;
        let teams: BTreeSet<&str> = fleet.all.iter().map(|m| &*m.id.namespace).collect();
        let most_of_team = if teams.len() > 1 && most > 1 { most - 1 } else { most };
        let taken = running.iter().filter(|m| !fleet.memory.is_overdue(m, fleet.now)).count();
        Self { taken, of_team: of_teams(running), most, most_of_team }
    }

    fn has(&self, member: &Member) -> bool {
        let own = self.of_team.get(&*member.id.namespace).copied().unwrap_or_default();
        self.taken < self.most && own < self.most_of_team
    }

    fn take(&mut self, member: &'a Member) {
        self.taken += 1;
        *self.of_team.entry(&member.id.namespace).or_default() += 1;
    }
}

fn of_teams<'a>(running: &[&'a Member]) -> BTreeMap<&'a str, usize> {
    let mut all = BTreeMap::new();
    for member in running {
        *all.entry(&*member.id.namespace).or_default() += 1;
    }
    all
}

/// A version towards which others do not start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stop<'a> {
    /// Who came back from it.
    pub back: BTreeSet<&'a TenantId>,
    /// It stops everybody. Otherwise each of some teams alone, by its own tenants, none of which is in a wave that only the platform gives: it
    /// can make them fail on purpose.
    pub all: bool,
    /// These teams.
    teams: BTreeSet<&'a str>,
}

impl<'a> Stop<'a> {
    /// However many of a team's tenants came back, for others that is one, but for those in waves that only the platform gives.
    fn after(members: &[&'a Member], most: usize) -> Self {
        let mut teams = of_teams(members);
        let early = members.iter().filter(|m| m.wave < DEFAULT_WAVE).count();
        let late: BTreeSet<&str> =
            members.iter().filter(|m| m.wave >= DEFAULT_WAVE).map(|m| &*m.id.namespace).collect();
        let back = members.iter().map(|m| &m.id).collect();
        teams.retain(|_, tenants| *tenants > most);
        // One team alone stops nobody, whatever the value is.
        let all = early > most || early + late.len() > most.max(1);
        Self { back, all, teams: teams.into_keys().collect() }
    }

    fn holds(&self, member: &Member) -> bool {
        self.all || self.teams.contains(&*member.id.namespace)
    }

    /// Those for whom this one is stopped.
    fn named(&self, member: &Member) -> Vec<TenantId> {
        let is_its = |id: &&&TenantId| self.all || id.namespace == member.id.namespace;
        self.back.iter().filter(is_its).map(|id| (*id).clone()).collect()
    }
}

/// Versions towards which nobody else starts, and who came back from them.
pub fn stopped<'a>(all: &'a [Member], limits: &Rollouts) -> BTreeMap<&'a str, Stop<'a>> {
    let mut back: BTreeMap<&str, Vec<&Member>> = BTreeMap::new();
    for member in all.iter().filter(|m| m.came_back) {
        back.entry(&member.to).or_default().push(member);
    }
    let stops = back.into_iter().map(|(version, members)| (version, Stop::after(&members, limits.max_failed)));
    stops.filter(|(_, stop)| stop.all || !stop.teams.is_empty()).collect()
}

/// All that a decision looks at.
struct Fleet<'a> {
    all: &'a [Member],
    limits: &'a Rollouts,
    memory: Memory,
    now: Timestamp,
}

impl<'a> Fleet<'a> {
    fn until(&self, member: &Member) -> Timestamp {
        self.memory.waited_for_until(member, self.limits, self.now)
    }

    /// Those that wait. Lower waves first, while their time lasts; in a wave a team after the other, and of teams with as many turns the one
    /// whose last was longest ago, so that one with many tenants keeps none from its turn; then who waits longest.
    fn in_turns(&self, running: &[&'a Member]) -> Vec<&'a Member> {
        let wave = |m: &Member| if self.now < self.until(m) { m.wave } else { LAST_WAVE };
        let mut waiting: Vec<(u8, &Member)> = self.all.iter().filter(|m| m.waits()).map(|m| (wave(m), m)).collect();
        waiting.sort_by_key(|(wave, m)| (*wave, m.since, &m.id));
        let of_team = of_teams(running);
        let mut before: BTreeMap<(u8, &str), usize> = BTreeMap::new();
        let mut ranked = vec![];
        for (wave, member) in waiting {
            let team = &*member.id.namespace;
            let earlier = before.entry((wave, team)).or_default();
            let rank = *earlier + of_team.get(team).copied().unwrap_or_default();
            ranked.push((wave, rank, self.memory.last_turn(member), member));
            *earlier += 1;
        }
        ranked.sort_by_key(|(wave, rank, last, m)| (*wave, *rank, *last, m.since, &m.id));
        ranked.into_iter().map(|(.., member)| member).collect()
    }

    /// A lower wave that is not through with the same version. As in [`full`], those who wait name different ones.
    fn wave_before(&self, (n, member): (usize, &Member), told: Option<&Answer>) -> Option<Answer> {
        let lower = self.all.iter().filter(|m| m.wave < member.wave && m.to == member.to);
        let is_open = |m: &&Member| m.is_open(self.until(m), self.memory.is_overdue(m, self.now), self.now);
        let open: Vec<&Member> = lower.filter(is_open).collect();
        let one = open.get(n.checked_rem(open.len())?)?;
        let same = |answer: &&Answer| matches!(answer, Answer::Wave { on, .. } if open.iter().any(|m| m.id == *on));
        let said = told.filter(same).cloned();
        Some(said.unwrap_or_else(|| Answer::Wave { wave: one.wave, on: one.id.clone() }))
    }

    /// Whoever ends in time is waited for, and not one that ends again and again.
    fn soak(&self, member: &Member) -> Option<Answer> {
        let before = self.all.iter().filter(|m| m.wave < member.wave && m.to == member.to && m.has_ended());
        let ended = before.filter_map(|m| {
            let last = self.until(m).checked_add(LONGEST_TURN).unwrap_or(Timestamp::MAX);
            m.since.filter(|since| *since < last)
        });
        let until = ended.max()?.checked_add(self.limits.wave_soak).ok()?;
        (until > self.now).then_some(Answer::Soak { until })
    }
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
