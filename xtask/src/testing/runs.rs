//! The record of runs on this machine, in the cache: which tests failed at the first try, and how often. It tells what to mend first.

use anyhow::Context as _;
use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use crate::shell::{Result, cache};

/// A line of the record.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Run {
    pub(super) date: String,
    pub(super) commit: String,
    pub(super) time: Duration,
    /// How slow the machine was.
    pub(super) factor: f64,
    pub(super) passed: u32,
    pub(super) failed: Vec<String>,
    /// What passed at the second try.
    pub(super) flaky: Vec<String>,
}

impl Run {
    /// Appends it to the record.
    pub(super) fn keep(&self) -> Result<()> {
        let file = file();
        fs::create_dir_all(file.parent().context("a folder")?)?;
        // In one write: two runs may end at once.
        let line = format!("{}\n", self.line());
        Ok(fs::File::options().create(true).append(true).open(file)?.write_all(line.as_bytes())?)
    }

    fn line(&self) -> String {
        let Self { date, commit, time, factor, passed, failed, flaky } = self;
        let [failed, flaky] = [failed, flaky].map(|names| names.join(";").replace(['\t', '\n'], " "));
        format!("{date}\t{commit}\t{}\t{factor:.1}\t{passed}\t{failed}\t{flaky}", time.as_secs())
    }

    /// None: it was cut off, or is of another version of this program.
    fn read(line: &str) -> Option<Self> {
        let [date, commit, seconds, factor, passed, failed, flaky] =
            <[&str; 7]>::try_from(line.split('\t').collect::<Vec<_>>()).ok()?;
        let names = |text: &str| text.split(';').filter(|name| !name.is_empty()).map(str::to_owned).collect();
        Some(Self {
            date: date.to_owned(),
            commit: commit.to_owned(),
            time: Duration::from_secs(seconds.parse().ok()?),
            factor: factor.parse().ok()?,
            passed: passed.parse().ok()?,
            failed: names(failed),
            flaky: names(flaky),
        })
    }
}

fn file() -> PathBuf {
    cache().join("runs.tsv")
}

/// Prints each run, and then the tests that failed at the first try, the most frequent first.
pub(crate) fn print() -> Result<()> {
    let text = fs::read_to_string(file()).with_context(|| format!("no run is recorded: {}", file().display()))?;
    let runs: Vec<Run> = text.lines().filter_map(Run::read).collect();
    for run in &runs {
        let Run { date, commit, time, factor, passed, failed, flaky } = run;
        let (minutes, failed, flaky) = (time.as_secs_f32() / 60.0, failed.len(), flaky.len());
        println!(
            "{date}  {commit}  {minutes:.1} min, machine {factor:.1} times as slow: {passed} passed, {failed} failed, {flaky} at the second try"
        );
    }
    for (name, failed, flaky) in worst(&runs) {
        println!("{name}: failed in {failed} of {} runs, passed at the second try in {flaky}", runs.len());
    }
    Ok(())
}

fn worst(runs: &[Run]) -> Vec<(&str, usize, usize)> {
    let mut count: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for run in runs {
        run.failed.iter().for_each(|name| count.entry(name).or_default().0 += 1);
        run.flaky.iter().for_each(|name| count.entry(name).or_default().1 += 1);
    }
    let mut all: Vec<_> = count.into_iter().map(|(name, (failed, flaky))| (name, failed, flaky)).collect();
    all.sort_by_key(|(_, failed, flaky)| std::cmp::Reverse(failed + flaky));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(failed: &[&str], flaky: &[&str]) -> Run {
        let names = |all: &[&str]| all.iter().map(|n| (*n).to_owned()).collect();
        Run {
            date: "2026-11-27".into(),
            commit: "0123456".into(),
            time: Duration::from_secs(90),
            factor: 1.5,
            passed: 7,
            failed: names(failed),
            flaky: names(flaky),
        }
    }

    #[test]
    fn what_is_kept_is_read() {
        for run in [run(&[], &[]), run(&["a b::c"], &["d", "e f"])] {
            assert_eq!(Run::read(&run.line()), Some(run));
        }
        assert_eq!(Run::read("2026-11-27\t01234"), None, "cut off");
    }

    #[test]
    fn what_fails_most_often_comes_first() {
        let runs = [run(&["a"], &["b"]), run(&["b"], &[]), run(&["b"], &["c"])];
        assert_eq!(worst(&runs), [("b", 2, 1), ("a", 1, 0), ("c", 0, 1)]);
    }
}
