//! Images of add-ons.

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
}

/// The image of an add-on.
pub(super) struct AddonImage {
    pub(super) image: String,
    /// The spec names none of another version. Otherwise what runs stays as it is.
    pub(super) fits: bool,
    /// Why the one that the spec names is refused. None beside an image that does not fit: it is of the version that comes.
    pub(super) refused: Option<String>,
}

impl<'a> AddonImages<'a> {
    /// `of_operator`: what is recorded of the operator's registry.
    pub(super) fn of(t: &Tenant<'a>, of_operator: (String, Layout)) -> Self {
        let asked = &t.cluster.spec.images;
        let of_spec = asked.registry.clone().map(|registry| (registry, asked.layout));
        let (registry, layout) = of_spec.unwrap_or(of_operator);
        Self { asked, registry, layout, version: t.cluster.spec.asked_version(), coredns: coredns_of_spec(t) }
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

    fn image(&self, name: &str, (runs, comes): (Version, Option<Version>), default: String, field: &str) -> AddonImage {
        let comes = comes.unwrap_or(runs);
        let own = self.asked.overrides.get(name);
        let own = own.and_then(|own| images::overridden(own, &format!("v{runs}"), runs));
        let becomes = own_image(self.asked, name, runs, comes);
        AddonImage {
            image: own.unwrap_or(default),
            fits: becomes == OwnImage::Runs,
            refused: of_another_version(self.asked, name, comes, field).filter(|_| becomes == OwnImage::Refused),
        }
    }
}

/// The version of CoreDNS that goes with `spec.version`. Until a release has begun, the one of this build's templates.
fn coredns_of_spec(t: &Tenant<'_>) -> Option<Version> {
    let minor = t.cluster.spec.asked_version()?.minor();
    let pin = t.release.wanted_pin();
    let wanted = if pin.version.minor() == minor { t.templates_of(&pin) } else { None };
    wanted.and_then(TemplateSet::coredns).or_else(|| Catalog::builtin().kubernetes(minor)?.coredns())
}
