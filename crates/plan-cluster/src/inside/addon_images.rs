//! Images of add-ons.

use crate::revision;
use crate::subject::Tenant;
use berth_api::common::Images;
use berth_api::version::Version;
use berth_plan::workload::{OwnImage, of_another_version, own_image};
use berth_render::images::{self, Layout};
use berth_render::{Catalog, TemplateSet};

/// Where the images of a tenant's add-ons come from.
pub(super) struct AddonImages<'a> {
    asked: &'a Images,
    registry: String,
    layout: Layout,
    /// `spec.version`.
    version: Option<Version>,
    /// The version of CoreDNS that goes with it.
    coredns: Option<Version>,
    /// `spec.images` of releases that ran, the newest first.
    ran: Vec<Images>,
    /// Add-ons that were written into the tenant.
    written: Vec<&'a str>,
}

/// The image of an add-on.
pub(super) struct AddonImage {
    pub(super) image: String,
    /// Why that is not to run. None: it is.
    pub(super) stays: Option<Stays>,
}

/// Why an add-on stays as it is.
pub(super) enum Stays {
    /// What the spec asks for is refused.
    Refused(String),
    /// The spec names an image of the version that comes, and nothing tells which one runs.
    Waits(String),
}

impl<'a> AddonImages<'a> {
    /// `of_operator`: what is recorded of the operator's registry.
    pub(super) fn of(t: &Tenant<'a>, of_operator: (String, Layout)) -> Self {
        let asked = &t.cluster.spec.images;
        let of_spec = asked.registry.clone().map(|registry| (registry, asked.layout));
        let (registry, layout) = of_spec.unwrap_or(of_operator);
        let (version, coredns) = (t.cluster.spec.asked_version(), coredns_of_spec(t));
        let is_plain = asked.overrides.is_empty();
        let ran = if is_plain { vec![] } else { revision::images_that_ran(t.observed, &t.cp_namespace) };
        let told = t.cluster.status.iter().flat_map(|status| &status.addons);
        let written = told.filter(|addon| addon.version.is_some()).map(|addon| &*addon.name).collect();
        Self { asked, registry, layout, version, coredns, ran, written }
    }

    /// `version`: the one of the templates that the tenant is pinned to.
    pub(super) fn coredns(&self, version: Version) -> AddonImage {
        let default = images::coredns(&self.registry, self.layout, version);
        self.image("coredns", (version, self.coredns), default, "goes with spec.version")
    }

    /// `version`: the one that the API serves.
    pub(super) fn kube_proxy(&self, version: Version) -> AddonImage {
        let default = images::kube_proxy(&self.registry, version);
        self.image("kube-proxy", (version, self.version), default, "spec.version")
    }

    /// Berth's own, which goes with no version of Kubernetes. `of_operator`: what is recorded of it, or this operator's.
    pub(super) fn api_proxy(&self, of_operator: &str) -> String {
        let registry = self.asked.registry.as_deref();
        registry.map_or_else(|| of_operator.to_owned(), |registry| images::relocated(registry, of_operator))
    }

    fn image(&self, name: &str, (runs, comes): (Version, Option<Version>), default: String, field: &str) -> AddonImage {
        let comes = comes.unwrap_or(runs);
        // None: it is of another version.
        let of = |asked: &Images| match asked.overrides.get(name) {
            None => Some(default.clone()),
            Some(own) => images::overridden(own, &format!("v{runs}"), runs),
        };
        let (image, stays) = match own_image(self.asked, name, runs, comes) {
            OwnImage::Runs => (of(self.asked), None),
            OwnImage::Waits => {
                let ran = self.ran.iter().find_map(of);
                let is_unknown = ran.is_none() && self.written.contains(&name);
                (ran, is_unknown.then(|| Stays::Waits(self.waits(name, runs))))
            }
            OwnImage::Refused => (None, of_another_version(self.asked, name, comes, field).map(Stays::Refused)),
        };
        AddonImage { image: image.unwrap_or(default), stays }
    }

    /// What is told of an add-on whose image waits, and of which no release tells the one that runs.
    fn waits(&self, name: &str, runs: Version) -> String {
        let own = self.asked.overrides.get(name).map_or("", String::as_str);
        format!(
            "spec.images.overrides.{name}: {own} is of the version that comes, and no ClusterRevision tells which image runs, so Berth leaves {name} as it is until then. Set a tag that begins with v{runs}, or leave the tag out"
        )
    }
}

/// The version of CoreDNS that goes with `spec.version`. Until a release has begun, the one of this build's templates.
fn coredns_of_spec(t: &Tenant<'_>) -> Option<Version> {
    let minor = t.cluster.spec.asked_version()?.minor();
    let pin = t.release.wanted_pin();
    let wanted = if pin.version.minor() == minor { t.templates_of(&pin) } else { None };
    wanted.and_then(TemplateSet::coredns).or_else(|| Catalog::builtin().kubernetes(minor)?.coredns())
}
