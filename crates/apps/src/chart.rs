//! Fetches a chart, and finds out whether it is the right one.

use crate::helm::{Helm, last};
use crate::place::Place;
use crate::problem::Problem;
use berth_contract::apps::{At, Chart, files};
use sha2::{Digest, Sha256};
use std::path::PathBuf;
use std::time::Duration;

/// How long the registry may take.
const FETCH: Duration = Duration::from_mins(3);
/// The largest archive, in bytes.
const LARGEST: u64 = 20 << 20;

/// A chart that was fetched.
#[derive(Clone, Debug)]
pub struct Fetched {
    /// Its archive.
    pub path: PathBuf,
    /// SHA-256 of that, in hexadecimal.
    pub digest: String,
}

/// Fetches it.
///
/// # Errors
///
/// The registry does not give it, or gives another one.
pub fn fetch(chart: &Chart, helm: &Helm, place: &Place) -> Result<Fetched, Problem> {
    let to = place.empty("chart")?;
    let mut args = chart.pull();
    args.push(format!("--destination={}", to.display()));
    for (flag, file) in [("registry-config", files::LOGIN), ("ca-file", files::CA)] {
        args.extend(place.secret(file).map(|path| format!("--{flag}={}", path.display())));
    }
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let said = helm.call(&args, FETCH)?;
    if !said.ok {
        let message = format!("chart {}: {}", chart.from, last(&said.err));
        let lasting = ["not found", "digest mismatch", "no chart version found", "unauthorized", "denied"];
        let lasting = lasting.iter().any(|text| said.err.to_lowercase().contains(text));
        return Err(Problem::new(At::Registry, message, lasting));
    }
    let mut all = std::fs::read_dir(&to).map_err(|e| Problem::file(&to, &e))?.flatten();
    let path = all.next().map(|entry| entry.path());
    let path =
        path.ok_or_else(|| Problem::lasting(At::Chart, format!("chart {}: helm pull left no archive", chart.from)))?;
    let size = std::fs::metadata(&path).map_err(|e| Problem::file(&path, &e))?.len();
    if size > LARGEST {
        let message = format!("chart {}: its archive has {size} bytes; at most {LARGEST} are taken", chart.from);
        return Err(Problem::lasting(At::Chart, message));
    }
    let bytes = std::fs::read(&path).map_err(|e| Problem::file(&path, &e))?;
    let digest = format!("{:x}", Sha256::digest(&bytes));
    if let Some(wanted) = chart.archive().filter(|wanted| *wanted != digest) {
        let message =
            format!("chart {} of {}: its digest is sha256:{digest}, not sha256:{wanted}", chart.name, chart.from);
        return Err(Problem::lasting(At::Chart, message));
    }
    Ok(Fetched { path, digest })
}
