//! Nothing that is built knows where its checkout lies: another one with the same sources runs it, too.

use anyhow::{Context as _, bail};
use std::fs;
use std::path::{Path, PathBuf};

use crate::root;
use crate::shell::Result;

/// What asks for it while it is compiled. In two parts, so that this file has it nowhere.
const COMPILED: &str = concat!("env!(\"CARGO_", "MANIFEST_DIR\")");

/// Folders with packages.
const FOLDERS: [&str; 4] = ["bench", "crates", "e2e", "xtask"];

pub(crate) fn check() -> Result<()> {
    let mut wrong = vec![];
    for file in FOLDERS
        .iter()
        .map(|folder| root().join(folder))
        .map(|folder| sources(&folder))
        .collect::<Result<Vec<_>>>()?
        .concat()
    {
        let text = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        let name = file.strip_prefix(root()).unwrap_or(&file).display().to_string();
        wrong.extend(lines(&text).map(|line| format!("{name}:{line}")));
    }
    if !wrong.is_empty() {
        let at = wrong.join("\n  ");
        bail!(
            "read the variable CARGO_MANIFEST_DIR when the test runs, in place of {COMPILED} (docs/adr/0052):\n  {at}"
        );
    }
    Ok(())
}

/// Numbers of the lines that put the place of the checkout into a program; a file that is included is no such line.
fn lines(text: &str) -> impl Iterator<Item = usize> {
    let wrong = |line: &str| line.contains(COMPILED) && !line.contains("include");
    text.lines().enumerate().filter(move |(_, line)| wrong(line)).map(|(index, _)| index + 1)
}

fn sources(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = vec![];
    for entry in fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(sources(&path)?);
        } else if path.extension().is_some_and(|kind| kind == "rs") {
            found.push(path);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_that_is_compiled_in_is_found_and_a_file_that_is_included_is_none() {
        let text =
            format!("fn a() {{}}\nlet dir = {COMPILED};\nlet text = include_str!(concat!({COMPILED}, \"/a\"));\n");
        assert_eq!(lines(&text).collect::<Vec<_>>(), [2]);
    }
}
