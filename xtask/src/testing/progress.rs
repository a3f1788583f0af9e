//! What of a long run has passed already, so that a run that was cut off goes on where it was.

use super::results::{Count, LeftTo};
use crate::shell::{Result, cache, output};
use anyhow::Context as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// What a step came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) count: Count,
    pub(super) left_to: LeftTo,
    pub(super) time: Duration,
}

/// Steps that passed, by name, in a file of one commit.
#[derive(Debug, Default)]
pub(super) struct Progress {
    file: Option<PathBuf>,
    passed: Vec<(String, Step)>,
}

impl Progress {
    /// Of the commit that is checked out, in a folder of the cache. What is not committed has no name, so nothing of it is kept.
    pub(super) fn of_checkout(folder: &str) -> Result<Self> {
        let git = |args: &[&str]| output(Command::new("git").current_dir(crate::root()).args(args));
        if !git(&["status", "--porcelain"])?.trim().is_empty() {
            println!("not everything is committed, so this run starts at the beginning, and cannot be taken up again");
            return Ok(Self::default());
        }
        let commit = git(&["rev-parse", "--short=12", "HEAD"])?;
        Ok(Self::at(&cache().join(folder).join(commit.trim())))
    }

    pub(super) fn at(file: &Path) -> Self {
        let text = fs::read_to_string(file).unwrap_or_default();
        let passed: Vec<(String, Step)> = text.lines().filter_map(line).collect();
        if !passed.is_empty() {
            println!(
                "{} steps passed before at this commit; remove {} to run them again",
                passed.len(),
                file.display()
            );
        }
        Self { file: Some(file.to_owned()), passed }
    }

    /// The commit that this is of, if all is committed.
    pub(super) fn commit(&self) -> Option<String> {
        Some(self.file.as_ref()?.file_name()?.to_string_lossy().into_owned())
    }

    /// What a step came to when it passed before.
    pub(super) fn before(&self, name: &str) -> Option<Step> {
        self.passed.iter().find(|(n, _)| n == name).map(|(_, step)| step.clone())
    }

    /// Keeps that a step passed.
    pub(super) fn keep(&self, name: &str, step: &Step) -> Result<()> {
        let Some(file) = self.file.as_ref().filter(|_| step.count.failed == 0) else { return Ok(()) };
        let dir = file.parent().context("a file in a folder")?;
        fs::create_dir_all(dir)?;
        let mut file = fs::File::options().create(true).append(true).open(file)?;
        let Count { passed, flaky, .. } = step.count;
        let left: Vec<_> = step.left_to.iter().map(|(command, n)| format!("{command}={n}")).collect();
        writeln!(file, "{passed}\t{}\t{flaky}\t{}\t{name}", left.join(","), step.time.as_millis())?;
        Ok(())
    }
}

/// A line that was cut off has no name, and is passed over.
fn line(text: &str) -> Option<(String, Step)> {
    let [passed, left, flaky, time, name] = text.splitn(5, '\t').collect::<Vec<_>>().try_into().ok()?;
    let left = left.split(',').filter_map(|one| one.split_once('='));
    let left_to: LeftTo =
        left.map(|(command, n)| Some((command.to_owned(), n.parse().ok()?))).collect::<Option<_>>()?;
    let skipped = left_to.values().sum();
    let count = Count { passed: passed.parse().ok()?, failed: 0, skipped, flaky: flaky.parse().ok()? };
    Some((name.to_owned(), Step { count, left_to, time: Duration::from_millis(time.parse().ok()?) }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_passed_is_not_run_again() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("c0ffee");
        let progress = Progress::at(&file);
        let step = |passed, failed| {
            let count = Count { passed, failed, skipped: 3, flaky: 1 };
            let left_to = [("make chaos".to_owned(), 2), ("make test-all".to_owned(), 1)].into();
            Step { count, left_to, time: Duration::from_millis(2500) }
        };
        progress.keep("berth-e2e test long ha", &step(2, 0)).unwrap();
        progress.keep("berth-e2e test usual drift", &step(1, 1)).unwrap();
        fs::File::options().append(true).open(&file).unwrap().write_all(b"3\t0\t0\t17").unwrap();
        let again = Progress::at(&file);
        assert_eq!(again.before("berth-e2e test long ha"), Some(step(2, 0)));
        assert_eq!(again.before("berth-e2e test usual drift"), None);
        assert_eq!(again.passed.len(), 1);
        assert_eq!(again.commit().as_deref(), Some("c0ffee"));
        Progress::default().keep("a", &Step::default()).unwrap();
    }
}
