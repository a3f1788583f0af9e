//! What is built of Kubernetes, while test programs are built and those run that need no more than what is there.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// How far it is: each stage has what those before it have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    #[default]
    Nothing,
    /// API servers, etcd and the clients: no pods.
    Server,
    /// A cluster with pods.
    Cluster,
    /// Every version that `make test` runs.
    Core,
    /// Every version, and all of Kubernetes' own suites.
    All,
}

impl Stage {
    /// As `devcluster build --only` calls it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Server => "server",
            Self::Cluster => "cluster",
            Self::Core => "core",
            Self::All => "all",
        }
    }
}

/// What is there, for those who wait for it.
#[derive(Debug, Default)]
pub(super) struct Binaries {
    state: Mutex<(Stage, Building)>,
    changed: Condvar,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Building {
    #[default]
    GoesOn,
    Over,
}

impl Binaries {
    /// Builds stage after stage, up to the last one or the first that fails.
    pub(super) fn build(&self, last: Stage, mut stage: impl FnMut(Stage) -> bool) {
        // Whatever happens, nobody waits for ever.
        let _over = Over(self);
        for next in [Stage::Server, Stage::Cluster, Stage::Core, Stage::All] {
            if next > last || !stage(next) {
                return;
            }
            self.lock().0 = next;
            self.changed.notify_all();
        }
    }

    /// Waits for a stage. False: it could not be built, or nobody builds it.
    pub(super) fn wait(&self, stage: Stage) -> bool {
        let waiting = |(built, building): &mut (Stage, Building)| *built < stage && *building == Building::GoesOn;
        self.changed.wait_while(self.lock(), waiting).unwrap_or_else(PoisonError::into_inner).0 >= stage
    }

    /// How far it is by now.
    pub(super) fn there(&self) -> Stage {
        self.lock().0
    }

    /// Whether a stage is there; none while that is not known yet.
    pub(super) fn known(&self, stage: Stage) -> Option<bool> {
        let (built, building) = *self.lock();
        if built >= stage { Some(true) } else { (building == Building::Over).then_some(false) }
    }

    fn lock(&self) -> MutexGuard<'_, (Stage, Building)> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Over<'b>(&'b Binaries);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.lock().1 = Building::Over;
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_goes_on_as_soon_as_what_it_needs_is_there() {
        let (binaries, (free, hold)) = (&Binaries::default(), std::sync::mpsc::channel());
        std::thread::scope(|scope| {
            scope.spawn(move || {
                binaries.build(Stage::Core, |stage| {
                    if stage == Stage::Core {
                        hold.recv().unwrap();
                    }
                    true
                });
            });
            assert!(binaries.wait(Stage::Nothing) && binaries.wait(Stage::Server) && binaries.wait(Stage::Cluster));
            assert_eq!((binaries.known(Stage::Cluster), binaries.known(Stage::Core)), (Some(true), None));
            free.send(()).unwrap();
            assert!(binaries.wait(Stage::Core));
            assert!(!binaries.wait(Stage::All), "nobody builds that");
        });
    }

    #[test]
    fn who_waits_for_what_cannot_be_built_is_reported() {
        let binaries = Binaries::default();
        binaries.build(Stage::All, |stage| stage == Stage::Server);
        assert!(binaries.wait(Stage::Server) && !binaries.wait(Stage::Cluster));
        assert_eq!((binaries.known(Stage::Server), binaries.known(Stage::Cluster)), (Some(true), Some(false)));
    }
}
