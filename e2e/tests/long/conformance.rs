//! What `usual` leaves out of Kubernetes' own e2e suite: its slow tests, and older minors.

use berth_devcluster::versions;
use berth_e2e::suite::{Specs, conforms};

#[test]
#[ignore = "make test-all: they wait up to a minute each for events that shall not come"]
fn kubernetes_own_slow_tests_pass() {
    berth_e2e::run("conformance", |world| conforms(world, versions::KUBERNETES, Specs::Slow));
}

#[test]
#[ignore = "make test-all: two more suites are built, and they run for minutes"]
fn those_of_older_minors_pass_on_older_minors() {
    let older = versions::KUBERNETES_OLDER;
    berth_e2e::run("conformance", |world| older.iter().try_for_each(|v| conforms(world, v, Specs::All)));
}
