//! What the tests of both planners lead to.

use crate::{app, installation};

#[test]
fn situations_are_written_down() {
    let mut all = app::tests::situations();
    all.extend(installation::tests::messages::situations());
    berth_testkit::situations::compare(&all);
}
