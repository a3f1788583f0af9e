//! The minor between the oldest and the newest, and a single member of the oldest.

use berth_e2e::versions::{OLDEST, of, works};

const BETWEEN: &str = "1.35.4";

#[test]
#[ignore = "make test-all: what lies between renders what its neighbours do, and its binaries take minutes to build"]
fn the_minor_between_and_a_single_member_of_the_oldest_run() {
    berth_e2e::run("versions", |world| {
        let single = of(world, "v134-one", OLDEST, "3.5.35", 1)?;
        let between = of(world, "v135", BETWEEN, "3.6.16", 1)?;
        works(&single, OLDEST, "3.5.35", 1)?;
        works(&between, BETWEEN, "3.6.16", 1)?;
        single.let_go()?;
        between.let_go()?;
        let three = of(world, "v135-ha", BETWEEN, "3.6.16", 3)?;
        works(&three, BETWEEN, "3.6.16", 3)?;
        three.let_go()
    });
}
