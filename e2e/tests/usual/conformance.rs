//! Kubernetes' own e2e suite, which nobody here wrote, against a tenant of the newest version with a pretended node.

use berth_devcluster::versions;
use berth_e2e::suite::{Specs, conforms};

#[test]
fn kubernetes_own_tests_pass() {
    berth_e2e::run("conformance", |world| conforms(world, versions::KUBERNETES, Specs::Quick));
}
