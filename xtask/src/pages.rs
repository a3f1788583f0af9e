//! The documentation: links that lead somewhere, pages that are in the book, and a book that builds without a warning.

use anyhow::{Context as _, bail};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use crate::recipes::{stale_names, stale_paths, stale_steps};
use crate::root;
use crate::shell::{Result, cache, cargo, run};

/// The folder of the book. Its pages are also read without the files around them, so their links stay within it.
const BOOK: &str = "docs";

/// Pages of the book that name files and tests.
const DESIGN: &str = "docs/design";

/// Checks all pages.
pub(crate) fn check() -> Result<()> {
    let pages = pages()?;
    let mut wrong: Vec<String> = dead(&pages, &|path| root().join(path).exists());
    wrong.extend(outside(&pages));
    let page = |path: &str| pages.get(Path::new(path)).map(String::as_str).unwrap_or_default();
    wrong.extend(stale_steps(page("CONTRIBUTING.md"), &|path| text(&root().join(path))));
    let code: String = ["crates", "xtask", "e2e", "bench"].iter().filter_map(|path| text(&root().join(path))).collect();
    for (path, text) in
        pages.iter().filter(|(path, _)| *path == Path::new("ARCHITECTURE.md") || path.starts_with(DESIGN))
    {
        let stale = stale_names(text, &code).into_iter().chain(stale_paths(text, &|path| root().join(path).exists()));
        wrong.extend(stale.map(|what| format!("{}: {what}", path.display())));
    }
    if !wrong.is_empty() {
        bail!("the documentation has {} faults:\n  {}", wrong.len(), wrong.join("\n  "));
    }
    println!("{} pages, {} links", pages.len(), pages.values().map(|t| links(t).len()).sum::<usize>());
    Ok(())
}

/// The text of a file, or of all Rust files below a folder.
fn text(path: &Path) -> Option<String> {
    if !path.is_dir() {
        return fs::read_to_string(path).ok();
    }
    let entries = fs::read_dir(path).ok()?.flatten().map(|entry| entry.path());
    let code = entries.filter(|path| path.is_dir() || path.extension().is_some_and(|e| e == "rs"));
    Some(code.filter_map(|path| text(&path)).collect())
}

/// Every page of the checkout by its path in there.
fn pages() -> Result<BTreeMap<PathBuf, String>> {
    let listed = crate::shell::output(Command::new("git").current_dir(root()).args([
        "ls-files",
        "-z",
        "--cached",
        "--others",
        "--exclude-standard",
        "*.md",
    ]))?;
    let mut pages = BTreeMap::new();
    for path in listed.split('\0').filter(|p| !p.is_empty()) {
        // One that was just removed is still listed.
        if let Ok(text) = fs::read_to_string(root().join(path)) {
            pages.insert(PathBuf::from(path), text);
        }
    }
    Ok(pages)
}

/// Targets of links, and their line, outside of code.
fn links(text: &str) -> Vec<(usize, &str)> {
    let mut found = vec![];
    let mut fenced = false;
    for (number, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        let mut rest = if fenced { "" } else { line };
        while let Some(at) = rest.find("](") {
            let target = &rest[at + 2..];
            let end = target.find(')').unwrap_or(target.len());
            // Within code it is no link.
            if rest[..at].matches('`').count() % 2 == 0 || rest[..at].ends_with('`') {
                found.push((number + 1, &target[..end]));
            }
            rest = &target[end..];
        }
    }
    found
}

/// The page and the heading that a link on `page` leads to; none for what is elsewhere.
fn target<'l>(page: &Path, link: &'l str) -> Option<(PathBuf, Option<&'l str>)> {
    if link.contains("://") || link.starts_with("mailto:") {
        return None;
    }
    let (path, heading) = link.split_once('#').map_or((link, None), |(path, heading)| (path, Some(heading)));
    if path.is_empty() {
        return Some((page.to_owned(), heading));
    }
    let mut whole = page.parent().unwrap_or(Path::new("")).to_owned();
    for part in Path::new(path).components() {
        match part {
            Component::ParentDir => {
                whole.pop();
            }
            other => whole.push(other),
        }
    }
    Some((whole, heading))
}

/// Links that lead nowhere.
fn dead(pages: &BTreeMap<PathBuf, String>, exists: &impl Fn(&Path) -> bool) -> Vec<String> {
    let mut wrong = vec![];
    for (page, text) in pages {
        for (line, link) in links(text) {
            let Some((path, heading)) = target(page, link) else { continue };
            let place = format!("{}:{line}: {link}", page.display());
            if !exists(&path) {
                wrong.push(format!("{place} leads nowhere"));
            } else if let (Some(heading), Some(text)) = (heading, pages.get(&path))
                && !anchors(text).contains(heading)
            {
                wrong.push(format!("{place} names no heading of {}", path.display()));
            }
        }
    }
    wrong
}

/// Pages of the book that are not in its table of contents, and links that leave the book.
fn outside(pages: &BTreeMap<PathBuf, String>) -> Vec<String> {
    let summary = Path::new(BOOK).join("SUMMARY.md");
    let listed = pages.get(&summary).map(|text| links(text)).unwrap_or_default();
    let listed: BTreeSet<PathBuf> = listed.iter().filter_map(|(_, l)| Some(target(&summary, l)?.0)).collect();
    let mut wrong = vec![];
    for (page, text) in pages.iter().filter(|(p, _)| p.starts_with(BOOK) && **p != summary) {
        if !listed.contains(page) {
            wrong.push(format!("{} is not in {}", page.display(), summary.display()));
        }
        for (line, link) in links(text) {
            if target(page, link).is_some_and(|(path, _)| !path.starts_with(BOOK)) {
                wrong.push(format!("{}:{line}: {link} leaves the book; name the file as code", page.display()));
            }
        }
    }
    wrong
}

/// Headings as links name them.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut fenced = false;
    let mut found = BTreeSet::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        let heading = line.trim_start_matches('#');
        if fenced || heading.len() == line.len() || !heading.starts_with(' ') {
            continue;
        }
        let kept = heading.trim().to_lowercase();
        let kept = kept.chars().filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
        found.insert(kept.map(|c| if c == ' ' { '-' } else { c }).collect());
    }
    found
}

const MDBOOK: &str = "0.5.4";

fn mdbook_dir() -> PathBuf {
    cache().join("tools").join(format!("mdbook-{MDBOOK}"))
}

/// Where mdBook is, if it is there.
pub(crate) fn mdbook() -> PathBuf {
    mdbook_dir().join("bin/mdbook")
}

/// Builds the book; a warning is an error. Builds mdBook first where it is missing, which takes minutes.
pub(crate) fn book() -> Result<()> {
    let tool = mdbook();
    if !tool.exists() {
        println!("building mdBook {MDBOOK}");
        let install = ["install", "--quiet", "--locked", "mdbook", "--version", MDBOOK, "--no-default-features"];
        run(cargo().args(install).arg("--root").arg(mdbook_dir()).env_remove("CARGO_TARGET_DIR"))?;
    }
    let output = Command::new(&tool).arg("build").arg(root().join(BOOK)).output().context("cannot run mdBook")?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    let complaint = said.lines().any(|l| l.contains("WARN") || l.contains("ERROR"));
    if complaint || !output.status.success() {
        bail!("mdBook complains:\n{said}");
    }
    println!("the book is in target/book");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(path: &str, text: &str) -> (PathBuf, String) {
        (path.into(), text.to_owned())
    }

    #[test]
    fn dead_links_are_found() {
        let pages = BTreeMap::from([
            page(
                "README.md",
                "[a](docs/a.md#one-two) [b](docs/b.md) `[c](d.md)`\n```\n[e](f.md)\n```\n[g](https://g/h)\n",
            ),
            page("docs/a.md", "# One, two!\n[up](../README.md) [self](#one-two) [gone](#three) [`code`](b.md)\n"),
        ]);
        let exists = |path: &Path| pages.contains_key(path);
        assert_eq!(
            dead(&pages, &exists),
            [
                "README.md:1: docs/b.md leads nowhere",
                "docs/a.md:2: #three names no heading of docs/a.md",
                "docs/a.md:2: b.md leads nowhere"
            ]
        );
    }

    #[test]
    fn the_book_is_whole_and_stays_within_itself() {
        let pages = BTreeMap::from([
            page("README.md", "[x](docs/c.md)"),
            page("docs/SUMMARY.md", "- [A](a.md)\n- [B](sub/b.md)\n"),
            page("docs/a.md", "[up](../README.md) [b](sub/b.md)"),
            page("docs/sub/b.md", "[a](../a.md)"),
            page("docs/c.md", ""),
        ]);
        assert_eq!(
            outside(&pages),
            ["docs/a.md:1: ../README.md leaves the book; name the file as code", "docs/c.md is not in docs/SUMMARY.md"]
        );
    }
}
