//! What is to hold, the tests that show it, and the last runs of what takes long: docs/evidence.md, from docs/evidence.yaml.

pub(crate) mod last;

use anyhow::{Context as _, bail};
use serde::Deserialize;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;

use self::last::{LastRun, SOURCE};
use crate::reference::{NOTE, cell};
use crate::shell::Result;
use crate::{Generated, names, root};

/// Letters of a sentence. What needs more belongs into the comment of a test, or onto a page of the design.
const MOST: usize = 200;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Source {
    groups: Vec<Group>,
}

/// A section of the page: claims, or runs.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Group {
    title: String,
    about: String,
    #[serde(default)]
    claims: Vec<Claim>,
    #[serde(default)]
    runs: Vec<LastRun>,
}

/// Something that is to hold.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Claim {
    id: String,
    what: String,
    how: Vec<How>,
    /// `path::name`; a folder for all tests in it.
    tests: Vec<String>,
    not_shown: Option<String>,
}

/// What a test runs.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum How {
    Pods,
    Processes,
    Memory,
    Search,
}

impl How {
    fn name(self) -> &'static str {
        match self {
            Self::Pods => "pods",
            Self::Processes => "processes",
            Self::Memory => "memory",
            Self::Search => "search",
        }
    }
}

/// The page. An error names what is wrong with its source.
pub(crate) fn files() -> Result<Vec<Generated>> {
    let text = fs::read_to_string(root().join(SOURCE)).context(SOURCE)?;
    let source: Source = serde_saphyr::from_str(&text).context(SOURCE)?;
    let wrong = wrong(&source, &is_there);
    if !wrong.is_empty() {
        bail!("{SOURCE}:\n  {}", wrong.join("\n  "));
    }
    Ok(vec![("docs/evidence.md".into(), page(&source))])
}

/// Whether this checkout has such a test.
fn is_there(test: &str) -> bool {
    let Some((file, name)) = test.split_once("::") else { return root().join(test).is_dir() };
    let text = fs::read_to_string(root().join(file)).unwrap_or_default();
    names::tests(&text).iter().any(|(path, _)| path.rsplit("::").next() == Some(name))
}

fn wrong(source: &Source, is_there: &impl Fn(&str) -> bool) -> Vec<String> {
    let mut wrong = vec![];
    let mut seen = BTreeSet::new();
    let mut long = |of: &str, text: &str| {
        let letters = text.chars().count();
        if letters > MOST {
            wrong.push(format!("{of}: {letters} letters, of at most {MOST}: {text}"));
        }
    };
    for LastRun { run, what, result, .. } in source.groups.iter().flat_map(|group| &group.runs) {
        long(run, what);
        long(run, result);
    }
    let claims = || source.groups.iter().flat_map(|group| &group.claims);
    for Claim { id, what, not_shown, .. } in claims() {
        long(id, what);
        long(id, not_shown.as_deref().unwrap_or_default());
    }
    for Claim { id, how, tests, .. } in claims() {
        if !seen.insert(id) {
            wrong.push(format!("{id} is there twice"));
        }
        if how.is_empty() || tests.is_empty() {
            wrong.push(format!("{id} has no test, or does not say what that runs"));
        }
        wrong.extend(tests.iter().filter(|test| !is_there(test)).map(|test| format!("{id}: there is no test {test}")));
    }
    wrong
}

fn page(source: &Source) -> String {
    let mut text = format!(
        "{NOTE}# What is shown, and by which test

Each row is something that is to hold, and its tests are named below the table. *How* says what they run: **pods** (a real cluster),
**processes** (a real API server, or real etcd; the rest is simulated), **memory** (the planner and a simulated world), **search** (every
state of a model). What is not shown is said. `make test` runs all tests but those in `e2e/tests/long` and the whole sweeps, which
`make test-all` and `make chaos` run: the last tables have the last run of each. A `+` after a commit: with changes of a later one.

To change this page, edit `{SOURCE}` and run `make gen`.
"
    );
    for Group { title, about, claims, runs } in &source.groups {
        let _ = write!(text, "\n## {title}\n\n{about}\n\n");
        if !claims.is_empty() {
            text.push_str("| | what holds | how | not shown |\n|---|---|---|---|\n");
            text.extend(claims.iter().map(row));
            text.push_str("\n<details><summary>Their tests</summary>\n\n");
            text.extend(claims.iter().map(tests));
            text.push_str("\n</details>\n");
        }
        if !runs.is_empty() {
            text.push_str("| run | what | commit, date | result |\n|---|---|---|---|\n");
            text.extend(runs.iter().map(last));
        }
    }
    text
}

fn row(Claim { id, what, how, not_shown, .. }: &Claim) -> String {
    let how: Vec<&str> = how.iter().map(|how| how.name()).collect();
    let not_shown = not_shown.as_deref().unwrap_or_default();
    format!("| {id} | {} | {} | {} |\n", cell(what), how.join(", "), cell(not_shown))
}

/// By file, of which one has several mostly.
fn tests(Claim { id, tests, .. }: &Claim) -> String {
    let mut files: Vec<(&str, Vec<String>)> = vec![];
    for test in tests {
        let (file, name) = test.split_once("::").unzip();
        let file = file.unwrap_or(test);
        let name = name.map(|name| format!("`{name}`"));
        match files.last_mut() {
            Some((last, names)) if *last == file => names.extend(name),
            _ => files.push((file, name.into_iter().collect())),
        }
    }
    let mut text = format!("- {id}\n");
    for (file, names) in files {
        let colon = if names.is_empty() { "" } else { ": " };
        let _ = writeln!(text, "  - `{file}`{colon}{}", names.join(", "));
    }
    text
}

fn last(LastRun { run, what, commit, date, result }: &LastRun) -> String {
    let when = match (commit, date) {
        (Some(commit), Some(date)) => format!("`{commit}`, {date}"),
        _ => String::new(),
    };
    format!("| {} | {} | {when} | {} |\n", cell(run), cell(what), cell(result))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str) -> Source {
        serde_saphyr::from_str(text).unwrap()
    }

    const SOME: &str = "groups:\n- title: A\n  about: B.\n  claims:\n  - {id: F1, what: it holds, how: [pods, search], \
                        tests: ['a.rs::b', 'a.rs::c', c/d], not_shown: a | b}\n- title: C\n  about: D.\n  runs:\n  \
                        - {run: r, what: w, commit: '71e8531', date: '2026-11-22', result: passes}\n  \
                        - {run: s, what: w, result: not run yet}\n";

    #[test]
    fn a_claim_is_a_row_and_its_tests_stand_below() {
        let page = page(&source(SOME));
        let (_, groups) = page.split_once("\n## ").unwrap();
        assert_eq!(
            groups,
            "A\n\nB.\n\n| | what holds | how | not shown |\n|---|---|---|---|\n| F1 | it holds | pods, search | a \\| b |\n\n\
             <details><summary>Their tests</summary>\n\n- F1\n  - `a.rs`: `b`, `c`\n  - `c/d`\n\n</details>\n\n\
             ## C\n\nD.\n\n| run | what | commit, date | result |\n|---|---|---|---|\n\
             | r | w | `71e8531`, 2026-11-22 | passes |\n| s | w |  | not run yet |\n"
        );
    }

    #[test]
    fn what_is_missing_twice_or_too_long_is_named() {
        let twice = SOME.replace("\n- title: C", "\n  - {id: F1, what: x, how: [], tests: []}\n- title: C");
        let long = twice.replace("result: passes", &format!("result: {}", "x".repeat(MOST + 1)));
        let wrong = wrong(&source(&long), &|test| test == "c/d");
        assert_eq!(wrong.len(), 5, "{wrong:?}");
        assert!(wrong[0].starts_with("r: 201 letters, of at most 200: x"), "{wrong:?}");
        assert_eq!(
            wrong[1..],
            [
                "F1: there is no test a.rs::b",
                "F1: there is no test a.rs::c",
                "F1 is there twice",
                "F1 has no test, or does not say what that runs"
            ]
        );
    }

    #[test]
    fn a_runs_entry_can_be_put_into_the_source() {
        let text = Some("71e8531".to_owned());
        let result = "1 failed (a: \"b\" # c)".to_owned();
        let run = LastRun { run: "make chaos".into(), what: "all".into(), commit: text.clone(), date: text, result };
        let source = source(&format!("groups:\n- title: A\n  about: B.\n  runs:\n{}", run.entry()));
        assert_eq!(source.groups[0].runs, [run]);
    }

    /// Comments and issues name them.
    #[test]
    fn ids_stay_and_each_test_that_is_named_exists() {
        let (_, page) = files().unwrap().remove(0);
        let faults = [2, 29].into_iter().chain(16..=23).chain(31..=48).map(|n| format!("F{n}"));
        let releases = (1..=16).map(|n| format!("R{n}")).chain((1..=11).map(|n| format!("B{n}")));
        for id in faults.chain(releases) {
            assert_eq!(page.lines().filter(|line| line.starts_with(&format!("| {id} |"))).count(), 1, "{id}");
        }
    }
}
