//! The tests that docs/fault-matrix.md names are there.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::path::Path;

#[test]
fn each_test_that_the_fault_matrix_names_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = std::fs::read_to_string(root.join("docs/fault-matrix.md")).unwrap();
    let named: Vec<(&str, &str)> =
        page.split('`').skip(1).step_by(2).filter_map(|code| code.split_once("::")).collect();
    for (file, test) in &named {
        let source = std::fs::read_to_string(root.join(file)).unwrap_or_else(|e| panic!("{file}: {e}"));
        assert!(source.contains(&format!("fn {test}(")), "{file} has no test {test}");
    }
    assert!(named.len() > 20, "{}", named.len());
    let row = |number: u32| page.lines().filter(|line| line.starts_with(&format!("| F{number} |"))).count();
    let wanted = [2, 29].into_iter().chain(16..=23).chain(31..=35).chain(37..=46);
    for number in wanted {
        assert_eq!(row(number), 1, "F{number}");
    }
}
