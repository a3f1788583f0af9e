//! Recipes of CONTRIBUTING.md, and what ARCHITECTURE.md and the pages on design say of the code, against the tree: what they name is there.

use std::path::Path;

/// Headings of recipes begin so.
const RECIPE: &str = "Add a";

/// Folders whose files pages name.
const SOURCES: &[&str] = &["bench", "charts", "crates", "docs", "e2e", "templates", "xtask"];

/// Steps of recipes that name a path that is not there, or an identifier that does not occur in the path of its step. `text` reads a
/// file, or all Rust files of a folder.
pub(crate) fn stale_steps(page: &str, text: &impl Fn(&Path) -> Option<String>) -> Vec<String> {
    let recipes = page.split("\n## ").filter(|section| section.starts_with(RECIPE));
    let mut wrong = vec![];
    for recipe in recipes {
        let (title, body) = recipe.split_once('\n').unwrap_or((recipe, ""));
        let steps = body.split("\n- ").flat_map(|step| step.split("\n\n"));
        wrong.extend(steps.flat_map(|step| stale(step, text)).map(|what| format!("recipe \"{title}\": {what}")));
    }
    wrong
}

fn stale(step: &str, text: &impl Fn(&Path) -> Option<String>) -> Vec<String> {
    let mut wrong = vec![];
    let mut texts = String::new();
    let mut folders = vec![];
    for path in spans(step).filter(|span| span.contains('/') && !span.contains(' ')) {
        let path = Path::new(path);
        match text(path) {
            Some(text) => texts += &text,
            None => wrong.push(format!("there is no {}", path.display())),
        }
        folders.push(path);
    }
    if !wrong.is_empty() {
        return wrong;
    }
    if folders.is_empty() {
        texts = text(Path::new("crates")).unwrap_or_default();
    }
    for span in spans(step) {
        let there = if span.contains(['/', ' ']) {
            true
        } else if span.contains('.') {
            folders.iter().any(|folder| text(&folder.join(span)).is_some())
        } else {
            identifier(span).is_none_or(|mut words| words.all(|word| occurs(word, &texts)))
        };
        if !there {
            let paths: Vec<_> = folders.iter().map(|f| f.display().to_string()).collect();
            wrong.push(format!("{span} is not in {}", paths.join(", ")));
        }
    }
    wrong
}

/// Names of tests, functions and variants on a page, none of which is in the code.
pub(crate) fn stale_names(page: &str, code: &str) -> Vec<String> {
    let names = spans(page).filter(|span| span.contains('_') || span.contains("::"));
    let stale = names.filter(|span| identifier(span).is_some_and(|mut words| !words.all(|word| occurs(word, code))));
    stale.map(|span| format!("{span} is not in the code")).collect()
}

/// Paths on a page that lead nowhere: what begins with a folder of the sources.
pub(crate) fn stale_paths(page: &str, exists: &impl Fn(&Path) -> bool) -> Vec<String> {
    let in_sources = |path: &&str| path.split_once('/').is_some_and(|(first, _)| SOURCES.contains(&first));
    let paths = spans(page).filter(in_sources).filter(|path| !exists(Path::new(path)));
    paths.map(|path| format!("there is no {path}")).collect()
}

/// What is between backticks.
fn spans(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// The words of an identifier, such as `Source::Field`; none if it is something else.
fn identifier(span: &str) -> Option<impl Iterator<Item = &str>> {
    let is_word = |word: &str| !word.is_empty() && word.chars().all(is_part);
    span.split("::").all(is_word).then(|| span.split("::"))
}

fn is_part(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Whether a text holds the word as a whole.
fn occurs(word: &str, text: &str) -> bool {
    text.match_indices(word)
        .any(|(at, _)| !text[..at].ends_with(is_part) && !text[at + word.len()..].starts_with(is_part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recipe_that_names_what_is_not_there_is_found() {
        let text = |path: &Path| match path.to_str()? {
            "crates" => Some("enum Reason { NotThere }".to_owned()),
            "crates/api/src/" => Some("mod a;\nstruct Row;".to_owned()),
            "crates/api/src/lib.rs" => Some("mod a;".to_owned()),
            "crates/plan/src/model/action.rs" => Some("enum Action { Apply, Applied }".to_owned()),
            _ => None,
        };
        let page = "# Contributing\n`gone.rs`\n\n## Add a thing\n\n- `crates/api/src/`: a line in `lib.rs`, a `Row`.\n\
                    - `crates/plan/src/model/action.rs`: `Action::Apply`, then `make gen`.\n\nIt says `NotThere`.\n";
        assert_eq!(stale_steps(page, &text), Vec::<String>::new());
        let page = "## Other\n`x/y.rs`\n\n## Add a thing\n\n- `crates/api/src/`: a line in `main.rs`, a `Ro`.\n\
                    - `crates/plan/src/models.rs`: `Action`\n- `crates/plan/src/model/action.rs`: `Action::App`.\n\nIt says `There`.\n";
        assert_eq!(
            stale_steps(&format!("\n{page}"), &text),
            [
                "main.rs is not in crates/api/src/",
                "Ro is not in crates/api/src/",
                "there is no crates/plan/src/models.rs",
                "Action::App is not in crates/plan/src/model/action.rs",
                "There is not in ",
            ]
            .map(|what| format!("recipe \"Add a thing\": {what}"))
        );
    }

    #[test]
    fn paths_on_a_page_lead_somewhere() {
        let page = "`crates/a/src/b.rs`, `crates/gone.rs`, `berth.dev/adopt`, `make gen`, [`e2e/x`](y)";
        let exists = |path: &Path| path == Path::new("crates/a/src/b.rs");
        assert_eq!(stale_paths(page, &exists), ["there is no crates/gone.rs", "there is no e2e/x"]);
    }

    #[test]
    fn names_on_a_page_are_in_the_code() {
        let page = "by `a_test_of_it` and `Kind::verbs`, as `gone_test` and `make test` and `a_test`";
        let code = "fn a_test_of_it() {}\nimpl Kind { fn verbs() {} }";
        assert_eq!(stale_names(page, code), ["gone_test is not in the code", "a_test is not in the code"]);
    }
}
