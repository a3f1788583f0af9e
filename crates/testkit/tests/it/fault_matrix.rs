//! The tests that docs/fault-matrix.md and docs/releases-shown.md name are there.

/// The page, once each test that it names exists.
fn checked(page: &str, least: usize) -> String {
    let root = berth_testkit::fixtures::package().join("../..");
    let page = std::fs::read_to_string(root.join(page)).unwrap();
    let named: Vec<(&str, &str)> =
        page.split('`').skip(1).step_by(2).filter_map(|code| code.split_once("::")).collect();
    for (file, test) in &named {
        let source = std::fs::read_to_string(root.join(file)).unwrap_or_else(|e| panic!("{file}: {e}"));
        assert!(source.contains(&format!("fn {test}(")), "{file} has no test {test}");
    }
    assert!(named.len() > least, "{}", named.len());
    page
}

fn rows(page: &str, row: &str) -> usize {
    page.lines().filter(|line| line.starts_with(&format!("| {row} |"))).count()
}

#[test]
fn each_test_that_the_fault_matrix_names_exists() {
    let page = checked("docs/fault-matrix.md", 20);
    let wanted = [2, 29].into_iter().chain(16..=23).chain(31..=35).chain(37..=46);
    for number in wanted {
        assert_eq!(rows(&page, &format!("F{number}")), 1, "F{number}");
    }
}

#[test]
fn each_test_of_releases_that_is_named_exists() {
    let page = checked("docs/releases-shown.md", 40);
    for row in (1..=15).map(|n| format!("R{n}")).chain((1..=11).map(|n| format!("B{n}"))) {
        assert_eq!(rows(&page, &row), 1, "{row}");
    }
}
