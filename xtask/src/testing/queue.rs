//! Parts of test programs that are to be run, and who runs what of them.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::part::Part;

/// How often is looked whether a part can run by now, whose binaries were missing.
const LOOK: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    waiting: Vec<Part>,
    /// Whether more may come.
    open: bool,
}

impl Default for Queue {
    fn default() -> Self {
        Self { state: Mutex::new(State { waiting: vec![], open: true }), changed: Condvar::new() }
    }
}

impl Queue {
    pub(super) fn add(&self, parts: Vec<Part>) {
        self.lock().waiting.extend(parts);
        self.changed.notify_all();
    }

    /// Nothing more comes once the guard is dropped, whatever happens until then.
    pub(super) fn closing(&self) -> Closing<'_> {
        Closing(self)
    }

    /// Takes the first part of those that are `mine` and `ready`, and waits for one. None: there is none left.
    pub(super) fn take(&self, mine: impl Fn(&Part) -> bool, ready: impl Fn(&Part) -> bool) -> Option<Part> {
        let mut state = self.lock();
        loop {
            let all = state.waiting.iter().enumerate();
            let first = all.filter(|(_, part)| mine(part) && ready(part)).min_by_key(|(_, part)| part.order());
            if let Some((place, _)) = first {
                return Some(state.waiting.swap_remove(place));
            }
            if !state.open && !state.waiting.iter().any(&mine) {
                return None;
            }
            state = self.changed.wait_timeout(state, LOOK).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) struct Closing<'q>(&'q Queue);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.0.lock().open = false;
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::super::binaries::Stage;
    use super::super::program::named;
    use super::*;
    use std::thread;

    fn parts(of: &[(&str, &str)]) -> Vec<Part> {
        of.iter().map(|(package, target)| Part::whole(named(package, target))).collect()
    }

    #[test]
    fn who_needs_what_is_not_there_keeps_nobody_waiting() {
        let queue = Queue::default();
        queue.add(parts(&[("berth-operator", "test alone"), ("berth-plan", "lib berth_plan")]));
        drop(queue.closing());
        let take = |there| queue.take(|_| true, |part| part.needs <= there).map(|part| part.program.package);
        assert_eq!(take(Stage::Nothing).as_deref(), Some("berth-plan"));
        assert_eq!(take(Stage::Server).as_deref(), Some("berth-operator"));
        assert_eq!(take(Stage::All), None);
    }

    #[test]
    fn each_takes_its_own_and_waits_for_what_comes() {
        let queue = &Queue::default();
        thread::scope(|scope| {
            let closing = queue.closing();
            let pods = scope.spawn(|| queue.take(|part| part.program.shares_a_cluster(), |_| true));
            queue.add(parts(&[("berth-plan", "lib berth_plan"), ("berth-e2e", "test usual")]));
            assert_eq!(pods.join().unwrap().unwrap().program.target, "test usual");
            let none = scope.spawn(|| queue.take(|part| part.program.shares_a_cluster(), |_| true).is_none());
            drop(closing);
            assert!(none.join().unwrap(), "what is another's is not waited for");
        });
    }
}
