//! What a tenant is rendered with.

use super::decide::Run;
use super::record::Upgrade;
use crate::record::Pin;
use crate::turn::Hold;
use berth_api::version::{Minor, Version};
use berth_plan::model::State;
use berth_render::Binary;
use jiff::{SignedDuration, Timestamp};

/// What a tenant is rendered with, and what is recorded of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Release {
    /// Version, templates and agent of all that is no component; of components too while no minor changes.
    pub(crate) pin: Pin,
    /// What components are rendered with, where that is not the pin: it becomes the pin once it has succeeded.
    pub(crate) next: Option<Pin>,
    /// The change of the minor that runs.
    pub(crate) change: Option<Change>,
    /// The change that is to be recorded.
    pub(crate) upgrade: Option<Upgrade>,
    /// The highest minor that is recorded as served.
    pub(super) served: Option<Minor>,
    /// What is waited for before the change is through, or before it begins; None: nothing, or only for the time.
    pub(crate) waits: Option<State>,
    /// It runs and emulates, and waits for the time alone.
    pub(crate) pending: Option<Pending>,
    /// Why the second step does not begin, though its time has come.
    pub(crate) hold: Option<Hold>,
    /// The record that changes of what runs wait for.
    pub(crate) recording: Option<String>,
    /// What is asked of the first new API server.
    pub(crate) canary: Option<Canary>,
}

impl Release {
    /// What a component is rendered with: its pin, and the minor that it emulates.
    pub(crate) fn pin_of(&self, binary: Binary) -> (&Pin, Option<Minor>) {
        let Some(change) = &self.change else { return (self.target(), None) };
        match change.runs.iter().find(|(of, _)| *of == binary).map_or(Run::Old, |(_, run)| *run) {
            Run::Old => (&change.old, None),
            Run::Emulating => (&change.new, Some(change.emulates)),
            Run::New => (&change.new, None),
        }
    }

    /// What components are rendered with while no minor changes.
    pub(crate) fn target(&self) -> &Pin {
        self.next.as_ref().unwrap_or(&self.pin)
    }

    /// What the spec asks for is rendered with this.
    pub(crate) fn wanted_pin(&self) -> Pin {
        let begins = || self.upgrade.as_ref().map(|upgrade| upgrade.to.clone());
        let change =
            self.change.as_ref().map(|change| if change.back { change.old.clone() } else { change.new.clone() });
        change.or_else(begins).unwrap_or_else(|| self.target().clone())
    }

    /// What its pods may be rendered with.
    pub(crate) fn pins(&self) -> impl Iterator<Item = &Pin> {
        let change = self.change.iter().flat_map(|change| [&change.old, &change.new]);
        std::iter::once(&self.pin).chain(&self.next).chain(change)
    }

    /// The pins whose templates are to be kept.
    pub(crate) fn kept(&self) -> Vec<&Pin> {
        let mut all: Vec<&Pin> = self.pins().collect();
        all.sort_by(|a, b| a.templates.cmp(&b.templates));
        all.dedup_by(|a, b| a.templates == b.templates);
        all
    }

    /// The minor that is to be recorded as served: never less than what was.
    pub(crate) fn served(&self) -> Minor {
        self.served.unwrap_or_default().max(self.pin.version.minor())
    }
}

/// A change of the minor, as it was read.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(super) old: Pin,
    pub(super) new: Pin,
    pub(super) emulates: Minor,
    /// What each of those runs that a release waits for. All others run the old release, which in the second step is the new one.
    pub(super) runs: Vec<(Binary, Run)>,
    /// It goes back.
    pub(crate) back: bool,
    /// What the tenant counts as until the API servers stopped emulating.
    pub(crate) counts_as: Version,
}

/// A first step that is through.
#[derive(Clone, Debug, PartialEq)]
pub struct Pending {
    /// What runs.
    pub version: Version,
    /// What is emulated, and can be gone back to.
    pub from: Version,
    /// When the second step begins.
    pub until: Timestamp,
}

/// What a release asks of its first new API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Canary {
    /// How long it is to serve.
    pub(crate) soak: SignedDuration,
    /// When the release was recorded: none of its pods is older.
    pub(crate) started: Timestamp,
}
