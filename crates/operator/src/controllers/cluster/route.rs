//! `TLSRoute`, as far as a watch needs it.

use berth_render::Kind;
use kube::Resource;
use kube::api::ObjectMeta;
use serde::Deserialize;
use std::borrow::Cow;

/// Its metadata, which tell of every change.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct TlsRoute {
    metadata: ObjectMeta,
}

impl Resource for TlsRoute {
    type DynamicType = ();
    type Scope = kube::core::NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        Kind::TLSRoute.name().into()
    }
    fn group((): &()) -> Cow<'_, str> {
        Kind::TLSRoute.group().into()
    }
    fn version((): &()) -> Cow<'_, str> {
        Kind::TLSRoute.version().into()
    }
    fn plural((): &()) -> Cow<'_, str> {
        Kind::TLSRoute.plural().into()
    }
    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }
    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}
