//! Helm charts in tenants, and the rights of people there. See `bench/README.md`.

mod access;
mod charts;
mod deployed;
mod jobs;
mod many;
mod memory;
mod mount;
mod rest;
mod servers;
mod setup;

use anyhow::Result;
use clap::ValueEnum;

pub(crate) use setup::Setup;

use crate::Figure;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Step {
    /// One tenant with real pods gets a chart.
    Deployed,
    /// Many tenants with API servers of their own get one.
    Many,
    /// Many tenants that are pretended have five, and nothing happens.
    Rest,
    /// People get rights in many tenants.
    Access,
}

/// One step after the other; what fails is said at the end, after what the others measured.
pub(crate) async fn run(setup: &Setup<'_>, only: &[Step]) -> Result<(Vec<Figure>, Result<()>)> {
    let (mut figures, mut failed) = (vec![], vec![]);
    for step in Step::value_variants().iter().filter(|step| only.is_empty() || only.contains(step)) {
        println!("{step:?}");
        let measured = match step {
            Step::Deployed => deployed::run(setup).await,
            Step::Many => many::run(setup).await,
            Step::Rest => rest::run(setup).await,
            Step::Access => access::run(setup).await,
        };
        match measured {
            Ok(measured) => figures.extend(measured),
            Err(error) => failed.push(format!("{step:?}: {error:#}")),
        }
    }
    let outcome = if failed.is_empty() { Ok(()) } else { Err(anyhow::anyhow!(failed.join("\n"))) };
    Ok((figures, outcome))
}
