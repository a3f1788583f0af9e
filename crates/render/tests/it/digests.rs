//! What tenants have is what they keep: digests of every template set, and of all that each renders, as an earlier build made them.
//! Another digest restarts pods of every tenant that runs. Whoever means that raises `FORMAT` (or changes templates, which are
//! pinned) and writes the new digests with `BERTH_WRITE_DIGESTS=1 cargo test -p berth-render --test it digests::`.

use crate::fixtures::{full, in_format, minimal};
use berth_render::{Catalog, FORMAT};
use std::fmt::Write as _;
use std::path::PathBuf;

const MINORS: [(&str, &str); 3] = [("1.34.4", "3.5.35"), ("1.35.4", "3.6.16"), ("1.36.3", "3.6.16")];

fn file() -> PathBuf {
    PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("set by cargo")).join("tests/digests.txt")
}

fn digests() -> String {
    (2..=FORMAT).map(digests_of).collect()
}

/// Of sets of Kubernetes minors in that format.
fn digests_of(format: u32) -> String {
    let mut text = String::new();
    let catalog = Catalog::builtin();
    let sets = catalog.minors().into_iter().filter_map(|m| catalog.kubernetes(m)).map(|set| in_format(set, format));
    for set in sets.chain(catalog.etcd_minors().into_iter().filter_map(|m| catalog.etcd(m).cloned())) {
        let _ = writeln!(text, "{} templates {}", set.digest(), set.name());
    }
    for (version, etcd) in MINORS {
        let minor = version.rsplit_once('.').expect("a version").0.parse().expect("a minor");
        let set = in_format(catalog.kubernetes(minor).expect("built in"), format);
        for (name, fixture) in [("minimal", minimal(version, etcd)), ("full", full(version, etcd))] {
            for object in fixture.all_of(&set) {
                let _ = writeln!(text, "{} {name} {version} {}", object.digest(), object.key());
            }
        }
    }
    text
}

#[test]
fn rendered_bytes_are_those_of_the_build_before() {
    let now = digests();
    if std::env::var_os("BERTH_WRITE_DIGESTS").is_some() {
        std::fs::write(file(), &now).expect("written");
    }
    let before = std::fs::read_to_string(file()).expect("crates/render/tests/digests.txt");
    for (before, now) in before.lines().zip(now.lines()) {
        assert_eq!(before, now, "pods of tenants that run would be restarted");
    }
    assert_eq!(before.lines().count(), now.lines().count());
}
