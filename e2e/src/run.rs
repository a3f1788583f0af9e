//! One test: a world, and what a person needs to see when it fails.

use std::{
    env,
    time::{Duration, Instant},
};

use anyhow::Result;

use crate::{World, report};

/// Runs a test. One that fails is reported with the state of its tenants. `make test` tries it once more, and says so.
#[expect(clippy::panic, reason = "a test fails by panicking")]
pub fn run(name: &str, test: impl Fn(&World) -> Result<()>) {
    must_be_real();
    if let Err(error) = attempt(name, &World::open, &test) {
        panic!("{name}: {error:#}");
    }
}

/// [`run`] on a cluster of three nodes of its own, which is removed again.
pub fn run_on_three_nodes(name: &str, test: impl Fn(&World) -> Result<()>) {
    run_apart(name, World::open_with_three_nodes, World::remove_three_nodes, test);
}

/// [`run`] on a cluster of its own that enforces NetworkPolicies, which is removed again.
pub fn run_with_network_policies(name: &str, test: impl Fn(&World) -> Result<()>) {
    run_apart(name, World::open_with_network_policies, World::remove_network_policies, test);
}

/// [`run`] on a new cluster of its own that has no images and no Berth, which is removed again.
pub fn run_bare(name: &str, test: impl Fn(&World) -> Result<()>) {
    run_apart(name, World::open_bare, World::remove_bare, test);
}

#[expect(clippy::panic, reason = "a test fails by panicking")]
fn run_apart(
    name: &str,
    open: impl Fn() -> Result<World>,
    remove: impl Fn() -> Result<()>,
    test: impl Fn(&World) -> Result<()>,
) {
    must_be_real();
    let result = attempt(name, &open, &test);
    if let Err(error) = result.and(remove()) {
        panic!("{name}: {error:#}");
    }
}

/// Fails a test that would pass without having run.
pub fn must_be_real() {
    assert!(
        env::var_os("BERTH_REAL").is_some_and(|value| value == "1"),
        "this test makes a real cluster with real pods: `make test` runs it, as root and with BERTH_REAL=1"
    );
}

fn attempt(name: &str, open: &impl Fn() -> Result<World>, test: &impl Fn(&World) -> Result<()>) -> Result<()> {
    println!("{name}");
    let start = Instant::now();
    let world = open()?;
    let opened = start.elapsed();
    let result = test(&world).and_then(|()| world.all_rest());
    if let Err(error) = &result {
        println!("failed: {error:#}");
        report::print(&world);
    }
    if env::var_os("BERTH_E2E_KEEP").is_some() && result.is_err() {
        println!("BERTH_E2E_KEEP is set: what it made is kept");
        return result;
    }
    let cleared = if result.is_ok() { world.let_go() } else { world.clear() };
    let seconds = |d: Duration| d.as_secs();
    println!("{name}: {} s, of these {} to begin", seconds(start.elapsed()), seconds(opened));
    result.and(cleared)
}
