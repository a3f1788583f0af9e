//! `berth-agent net` in network namespaces: what gets through the rules, and who has the virtual IP.
//!
//! These tests make namespaces and need root. They fail unless BERTH_REAL=1, rather than pass as if they had run.
mod conflict;
mod flood;
mod keepalived;
mod namespace;
mod peers;
mod rules;
mod server;
mod sidecar;
mod virtual_ip;
