//! A tenant of the fleet, as its `Cluster` and its control-plane namespace say it.

use super::requests;
use berth_api::cluster::{Cluster, RevisionSummary, TurnState};
use berth_api::labels;
use berth_api::revision::{RevisionCause, RevisionOutcome};
use berth_api::version::same;
use berth_render::ObjectKey;
use jiff::{SignedDuration, Timestamp};
use kube_core::ResourceExt as _;
use std::fmt;

/// A turn is kept that is needed again so soon.
const SOON: SignedDuration = SignedDuration::from_mins(2);

/// Where a `Cluster` is that says nothing, or nothing that can be read.
pub const DEFAULT_WAVE: u8 = 5;

/// A `Cluster`: its namespace and its name.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TenantId {
    /// Namespace of the `Cluster`.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl fmt::Display for TenantId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

impl From<&ObjectKey> for TenantId {
    fn from(key: &ObjectKey) -> Self {
        Self { namespace: key.namespace.clone().unwrap_or_default(), name: key.name.clone() }
    }
}

/// A tenant of the fleet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "facts")]
pub struct Member {
    /// Which.
    pub id: TenantId,
    /// Its wave.
    pub wave: u8,
    /// The version that its change leads to.
    pub to: String,
    /// How far that is. None: there is no change.
    pub state: Option<TurnState>,
    /// Since when.
    pub since: Option<Timestamp>,
    /// When it was asked for first, as far as the status tells.
    pub asked: Option<Timestamp>,
    /// When a change of any version last began or ended.
    pub served: Option<Timestamp>,
    /// When that ends by itself.
    pub until: Option<Timestamp>,
    /// The operator has not looked at the spec yet that asks for the version.
    pub unseen: bool,
    /// It came back from the version, by a change of nothing else.
    pub came_back: bool,
    /// The version towards which it has the turn.
    pub turn: Option<String>,
    /// How often it failed to come up with that version since it was well last; three changes amid a rollout count as one.
    pub failures: usize,
    /// A release is rolled out, of whatever version.
    pub rolls: bool,
    /// That all is as of the present spec.
    pub current: bool,
}

/// The wave of a `Cluster`.
pub fn wave(cluster: &Cluster) -> u8 {
    let label = cluster.labels().get(labels::WAVE);
    label.and_then(|text| text.parse().ok()).filter(|wave| *wave <= 9).unwrap_or(DEFAULT_WAVE)
}

impl Member {
    /// From a `Cluster`, and the annotation `berth.dev/turn` of its control-plane namespace. None: it is being deleted, or it has no control
    /// plane yet.
    pub fn of(cluster: &Cluster, turn: Option<&str>) -> Option<Self> {
        let meta = &cluster.metadata;
        let id = TenantId { namespace: meta.namespace.clone()?, name: meta.name.clone()? };
        let status = cluster.status.clone().unwrap_or_default();
        let newest = status.history.first();
        let rolls = newest.is_some_and(|newest| newest.outcome.is_none());
        let recorded = newest.map(|newest| &newest.version);
        if meta.deletion_timestamp.is_some() || (recorded.is_none() && turn.is_none()) {
            return None;
        }
        let said = status.turn;
        let current = status.observed_generation == meta.generation;
        let asked = &cluster.spec.version;
        let known = recorded.is_some_and(|recorded| same(recorded, asked));
        let unseen = !current && !known && said.as_ref().is_none_or(|said| !same(&said.to, asked));
        let busy = said.as_ref().is_some_and(|said| said.state == TurnState::Running);
        let mut member =
            Self { id, wave: wave(cluster), turn: turn.map(str::to_owned), rolls, current, ..Self::default() };
        match said {
            Some(said) if busy || !unseen => {
                (member.to, member.state, member.came_back) = (said.to, Some(said.state), said.came_back);
                (member.since, member.until) = (said.since.map(|t| t.0), said.until.map(|t| t.0));
            }
            _ => {
                member.to.clone_from(asked);
                member.unseen = unseen;
            }
        }
        let asked_for = status.requests.iter();
        // Of more than are remembered, each is as old as the oldest.
        let full = asked_for.len() >= requests::MOST;
        let oldest = asked_for.clone().filter_map(|r| r.since.as_ref()).map(|t| t.0).min().filter(|_| full);
        let known = asked_for.clone().find(|r| r.to == member.to).and_then(|r| Some(r.since.as_ref()?.0));
        member.asked = known.or(oldest).or(member.since.filter(|_| member.is_asked()));
        member.served = asked_for.filter_map(|r| r.last.as_ref()).map(|t| t.0).max();
        let since_well = status.history.iter().take_while(|r| r.outcome != Some(RevisionOutcome::Succeeded));
        // Of templates alone, the digest is behind the version.
        let (version, templates) =
            member.to.split_once('+').map_or((&*member.to, false), |(version, _)| (version, true));
        let is_of =
            |r: &&RevisionSummary| same(&r.version, version) && (r.cause == RevisionCause::Templates) == templates;
        let tries = || since_well.clone().filter(is_of);
        let superseded = tries().filter(|r| r.outcome == Some(RevisionOutcome::Superseded)).count();
        let failed = |outcome| matches!(outcome, Some(RevisionOutcome::RolledBack | RevisionOutcome::Held));
        member.failures = tries().filter(|r| failed(r.outcome)).count() + superseded / 3;
        Some(member)
    }

    /// It has a turn, or pods of it are replaced.
    pub fn runs(&self) -> bool {
        self.turn.is_some() || self.state == Some(TurnState::Running)
    }

    /// It waits for a turn towards the version that it asks for.
    pub(super) fn waits(&self) -> bool {
        self.current && self.state == Some(TurnState::Waiting) && self.turn.as_ref() != Some(&self.to)
    }

    /// It asks for a version, and is not through with it.
    pub(super) fn is_asked(&self) -> bool {
        self.unseen || matches!(self.state, Some(TurnState::Waiting | TurnState::Window | TurnState::Running))
    }

    /// Higher waves wait for it, until then at most. Not for one that tries again. What has begun in time may end; who has a turn for too long
    /// is `overdue`. What a team does in its namespace can add nothing to that: a window that never opens, a spec that changes all the time,
    /// a version that is set back and asked for again.
    pub(super) fn is_open(&self, until: Timestamp, overdue: bool, now: Timestamp) -> bool {
        match self.state {
            _ if self.failures > 0 => false,
            Some(TurnState::Running) => !overdue && self.since.is_none_or(|since| since < until),
            _ => self.is_asked() && now < until,
        }
    }

    /// It is through, well or not, and that for the first time.
    pub(super) fn has_ended(&self) -> bool {
        let through = matches!(self.state, Some(TurnState::Emulating | TurnState::Succeeded | TurnState::Failed));
        through && self.failures < 2
    }

    /// The turn that is recorded is of no use any more. While the status is of another spec, nobody knows.
    pub fn gives_back(&self, now: Timestamp) -> bool {
        if self.turn.is_none() || !self.current {
            return false;
        }
        match self.state {
            // One towards another version stays while that is rolled out.
            Some(TurnState::Waiting) => self.turn.as_ref() != Some(&self.to) && !self.rolls,
            Some(TurnState::Running) => false,
            // Also when its time came and a pod is not there: it asks anew when it can go on.
            Some(TurnState::Emulating) => self.until.is_none_or(|until| until.duration_since(now).abs() > SOON),
            None | Some(TurnState::Window | TurnState::Blocked | TurnState::Succeeded | TurnState::Failed) => true,
        }
    }
}
