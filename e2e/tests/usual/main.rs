//! What `make test` runs on the cluster `e2e`. A module is a behaviour; each test takes the cluster alone.

mod conformance;
mod connect;
mod create;
mod data_loss;
mod drift;
mod endpoints;
mod lost;
mod meta_faults;
mod renewal;
mod restart;
mod revisions;
mod two_tenants;
mod uninstall;
mod versions;
