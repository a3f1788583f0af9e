//! Who gets an app, and when: from what is there to the next steps.

#[cfg(test)]
mod tests;

use berth_api::app::AppState;

/// One `Cluster`, as far as an app is concerned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "facts")]
pub(super) struct Place {
    /// Whether it is to have it.
    pub(super) wanted: bool,
    /// What of it is there.
    pub(super) there: Option<There>,
    /// It lacks an app that comes first.
    pub(super) lacks: bool,
    /// Its wave, from 0.
    pub(super) wave: usize,
    /// It sleeps, is paused or does not answer: nobody knows for how long.
    pub(super) is_away: bool,
    /// It is away since somebody meant it to be.
    pub(super) rests: Option<Rest>,
    /// It is not meant any more, and keeps it until a person has confirmed that.
    pub(super) stays: bool,
    /// It is younger than the app: nothing that it has can break.
    pub(super) is_young: bool,
}

/// Why a tenant is away that is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rest {
    /// It sleeps, or falls asleep.
    Asleep,
    /// `spec.paused` is true.
    Paused,
}

/// An installation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "facts")]
pub(super) struct There {
    /// Its spec is as that of the `App`.
    pub(super) is_newest: bool,
    /// It is of another `Cluster` of that name, which is gone.
    pub(super) is_of_former: bool,
    /// It failed since its spec was changed last, and has not succeeded since.
    pub(super) failed: bool,
    /// It failed for a release of that name which is somebody else's: that says nothing of the app.
    pub(super) is_foreign: bool,
    /// A Job is at work, or about to be: for a spec of any age, and also for one that failed before.
    pub(super) runs: bool,
    /// Nothing of it was begun in the tenant yet.
    pub(super) is_bare: bool,
    /// What it says; that it is being deleted before all else.
    pub(super) state: AppState,
}

/// What is done about one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// It stays as it is.
    None,
    /// It is made.
    Create,
    /// It is given the newest spec.
    Update,
    /// It is deleted.
    Delete,
}

/// What is done about all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Decision {
    /// The steps, in the order of the places.
    pub(super) steps: Vec<Step>,
    /// Others are held back by failures.
    pub(super) held: bool,
    /// The first wave that is not through. None: all are.
    pub(super) wave: Option<usize>,
}

impl Place {
    /// Whether it has one of the places of those at work. What is to be uninstalled from a tenant that is away may wait for weeks.
    pub(super) fn takes_a_place(&self) -> bool {
        self.there.is_some_and(|there| there.runs || (there.state == AppState::Deleting && !self.is_away))
    }

    /// Whether its failure may keep others from it. Of a tenant that does not answer it does: the app may be why.
    pub(super) fn counts_as_failed(&self) -> bool {
        let failed = self.there.is_some_and(|there| there.is_newest && there.failed && !there.is_foreign);
        self.wanted && failed && self.rests.is_none()
    }

    /// Whether later waves need not wait for it. One that waits for what the app lacks, such as a Secret, shows no less that something is wrong
    /// than one that fails.
    fn is_through(&self) -> bool {
        match &self.there {
            Some(there) if there.is_newest && !there.is_of_former => match there.state {
                AppState::Deployed => true,
                AppState::Waiting => self.is_away,
                AppState::Failed => there.is_foreign || self.rests.is_some(),
                AppState::Deleting | AppState::Running | AppState::Queued => false,
            },
            _ => self.is_away,
        }
    }

    /// Whether that wave is not through for its sake.
    pub(super) fn holds_up(&self, wave: Option<usize>) -> bool {
        self.wanted && !self.is_through() && wave == Some(self.wave)
    }

    /// Whether it waits for no wave, and for nobody's turn before its own.
    fn comes_first(&self) -> bool {
        self.is_young && self.there.is_none_or(|there| there.is_bare && !there.is_newest)
    }

    /// Whether it has what it needs, if an older one.
    fn is_well(&self) -> bool {
        self.there.is_some_and(|there| there.state == AppState::Deployed)
    }

    /// Whether an earlier wave holds it up. `at`: the first one that is not through.
    pub(super) fn waits_for_wave(&self, at: Option<usize>) -> bool {
        !self.comes_first() && at.is_some_and(|at| self.wave > at)
    }
}

/// What to do now.
pub(super) fn decide(places: &[Place], at_once: usize, failures: usize) -> Decision {
    let mut room = at_once.saturating_sub(places.iter().filter(|place| place.takes_a_place()).count());
    let too_many = places.iter().filter(|place| place.counts_as_failed()).count() >= failures;
    let wave = places.iter().filter(|place| place.wanted && !place.is_through()).map(|place| place.wave).min();
    let mut held = false;
    let mut step = |place: &Place| {
        let mut take = |step: Step| {
            if place.takes_a_place() {
                return step;
            }
            if room == 0 {
                return Step::None;
            }
            room -= 1;
            step
        };
        match place.there {
            Some(there) if there.state == AppState::Deleting => Step::None,
            Some(there) if there.is_of_former => Step::Delete,
            Some(_) if place.stays => Step::None,
            Some(_) if !place.wanted => take(Step::Delete),
            Some(there) if there.is_newest => Step::None,
            None if !place.wanted => Step::None,
            _ if place.lacks => Step::None,
            _ if too_many => {
                held = true;
                Step::None
            }
            _ if place.waits_for_wave(wave) => Step::None,
            Some(_) => take(Step::Update),
            None => take(Step::Create),
        }
    };
    // A new tenant may lack its network plugin: it is not to wait behind all that have one.
    let mut order: Vec<(usize, &Place)> = places.iter().enumerate().collect();
    // Else one that is late in the order would get none of what changes often, and those that lack something would wait for those that do not.
    order.sort_by_key(|(_, place)| (!place.comes_first(), place.wave, place.is_well()));
    let mut steps: Vec<(usize, Step)> = order.into_iter().map(|(at, place)| (at, step(place))).collect();
    steps.sort_by_key(|(at, _)| *at);
    Decision { steps: steps.into_iter().map(|(_, step)| step).collect(), held, wave }
}
