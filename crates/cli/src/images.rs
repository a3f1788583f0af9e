//! `images`: what has to be in a mirror.

mod apps;
mod manifests;

pub(crate) use apps::run as of_apps;

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
    lines(args, all.iter().map(String::as_str))
}

/// A line for each, with what it is called in the mirror.
fn lines<'a>(args: &Images, all: impl Iterator<Item = &'a str>) -> anyhow::Result<String> {
    let mut text = String::new();
    for image in all {
        match &args.to {
            Some(registry) => writeln!(text, "{image} {}", images::mirrored(registry, args.layout.into(), image))?,
            None => writeln!(text, "{image}")?,
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{ImagesOf, Layout};

    #[test]
    fn a_cache_has_them_by_upstreams_paths() {
        let coredns = |layout| {
            let to = Some("reg/k8s".into());
            let all = list(&Images { versions: vec![], etcd: vec![], to, layout, of: ImagesOf::default() }).unwrap();
            let line = all.lines().find(|line| line.contains("coredns")).unwrap();
            line.split_once(' ').unwrap().1.split_once(':').unwrap().0.to_owned()
        };
        assert_eq!(
            (coredns(Layout::Flat), coredns(Layout::Upstream)),
            ("reg/k8s/coredns".into(), "reg/k8s/coredns/coredns".into())
        );
    }

    /// Of Berth's own images the page says more than a name.
    #[test]
    fn the_page_lists_what_the_command_lists() {
        let (layout, of) = (Layout::default(), ImagesOf::default());
        let all = list(&Images { versions: vec![], etcd: vec![], to: None, layout, of }).unwrap();
        let upstream: Vec<&str> = all.lines().filter(|image| image.starts_with(images::UPSTREAM_REGISTRY)).collect();
        let page = berth_testkit::fixtures::package().join("../../docs/install.md");
        let page = std::fs::read_to_string(page).unwrap();
        let (_, block) = page.split_once("$ kubectl berth images | grep ^registry.k8s.io\n").unwrap();
        let (block, _) = block.split_once("```").unwrap();
        assert_eq!(block.lines().collect::<Vec<_>>(), upstream, "in docs/install.md");
        assert!(["coredns", "kube-proxy", "etcd"].iter().all(|name| block.contains(&format!("/{name}:"))));
    }
}
