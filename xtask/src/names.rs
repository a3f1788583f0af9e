//! Names of all tests, from the sources: nothing has to be built to compare two commits, or to count what is not built.

use anyhow::Context as _;
use std::fs;
use std::path::{Path, PathBuf};

use crate::shell::Result;

/// A test, as it is written.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Named {
    pub(crate) package: String,
    /// Such as `cluster::tests::canary::one_serves`; in `tests/`, it begins with the program.
    pub(crate) path: String,
    /// Why it is `#[ignore]`d.
    pub(crate) ignored: Option<String>,
}

/// Prints all tests of a checkout, a line each, sorted.
pub(crate) fn print(root: &Path) -> Result<()> {
    for Named { package, path, ignored } in all(root)? {
        let ignored = ignored.map(|why| format!(" [{why}]")).unwrap_or_default();
        println!("{package} {path}{ignored}");
    }
    Ok(())
}

/// All tests of a checkout.
pub(crate) fn all(root: &Path) -> Result<Vec<Named>> {
    let mut packages = folders(&root.join("crates"))?;
    packages.extend(["xtask", "e2e", "bench"].map(|name| root.join(name)));
    let mut named = vec![];
    for package in packages {
        let manifest = fs::read_to_string(package.join("Cargo.toml")).context("Cargo.toml")?;
        let name = manifest.lines().find_map(|l| l.strip_prefix("name = ")).context("a name")?.trim_matches('"');
        for place in ["src", "tests"] {
            named.extend(in_folder(name, &package.join(place))?);
        }
    }
    named.sort();
    Ok(named)
}

/// Tests of a package in its `src`, in its `tests` or further down there.
pub(crate) fn in_folder(package: &str, folder: &Path) -> Result<Vec<Named>> {
    let mut named = vec![];
    let mut files = vec![];
    collect(folder, &mut files)?;
    for file in files {
        let module = module(file.strip_prefix(folder)?);
        let text = fs::read_to_string(&file)?;
        named.extend(tests(&text).into_iter().map(|(path, ignored)| {
            let parts: Vec<&str> = [&*module, &*path].into_iter().filter(|part| !part.is_empty()).collect();
            Named { package: package.to_owned(), path: parts.join("::"), ignored }
        }));
    }
    Ok(named)
}

fn folders(of: &Path) -> Result<Vec<PathBuf>> {
    let all: Vec<PathBuf> = fs::read_dir(of)?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    Ok(all.into_iter().filter(|path| path.is_dir()).collect())
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    if !folder.is_dir() {
        return Ok(());
    }
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|e| e == "rs") {
            files.push(path);
        }
    }
    Ok(())
}

/// The module that a file is.
fn module(file: &Path) -> String {
    let names = file.with_extension("");
    let names = names.iter().filter_map(|name| name.to_str());
    names.filter(|name| !["main", "mod", "lib"].contains(name)).collect::<Vec<_>>().join("::")
}

/// Tests in a file that `cargo fmt` has formatted: their paths in it, and why they are ignored.
pub(crate) fn tests(text: &str) -> Vec<(String, Option<String>)> {
    let mut found = vec![];
    let mut modules: Vec<(usize, &str)> = vec![];
    let (mut test, mut ignored) = (false, None);
    for line in text.lines() {
        let words = line.trim_start();
        let depth = line.len() - words.len();
        if words == "}" {
            modules.retain(|(at, _)| *at < depth);
        } else if let Some(name) = inline_module(words) {
            modules.push((depth, name));
        } else if words == "#[test]" || words.starts_with("#[tokio::test") {
            test = true;
        } else if let Some(why) = words.strip_prefix("#[ignore") {
            ignored = Some(why.trim_start_matches(" = ").trim_end_matches(']').trim_matches('"').to_owned());
        } else if let Some(name) = test.then(|| function(words)).flatten() {
            let path: Vec<&str> = modules.iter().map(|(_, name)| *name).chain([name]).collect();
            found.push((path.join("::"), ignored.take()));
            test = false;
        }
    }
    found
}

fn inline_module(line: &str) -> Option<&str> {
    let line = line.strip_prefix("pub(crate) ").unwrap_or(line);
    line.strip_prefix("mod ")?.strip_suffix(" {")
}

fn function(line: &str) -> Option<&str> {
    let line = line.strip_prefix("async ").unwrap_or(line);
    line.strip_prefix("fn ")?.split(['(', '<']).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_found_with_their_modules_and_why_they_are_ignored() {
        let text = [
            "#[test]",
            "fn a() {",
            "}",
            "mod inner {",
            "    #[tokio::test(start_paused = true)]",
            "    #[ignore = \"make chaos: long\"]",
        ];
        let text =
            [&text[..], &["    async fn b() {", "    }", "    fn helper() {", "    }", "}", "#[test]", "fn c() {"]]
                .concat();
        let found = super::tests(&text.join("\n"));
        let of = |path: &str, why: Option<&str>| (path.to_owned(), why.map(str::to_owned));
        assert_eq!(found, [of("a", None), of("inner::b", Some("make chaos: long")), of("c", None)]);
    }

    #[test]
    fn a_file_is_a_module_and_a_folder_too() {
        let of = |file: &str| module(Path::new(file));
        assert_eq!([of("lib.rs"), of("a/mod.rs"), of("a/b.rs"), of("usual/main.rs")], ["", "a", "a::b", "usual"]);
    }

    /// Else a test would be missing in what is compared, and in what is counted as left out.
    #[test]
    fn this_very_test_is_found() {
        let named = all(crate::root()).unwrap();
        let this = |n: &&Named| n.package == "xtask" && n.path == "names::tests::this_very_test_is_found";
        assert_eq!(named.iter().filter(this).count(), 1);
        assert!(named.len() > 1000, "{}", named.len());
    }
}
