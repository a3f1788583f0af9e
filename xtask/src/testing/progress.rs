//! What of a long run has passed already, so that a run that was cut off goes on where it was.

use super::program::Count;
use crate::shell::{Result, cache, output};
use anyhow::Context as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Steps that passed, by name, in a file of one commit.
#[derive(Debug, Default)]
pub(super) struct Progress {
    file: Option<PathBuf>,
    passed: Vec<(String, Count)>,
}

impl Progress {
    /// Of the commit that is checked out. What is not committed has no name, so nothing of it is kept.
    pub(super) fn of_checkout() -> Result<Self> {
        let git = |args: &[&str]| output(Command::new("git").current_dir(crate::root()).args(args));
        if !git(&["status", "--porcelain"])?.trim().is_empty() {
            println!("not everything is committed, so this run starts at the beginning, and cannot be taken up again");
            return Ok(Self::default());
        }
        let commit = git(&["rev-parse", "--short=12", "HEAD"])?;
        Ok(Self::at(&cache().join("test-all").join(commit.trim())))
    }

    fn at(file: &Path) -> Self {
        let text = fs::read_to_string(file).unwrap_or_default();
        let passed: Vec<(String, Count)> = text.lines().filter_map(line).collect();
        if !passed.is_empty() {
            println!(
                "{} steps passed before at this commit; remove {} to run them again",
                passed.len(),
                file.display()
            );
        }
        Self { file: Some(file.to_owned()), passed }
    }

    /// What a step counted when it passed before.
    pub(super) fn before(&self, name: &str) -> Option<Count> {
        self.passed.iter().find(|(n, _)| n == name).map(|(_, c)| *c)
    }

    /// Keeps that a step passed.
    pub(super) fn keep(&self, name: &str, count: Count) -> Result<()> {
        let Some(file) = self.file.as_ref().filter(|_| count.failed == 0) else { return Ok(()) };
        let dir = file.parent().context("a file in a folder")?;
        fs::create_dir_all(dir)?;
        let mut file = fs::File::options().create(true).append(true).open(file)?;
        writeln!(file, "{}\t{name}", count.passed)?;
        Ok(())
    }
}

/// A line that was cut off has no name, and is passed over.
fn line(text: &str) -> Option<(String, Count)> {
    let (passed, name) = text.split_once('\t')?;
    Some((name.to_owned(), Count { passed: passed.parse().ok()?, failed: 0 }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_passed_is_not_run_again() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("c0ffee");
        let progress = Progress::at(&file);
        progress.keep("berth-e2e test ha", Count { passed: 2, failed: 0 }).unwrap();
        progress.keep("berth-e2e test drift", Count { passed: 1, failed: 1 }).unwrap();
        fs::File::options().append(true).open(&file).unwrap().write_all(b"3").unwrap();
        let again = Progress::at(&file);
        assert_eq!(again.before("berth-e2e test ha"), Some(Count { passed: 2, failed: 0 }));
        assert_eq!(again.before("berth-e2e test drift"), None);
        Progress::default().keep("a", Count::default()).unwrap();
    }
}
