//! What only `make test-all` builds and runs. A module is a behaviour; each test takes a cluster alone, and its `#[ignore]` says why it is
//! left out of `make test`, which counts it from the source.

mod addons;
mod audit;
mod backup;
mod canary;
mod conformance;
mod dials;
mod endpoints;
mod etcd_members;
mod etcd_versions;
mod fished;
mod fleet;
mod gitops;
mod ha;
mod join;
mod meta_faults;
mod minor;
mod minor_amid;
mod node_lost;
mod preflight;
mod put_back;
mod recovery;
mod renewal;
mod restore;
mod revisions;
mod versions;
mod vpc;
mod vpc_clients;
mod vpc_hooks;
mod vpc_net;
mod vpc_outages;
mod vpc_provider;
mod workers;
