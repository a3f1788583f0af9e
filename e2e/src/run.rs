//! One test: a world, a second chance, and what a person needs to see when it fails.

use std::{
    env,
    time::{Duration, Instant},
};

use anyhow::Result;

use crate::{World, report};

/// Runs a test. One that fails is reported with the state of its tenants and tried once more; one that passes then is
/// marked `FLAKY`.
#[expect(clippy::panic, reason = "a test fails by panicking")]
pub fn run(name: &str, test: impl Fn(&World) -> Result<()>) {
    assert!(
        env::var_os("BERTH_REAL").is_some_and(|value| value == "1"),
        "this test makes a real cluster with real pods: `make test` runs it, as root and with BERTH_REAL=1"
    );
    let first = match attempt(name, &test) {
        Ok(()) => return,
        Err(error) => error,
    };
    println!("{name}: FAILED: {first:?}");
    assert!(
        env::var_os("BERTH_E2E_KEEP").is_none(),
        "{name}: {first:?}\n(BERTH_E2E_KEEP is set: what it made is kept)"
    );
    match attempt(name, &test) {
        Ok(()) => println!("{name}: FLAKY: passed the second time; the first time: {first:#}"),
        Err(second) => panic!("{name}: {second:?}\n\nthe first time: {first:?}"),
    }
}

/// Whether the long tests were asked for, too: `make test-all`.
pub fn all() -> bool {
    let all = env::var_os("BERTH_E2E").is_some_and(|value| value == "all");
    if !all {
        println!("    left to `make test-all` (BERTH_E2E=all)");
    }
    all
}

fn attempt(name: &str, test: &impl Fn(&World) -> Result<()>) -> Result<()> {
    println!("{name}");
    let start = Instant::now();
    let world = World::open()?;
    let opened = start.elapsed();
    let result = test(&world);
    if result.is_err() {
        report::print(&world);
    }
    if env::var_os("BERTH_E2E_KEEP").is_some() && result.is_err() {
        return result;
    }
    let cleared = world.clear();
    let seconds = |d: Duration| d.as_secs();
    println!("{name}: {} s, of these {} to begin", seconds(start.elapsed()), seconds(opened));
    result.and(cleared)
}
