//! How a crate's files hang together: files of which each imports the other, directly or not, are read together or not at all.

mod circles;
mod graph;
mod source;

use crate::shell::{Result, root};
use anyhow::{Context as _, bail};
use std::fmt::Write as _;
use std::path::PathBuf;

/// The largest import circle of each crate, in files. One that shrinks is lowered here, so that it does not grow again.
const CIRCLES: &[(&str, usize)] = &[
    ("agent", 8),
    ("api", 5),
    ("approve", 2),
    ("bench", 2),
    ("cli", 5),
    ("devcluster", 11),
    ("e2e", 5),
    ("fence", 2),
    ("kubeio", 2),
    ("oci", 4),
    ("operator", 8),
    ("pki", 2),
    ("plan", 3),
    ("plan-apps", 5),
    ("plan-backup", 3),
    ("plan-etcd", 5),
    ("render", 3),
    ("sim", 4),
    ("testkit", 7),
    ("xtask", 7),
];

/// Crates that are part of no release.
const HARNESS: &[&str] = &["devcluster", "oci", "testkit", "xtask", "e2e", "bench"];

/// What is counted of a crate, without its tests.
struct Count {
    name: String,
    is_product: bool,
    files: usize,
    lines: usize,
    /// Files of the largest circle.
    circle: Vec<String>,
}

/// Prints the table, and refuses a circle that has grown, or that has shrunk and stands in the table as it was.
pub(crate) fn check() -> Result<()> {
    let counts = counts()?;
    print!("{}", table(&counts));
    let wrong = wrong(&counts, CIRCLES);
    if !wrong.is_empty() {
        bail!("import circles:\n  {}", wrong.join("\n  "));
    }
    Ok(())
}

/// Prints each import within the largest circle of a crate.
pub(crate) fn print_circle(name: &str) -> Result<()> {
    let folder = folders()?.into_iter().find(|folder| folder.ends_with(name));
    let sources = source::read(&folder.with_context(|| format!("no crate {name}"))?)?;
    let imports = graph::imports(&sources);
    let circle = circles::largest(&imports);
    for from in &circle {
        for to in imports[*from].iter().filter(|to| circle.contains(to)) {
            println!("{} -> {}", sources.files[*from].path, sources.files[*to].path);
        }
    }
    Ok(())
}

fn folders() -> Result<Vec<PathBuf>> {
    let mut folders = vec![];
    for entry in std::fs::read_dir(root().join("crates"))? {
        folders.push(entry?.path());
    }
    folders.extend(["xtask", "e2e", "bench"].map(|name| root().join(name)));
    folders.retain(|folder| folder.join("Cargo.toml").is_file());
    Ok(folders)
}

fn counts() -> Result<Vec<Count>> {
    let mut counts = vec![];
    for folder in folders()? {
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let sources = source::read(&folder)?;
        let files = &sources.files;
        counts.push(Count {
            is_product: !HARNESS.contains(&&*name),
            lines: files.iter().map(|file| file.lines).sum(),
            files: files.len(),
            circle: circles::largest(&graph::imports(&sources)).into_iter().map(|at| files[at].path.clone()).collect(),
            name,
        });
    }
    counts.sort_by(|a, b| (!a.is_product, &a.name).cmp(&(!b.is_product, &b.name)));
    Ok(counts)
}

fn table(counts: &[Count]) -> String {
    let mut text = format!("{:<12}{:>8}{:>8}{:>8}\n", "crate", "files", "lines", "circle");
    for count in counts {
        let _ = writeln!(text, "{:<12}{:>8}{:>8}{:>8}", count.name, count.files, count.lines, count.circle.len());
    }
    for (name, is_product) in [("product", true), ("all", false)] {
        let of = || counts.iter().filter(|count| count.is_product || !is_product);
        let (files, lines) = (of().map(|c| c.files).sum::<usize>(), of().map(|c| c.lines).sum::<usize>());
        let _ = writeln!(text, "{name:<12}{files:>8}{lines:>8}");
    }
    text
}

fn wrong(counts: &[Count], table: &[(&str, usize)]) -> Vec<String> {
    let mut wrong = vec![];
    for Count { name, circle, .. } in counts {
        let known = table.iter().find(|(of, _)| of == name).map_or(0, |(_, known)| *known);
        let is = circle.len();
        if is > known {
            wrong.push(format!("{name}: {is} files instead of {known} import each other: {}", circle.join(", ")));
        } else if is < known {
            wrong.push(format!(
                "{name}: {is} files import each other. Write {is} in place of {known} into xtask/src/house"
            ));
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_circle_may_neither_grow_nor_shrink_unseen() {
        let count = |name: &str, circle: usize| Count {
            name: name.into(),
            is_product: true,
            files: 3,
            lines: 9,
            circle: (0..circle).map(|at| format!("{at}.rs")).collect(),
        };
        let table = [("same", 2), ("grows", 2), ("shrinks", 3)];
        let found = wrong(&[count("same", 2), count("grows", 3), count("shrinks", 2), count("new", 2)], &table);
        let expected = [
            "grows: 3 files instead of 2 import each other: 0.rs, 1.rs, 2.rs",
            "shrinks: 2 files import each other. Write 2 in place of 3 into xtask/src/house",
            "new: 2 files instead of 0 import each other: 0.rs, 1.rs",
        ];
        assert_eq!(found, expected);
    }
}
