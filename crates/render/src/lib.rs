//! Pure rendering: templates and typed values become Kubernetes objects.
//!
//! This crate must never read a clock, draw a random number, or hold a client: the operator, the command line and the tests
//! call the same functions and must get the same bytes. Templates state structure; everything that depends on facts is decided
//! before, in the [`values`]; what all objects have in common is added after, in the final pass.

mod catalog;
mod components;
mod distribution;
mod env;
mod error;
mod finish;
mod flags;
pub mod folders;
pub mod images;
mod kinds;
mod lint;
mod merge;
mod object;
mod reads;
mod shape;
mod tenant;
pub mod values;
mod yaml;

pub use catalog::{Catalog, FORMAT, TemplateSet};
pub use components::{
    render_api_client, render_apiserver, render_apiserver_service, render_etcd, render_etcd_services,
};
pub use distribution::{Binary, Distribution, KUBERNETES, Role};
pub use error::{RenderError, TemplateSetError};
pub use finish::lay_over;
pub use flags::{FLAGS, Flag, Source, extra_args, file_of, names_a_file};
pub use images::{UPSTREAM_REGISTRY, image, relocated};
pub use kinds::{Kind, ObjectKey, Place};
pub use lint::{Finding, lint};
pub use merge::{lay_over as merge_fields, without_nulls};
pub use object::Object;
pub use tenant::{Listing, STAMPS, TenantSet, render_tenant_set, stamp_key};
