//! What it is told when it starts.

use anyhow::{Context as _, Result};
use berth_edge::args::duration;
use clap::Parser;
use serde_json::Value;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

/// Of the pod, where nothing else is said.
const OPERATOR_PORT: u16 = 9443;

#[derive(Debug, Parser)]
#[command(
    name = "berth-access",
    version,
    about = "One login for all tenants: asks the meta cluster who somebody is and which tenant they may use, and passes calls on with their name"
)]
pub(crate) struct Args {
    /// Where callers come to, as address:port; repeat for more [default: 0.0.0.0:8443 and [::]:8443]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Vec<SocketAddr>,
    /// Where the operator comes to [default: port 9443 of the pod's address]
    #[arg(long, value_name = "ADDRESS")]
    listen_operator: Option<SocketAddr>,
    /// Where /healthz, /readyz and /metrics are
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0:8080")]
    pub(crate) metrics: SocketAddr,
    /// A folder with the certificate that callers see, tls.crt, and its key, tls.key; both are read again when they change
    #[arg(long, value_name = "FOLDER", default_value = "/etc/berth/tls")]
    pub(crate) certificate: PathBuf,
    /// The namespace of this program's Leases
    #[arg(long, env = "POD_NAMESPACE", value_name = "NAME")]
    pub(crate) namespace: String,
    /// This pod
    #[arg(long, env = "POD_NAME", value_name = "NAME")]
    pub(crate) pod: String,
    /// Its UID
    #[arg(long, env = "POD_UID", value_name = "UID", default_value = "")]
    pub(crate) pod_uid: String,
    /// Its address, to which the operator comes
    #[arg(long, env = "POD_IP", value_name = "ADDRESS")]
    pub(crate) pod_ip: IpAddr,
    /// How people get a token: an exec entry of a kubeconfig, as JSON, for `kubectl berth login`
    #[arg(long, value_name = "JSON", default_value = "null")]
    login: String,
    /// How often whoever has a stream open, such as a watch or exec, is asked for again; it is cut if they may not any more
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = duration)]
    pub(crate) ask_again: Duration,
    /// How long open streams stay after SIGTERM
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = duration)]
    pub(crate) drain: Duration,
}

impl Args {
    pub(crate) fn login(&self) -> Result<Value> {
        serde_json::from_str(&self.login).context("--login is no JSON")
    }

    /// Where the operator finds this replica.
    pub(crate) fn for_operator(&self) -> SocketAddr {
        self.listen_operator.unwrap_or_else(|| SocketAddr::new(self.pod_ip, OPERATOR_PORT))
    }
}
