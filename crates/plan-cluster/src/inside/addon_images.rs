//! Images of add-ons.

use crate::subject::Tenant;
use berth_api::common::Images;
use berth_api::version::Version;
use berth_plan::workload::of_another_version;
use berth_render::images::{self, Layout};

/// Where the images of a tenant's add-ons come from.
pub(super) struct AddonImages<'a> {
    asked: &'a Images,
    registry: String,
    layout: Layout,
    /// `spec.version`.
    version: Option<Version>,
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
        Self { asked, registry, layout, version: t.cluster.spec.asked_version() }
    }

    pub(super) fn coredns(&self, version: Version) -> AddonImage {
        let refused = of_another_version(self.asked, "coredns", version, "goes with spec.version");
        self.image("coredns", version, images::coredns(&self.registry, self.layout, version), refused)
    }

    /// `version`: the one that the API serves.
    pub(super) fn kube_proxy(&self, version: Version) -> AddonImage {
        let asked = self.version.unwrap_or(version);
        let refused = of_another_version(self.asked, "kube-proxy", asked, "spec.version");
        self.image("kube-proxy", version, images::kube_proxy(&self.registry, version), refused)
    }

    fn image(&self, name: &str, version: Version, default: String, refused: Option<String>) -> AddonImage {
        match self.asked.overrides.get(name).map(|own| images::overridden(own, &format!("v{version}"), version)) {
            None => AddonImage { image: default, fits: true, refused: None },
            Some(Some(image)) => AddonImage { image, fits: true, refused: None },
            Some(None) => AddonImage { image: default, fits: false, refused },
        }
    }
}
