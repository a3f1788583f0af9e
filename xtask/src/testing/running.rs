//! What runs now: for a test that came too late, and for a run that may take no longer.

use std::collections::BTreeSet;
use std::fs;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Steps that are under way.
#[derive(Debug, Default)]
pub(super) struct Running(Mutex<Vec<(String, Instant)>>);

impl Running {
    /// Until it is dropped, the step is under way.
    pub(super) fn begin(&self, name: &str) -> Step<'_> {
        self.lock().push((name.to_owned(), Instant::now()));
        Step { running: self, name: name.to_owned() }
    }

    /// All but one, each with the time since it began, and the load of the machine.
    pub(super) fn beside(&self, name: &str) -> String {
        let steps = self.lock();
        let others: Vec<_> = steps.iter().filter(|(n, _)| n != name).map(|(n, since)| described(n, *since)).collect();
        let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let load = load.split_whitespace().next().unwrap_or("?");
        format!("{}; load {load}", if others.is_empty() { "nothing else".into() } else { others.join(", ") })
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(String, Instant)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn described(name: &str, since: Instant) -> String {
    format!("{name} ({:.0} s)", since.elapsed().as_secs_f32())
}

/// See [`Running::begin`].
#[derive(Debug)]
pub(super) struct Step<'r> {
    running: &'r Running,
    name: String,
}

impl Drop for Step<'_> {
    fn drop(&mut self) {
        let mut steps = self.running.lock();
        if let Some(index) = steps.iter().position(|(name, _)| *name == self.name) {
            steps.remove(index);
        }
    }
}

/// Programs that were started and have not ended.
static CHILDREN: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

/// Held by a test whose programs no other test may end.
#[cfg(test)]
pub(super) static OWN_PROGRAMS: Mutex<()> = Mutex::new(());

/// A program that was started, until it is dropped.
#[derive(Debug)]
pub(super) struct Child(u32);

impl Child {
    pub(super) fn new(pid: u32) -> Self {
        children().insert(pid);
        Self(pid)
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        children().remove(&self.0);
    }
}

fn children() -> MutexGuard<'static, BTreeSet<u32>> {
    CHILDREN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends every program that was started.
pub(super) fn end_children() {
    use rustix::process::{Pid, Signal, kill_process};
    for pid in children().iter().filter_map(|pid| Pid::from_raw(i32::try_from(*pid).ok()?)) {
        let _ = kill_process(pid, Signal::KILL);
    }
}

/// How long a run may take: where CI ends it later without a word.
pub(super) fn limit() -> Option<Duration> {
    let minutes: u64 = std::env::var("BERTH_TEST_LIMIT").ok()?.parse().ok()?;
    Some(Duration::from_mins(minutes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_runs_beside_a_step_is_all_that_has_not_ended() {
        let running = Running::default();
        let _a = running.begin("a");
        assert!(running.beside("a").starts_with("nothing else; load "));
        let b = running.begin("b");
        assert!(running.beside("a").starts_with("b (0 s); load "), "{}", running.beside("a"));
        drop(b);
        assert!(running.beside("c").starts_with("a (0 s); load "));
    }

    #[test]
    fn what_was_started_is_ended() {
        let _alone = OWN_PROGRAMS.lock().unwrap_or_else(PoisonError::into_inner);
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let _child = Child::new(child.id());
        end_children();
        assert!(!child.wait().unwrap().success());
    }
}
