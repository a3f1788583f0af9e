//! Real clusters, what they are built from, and their CNI plugin.
#![expect(clippy::unwrap_used, reason = "tests; clippy's own exception does not reach their helpers")]

mod binaries;
mod build;
mod cluster;
mod cni_meta;
