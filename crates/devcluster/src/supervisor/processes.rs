//! Restarting components, as an init system would.

use std::{
    collections::HashMap,
    process::Child,
    time::{Duration, Instant},
};

use anyhow::Result;
use tokio::time::sleep;

use crate::{
    components, files,
    layout::{Layout, RunDir},
    node::FIRST,
    process::{self, Process, Spec},
    state::State,
};

const PERIOD: Duration = Duration::from_millis(500);
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(20);

/// When a component was last started by us, and how long to wait before the next time.
struct Restart {
    at: Instant,
    pause: Duration,
}

/// Looks after every component, for ever.
pub(super) async fn keep(layout: &Layout, run: &RunDir, state: &State) {
    let mut children: Vec<Child> = Vec::new();
    let mut restarts: HashMap<String, Restart> = HashMap::new();
    loop {
        // Our own children would stay zombies.
        children.retain_mut(|child| matches!(child.try_wait(), Ok(None)));
        match specs(layout, run, state) {
            Ok((specs, _held)) => {
                for spec in specs {
                    match restart_if_dead(layout, run, &spec, &mut restarts) {
                        Ok(child) => children.extend(child),
                        Err(e) => eprintln!("processes: {e:#}"),
                    }
                }
            }
            Err(e) => eprintln!("processes: {e:#}"),
        }
        sleep(PERIOD).await;
    }
}

/// What should run now, and the lock under which that stays true: whoever kills a node holds it too.
fn specs(layout: &Layout, run: &RunDir, state: &State) -> Result<(Vec<Spec>, Option<files::Lock>)> {
    let held = if state.nodes > FIRST { files::Lock::try_acquire(&run.power_lock())? } else { None };
    let is_on = |node| node == FIRST || (held.is_some() && !run.is_killed(node));
    let mut all = components::first(layout, state.slot, state.nodes)?;
    all.extend(components::second(layout, state)?);
    // It may have been added since this supervisor started.
    all.extend(components::beside(layout, &State::read(layout)?.unwrap_or_else(|| state.clone()))?);
    all.retain(|spec| is_on(spec.node));
    Ok((all, held))
}

fn restart_if_dead(
    layout: &Layout,
    run: &RunDir,
    spec: &Spec,
    restarts: &mut HashMap<String, Restart>,
) -> Result<Option<Child>> {
    if process::recorded(run, &spec.name).is_some_and(Process::is_alive) {
        return Ok(None);
    }
    let now = Instant::now();
    let pause = match restarts.get(&spec.name) {
        Some(last) if now < last.at + last.pause => return Ok(None),
        // It ran for a good while: start over with the short pause.
        Some(last) if now > last.at + LONGEST_PAUSE * 3 => FIRST_PAUSE,
        Some(last) => (last.pause * 2).min(LONGEST_PAUSE),
        None => FIRST_PAUSE,
    };
    restarts.insert(spec.name.clone(), Restart { at: now, pause });
    eprintln!("processes: {} has ended, starting it again", spec.name);
    process::ensure(layout, run, spec)
}
