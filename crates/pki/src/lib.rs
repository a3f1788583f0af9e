//! Certificates, keys and kubeconfigs, as pure functions over PEM text.
//!
//! Every piece of a tenant's PKI follows the same three steps, and this crate holds the middle one and the last:
//! a [`CertSpec`] says what should be there, [`inspect_pair`] reads what is there, [`decide`] compares the two, and
//! [`issue`] makes what is missing. A plan shows the [`Decision`] and its reason before anything is made.
//!
//! What this crate must never do:
//! - read a clock, a file, the network or the environment: `now` is an argument, everything else is PEM bytes;
//! - use randomness outside of [`issue_ca`], [`issue`], [`issue_for`], [`generate_service_account_key`] and
//!   [`generate_encryption_key`];
//! - replace a CA: a CA that is damaged, expired or lost is [`Decision::Hold`], for a human to judge, because every
//!   node and client of the tenant trusts it;
//! - print a private key: they live in [`SecretString`], and no error message quotes its input;
//! - depend on another Berth crate.

mod argocd;
mod bootstrap_token;
mod clocks;
mod decide;
mod error;
mod inspect;
mod issue;
mod kubeconfig;
mod pem;
mod reason;
mod renewal;
mod root;
mod secret;
mod service_account;
mod spec;
mod webhook;

pub use argocd::{ArgoCdCluster, argocd_cluster, parse_argocd_cluster};
pub use bootstrap_token::BootstrapToken;
pub use clocks::Clocks;
pub use decide::{Decision, decide, decide_ca, decide_kubeconfig};
pub use error::PkiError;
pub use inspect::{CertInfo, bundle_der, inspect, inspect_bundle, inspect_pair};
pub use issue::{KeyPairPem, issue, issue_ca, issue_for};
pub use kubeconfig::{Kubeconfig, KubeconfigInfo, parse_kubeconfig_certificate};
pub use reason::RenewReason;
pub use renewal::{ca_expiry_warning, renew_at};
pub use root::Root;
pub use secret::SecretString;
pub use service_account::{
    ServiceAccountKey, check_encryption_key, generate_encryption_key, generate_service_account_key,
    inspect_service_account,
};
pub use spec::{BACKDATE, CA_LIFETIME, CertSpec, LEAF_LIFETIME, Usage};
pub use webhook::webhook_kubeconfig;

#[cfg(test)]
mod tests;
