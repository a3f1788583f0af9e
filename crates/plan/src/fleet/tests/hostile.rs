//! One team that may do anything in its namespace, against a fleet: however it plays, every other tenant has its turn within a bound.
//!
//! The operator's part is played as it is: members are read from statuses, requests are remembered in them, turns are recorded and taken back.
//! The team's part is anything that a namespace admin can do with `Cluster`s: admission keeps statuses, turns and lower waves from it.

use super::*;
use crate::fleet::requests;
use berth_api::cluster::{RevisionSummary, TurnStatus};
use berth_api::labels;
use berth_api::revision::{RevisionCause, RevisionOutcome};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

const OLD: &str = "1.36.2";
const NEW: &str = "1.36.3";
const EVIL: &str = "evil";

/// What the team may do with one of its tenants within an hour.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Move {
    Ask,
    SetBack,
    CloseWindow,
    OpenWindow,
    Pause,
    GoOn,
    /// Its spec changes faster than the operator writes statuses.
    Flap,
    /// It never comes up.
    Poison,
    /// Its rollout begins anew, without a turn.
    Prolong,
    /// Delete the `Cluster`, and make one of the same name.
    Recreate,
    /// Another wave that everybody may set.
    Wave,
    Nothing,
}

const MOVES: [Move; 12] = [
    Move::Ask,
    Move::SetBack,
    Move::CloseWindow,
    Move::OpenWindow,
    Move::Pause,
    Move::GoOn,
    Move::Flap,
    Move::Poison,
    Move::Prolong,
    Move::Recreate,
    Move::Wave,
    Move::Nothing,
];

#[derive(Clone, Debug, Default)]
struct Tenant {
    cluster: Cluster,
    /// As its control-plane namespace has it.
    turn: Option<String>,
    runs: String,
    /// Hours until its rollout is through.
    left: usize,
    takes: usize,
    window: bool,
    poisoned: bool,
}

impl Tenant {
    fn new(team: &str, name: &str, wave: u8, takes: usize) -> Self {
        let mut cluster = Cluster::default();
        let meta = &mut cluster.metadata;
        (meta.namespace, meta.name, meta.generation) = (Some(team.into()), Some(name.into()), Some(1));
        meta.labels = Some([(labels::WAVE.to_owned(), wave.to_string())].into());
        cluster.spec.version = OLD.into();
        let first = RevisionSummary { revision: 1, version: OLD.into(), ..RevisionSummary::default() };
        let history = vec![RevisionSummary { outcome: Some(RevisionOutcome::Succeeded), ..first }];
        let status = berth_api::cluster::ClusterStatus { observed_generation: Some(1), history, ..Default::default() };
        cluster.status = Some(status);
        Self { cluster, runs: OLD.into(), takes, window: true, ..Self::default() }
    }

    fn id(&self) -> TenantId {
        let meta = &self.cluster.metadata;
        TenantId { namespace: meta.namespace.clone().unwrap(), name: meta.name.clone().unwrap() }
    }

    fn member(&self) -> Member {
        Member::of(&self.cluster, self.turn.as_deref()).unwrap()
    }

    fn changes(&mut self) {
        *self.cluster.metadata.generation.as_mut().unwrap() += 1;
    }

    fn asks(&mut self, version: &str) {
        if self.cluster.spec.version != version {
            self.cluster.spec.version = version.into();
            self.changes();
        }
    }

    fn state(&self) -> Option<(String, TurnState)> {
        self.cluster.status.as_ref()?.turn.as_ref().map(|turn| (turn.to.clone(), turn.state))
    }

    fn begins(&mut self, version: &str, cause: RevisionCause) {
        let history = &mut self.cluster.status.as_mut().unwrap().history;
        if let Some(newest) = history.first_mut() {
            newest.outcome.get_or_insert(RevisionOutcome::Superseded);
        }
        let revision = history.first().map_or(1, |newest| newest.revision + 1);
        history.insert(0, RevisionSummary { revision, version: version.into(), cause, ..RevisionSummary::default() });
        history.truncate(10);
        self.left = self.takes;
    }

    fn ends(&mut self, outcome: RevisionOutcome) {
        self.cluster.status.as_mut().unwrap().history[0].outcome = Some(outcome);
    }

    /// What a reconcile makes of it.
    fn reconcile(&mut self, now: Timestamp) {
        let asked = self.cluster.spec.version.clone();
        let old = self.cluster.status.clone().unwrap();
        let rolls = old.history[0].outcome.is_none();
        let rolling = Some(old.history[0].version.clone()).filter(|_| rolls);
        let before = self.state();
        let next = match (rolling, before) {
            (Some(to), _) if asked != to => {
                // The way back takes no turn.
                self.ends(RevisionOutcome::Superseded);
                None
            }
            (Some(to), _) if self.cluster.spec.paused => Some((to, Blocked)),
            (Some(to), _) if self.left > 0 => Some((to, Running)),
            (Some(to), _) if self.poisoned => {
                self.ends(RevisionOutcome::RolledBack);
                Some((to, Failed))
            }
            (Some(to), _) => {
                self.ends(RevisionOutcome::Succeeded);
                self.runs.clone_from(&to);
                Some((to, Succeeded))
            }
            (None, before) if asked == self.runs => before.filter(|(to, state)| *to == asked && *state == Succeeded),
            (None, Some((to, Failed))) if to == asked => Some((to, Failed)),
            (None, _) if self.cluster.spec.paused => Some((asked.clone(), Blocked)),
            (None, _) if !self.window => Some((asked.clone(), Window)),
            (None, _) if self.turn.as_ref() == Some(&asked) => {
                self.begins(&asked, RevisionCause::Upgrade);
                Some((asked.clone(), Running))
            }
            (None, _) => Some((asked.clone(), Waiting)),
        };
        if asked == OLD {
            self.runs = OLD.into();
        }
        let status = self.cluster.status.as_mut().unwrap();
        status.turn = next.map(|(to, state)| {
            let same = old.turn.as_ref().filter(|turn| turn.to == to && turn.state == state);
            let since = same.and_then(|turn| turn.since.clone()).unwrap_or(Time(now));
            TurnStatus { to, state, since: Some(since), until: None, came_back: state == Failed }
        });
        status.requests = requests::after(&old, status.turn.as_ref(), now);
        status.observed_generation = self.cluster.metadata.generation;
    }

    fn plays(&mut self, play: Move, dice: &mut Dice) {
        match play {
            Move::Ask => self.asks(NEW),
            Move::SetBack => self.asks(OLD),
            Move::CloseWindow => self.window = false,
            Move::OpenWindow => self.window = true,
            Move::Pause => self.cluster.spec.paused = true,
            Move::GoOn => self.cluster.spec.paused = false,
            Move::Poison => self.poisoned = true,
            Move::Prolong if self.state().is_some_and(|(_, state)| state == Running) => {
                let to = self.cluster.spec.version.clone();
                self.begins(&to, RevisionCause::Upgrade);
            }
            Move::Recreate => {
                let (name, takes) = (self.id().name, self.takes);
                *self = Self::new(EVIL, &name, 5, takes);
            }
            Move::Wave => {
                let wave = 5 + dice.roll(5);
                self.cluster.metadata.labels = Some([(labels::WAVE.to_owned(), wave.to_string())].into());
            }
            Move::Prolong | Move::Flap | Move::Nothing => {}
        }
    }
}

/// One hour after the other; returns after how many all others are through, and how often the operator was restarted meanwhile.
fn hours_until_all_others_are_through(seed: u64, limits: &Rollouts) -> (Option<i64>, i32) {
    let mut dice = Dice(seed);
    // It sticks to a few kinds of moves, so that each is played for long, too.
    let moves: Vec<Move> = (0..=dice.roll(4)).map(|_| MOVES[dice.roll(MOVES.len())]).chain([Move::Ask]).collect();
    let own = 1 + dice.roll(12);
    let mut fleet: Vec<Tenant> = (0..own).map(|n| Tenant::new(EVIL, &format!("a{n}"), 5, 48)).collect();
    let others = [("a-team", "a", 5), ("team", "a", 5), ("team", "b", 5), ("team", "c", 7), ("zebra", "a", 9)];
    let asks_at = dice.roll(24 * 12);
    fleet.extend(others.map(|(team, name, wave)| Tenant::new(team, name, wave, 2)));
    // What is remembered of a Cluster that is gone, only the process knows.
    let restarts = !moves.contains(&Move::Recreate) && dice.roll(2) == 0;
    let mut restarted = 0;
    let start: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    let mut memory = Memory::default();
    for hour in 0..24 * 400 {
        let now = start + SignedDuration::from_hours(hour);
        if hour >= i64::try_from(asks_at).unwrap() {
            fleet.iter_mut().filter(|t| t.id().namespace != EVIL).for_each(|t| t.asks(NEW));
        }
        for tenant in &mut fleet {
            tenant.left = tenant.left.saturating_sub(1);
            if tenant.id().namespace == EVIL {
                let play = moves[dice.roll(moves.len())];
                tenant.plays(play, &mut dice);
            }
        }
        for _ in 0..2 {
            for tenant in &mut fleet {
                tenant.reconcile(now);
            }
            if moves.contains(&Move::Flap) {
                fleet.iter_mut().filter(|t| t.id().namespace == EVIL && dice.roll(4) > 0).for_each(Tenant::changes);
            }
            let all: Vec<Member> = fleet.iter().map(Tenant::member).collect();
            let decision = decide(&all, limits, &memory, now);
            for tenant in &mut fleet {
                let id = tenant.id();
                if decision.take_back.contains(&id) {
                    tenant.turn = None;
                }
                if let Some((_, to)) = decision.grant.iter().find(|(granted, _)| *granted == id) {
                    tenant.turn = Some(to.clone());
                }
            }
            memory = decision.memory;
            if restarts && dice.roll(1000) == 0 {
                memory = Memory::default();
                restarted += 1;
            }
        }
        if fleet.iter().all(|t| t.id().namespace == EVIL || t.runs == NEW) {
            return (Some(hour - i64::try_from(asks_at).unwrap()), restarted);
        }
    }
    (None, restarted)
}

#[test]
fn however_one_team_plays_every_other_tenant_has_its_turn_within_a_bound() {
    for seed in 0..120 {
        let max_concurrent = [1, 2, 3, 10][usize::try_from(seed % 4).unwrap()];
        let wave_soak = SignedDuration::from_hours(if seed % 3 == 0 { 6 } else { 0 });
        let limits = Rollouts { max_concurrent, wave_soak, ..Rollouts::default() };
        // As docs/threat-model.md says: eight days and the soaks of nine waves, a turn that had begun, and where there is one place alone,
        // a turn of that team before each of the others.
        let waves = PATIENCE + LONGEST_TURN + wave_soak * 9 * 2;
        let each =
            SignedDuration::from_hours(4) + if max_concurrent == 1 { LONGEST_TURN } else { SignedDuration::ZERO };
        let (took, restarted) = hours_until_all_others_are_through(seed, &limits);
        // A turn that only the process knows counts anew then.
        let bound = (waves + each * 6 + LONGEST_TURN * restarted).as_hours();
        assert!(took.is_some_and(|took| took <= bound), "seed {seed}: {took:?} hours, and not {bound}");
    }
}
