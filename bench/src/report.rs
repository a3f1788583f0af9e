//! Figures: printed as a table beside what they have to be, and kept.

use crate::targets::{self, Judgement};
use anyhow::{Context as _, bail};
use serde_json::json;
use std::io::Write as _;
use std::path::Path;

/// One figure.
pub(crate) struct Figure {
    pub(crate) name: String,
    unit: &'static str,
    values: Vec<f64>,
}

impl Figure {
    pub(crate) fn new(name: impl Into<String>, unit: &'static str, values: Vec<f64>) -> Self {
        Self { name: name.into(), unit, values }
    }

    pub(crate) fn median(&self) -> f64 {
        let mut sorted = self.values.clone();
        sorted.sort_by(f64::total_cmp);
        sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
    }

    fn min(&self) -> f64 {
        self.values.iter().copied().fold(f64::NAN, f64::min)
    }

    pub(crate) fn max(&self) -> f64 {
        self.values.iter().copied().fold(f64::NAN, f64::max)
    }
}

/// What a run has to reach.
#[derive(Clone, Copy)]
pub(crate) enum Targets {
    /// Nothing: on a slow machine seconds say nothing.
    None,
    /// What is asked for that many tenants at once.
    Of(usize),
}

/// Prints figures, keeps them, and fails if one misses its target.
pub(crate) fn report(out: &Path, figures: &[Figure], targets: Targets) -> anyhow::Result<()> {
    let judge = |figure: &Figure| match targets {
        Targets::None => None,
        Targets::Of(tenants) => targets::judge(figure, tenants),
    };
    println!("\n{:<24} {:>10} {:<9} {:>6} {:>10} {:>10}  target", "figure", "median", "unit", "runs", "min", "max");
    for f in figures {
        let target = judge(f).map(|j| j.to_string()).unwrap_or_default();
        let row = format!(
            "{:<24} {:>10.2} {:<9} {:>6} {:>10.2} {:>10.2}  {target}",
            f.name,
            f.median(),
            f.unit,
            f.values.len(),
            f.min(),
            f.max()
        );
        println!("{}", row.trim_end());
    }
    keep(out, figures, judge)?;
    let missed: Vec<&str> =
        figures.iter().filter(|f| judge(f).is_some_and(|j| !j.met)).map(|f| f.name.as_str()).collect();
    if !missed.is_empty() {
        bail!("{} missed (`--no-targets` on a slow machine): {}", count(missed.len()), missed.join(", "));
    }
    Ok(())
}

fn count(targets: usize) -> String {
    if targets == 1 { "a target is".to_owned() } else { format!("{targets} targets are") }
}

/// Appends a line of JSON for each figure.
pub(crate) fn keep(out: &Path, figures: &[Figure], judge: impl Fn(&Figure) -> Option<Judgement>) -> anyhow::Result<()> {
    if let Some(dir) = out.parent() {
        std::fs::create_dir_all(dir)?;
    }
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(out).context("results")?;
    for f in figures {
        let mut line = json!({"name": f.name, "value": f.median(), "unit": f.unit, "runs": f.values.len()});
        if let Some(judgement) = judge(f) {
            line["target"] = json!(judgement.most);
            line["met"] = json!(judgement.met);
        }
        writeln!(file, "{line}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missed_target_is_an_error_unless_nobody_asks() {
        let out = std::env::temp_dir().join(format!("berth-bench-{}.jsonl", std::process::id()));
        let figures =
            [Figure::new("single.ready", "s", vec![9.5, 9.5, 1.0]), Figure::new("ten.ratio", "x", vec![1.0, 1.9, 1.1])];
        let error = report(&out, &figures, Targets::Of(10)).err().map(|e| e.to_string()).unwrap_or_default();
        assert!(error.starts_with("a target is missed") && error.ends_with(": single.ready"), "{error}");
        report(&out, &figures[1..], Targets::Of(10)).expect("its median is below the target");
        report(&out, &figures, Targets::None).expect("nobody asks");
        let text = std::fs::read_to_string(&out).expect("results");
        let lines: Vec<serde_json::Value> = text.lines().map(|l| serde_json::from_str(l).expect("JSON")).collect();
        assert_eq!(lines.len(), 5);
        assert_eq!((&lines[0]["target"], &lines[0]["met"]), (&json!(9.0), &json!(false)));
        assert_eq!((&lines[1]["value"], &lines[1]["met"]), (&json!(1.1), &json!(true)));
        assert!(lines[3].get("met").is_none());
        std::fs::remove_file(&out).expect("results");
    }
}
