//! `images`: what has to be in a mirror.

use crate::args::{BERTH, Images};
use crate::outcome::Outcome;
use crate::output;
use anyhow::Context as _;
use berth_api::version::Minor;
use berth_render::{Binary, Catalog, images};
use std::collections::BTreeSet;
use std::fmt::Write as _;

pub(crate) fn run(args: &Images) -> anyhow::Result<Outcome> {
    output::print(&list(args)?)?;
    if args.versions.is_empty() {
        output::note(&format!(
            "Kubernetes {} is what this Berth is tested with; for other versions, use --version",
            images::TESTED.join(", ")
        ));
    }
    Ok(Outcome::Done)
}

/// A line for each image: Berth's own, then upstream's.
fn list(args: &Images) -> anyhow::Result<String> {
    let mut all = images::all(BERTH);
    if !args.versions.is_empty() {
        let mut upstream = BTreeSet::new();
        for version in &args.versions {
            let minors = Minor::list(&Catalog::builtin().minors());
            let these = images::upstream(*version);
            upstream
                .extend(these.with_context(|| format!("--version: {version} is not supported; supported: {minors}"))?);
        }
        all = images::own(BERTH).into_iter().chain(upstream).collect();
    }
    if !args.etcd.is_empty() {
        all.retain(|image| !image.contains("/etcd:"));
    }
    for version in &args.etcd {
        let minors = Catalog::builtin().etcd_minors();
        let supported = minors.contains(&version.minor());
        anyhow::ensure!(supported, "--etcd: {version} is not supported; supported: {}", Minor::list(&minors));
        all.push(images::image("", Binary::Etcd, *version));
    }
    let mut text = String::new();
    for image in all {
        match &args.to {
            Some(registry) => writeln!(text, "{image} {}", images::relocated(registry, &image))?,
            None => writeln!(text, "{image}")?,
        }
    }
    Ok(text)
}
