//! Jobs that have not ended long after their deadline.

use super::*;
use berth_render::Kind;

fn created_long_ago(w: &mut RestoreFixture) {
    let at = w.now - jiff::SignedDuration::from_hours(2);
    w.live(Kind::Job)["metadata"]["creationTimestamp"] = at.to_string().into();
}

#[test]
fn a_check_is_given_up_and_what_writes_to_a_volume_is_waited_for() {
    let mut w = RestoreFixture::new();
    w.ends(CHECK, None, None);
    assert!(w.says().starts_with("Checking "));
    created_long_ago(&mut w);
    let said = w.says();
    assert!(said.starts_with("Failed RestoreFailed: Job ") && said.contains("has not ended 70 minutes"), "{said}");
    let mut w = RestoreFixture::told(None, "Restore", 2);
    w.ends(RESTORE, None, None);
    created_long_ago(&mut w);
    let said = w.says();
    assert!(said.starts_with("Restoring "), "{said}");
}
