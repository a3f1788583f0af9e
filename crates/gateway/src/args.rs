//! What it is told when it starts.

use anyhow::Result;
use berth_contract::vpc::Cidr;
use berth_edge::args::duration;
use berth_edge::socket;
use clap::Parser;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU32;
use std::time::Duration;
use tokio::net::TcpListener;

use crate::limits::{Limits, MostHeld};
use crate::opening::By;
use crate::sources::Most;

/// Clients give up a handshake without an answer after ten seconds, from when they connected.
const HELD: Duration = Duration::from_secs(9);

/// Of the pod, where nothing else is said.
const OPERATOR_PORT: u16 = 9443;

/// How long a client may stay when the API server has ended.
const STAYS: Duration = Duration::from_secs(30);

#[derive(Debug, Parser)]
#[command(
    name = "berth-gateway",
    version,
    about = "One address for the API servers of all tenants: finds the tenant by TLS' server name, and passes TLS on as it is"
)]
pub(crate) struct Args {
    /// Where clients come to, as address:port; repeat for more [default: 0.0.0.0:8443 and [::]:8443]
    #[arg(long, value_name = "ADDRESS")]
    listen: Vec<SocketAddr>,
    /// Where berth-api-proxy comes to from nodes of tenants, as address:port; repeat for more. Each connection there begins with a PROXY header of
    /// version 2 that has the tenant's host name (type 0x02), behind a load balancer's if one has to come [default: nowhere]
    #[arg(long, value_name = "ADDRESS")]
    listen_named: Vec<SocketAddr>,
    /// Where /healthz, /readyz and /metrics are
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0:8080")]
    pub(crate) metrics: SocketAddr,
    /// A range from which load balancers come that say with the PROXY protocol, version 1 or 2, whose connection it is: from there a header has to
    /// come, and from elsewhere none is believed; repeat for more
    #[arg(long, value_name = "CIDR")]
    proxy_from: Vec<Cidr>,
    /// Connections of a tenant that are open at once; its Cluster may ask for fewer
    #[arg(long, value_name = "COUNT", default_value_t = 10_000)]
    max_connections: u32,
    /// New connections of a tenant in a second; for a moment twice as many
    #[arg(long, value_name = "COUNT", default_value = "500")]
    max_rate: NonZeroU32,
    /// Connections of all tenants that are open at once
    #[arg(long, value_name = "COUNT", default_value_t = 50_000)]
    max_connections_in_all: usize,
    /// New connections of all tenants in a second; for a moment twice as many [default: as many as come]
    #[arg(long, value_name = "COUNT")]
    max_rate_in_all: Option<NonZeroU32>,
    /// Connections from one address, or from one network of IPv6 with a prefix of 64 bits, that are open at once; 0: as many as come
    #[arg(long, value_name = "COUNT", default_value_t = 5000)]
    max_connections_per_source: u32,
    /// Of these, how many may not have said yet which tenant they want
    #[arg(long, value_name = "COUNT", default_value = "256")]
    max_opening_per_source: NonZeroU32,
    /// New connections from there in a second; for a moment twice as many; 0: as many as come
    #[arg(long, value_name = "COUNT", default_value_t = 200)]
    max_rate_per_source: u32,
    /// Bytes that a ClientHello may have
    #[arg(long, value_name = "BYTES", default_value_t = 16 * 1024)]
    hello_limit: usize,
    /// How long a client may take for its ClientHello
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = duration)]
    hello_timeout: Duration,
    /// How long an API server may take to accept a connection, before the next one is tried
    #[arg(long, value_name = "DURATION", default_value = "3s", value_parser = duration)]
    dial_timeout: Duration,
    /// Connections to tenants that sleep which wait for them to wake, for 9 seconds each
    #[arg(long, value_name = "COUNT", default_value_t = 1000)]
    max_held: usize,
    /// Of these, of one tenant
    #[arg(long, value_name = "COUNT", default_value_t = 50)]
    max_held_per_tenant: usize,
    /// Where the operator comes to, to be told who calls and uses tenants that sleep [default: port 9443 of the pod's address]
    #[arg(long, value_name = "ADDRESS")]
    listen_operator: Option<SocketAddr>,
    /// The namespace of this program's Leases, by which the operator finds it [default: there are none, and the operator is told nothing]
    #[arg(long, env = "POD_NAMESPACE", value_name = "NAME")]
    namespace: Option<String>,
    /// This pod
    #[arg(long, env = "POD_NAME", value_name = "NAME", default_value = "")]
    pod: String,
    /// Its UID
    #[arg(long, env = "POD_UID", value_name = "UID", default_value = "")]
    pod_uid: String,
    /// Its address, to which the operator comes
    #[arg(long, env = "POD_IP", value_name = "ADDRESS")]
    pod_ip: Option<IpAddr>,
    /// How long open connections stay after SIGTERM; they are closed one by one within that time
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = duration)]
    drain: Duration,
}

/// How the operator finds it.
#[derive(Clone, Debug)]
pub(crate) struct ToOperator {
    pub(crate) namespace: String,
    pub(crate) pod: String,
    pub(crate) pod_uid: String,
    pub(crate) address: SocketAddr,
}

impl Args {
    /// What holds for connections.
    pub(crate) fn limits(&self) -> Limits {
        Limits {
            hello: self.hello_limit,
            hello_within: self.hello_timeout,
            dial_within: self.dial_timeout,
            stays: STAYS,
            drain: self.drain,
            connections: self.max_connections,
            rate: self.max_rate,
            in_all: self.max_connections_in_all,
            rate_in_all: self.max_rate_in_all,
            source: Most {
                open: NonZeroU32::new(self.max_connections_per_source),
                opening: self.max_opening_per_source,
                rate: NonZeroU32::new(self.max_rate_per_source),
            },
            proxy_from: self.proxy_from.clone(),
            held: MostHeld { in_all: self.max_held, of_tenant: self.max_held_per_tenant, how_long: HELD },
        }
    }

    /// How the operator finds this replica. None: it is told nothing.
    pub(crate) fn replica(&self) -> Option<ToOperator> {
        let (namespace, ip) = (self.namespace.clone()?, self.pod_ip.map(|ip| SocketAddr::new(ip, OPERATOR_PORT)));
        let address = self.listen_operator.or(ip)?;
        Some(ToOperator { namespace, pod: self.pod.clone(), pod_uid: self.pod_uid.clone(), address })
    }

    /// Listens where it is told to, each with where clients say there whom they want.
    pub(crate) fn listeners(&self) -> Result<Vec<(TcpListener, By)>> {
        let named = match &self.listen_named[..] {
            [] => vec![],
            all => socket::listen_all(all)?,
        };
        let all = socket::listen_all(&self.listen)?.into_iter().map(|listener| (listener, By::ServerName));
        Ok(all.chain(named.into_iter().map(|listener| (listener, By::Header))).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_and_what_is_refused() {
        let parse = |args: &[&str]| Args::try_parse_from([&["berth-gateway"][..], args].concat());
        let limits = parse(&[]).unwrap().limits();
        assert_eq!((limits.hello, limits.hello_within, limits.dial_within), (16_384, secs(5), secs(3)));
        assert_eq!((limits.drain, limits.connections, limits.proxy_from), (secs(600), 10_000, vec![]));
        let told = parse(&["--proxy-from", "10.0.0.0/8", "--proxy-from", "fd00::/8", "--drain", "90s"]).unwrap();
        assert_eq!((told.limits().proxy_from.len(), told.limits().drain), (2, secs(90)));
        for wrong in [
            "--max-rate=0",
            "--proxy-from=10.0.0.0",
            "--drain=-1s",
            "--drain=10",
            "--listen=8443",
            "--listen-named=8444",
            "--hello-timeout=soon",
        ] {
            assert!(parse(&[wrong]).is_err(), "{wrong}");
        }
    }

    /// Arguments as the chart writes them, each with a value of its template's kind.
    #[test]
    fn the_chart_gives_what_there_is() {
        let chart = berth_testkit::fixtures::package().join("../../charts/berth/templates/gateway.yaml");
        let chart = std::fs::read_to_string(chart).unwrap();
        let flags: Vec<_> =
            chart.lines().filter_map(|line| line.trim().strip_prefix("- --")?.split_once('=')).collect();
        // Each has another number, so that no two change places.
        let value = |(at, template): (usize, &str)| match template {
            "{{ . }}" => "10.0.0.0/8".to_owned(),
            _ if template.ends_with("}}s") => format!("{at}s"),
            _ if template.starts_with("{{") => at.to_string(),
            plain => plain.to_owned(),
        };
        let of = |flag: &str| 10 + flags.iter().position(|(name, _)| *name == flag).unwrap();
        let args = flags.iter().map(|(flag, template)| format!("--{flag}={}", value((of(flag), template))));
        let args = Args::try_parse_from(std::iter::once("berth-gateway".to_owned()).chain(args)).unwrap();
        let limits = args.limits();
        assert_eq!((limits.hello, limits.in_all), (of("hello-limit"), of("max-connections-in-all")));
        assert_eq!((limits.connections as usize, limits.proxy_from.len()), (of("max-connections"), 1));
        let source = limits.source;
        let held = (limits.held.in_all, limits.held.of_tenant);
        assert_eq!(held, (of("max-held"), of("max-held-per-tenant")));
        for (count, flag) in [
            (Some(limits.rate), "max-rate"),
            (limits.rate_in_all, "max-rate-in-all"),
            (source.open, "max-connections-per-source"),
            (Some(source.opening), "max-opening-per-source"),
            (source.rate, "max-rate-per-source"),
        ] {
            assert_eq!(count.map(|count| count.get() as usize), Some(of(flag)), "{flag}");
        }
        let times = [limits.hello_within, limits.dial_within, limits.drain];
        let told = ["hello-timeout", "dial-timeout", "drain"].map(|flag| Duration::from_secs(of(flag) as u64));
        assert_eq!(times, told);
    }

    fn secs(count: u64) -> Duration {
        Duration::from_secs(count)
    }
}
